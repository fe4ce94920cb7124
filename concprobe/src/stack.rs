//! Turns what the kernel copied when a thread went to sleep (its user registers and the top of its stack)
//! into named frames, also when the process has ended meanwhile, and names the addresses of data.
//!
//! [`Mappings`] knows which file was mapped where and when, [`Unwinder`] makes return addresses out of a
//! [`Capture`], [`Names`] makes names out of addresses. Nothing is opened or read before it is asked for.

mod elf;
mod file;
mod frame;
mod jit;
mod mappings;
mod names;
mod place;
mod proc_maps;
mod processes;
mod registers;
mod ring;
mod table;
mod trace;
mod unwinder;

pub use self::{
    frame::Frame,
    mappings::{Dropped, Mappings},
    names::Names,
    place::Place,
    registers::Registers,
    table::{Mapping, Origin, Protection},
    trace::{Capture, End, Trace},
    unwinder::Unwinder,
};
