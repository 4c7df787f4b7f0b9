//! Client for the Model Context Protocol (MCP).
//!
//! A [`McpManager`] connects to any number of servers and offers their tools as Haft tools
//! (`mcp__server__tool`). It copes with servers that start late, crash, hang, violate the protocol, or
//! speak any revision from 2024 on.
//!
//! Start reading at [`declared_servers`] and [`resolve`], which decide what servers may run, and
//! [`McpManager`], which runs them.
//!
//! **Out of scope**: settings files, terminals, models, concrete tools, obtaining tokens
//! (`haft-mcp-auth`) and serving tools (`haft-mcp-server`). The embedding program provides user
//! interaction ([`ElicitationHandler`]), model access ([`SamplingHandler`]), storage of binary data
//! ([`MediaSink`]) and opening of login pages ([`LoginFlow`]).
//!
//! **Invariant:** an invalid tool, result, message or server affects nothing else, and its effect is
//! visible in [`ServerStatus`].
//!
//! **Invariant:** every request ends: with its answer, an error, or a timeout. A cancelled request is
//! withdrawn from the server, which keeps running.
//!
//! **Invariant:** no server process outlives Haft, not even after SIGKILL.
//!
//! **Invariant:** a server declared by a project runs only after the user has approved exactly this
//! declaration, and a tool whose definition has changed since its approval prompts before it runs.

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
/// Login types used in configurations and by embedders.
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
