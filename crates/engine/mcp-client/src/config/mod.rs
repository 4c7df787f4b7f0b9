//! Server configuration: declarations, approvals, policy, and their resolution.
//!
//! Declarations are untrusted text: nothing in them is expanded, started or contacted before
//! [`fn@resolve`] has accepted it.

mod approval;
mod declaration;
mod edit_file;
mod expand;
mod resolve;
mod server_config;
mod server_policy;

pub use approval::{Approval, Approvals, ProjectChoices};
pub use declaration::{DeclarationProblem, ServerDeclaration, declared_servers};
pub use edit_file::{add_server, remove_server};
pub use resolve::{ResolvedServers, ServerRules, UnapprovedServer, resolve};
pub use server_config::{
    SamplingConfirm, SamplingRules, ServerConfig, ServerEndpoint, ServerScope, ServerTrust, Timeouts,
};
pub use server_policy::{ServerMatcher, ServerPolicy};
