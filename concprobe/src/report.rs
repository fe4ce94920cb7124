//! Renderers of an observation. They read nothing else, and write nowhere: the caller owns the streams.

mod json;
mod plot;
mod text;

pub use json::json;
pub use text::{Style, list, text};
