//! The workload's process: makes the crew, passes the driver's orders on, gathers the answers.

use std::{
    any::Any,
    io,
    os::{
        fd::{BorrowedFd, FromRawFd as _, RawFd},
        unix::net::UnixStream,
    },
    panic::{AssertUnwindSafe, catch_unwind},
    thread,
};

use anyhow::{Context as _, Result, anyhow, bail};

use super::{
    Entry, Ops, Place, Role, Settings, Workload,
    control::Control,
    estimate::Estimate,
    evidence::{Blocks, OwnBlock},
    ops::Yield,
    protocol::{Answer, Assignment, Line, MemberResult, Order, Phase},
};
use crate::clock;

/// Serves the driver at the other end of `socket` until it says to finish or ends.
///
/// # Errors
/// When the driver cannot be told why it failed.
pub fn serve(socket: RawFd, find: impl Fn(&str) -> Option<&'static Entry>) -> Result<()> {
    // SAFETY: the driver passed this descriptor for this process alone.
    let mut driver = Line::new(unsafe { UnixStream::from_raw_fd(socket) })?;
    let assignment: Assignment = driver.receive()?;
    match work(&mut driver, &assignment, find) {
        Ok(()) => Ok(()),
        Err(error) => driver.send(&Answer::Failed(format!("{error:#}"))),
    }
}

fn work(
    driver: &mut Line,
    assignment: &Assignment,
    find: impl Fn(&str) -> Option<&'static Entry>,
) -> Result<()> {
    let entry = find(&assignment.workload).ok_or_else(|| anyhow!("no workload {}", assignment.workload))?;
    let settings = Settings { threads: assignment.threads, parameters: assignment.parameters.clone() };
    let workload = (entry.build)(&settings)?;
    let station = Station::new(assignment)?;
    thread::scope(|scope| {
        let began_ns = clock::now_ns();
        let mut crew = Vec::new();
        let roles = workload.crew();
        // Processes first: a process is forked before there are other threads.
        let mut order: Vec<usize> = (0..roles.len()).collect();
        order.sort_by_key(|index| roles[*index].place != Place::Process);
        for member in order {
            crew.push((member, station.start(scope, workload.as_ref(), member, &roles[member])?));
        }
        crew.sort_by_key(|(member, _)| *member);
        let mut lines: Vec<Line> = crew.into_iter().map(|(_, line)| line).collect();
        // A failure is told from in here: leaving the scope waits for threads that may wait for ever.
        lead(driver, &mut lines, workload.as_ref(), began_ns)
            .or_else(|error| driver.send(&Answer::Failed(format!("{error:#}"))))
    })
}

fn lead(driver: &mut Line, crew: &mut [Line], workload: &dyn Workload, began_ns: u64) -> Result<()> {
    for line in crew.iter_mut() {
        match line.receive()? {
            Answer::Ready { .. } => {}
            other => bail!(failure(other)),
        }
    }
    driver.send(&Answer::Ready { setup_ns: clock::elapsed_ns(began_ns) })?;
    let mut ops = 0;
    loop {
        match driver.receive()? {
            Order::Phase(phase) => {
                let results = perform(crew, &phase)?;
                ops += results.iter().map(|result| result.ops + result.trials).sum::<u64>();
                driver.send(&Answer::Phase(results))?;
            }
            Order::Finish => return driver.send(&Answer::Checked(workload.check(ops))),
        }
    }
}

fn perform(crew: &mut [Line], phase: &Phase) -> Result<Vec<MemberResult>> {
    for line in crew.iter_mut() {
        line.send(&Order::Phase(*phase))?;
    }
    let mut results: Vec<Option<Vec<MemberResult>>> = crew.iter().map(|_| None).collect();
    while results.iter().any(Option::is_none) {
        let member = next_to_answer(crew, &results)?;
        match crew[member].receive().context("a member of the crew ended before its phase was over")? {
            Answer::Phase(result) => results[member] = Some(result),
            other => bail!(failure(other)),
        }
    }
    Ok(results.into_iter().flatten().flatten().collect())
}

/// Waits until one of those that have not answered has something to say: a member that fails is heard even
/// while another one waits for it in vain.
fn next_to_answer(crew: &[Line], results: &[Option<Vec<MemberResult>>]) -> Result<usize> {
    let waiting: Vec<usize> = (0..crew.len()).filter(|member| results[*member].is_none()).collect();
    let poll =
        |member: &usize| libc::pollfd { fd: crew[*member].descriptor(), events: libc::POLLIN, revents: 0 };
    let mut polled: Vec<libc::pollfd> = waiting.iter().map(poll).collect();
    loop {
        // SAFETY: the pointer and the length are those of one vector.
        let ready = unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, -1) };
        if ready < 0 {
            let error = io::Error::last_os_error();
            if error.kind() == io::ErrorKind::Interrupted {
                continue;
            }
            return Err(error).context("cannot wait for the crew");
        }
        if let Some(position) = polled.iter().position(|poll| poll.revents != 0) {
            return Ok(waiting[position]);
        }
    }
}

fn failure(answer: Answer) -> String {
    match answer {
        Answer::Failed(message) => message,
        other => format!("unexpected answer {other:?}"),
    }
}

/// What every member needs.
struct Station {
    blocks: Option<Blocks>,
    control: Control,
    pin: Option<Vec<usize>>,
}

impl Station {
    fn new(assignment: &Assignment) -> Result<Self> {
        // SAFETY: the driver passed both descriptors for this process; they stay open.
        let borrow = |fd| unsafe { BorrowedFd::borrow_raw(fd) };
        let blocks = assignment
            .evidence
            .map(|evidence| Blocks::map(borrow(evidence.blocks), evidence.slots as usize, evidence.session))
            .transpose()?;
        Ok(Self { blocks, control: Control::map(borrow(assignment.control))?, pin: assignment.pin.clone() })
    }

    fn start<'scope, 'env>(
        &'env self,
        scope: &'scope thread::Scope<'scope, 'env>,
        workload: &'env dyn Workload,
        member: usize,
        role: &Role,
    ) -> Result<Line> {
        let (ours, theirs) =
            UnixStream::pair().context("cannot make a socket pair for a member of the crew")?;
        let role = role.clone();
        match role.place {
            Place::Thread => {
                thread::Builder::new()
                    .name(role.name.clone())
                    .spawn_scoped(scope, move || self.serve(workload, member, &role, theirs))
                    .with_context(|| format!("cannot create thread number {}", member + 1))?;
            }
            // SAFETY: no other thread of this process exists yet, so the child may do what it likes.
            Place::Process => match unsafe { libc::fork() } {
                -1 => return Err(io::Error::last_os_error()).context("cannot create a process"),
                0 => {
                    drop(ours);
                    // SAFETY: a plain system call; `_exit` skips what belongs to the parent.
                    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
                    self.serve(workload, member, &role, theirs);
                    // SAFETY: as above.
                    unsafe { libc::_exit(0) }
                }
                _ => drop(theirs),
            },
        }
        Line::new(ours)
    }

    /// A member's life: announce, perform phases, answer; whatever goes wrong is told to the other end.
    fn serve(&self, workload: &dyn Workload, member: usize, role: &Role, stream: UnixStream) {
        let Ok(mut line) = Line::new(stream) else { return };
        let life = catch_unwind(AssertUnwindSafe(|| self.live(workload, member, role, &mut line)));
        let failure = match life {
            Ok(Ok(())) => return,
            Ok(Err(error)) => format!("{}: {error:#}", role.name),
            Err(panic) => format!("{} panicked: {}", role.name, panic_message(panic.as_ref())),
        };
        // If nobody listens any more, there is nobody to tell.
        let _ = line.send(&Answer::Failed(failure));
    }

    fn live(&self, workload: &dyn Workload, member: usize, role: &Role, line: &mut Line) -> Result<()> {
        if let Some(cpus) = &self.pin {
            pin(cpus[member % cpus.len()])?;
        }
        let block = match &self.blocks {
            Some(blocks) => blocks.announce(member as u64 + 1)?,
            None => OwnBlock::NONE,
        };
        let crew = workload.crew();
        // Only those that perform ops share them; a supporting member is told of all.
        let members = crew.iter().filter(|other| !other.supports).count().max(1) as u64;
        let position = crew[..member].iter().filter(|other| !other.supports).count() as u64;
        let leads = !role.supports && position == 0;
        let mut gauge = None;
        line.send(&Answer::Ready { setup_ns: 0 })?;
        // The end of the conversation is the order to end.
        while let Ok(Order::Phase(phase)) = line.receive() {
            let part = |ops| if role.supports { ops } else { share(ops, position, members) };
            let limit = phase.ops.map_or(u64::MAX, part);
            let mut ops = Ops::new(block, &self.control, leads, limit, &phase, &mut gauge);
            let result = measured(role, block, &self.control, phase.record, || {
                workload.work(member, &mut ops)?;
                Ok(ops.finish())
            })?;
            line.send(&Answer::Phase(vec![result]))?;
        }
        Ok(())
    }
}

/// Takes the thread's own figures right before and right after its work.
fn measured(
    role: &Role,
    block: OwnBlock,
    control: &Control,
    record: bool,
    work: impl FnOnce() -> Result<Yield>,
) -> Result<MemberResult> {
    let estimate = Estimate::read();
    block.set_recording(record);
    let (counters, start_ns) = block.totals(clock::now_ns);
    control.first_op(start_ns);
    let result = work();
    let (after, end_ns) = block.totals(clock::now_ns);
    block.set_recording(false);
    let estimate = Estimate::read().since(&estimate);
    let counted =
        block.exists().then(|| after.iter().zip(counters).map(|(after, before)| after - before).collect());
    // SAFETY: a plain system call.
    let tid = unsafe { libc::gettid() };
    MemberResult::new(role, tid, result?, (start_ns, end_ns), counted, estimate)
}

/// The part of `ops` that falls to one of `members`.
fn share(ops: u64, member: u64, members: u64) -> u64 {
    ops / members + u64::from(member < ops % members)
}

fn pin(cpu: usize) -> Result<()> {
    // SAFETY: all zeros is an empty set, and the CPU was checked against the usable ones by the driver;
    // `CPU_SET` ignores what lies beyond the set.
    let result = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set)
    };
    if result != 0 {
        return Err(io::Error::last_os_error()).with_context(|| format!("cannot pin to CPU {cpu}"));
    }
    Ok(())
}

fn panic_message(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("for a reason that is no text")
}

#[cfg(test)]
mod tests {
    use super::share;

    #[test]
    fn the_shares_add_up() {
        for (ops, members) in [(10, 3), (0, 4), (1, 2), (u64::MAX, 2), (7, 7)] {
            let sum: u64 = (0..members).map(|member| share(ops, member, members)).sum();
            assert_eq!(sum, ops);
        }
    }
}
