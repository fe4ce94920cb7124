//! The workload's side by itself, without kernel programs: what a member that fails does to the others.

use std::{
    collections::BTreeMap,
    os::{
        fd::{AsRawFd as _, IntoRawFd as _},
        unix::net::UnixStream,
    },
    sync::mpsc,
    thread,
    time::Duration,
};

use anyhow::{Result, bail};
use concprobe::harness::{
    Claim, CrewSize, Entry, Ops, Place, Role, SelfCheck, Workload,
    control::Control,
    crew,
    protocol::{Answer, Assignment, Line, Order, Phase},
};

/// The second member fails while the first waits for it for ever.
struct Deserted {
    how: fn() -> Result<()>,
    place: Place,
}

impl Workload for Deserted {
    fn crew(&self) -> Vec<Role> {
        let role = |name: &str, place| Role { place, ..Role::thread(name) };
        vec![role("waiter", Place::Thread), role("deserter", self.place)]
    }

    fn work(&self, member: usize, _ops: &mut Ops<'_>) -> Result<()> {
        if member == 1 {
            return (self.how)();
        }
        loop {
            thread::park();
        }
    }

    fn check(&self, _ops: u64) -> SelfCheck {
        SelfCheck { passed: true, detail: String::new() }
    }
}

macro_rules! deserted {
    ($name:ident, $how:expr, $place:expr) => {
        static $name: Entry = Entry {
            name: "deserted",
            summary: "",
            op: "",
            claim: Claim::NeverEntersKernel,
            default_ops: 1,
            crew: CrewSize::Fixed(2),
            parameters: &[],
            unavailable: None,
            build: |_| Ok(Box::new(Deserted { how: $how, place: $place })),
        };
    };
}

deserted!(PANICS, || panic!("on purpose"), Place::Thread);
deserted!(FAILS, || bail!("on purpose"), Place::Thread);
deserted!(ENDS, || std::process::exit(3), Place::Process);

/// What the driver hears when it asks this workload for a phase.
fn answer(entry: &'static Entry) -> Answer {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let control = Control::create().unwrap();
    let assignment = Assignment {
        workload: "deserted".to_owned(),
        threads: 2,
        parameters: BTreeMap::new(),
        pin: None,
        evidence: None,
        control: control.as_raw_fd(),
    };
    // The thread is left behind, as the waiter never ends; the real driver ends the process.
    thread::spawn(move || crew::serve(theirs.into_raw_fd(), |_| Some(entry)));
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut line = Line::new(ours).unwrap();
        line.send(&assignment).unwrap();
        assert!(matches!(line.receive().unwrap(), Answer::Ready { .. }));
        line.send(&Order::Phase(Phase { ops: Some(1), duration_ns: None, record: false })).unwrap();
        sender.send(line.receive().unwrap()).unwrap();
        std::mem::forget((line, control));
    });
    receiver.recv_timeout(Duration::from_secs(5)).expect("an answer within 5 s")
}

#[test]
fn a_member_that_panics_ends_the_phase_although_another_one_waits_for_it() {
    let Answer::Failed(message) = answer(&PANICS) else { panic!("no failure") };
    assert_eq!(message, "deserter panicked: on purpose");
}

#[test]
fn a_member_that_fails_is_heard_with_its_reason() {
    let Answer::Failed(message) = answer(&FAILS) else { panic!("no failure") };
    assert_eq!(message, "deserter: on purpose");
}

#[test]
fn a_process_that_ends_is_noticed() {
    let Answer::Failed(message) = answer(&ENDS) else { panic!("no failure") };
    assert_eq!(message, "a member of the crew ended before its phase was over: the peer has gone");
}
