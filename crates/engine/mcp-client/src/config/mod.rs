//! What is known about servers before they are asked: where they are declared,
//! who allows them, and what the declarations mean.
//!
//! A declaration is text of somebody; nothing in it is expanded, started or
//! reached before [`fn@resolve`] has let it through.

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
