//! Tools of a session that run on another machine: both ends of the connection.
//!
//! The near end ([`HostLink`], [`HostSet`]) puts far tools into a session under
//! their own names. The far end ([`HostRunRegistry`], [`serve_socket`], [`serve_web`])
//! lends the pipeline of a session without a model. Between them are lines of JSON
//! ([`protocol`]) over whatever carries lines: the standard streams of `ssh`, a
//! socket, a WebSocket, also one that the far end opened ([`serve_through`]) and that
//! a meeting point ([`serve_meeting`]) put through.
//!
//! **Does not know** which tools there are, settings files, or how a session is
//! opened: the far end takes sessions from a [`SessionFactory`].
//!
//! **Invariants:** a call that may act is in the journal of its run, on the disk,
//! before it runs, and runs at most once whatever becomes of connections and
//! processes. A caller whose turn is over (a lower epoch) runs nothing. Nothing of
//! the near side but calls and answers travels: no variables, no keys. The far
//! rules decide at the far side; whatever the near side allowed is no permit there.

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
