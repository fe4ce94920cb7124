//! Two threads that send a token back and forth through channels of the standard library.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use anyhow::Result;

use super::{
    channel::{Channel, Channels},
    hand_over::PingPong,
};
use crate::harness::{Claim, CrewSize, Entry, Place, Settings, Workload};

pub(super) static ENTRY: Entry = Entry {
    name: "channel-std",
    summary: "the price of a hand-over through std::sync::mpsc channels of one slot",
    op: "one turn: send to the other side, receive until it sends back",
    claim: Claim::OneSwitchPerOp,
    default_ops: 200_000,
    crew: CrewSize::Fixed(2),
    parameters: &[],
    unavailable: None,
    build,
};

struct Std;

fn build(_settings: &Settings) -> Result<Box<dyn Workload>> {
    Ok(Box::new(PingPong::new(Channels::<Std>::new(), Place::Thread)?))
}

impl Channel for Std {
    type Sender = SyncSender<()>;
    type Receiver = Receiver<()>;

    fn new() -> (SyncSender<()>, Receiver<()>) {
        sync_channel(1)
    }

    #[inline]
    fn send(sender: &SyncSender<()>) -> Option<()> {
        sender.send(()).ok()
    }

    #[inline]
    fn receive(receiver: &Receiver<()>) -> Option<()> {
        receiver.recv().ok()
    }
}
