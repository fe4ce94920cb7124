//! A mutex that nobody else wants: what its calls cost when nobody has to sleep.

use anyhow::Result;

use super::mutex::Mutex;
use crate::harness::{Claim, CrewSize, Entry, Ops, Role, SelfCheck, Settings, Workload};

pub(super) static ENTRY: Entry = Entry {
    name: "mutex-fast",
    summary: "the price of a mutex that is always free: the fast path, in user space alone",
    op: "one pthread_mutex_lock and pthread_mutex_unlock, each thread on a mutex of its own",
    claim: Claim::NeverEntersKernel,
    default_ops: 10_000_000,
    crew: CrewSize::Threads(1),
    parameters: &[],
    unavailable: None,
    build,
};

#[derive(Debug)]
struct MutexFast {
    mutexes: Box<[Mutex]>,
}

fn build(settings: &Settings) -> Result<Box<dyn Workload>> {
    Ok(Box::new(MutexFast { mutexes: (0..settings.threads).map(|_| Mutex::default()).collect() }))
}

impl Workload for MutexFast {
    fn crew(&self) -> Vec<Role> {
        Role::threads("locker", self.mutexes.len())
    }

    fn work(&self, member: usize, ops: &mut Ops<'_>) -> Result<()> {
        let mutex = &self.mutexes[member];
        ops.batched(|| {
            mutex.lock();
            // SAFETY: locked by the line above.
            unsafe { mutex.unlock() };
        })
    }

    fn check(&self, ops: u64) -> SelfCheck {
        let free = self.mutexes.iter().filter(|mutex| mutex.is_free()).count();
        SelfCheck {
            passed: free == self.mutexes.len(),
            detail: format!(
                "after {ops} locks and as many unlocks {free} of {} mutexes are free (expected all)",
                self.mutexes.len()
            ),
        }
    }
}
