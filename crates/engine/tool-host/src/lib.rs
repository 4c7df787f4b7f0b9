//! Runs tools of a session on another machine: client and server.
//!
//! The client ([`HostLink`], [`HostSet`]) adds the host's tools to a session under their usual names.
//! The server ([`HostRunRegistry`], [`serve_socket`], [`serve_web`]) provides the call pipeline of a
//! session without a model. They exchange lines of JSON ([`protocol`]) over the standard streams of
//! `ssh`, a socket, or a WebSocket. A host behind a router can connect out ([`serve_through`]) to a
//! rendezvous server ([`serve_meeting`]).
//!
//! **Out of scope**: which tools exist, settings files, opening sessions: the server gets sessions from
//! a [`SessionFactory`].
//!
//! **Invariants:** a call with side effects is synced to its run's journal before it runs, and runs at
//! most once whatever happens to connections and processes. A client with an outdated epoch runs
//! nothing. Only calls and answers leave the client: no environment variables, no keys. The host's
//! permission rules decide on the host; a permission granted at the client is not valid there.

mod client;
mod host_address;
mod line_pipe;
pub mod protocol;
mod server;

pub use client::{
    HostLink, HostSet, LinkConfig, LinkError, LinkTimeouts, LocalTasks, RecoveredCallState,
    RemoteQuestionHandler,
};
pub use host_address::{HostAddress, HostAddressError, HostConfig, HostName};
pub use line_pipe::LinePipe;
pub use server::{
    HostLimits, HostOperations, HostRunRegistry, HostSession, RunRequest, SessionFactory, SocketPath,
    WebOptions, relay, serve_meeting, serve_socket, serve_through, serve_web,
};
