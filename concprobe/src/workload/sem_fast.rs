//! A semaphore that is never empty: what its calls cost when nobody has to sleep.

use anyhow::Result;

use super::semaphore::Semaphore;
use crate::harness::{Claim, CrewSize, Entry, Ops, Role, SelfCheck, Settings, Workload};

pub(super) static ENTRY: Entry = Entry {
    name: "sem-fast",
    summary: "the price of a semaphore that is never empty: the fast path, in user space alone",
    op: "one sem_post and one sem_wait by the same thread, each thread on a semaphore of its own",
    claim: Claim::NeverEntersKernel,
    default_ops: 10_000_000,
    crew: CrewSize::Threads(1),
    parameters: &[],
    unavailable: None,
    build,
};

/// A cache line of its own, so that threads do not slow each other down.
#[derive(Debug)]
#[repr(align(128))]
struct Own(Semaphore);

#[derive(Debug)]
struct SemFast {
    semaphores: Box<[Own]>,
}

fn build(settings: &Settings) -> Result<Box<dyn Workload>> {
    let semaphores: Box<[Own]> = (0..settings.threads).map(|_| Own(Semaphore::zeroed())).collect();
    for Own(semaphore) in &semaphores {
        semaphore.init(false, 0)?;
    }
    Ok(Box::new(SemFast { semaphores }))
}

impl Workload for SemFast {
    fn crew(&self) -> Vec<Role> {
        Role::threads("poster", self.semaphores.len())
    }

    fn work(&self, member: usize, ops: &mut Ops<'_>) -> Result<()> {
        let Own(semaphore) = &self.semaphores[member];
        ops.batched(|| {
            semaphore.post();
            semaphore.wait();
        })
    }

    fn check(&self, ops: u64) -> SelfCheck {
        let left: i64 = self.semaphores.iter().map(|Own(semaphore)| i64::from(semaphore.value())).sum();
        SelfCheck {
            passed: left == 0,
            detail: format!("after {ops} posts and as many waits the semaphores hold {left} (expected 0)"),
        }
    }
}
