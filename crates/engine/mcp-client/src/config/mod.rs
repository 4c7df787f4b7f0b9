//! What is known about servers before they are asked: where they are declared,
//! who allows them, and what the declarations mean.
//!
//! A declaration is text of somebody; nothing in it is expanded, started or
//! reached before [`resolve`] has let it through.

mod approval;
mod declared;
mod edit;
mod expand;
mod policy;
mod resolve;
mod server;

pub use approval::{Approval, Approvals, ProjectChoices};
pub use declared::{DeclarationProblem, ServerDeclaration, declared_servers};
pub use edit::{add_server, remove_server};
pub use policy::{ServerMatcher, ServerPolicy};
pub use resolve::{ResolvedServers, ServerRules, UnapprovedServer, resolve};
pub use server::{
    SamplingConfirm, SamplingRules, ServerConfig, ServerEndpoint, ServerScope, ServerTrust, Timeouts,
};
