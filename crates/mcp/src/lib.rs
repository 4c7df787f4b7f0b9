//! Model Context Protocol, both ways.
mod adapt;
mod auth;
mod client;
mod config;
mod serve;
mod supervise;
mod tools;
mod transport;
mod wire;

pub use adapt::{Media, MediaDirectory};
pub use auth::{AuthOptions, CallbackListener, LoginError, LoginFlow};
pub use client::{
    Annotations, Capabilities, Elicit, ElicitAnswer, Elicitation, Era, Host, PromptArgument, PromptDef,
    ResourceDef, ResourceTemplate, Root, Sample, ServerInfo, Skipped, ToolDef,
};
pub use config::{
    Approval, Approvals, Declared, Endpoint, HttpEndpoint, OAuthSettings, Problem, ProjectChoices, Resolved,
    Rules, Scope, ServerConfig, ServerMatcher, ServerPolicy, Timeouts, Trust, Waiting, add_server,
    declared_servers, remove_server, resolve,
};
pub use serve::{
    CallClient, ClientAsk, Clients, HttpAuth, HttpOptions, HttpServer, Input, InputKind, NotAnswered,
    ServerOptions, TokenCheck, ToolServer, serve_http, serve_http_handler, serve_stdio,
};
pub use supervise::{AskError, Enabled, Event, Manager, ManagerOptions, Noise, ServerState, ServerStatus};
pub use tools::resource_tools;
pub use transport::{
    ChannelEnds, ChannelServer, Connector, HostedServer, Inbox, InheritEnv, McpConnection, OpenError,
    Outgoing, StdioCommand, Transport,
};
