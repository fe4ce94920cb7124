//! The user's program as the thing to be measured: started as if concprobe were not there, held until the
//! measuring begins, signalled and waited for; or found running, and noticed when it ends.

mod descriptor;
mod existing;
mod held;
mod identity;
mod image;
mod running;
mod signals;
mod stat;
mod threads;
mod undisturbed;
mod wish;
mod witness;

pub use existing::Existing;
pub use held::{Announcement, Held, NotStarted};
pub use identity::Identity;
pub use running::{Child, Ending, Event, Exit, Running, Usage};
pub use signals::Signals;
pub use threads::Thread;
pub use undisturbed::Undisturbed;
pub use wish::Wish;
