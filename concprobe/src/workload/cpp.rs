//! The C++ functions of `cpp/futures.cc`, for the workloads that measure the originals.

use anyhow::{Result, bail};

use super::task::{self, Tasks};
use crate::harness::{Ops, Parameter, Role, SelfCheck, Settings, Workload};

/// Why a build without a C++ compiler has no such workload.
pub(super) const UNAVAILABLE: Option<&str> =
    if cfg!(has_cpp) { None } else { Some("no C++ compiler was found when concprobe was built") };

/// `--task-work`: a task of some tens of nanoseconds.
pub(super) const WORK: Parameter = Parameter { default: "10", ..task::WORK };

/// Which of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Function {
    /// `std::async` with `launch::async`.
    Async,
    /// `std::promise`, `std::future`, and a new `std::thread`.
    Handoff,
    /// `std::async` with `launch::deferred`.
    Deferred,
}

#[cfg(has_cpp)]
mod original {
    unsafe extern "C" {
        pub(super) fn concprobe_async(work: u64, result: *mut u64) -> i32;
        pub(super) fn concprobe_handoff(work: u64, result: *mut u64) -> i32;
        pub(super) fn concprobe_deferred(work: u64, result: *mut u64) -> i32;
    }
}

/// Calls it with a task of that many steps; `None` when it threw.
#[cfg(has_cpp)]
fn call(function: Function, work: u64) -> Option<u64> {
    let mut result = 0;
    // SAFETY: the functions throw nothing and write one word.
    let failed = unsafe {
        match function {
            Function::Async => original::concprobe_async(work, &raw mut result),
            Function::Handoff => original::concprobe_handoff(work, &raw mut result),
            Function::Deferred => original::concprobe_deferred(work, &raw mut result),
        }
    };
    (failed == 0).then_some(result)
}

/// There is nothing to call.
#[cfg(not(has_cpp))]
fn call(_function: Function, _work: u64) -> Option<u64> {
    None
}

#[derive(Debug)]
struct Cpp {
    function: Function,
    threads: usize,
    work: u64,
    tasks: Tasks,
}

/// A workload of that function.
pub(super) fn build(settings: &Settings, function: Function) -> Result<Box<dyn Workload>> {
    let (threads, work) = (settings.threads, settings.count(WORK.name)?);
    Ok(Box::new(Cpp { function, threads, work, tasks: Tasks::of(work) }))
}

impl Workload for Cpp {
    fn crew(&self) -> Vec<Role> {
        Role::threads("caller", self.threads)
    }

    fn work(&self, _member: usize, ops: &mut Ops<'_>) -> Result<()> {
        ops.each(|| {
            match call(self.function, self.work) {
                Some(result) => self.tasks.add(result),
                None => bail!("the C++ call threw: no thread could be created"),
            }
            Ok(())
        })
    }

    fn check(&self, ops: u64) -> SelfCheck {
        self.tasks.check(ops)
    }
}
