//! Renderers of an observation. They read nothing else, and write nowhere: the caller owns the streams.

mod compare;
mod diff;
mod json;
mod list;
mod plot;
mod reproduction;
mod sweep;
mod tables;
mod text;
mod trace;

pub use compare::compare;
pub use diff::{diff, diff_markdown};
pub use json::json;
pub use list::{list, list_markdown};
pub use reproduction::reproduction;
pub use sweep::sweep;
pub use tables::{csv, folded, markdown};
pub use text::{Style, text};
pub use trace::trace;
