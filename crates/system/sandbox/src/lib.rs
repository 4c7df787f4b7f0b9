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

mod baseline;
mod bubblewrap;
mod confine;
mod denial_detection;
mod features;
mod helper;
mod helper_request;
mod layers;
mod net_namespace;
mod placeholders;
mod proxy;
mod read_only;
mod restricted_thread;
mod sandbox_policy;
mod sandbox_report;
mod unix_sockets;
mod workspace_policy;

pub use baseline::{BaselinePolicy, BaselineSandbox, HomeProtection};
pub use confine::{
    Confinement, FdAllocator, InheritedFd, Sandbox, SandboxCleanup, SandboxConfig, SandboxStrictness,
    SandboxedLaunch,
};
pub use denial_detection::blocked;
pub use features::{KernelFeatures, SandboxFeatures, WITHOUT};
pub use helper::run_if_helper;
pub use proxy::{Lookup, SystemLookup};
pub use read_only::{ReadOnlyNetwork, ReadOnlyPolicy, ReadOnlySandbox, installed_programs};
pub use sandbox_policy::{
    Domains, Hidden, IfMissing, Network, PathKind, Protected, SandboxPolicy, UnixSockets,
};
pub use sandbox_report::{SandboxBackend, SandboxReport};
pub use workspace_policy::WorkspacePolicy;
