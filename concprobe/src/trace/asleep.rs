//! Where the threads of a process that is attached to sleep already: no event tells it, `/proc` does.

use std::collections::HashMap;

use anyhow::Result;
use concprobe_common::{
    futex,
    site::{self, Site, SiteSum},
};

use crate::{harness::clock, probe::Session, target::Thread};

/// A system call that a thread sleeps in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Call {
    number: u32,
    arguments: [u64; 4],
}

/// Makes the sites at which threads sleep; the answer is thread id → index.
///
/// # Errors
/// When the kernel's tables cannot be changed, or are full.
pub(super) fn sites(
    session: &mut Session,
    pid: i32,
    host_pid: u32,
    space: u64,
    threads: &[Thread],
) -> Result<HashMap<i32, u32>> {
    let mut places: Vec<(Site, Vec<u32>)> = Vec::new();
    for thread in threads.iter().filter(|thread| thread.state != 'R') {
        let Some(call) = std::fs::read_to_string(format!("/proc/{pid}/task/{}/syscall", thread.tid))
            .ok()
            .and_then(|text| parse(&text))
        else {
            continue;
        };
        let found = place(session.config().nr_futex, host_pid, space, call);
        match places.iter_mut().find(|(known, _)| known.key == found.key) {
            Some((_, sleepers)) => sleepers.push(thread.tid.cast_unsigned()),
            None => places.push((found, vec![thread.tid.cast_unsigned()])),
        }
    }
    let mut sites = HashMap::new();
    for (mut place, sleepers) in places {
        place.sums[SiteSum::Threads as usize] = sleepers.len() as u64;
        let index = session.make_site(&place, &sleepers)?;
        sites.extend(sleepers.into_iter().map(|tid| (tid.cast_signed(), index)));
    }
    Ok(sites)
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
    let mut arguments = [0; 4];
    let number = match u32::try_from(number) {
        Ok(number) => {
            for argument in &mut arguments {
                *argument = u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok()?;
            }
            number
        }
        Err(_) => site::NO_CALL,
    };
    Some(Call { number, arguments })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_call_is_read_with_its_arguments() {
        let text = "202 0x7f12 0x189 0x0 0x0 0x0 0xffffffff 0x7ffd 0x7f99\n";
        assert_eq!(parse(text), Some(Call { number: 202, arguments: [0x7f12, 0x189, 0, 0] }));
        assert_eq!(parse("running\n"), None);
        assert_eq!(parse("-1 0x7ffd 0x7f99\n"), Some(Call { number: site::NO_CALL, arguments: [0; 4] }));
        assert_eq!(parse(""), None);
        assert_eq!(parse("202 7f12"), None);
    }
}
