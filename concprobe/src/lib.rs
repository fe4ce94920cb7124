//! concprobe tells why a concurrency primitive costs what it costs: the fast path, the sleep path, or the
//! creation of a thread, with evidence from the kernel. The library is what the program consists of; it
//! has no stable interface of its own.

pub mod call_names;
pub mod cli;
pub mod clock;
pub mod compare;
pub mod diagnose;
pub mod diff;
pub mod doctor;
pub mod environment;
pub mod figures;
pub mod harness;
pub mod latencies;
pub mod observation;
pub mod plan;
pub mod probe;
pub mod report;
pub mod reproduce;
pub mod run;
pub mod saved;
pub mod stack;
pub mod statistics;
pub mod target;
pub mod trace;
pub mod units;
pub mod workload;
