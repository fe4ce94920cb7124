//! What a signal to concprobe means while a command runs: a wish to end, once or again, and whether the
//! command still has to be told.

use super::undisturbed::bit;

/// A signal that comes so soon after the first one is the same wish, nanoseconds: timeout(1) signals its
/// child and then the whole group.
pub(super) const ECHO_NS: u64 = 50_000_000;

/// Signals by which somebody wishes the command to end.
pub(super) const WISHES: &[i32] = &[libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];
/// Signals that mean something to the command alone.
pub(super) const MESSAGES: &[i32] = &[libc::SIGUSR1, libc::SIGUSR2];

/// Somebody wishes the command to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// For the first time, by this signal: the command has got it, and may end as it likes.
    First(i32),
    /// Once more, by this signal: the command was killed. It may come without a first one, when both came
    /// while nobody asked.
    Again(i32),
}

/// What is known of a signal when it has to be decided upon.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival {
    pub signal: i32,
    /// When it came first, `CLOCK_MONOTONIC`.
    pub at_ns: u64,
    /// Whether the whole process group got it, and so the command.
    pub reached_group: bool,
    /// Whether the command sent it.
    pub from_command: bool,
}

/// What has to be done for the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    Nothing,
    PassOn,
    Kill,
}

/// The wishes up to now.
#[derive(Debug)]
pub(super) struct Wishes {
    /// Signals that concprobe was started to ignore: nohup(1), or a shell's job in the background.
    ignored: u64,
    first_ns: Option<u64>,
    /// Those that came with the first one.
    together: u64,
}

impl Wishes {
    pub fn new(ignored: u64) -> Self {
        Self { ignored, first_ns: None, together: 0 }
    }

    pub fn take(&mut self, arrival: Arrival) -> (Option<Wish>, Act) {
        let Arrival { signal, at_ns, reached_group, from_command } = arrival;
        // Who ignores a signal that goes to a whole group does so on purpose; one that was sent to concprobe
        // alone is meant for it all the same, as in `concprobe … & kill -INT $!` of a script.
        let protected = reached_group && self.ignored & bit(signal) != 0;
        if from_command || protected {
            return (None, Act::Nothing);
        }
        let act = if reached_group { Act::Nothing } else { Act::PassOn };
        if !WISHES.contains(&signal) {
            return (None, act);
        }
        match self.first_ns {
            None => {
                self.first_ns = Some(at_ns);
                self.together = bit(signal);
                (Some(Wish::First(signal)), act)
            }
            Some(first) if at_ns.saturating_sub(first) < ECHO_NS => {
                let known = self.together & bit(signal) != 0;
                self.together |= bit(signal);
                (None, if known { Act::Nothing } else { act })
            }
            Some(_) => (Some(Wish::Again(signal)), Act::Kill),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use libc::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1};

    const MS: u64 = 1_000_000;

    fn alone(signal: i32, at_ns: u64) -> Arrival {
        Arrival { signal, at_ns, reached_group: false, from_command: false }
    }

    fn to_group(signal: i32, at_ns: u64) -> Arrival {
        Arrival { reached_group: true, ..alone(signal, at_ns) }
    }

    #[test]
    fn the_first_signal_is_passed_on_unless_the_group_got_it() {
        for signal in [SIGINT, SIGTERM, SIGHUP, SIGQUIT] {
            let expected = Some(Wish::First(signal));
            assert_eq!(Wishes::new(0).take(alone(signal, 5)), (expected, Act::PassOn));
            assert_eq!(Wishes::new(0).take(to_group(signal, 5)), (expected, Act::Nothing));
        }
    }

    #[test]
    fn signals_that_come_together_are_one_wish_and_each_is_passed_on_once() {
        let mut wishes = Wishes::new(0);
        wishes.take(alone(SIGTERM, 100 * MS));
        assert_eq!(wishes.take(alone(SIGTERM, 101 * MS)), (None, Act::Nothing));
        assert_eq!(wishes.take(alone(SIGHUP, 149 * MS)), (None, Act::PassOn));
        assert_eq!(wishes.take(alone(SIGHUP, 150 * MS - 1)), (None, Act::Nothing));
        assert_eq!(wishes.take(alone(SIGHUP, 150 * MS)), (Some(Wish::Again(SIGHUP)), Act::Kill));
    }

    #[test]
    fn a_later_signal_kills_whoever_got_it() {
        for second in [alone(SIGINT, 100 * MS), to_group(SIGINT, u64::MAX), alone(SIGQUIT, 50 * MS)] {
            let mut wishes = Wishes::new(0);
            wishes.take(to_group(SIGINT, 0));
            assert_eq!(wishes.take(second), (Some(Wish::Again(second.signal)), Act::Kill));
            assert_eq!(wishes.take(second), (Some(Wish::Again(second.signal)), Act::Kill), "and so on");
        }
    }

    #[test]
    fn a_clock_that_seems_to_go_back_is_the_same_moment() {
        let mut wishes = Wishes::new(0);
        wishes.take(alone(SIGINT, 100 * MS));
        assert_eq!(wishes.take(alone(SIGINT, 99 * MS)), (None, Act::Nothing));
    }

    #[test]
    fn a_message_is_passed_on_every_time_and_is_no_wish() {
        let mut wishes = Wishes::new(0);
        for at in [0, 1, 100 * MS] {
            assert_eq!(wishes.take(alone(SIGUSR1, at)), (None, Act::PassOn));
            assert_eq!(wishes.take(to_group(SIGUSR1, at)), (None, Act::Nothing));
        }
        assert_eq!(wishes.take(alone(SIGINT, 200 * MS)).0, Some(Wish::First(SIGINT)));
    }

    #[test]
    fn a_signal_ignored_from_the_start_counts_only_when_sent_to_concprobe_alone() {
        let mut wishes = Wishes::new(bit(SIGHUP));
        assert_eq!(wishes.take(to_group(SIGHUP, 0)), (None, Act::Nothing));
        assert_eq!(wishes.take(alone(SIGHUP, 100 * MS)), (Some(Wish::First(SIGHUP)), Act::PassOn));
        assert_eq!(wishes.take(to_group(SIGHUP, 200 * MS)), (None, Act::Nothing));
        assert_eq!(wishes.take(to_group(SIGTERM, 300 * MS)), (Some(Wish::Again(SIGTERM)), Act::Kill));
    }

    #[test]
    fn what_the_command_itself_sends_is_no_wish() {
        let mut wishes = Wishes::new(0);
        let own = Arrival { from_command: true, ..to_group(SIGTERM, 0) };
        assert_eq!(wishes.take(own), (None, Act::Nothing));
        assert_eq!(wishes.take(alone(SIGTERM, 100 * MS)).0, Some(Wish::First(SIGTERM)));
    }
}
