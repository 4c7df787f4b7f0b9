//! Sandboxes for commands.
//!
//! A [`SandboxPolicy`] says what a command may do. A [`Sandbox`] determines which parts this machine can
//! enforce, lists them in a [`SandboxReport`], and turns the policy into a [`Confinement`] for commands.
//! A helper process sets up the sandbox and then executes the command; see [`run_if_helper`].
//! [`ReadOnlySandbox`] confines commands that are believed to only read, without a helper, and
//! [`BaselineSandbox`] protects what undo needs from all other commands.
//!
//! **Does not know** shells, tools, rules or modes, nor why a command runs.
//!
//! **Invariant:** what is reported as enforced is enforced by the kernel. If a required part of the sandbox cannot be set up, the command does not run.

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
