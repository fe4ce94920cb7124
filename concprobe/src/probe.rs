//! The kernel programs seen from outside: loading them as this kernel needs it, attaching what a depth
//! asks for, and reading what they wrote. The only part of the crate that names aya.

mod catalogue;
mod cost;
mod layout;
mod memory;
mod session;

pub use catalogue::{Set, Way};
pub use cost::Cost;
pub use memory::Records;
pub use session::{Events, Options, Session, Tracing};
