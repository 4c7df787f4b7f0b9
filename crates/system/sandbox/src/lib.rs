//! Walls around commands.
//!
//! A [`SandboxPolicy`] says what a command may do; a [`Sandbox`] finds out what of it
//! this machine can enforce, says so in a [`SandboxReport`], and turns it into a
//! [`Confinement`] for a command. The walls are built by a
//! helper process that then becomes the command; see [`run_if_helper`].
//! [`ReadOnlySandbox`] hold what is believed to only read, without a helper, and
//! [`BaselineSandbox`] keep what undo needs from every other command.
//!
//! **Does not know** shells, tools, rules or modes: who runs the command and why
//! is the caller's business.
//!
//! **Invariant:** what is reported as enforced is enforced by the kernel. A
//! wall that cannot be built keeps the command from running.

mod blocked;
mod bubblewrap;
mod confine;
mod features;
mod helper;
mod keeping;
mod layers;
mod order;
mod policy;
mod proxy;
mod reading;
mod report;
mod sockets;
mod space;
mod stand_in;
mod walled_thread;
mod workspace;

pub use blocked::blocked;
pub use confine::{
    Confinement, FdAllocator, InheritedFd, Sandbox, SandboxCleanup, SandboxConfig, SandboxStrictness,
    SandboxedLaunch,
};
pub use features::{KernelFeatures, SandboxFeatures, WITHOUT};
pub use helper::run_if_helper;
pub use keeping::{BaselinePolicy, BaselineSandbox, HomeProtection};
pub use policy::{Domains, Hidden, IfMissing, Network, PathKind, Protected, SandboxPolicy, UnixSockets};
pub use proxy::{Lookup, SystemLookup};
pub use reading::{ReadOnlyNetwork, ReadOnlyPolicy, ReadOnlySandbox, installed_programs};
pub use report::{SandboxBackend, SandboxReport};
pub use workspace::WorkspacePolicy;
