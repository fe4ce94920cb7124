//! A token that goes back and forth through two channels of one slot each, for the workloads that measure
//! channels.

use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::{Result, anyhow};

use super::hand_over::{HandOver, Side};

/// Sends and receives the token.
pub(super) trait Channel {
    /// The end that sends.
    type Sender: Sync;
    /// The end that receives.
    type Receiver: Send;

    /// A channel that holds one token at most.
    fn new() -> (Self::Sender, Self::Receiver);

    /// Sends; `None` when the other end is gone.
    fn send(sender: &Self::Sender) -> Option<()>;

    /// Waits for the token; `None` when the other end is gone.
    fn receive(receiver: &Self::Receiver) -> Option<()>;
}

/// The channel that each side receives from. A receiver may be one thread's alone, hence the mutex; it is
/// taken once a phase, not in the ops.
pub(super) struct Channels<C: Channel>([(C::Sender, Mutex<C::Receiver>); 2]);

impl<C: Channel> Channels<C> {
    /// Two empty channels.
    pub(super) fn new() -> Self {
        Self([(), ()].map(|()| {
            let (sender, receiver) = C::new();
            (sender, Mutex::new(receiver))
        }))
    }
}

/// What one member sends to and receives from.
pub(super) struct ChannelSide<'a, C: Channel> {
    own: MutexGuard<'a, C::Receiver>,
    other: &'a C::Sender,
}

impl<C: Channel> HandOver for Channels<C> {
    type Side<'a>
        = ChannelSide<'a, C>
    where
        C: 'a;

    fn side(&self, member: usize) -> Result<ChannelSide<'_, C>> {
        let own = self.0[member].1.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(ChannelSide { own, other: &self.0[1 - member].0 })
    }
}

impl<C: Channel> Side for ChannelSide<'_, C> {
    #[inline]
    fn post(&self) -> Result<()> {
        C::send(self.other).ok_or_else(|| anyhow!("the receiving end of a channel is gone"))
    }

    #[inline]
    fn wait(&self) -> Result<()> {
        C::receive(&self.own).ok_or_else(|| anyhow!("the sending end of a channel is gone"))
    }
}
