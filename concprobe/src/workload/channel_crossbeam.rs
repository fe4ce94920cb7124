//! Two threads that send a token back and forth through channels of the crate `crossbeam-channel`.

use anyhow::Result;
use crossbeam_channel::{Receiver, Sender, bounded};

use super::{
    channel::{Channel, Channels},
    hand_over::PingPong,
};
use crate::harness::{Claim, CrewSize, Entry, Place, Settings, Workload};

pub(super) static ENTRY: Entry = Entry {
    name: "channel-crossbeam",
    summary: "the price of a hand-over through crossbeam channels of one slot, which yield before they sleep",
    op: "one turn: send to the other side, receive until it sends back",
    // Nothing about sleeping holds everywhere: a receiver looks, then yields some times, then sleeps. On one CPU
    // the first yield lets the other side send, on two the token mostly comes while it looks.
    claim: Claim::CreatesNoThread,
    default_ops: 200_000,
    crew: CrewSize::Fixed(2),
    parameters: &[],
    unavailable: None,
    build,
};

struct Crossbeam;

fn build(_settings: &Settings) -> Result<Box<dyn Workload>> {
    Ok(Box::new(PingPong::new(Channels::<Crossbeam>::new(), Place::Thread)?))
}

impl Channel for Crossbeam {
    type Sender = Sender<()>;
    type Receiver = Receiver<()>;

    fn new() -> (Sender<()>, Receiver<()>) {
        bounded(1)
    }

    #[inline]
    fn send(sender: &Sender<()>) -> Option<()> {
        sender.send(()).ok()
    }

    #[inline]
    fn receive(receiver: &Receiver<()>) -> Option<()> {
        receiver.recv().ok()
    }
}
