//! Model Context Protocol, both ways.
//!
//! **Client**: a [`Manager`] connects to any number of servers and turns their
//! tools into tools of ours (`mcp__server__tool`), whatever the servers do:
//! start late, die, hang, lie, speak the protocol of this year or of 2024.
//! **Server**: a [`ToolServer`] offers any pool of tools to any MCP client,
//! through the same pipeline a model's calls go through.
//!
//! Reads from the top: [`declared_servers`] and [`resolve`] say which servers
//! may run, [`Manager`] runs them, [`ToolServer`] with [`serve_stdio`] or
//! [`serve_http`] is one.
//!
//! **Does not know** settings files, terminals, models or any concrete tool.
//! Whom to ask ([`Elicit`], [`Sample`]), where bytes go ([`Media`]) and which
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
//!
//! **Invariant:** the server runs nothing the rules do not allow or the client's
//! person has not agreed to; without a person the answer is no.

mod adapt;
mod auth;
mod client;
mod config;
mod serve;
mod supervise;
mod tools;
mod transport;
mod wire;

pub use adapt::{Media, MediaDirectory, Shown, tool_prefix};
pub use auth::{AuthOptions, CallbackListener, LoginError, LoginFlow};
pub use client::{
    Annotations, Capabilities, Elicit, ElicitAnswer, Elicitation, Era, Host, NotSampled, PromptArgument,
    PromptDef, ResourceDef, ResourceTemplate, Root, Sample, ServerInfo, Skipped, ToolDef,
};
pub use config::{
    Approval, Approvals, ClientKey, Confirm, Declared, Endpoint, Grant, HttpEndpoint, IdentityProvider,
    OAuthSettings, Problem, ProjectChoices, ProviderAddress, Resolved, Rules, SamplingRules, Scope, Secret,
    ServerConfig, ServerMatcher, ServerPolicy, Timeouts, Trust, Waiting, add_server, declared_servers,
    remove_server, resolve,
};
pub use serve::{
    CallClient, ClientAsk, Clients, HttpAuth, HttpOptions, HttpServer, Input, InputKind, Introspection,
    NotAnswered, ServerOptions, Snippet, TokenCheck, ToolServer, Verdict, client_snippets, serve_http,
    serve_http_handler, serve_stdio,
};
pub use supervise::{
    AskError, Enabled, Event, Manager, ManagerOptions, Noise, PromptCommand, ServerState, ServerStatus,
    WeakManager,
};
pub use tools::resource_tools;
pub use transport::{
    ChannelEnds, ChannelServer, Connector, HostedServer, Inbox, InheritEnv, McpConnection, OpenError,
    Outgoing, StdioCommand, Transport,
};
