//! The queue of a pool: one lock and one condition variable, as most pools have. It is used over many
//! phases; the end of one lets the workers of that phase go.

use std::{
    collections::VecDeque,
    sync::{Condvar, Mutex, PoisonError},
    time::Duration,
};

/// How often one who waits for the jobs looks whether to give up.
const LOOK: Duration = Duration::from_millis(20);

#[derive(Debug)]
struct State<J> {
    jobs: VecDeque<J>,
    unfinished: u64,
    phases_over: u64,
}

/// Jobs between those who want them done and those who do them.
#[derive(Debug)]
pub(super) struct JobQueue<J> {
    state: Mutex<State<J>>,
    more: Condvar,
    all_done: Condvar,
}

impl<J> JobQueue<J> {
    /// No jobs.
    pub(super) fn new() -> Self {
        Self {
            state: Mutex::new(State { jobs: VecDeque::new(), unfinished: 0, phases_over: 0 }),
            more: Condvar::new(),
            all_done: Condvar::new(),
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State<J>> {
        // A worker that panicked has left the queue as it should be: it holds the lock only in here.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands jobs in.
    pub(super) fn push(&self, jobs: impl IntoIterator<Item = J>) {
        let mut state = self.state();
        let before = state.jobs.len();
        state.jobs.extend(jobs);
        let added = state.jobs.len() - before;
        state.unfinished += added as u64;
        drop(state);
        if added == 1 { self.more.notify_one() } else { self.more.notify_all() }
    }

    /// Takes a job, and waits for one; `None` when the phase of that number, counted from 1, is over.
    pub(super) fn take(&self, phase: u64) -> Option<J> {
        let mut state = self.state();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                return Some(job);
            }
            if state.phases_over >= phase {
                return None;
            }
            state = self.more.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// A job that was taken is done.
    pub(super) fn done(&self) {
        let mut state = self.state();
        state.unfinished -= 1;
        if state.unfinished == 0 {
            self.all_done.notify_all();
        }
    }

    /// Waits until every job is done. Once `give_up` says so, those that nobody has taken are dropped.
    pub(super) fn wait_until_done(&self, give_up: impl Fn() -> bool) {
        let mut state = self.state();
        while state.unfinished > 0 {
            if give_up() {
                state.unfinished -= state.jobs.len() as u64;
                state.jobs.clear();
            }
            (state, _) = self
                .all_done
                .wait_timeout_while(state, LOOK, |state| state.unfinished > 0)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Ends a phase: its workers go when there is no job left.
    pub(super) fn end_phase(&self) {
        self.state().phases_over += 1;
        self.more.notify_all();
    }
}
