//! The client side of the Model Context Protocol.
//!
//! A [`McpManager`] connects to any number of servers and turns their
//! tools into tools of ours (`mcp__server__tool`), whatever the servers do:
//! start late, die, hang, lie, speak the protocol of this year or of 2024.
//!
//! Reads from the top: [`declared_servers`] and [`resolve`] say which servers
//! may run, [`McpManager`] runs them.
//!
//! **Does not know** settings files, terminals, models or any concrete tool,
//! nor how a token is come by (`haft-mcp-auth`) or how tools are served
//! (`haft-mcp-server`).
//! Whom to ask ([`ElicitationHandler`], [`SamplingHandler`]), where bytes go ([`MediaSink`]) and which
//! pages to open ([`LoginFlow`]) are the host's business.
//!
//! **Invariant:** one bad tool, result, message or server costs nothing but
//! itself, and what it cost is visible in [`ServerStatus`].
//!
//! **Invariant:** every request ends: with its answer, with an error, or at its
//! deadline. A cancelled one is withdrawn from the server, and the server lives
//! on.
//!
//! **Invariant:** no process outlives us, not even after SIGKILL.
//!
//! **Invariant:** a server declared by a project runs only after the user has
//! agreed to exactly this declaration, and a tool that is no longer what the
//! user agreed to asks before it runs.

mod adapt;
mod client;
mod config;
mod jsonrpc;
mod manager;
mod resource_tools;
mod transport;

pub use adapt::{MediaDirectory, MediaSink, ModelImage, tool_name, tool_prefix};
pub use client::{
    Annotations, CallTracing, Capabilities, ClientPorts, ElicitAnswer, Elicitation, ElicitationHandler,
    OfferedTool, PromptArgument, PromptDef, ProtocolRevision, ResourceDef, ResourceTemplate, SamplingError,
    SamplingHandler, ServerInfo, ServerRoot, SkippedOffer, protocol_versions,
};
pub use config::{
    Approval, Approvals, DeclarationProblem, ProjectChoices, ResolvedServers, SamplingConfirm, SamplingRules,
    ServerConfig, ServerDeclaration, ServerEndpoint, ServerMatcher, ServerPolicy, ServerRules, ServerScope,
    ServerTrust, Timeouts, UnapprovedServer, add_server, declared_servers, remove_server, resolve,
};
/// Logins, as configurations and hosts of servers name them.
pub use haft_mcp_auth::{
    AuthOptions, CallbackListener, ClientKey, ClientSecret, HttpEndpoint, IdentityProvider, LoginError,
    LoginFlow, OAuthGrant, OAuthSettings, ProviderAddress,
};
pub use manager::{
    ManagerOptions, McpManager, NonProtocolOutput, PromptCommand, ServerEnabled, ServerEvent,
    ServerQueryError, ServerState, ServerStatus, WeakMcpManager,
};
pub use resource_tools::resource_tools;
pub use transport::{
    ChannelEnds, ChannelServer, Connector, EmbeddedServer, InheritEnv, McpConnection, OutgoingMessage,
    PeerInbox, ProgramFallback, StdioCommand, Transport, TransportError,
};
