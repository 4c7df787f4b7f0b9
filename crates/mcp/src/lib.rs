//! Model Context Protocol, both ways.
mod adapt;
mod auth;
mod client;
mod config;
mod serve;
mod supervise;
mod transport;
mod wire;

pub use adapt::{Media, MediaDirectory};
pub use auth::{AuthOptions, CallbackListener, LoginError, LoginFlow};
pub use client::{
    Annotations, Capabilities, Elicit, ElicitAnswer, Elicitation, Era, Host, PromptArgument, PromptDef,
    ResourceDef, ResourceTemplate, Root, Sample, ServerInfo, Skipped, ToolDef,
};
pub use config::{Endpoint, HttpEndpoint, OAuthSettings, Scope, ServerConfig, Timeouts, Trust};
pub use serve::{
    CallClient, ClientAsk, Clients, HttpAuth, HttpOptions, HttpServer, Input, InputKind, NotAnswered,
    ServerOptions, TokenCheck, ToolServer, serve_http, serve_http_handler, serve_stdio,
};
pub use supervise::{Enabled, Event, Manager, ManagerOptions, Noise, ServerState, ServerStatus};
pub use transport::{
    ChannelEnds, ChannelServer, Connector, HostedServer, Inbox, InheritEnv, McpConnection, OpenError,
    Outgoing, StdioCommand, Transport,
};
