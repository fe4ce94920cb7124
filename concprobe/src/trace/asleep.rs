//! Where the threads of a process that is attached to sleep already: no event tells it, `/proc` does.

use std::{collections::HashMap, fs::File, os::unix::fs::FileExt};

use anyhow::Result;
use concprobe_common::{
    event::STACK_BYTES,
    futex,
    site::{self, OVERFLOW, Site, SiteSum},
};

use super::{copies::Copies, numbering::Numbering, rows, subject::comm};
use crate::{
    clock,
    probe::Session,
    stack::{Capture, Registers},
    target::Thread,
};

/// Threads of a crowd at one place whose stacks are copied.
const COPIES: usize = 64;

/// A system call that a thread sleeps in, and where it was called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Call {
    number: u32,
    arguments: [u64; 4],
    sp: u64,
    ip: u64,
}

/// Where a thread sleeps.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asleep {
    /// Index of the site.
    pub(super) site: u32,
    /// Number of the sleep if its stack was copied, else 0.
    pub(super) stack_id: u64,
}

/// Makes the sites at which threads sleep, and copies stacks there; the answer is by thread id.
///
/// # Errors
/// When the kernel's tables cannot be changed.
pub(super) fn look(
    session: &mut Session,
    pid: i32,
    ids: &Numbering,
    space: u64,
    threads: &[Thread],
    mut copies: Option<&mut Copies>,
) -> Result<HashMap<i32, Asleep>> {
    let host_pid = ids.host(pid).unwrap_or(0);
    let mut places: Vec<(Site, Vec<(&Thread, Call)>)> = Vec::new();
    for thread in threads.iter().filter(|thread| thread.state != 'R') {
        let Some(call) = call_of(pid, thread.tid) else { continue };
        let found = place(session.config().nr_futex, host_pid, space, call);
        match places.iter_mut().find(|(known, _)| known.key == found.key) {
            Some((_, sleepers)) => sleepers.push((thread, call)),
            None => places.push((found, vec![(thread, call)])),
        }
    }
    let mut asleep = HashMap::new();
    for (mut place, sleepers) in places {
        place.sums[SiteSum::Threads as usize] = sleepers.len() as u64;
        let host_tids: Vec<u32> = sleepers.iter().filter_map(|(thread, _)| ids.host(thread.tid)).collect();
        let site = session.make_site(&place, &host_tids)?.unwrap_or(OVERFLOW);
        let one_in = sleepers.len().div_ceil(COPIES);
        for (index, (thread, call)) in sleepers.into_iter().enumerate() {
            let stack_id = match copies.as_deref_mut().filter(|_| index % one_in == 0) {
                Some(copies) => copy(copies, pid, thread.tid, site, one_in as u64, call),
                None => 0,
            };
            asleep.insert(thread.tid, Asleep { site, stack_id });
        }
    }
    Ok(asleep)
}

/// Copies the stack of a thread that sleeps, and says the sleep's number; 0 when it does not sleep there any more.
fn copy(copies: &mut Copies, pid: i32, tid: i32, site: u32, weight: u64, call: Call) -> u64 {
    let mut stack = vec![0; STACK_BYTES];
    let read = File::open(format!("/proc/{pid}/mem")).and_then(|memory| memory.read_at(&mut stack, call.sp));
    if call_of(pid, tid) != Some(call) {
        return 0;
    }
    stack.truncate(read.unwrap_or(0));
    // Nobody tells the frame pointer: it is found where a function has saved it.
    let registers = Registers { ip: call.ip, sp: call.sp, frame: 0, link: 0 };
    let capture = Capture { pid, time_ns: clock::now_ns(), registers, stack: &stack };
    copies.asleep(site, &rows::name(&comm(pid, tid)), weight, &capture)
}

fn call_of(pid: i32, tid: i32) -> Option<Call> {
    parse(&std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/syscall")).ok()?)
}

fn place(nr_futex: u32, host_pid: u32, space: u64, call: Call) -> Site {
    let [word, operation, value, _] = call.arguments;
    let of_futex = futex::of_call(call.number, nr_futex, operation as u32).is_some();
    Site {
        key: site::key(space, call.number, false, of_futex, word),
        first_ns: clock::now_ns(),
        operation: operation as u32,
        value: value as u32,
        tgid: host_pid,
        number: call.number,
        ..Site::EMPTY
    }
}

/// `202 0x7f… 0x189 0x0 … sp pc`; `running` for a thread that runs, and -1 outside a system call (proc(5)).
fn parse(text: &str) -> Option<Call> {
    let mut words = text.split_whitespace();
    let number: i64 = words.next()?.parse().ok()?;
    let mut hexadecimal = || u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok();
    let mut arguments = [0; 6];
    let number = match u32::try_from(number) {
        Ok(number) => {
            for argument in &mut arguments {
                *argument = hexadecimal()?;
            }
            number
        }
        Err(_) => site::NO_CALL,
    };
    let [first, second, third, fourth, ..] = arguments;
    Some(Call { number, arguments: [first, second, third, fourth], sp: hexadecimal()?, ip: hexadecimal()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_call_is_read_with_its_arguments() {
        let text = "202 0x7f12 0x189 0x0 0x0 0x0 0xffffffff 0x7ffd 0x7f99\n";
        let call = Call { number: 202, arguments: [0x7f12, 0x189, 0, 0], sp: 0x7ffd, ip: 0x7f99 };
        assert_eq!(parse(text), Some(call));
        assert_eq!(parse("running\n"), None);
        let outside = Call { number: site::NO_CALL, arguments: [0; 4], sp: 0x7ffd, ip: 0x7f99 };
        assert_eq!(parse("-1 0x7ffd 0x7f99\n"), Some(outside));
        assert_eq!(parse("202 0x7f12 0x189 0x0 0x0 0x0 0xffffffff 0x7ffd"), None, "cut off");
        assert_eq!(parse(""), None);
        assert_eq!(parse("202 7f12"), None);
    }
}
