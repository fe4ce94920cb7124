//! One file per subsystem; each program exists for BTF tracepoints (`*_btf`) and for classic ones
//! (`*_classic`), and both only gather arguments for the same function.

mod announce;
pub mod context;
mod end;
mod exec;
mod list;
mod lock_call;
mod newtask;
mod rename;
mod switch;
mod syscall;
mod wakeup;
mod waking;
