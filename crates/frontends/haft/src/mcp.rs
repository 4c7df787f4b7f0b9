//! Your tools for every MCP client.
//!
//! ```
//! use haft::prelude::*;
//!
//! #[derive(Deserialize, JsonSchema)]
//! struct Args {
//!     /// Whom to greet.
//!     name: String,
//! }
//!
//! # async fn run() -> std::io::Result<()> {
//! let greet = tool("greet", "Greets somebody.", async |args: Args, _cx| {
//!     Ok(format!("hello {}", args.name).into())
//! });
//! let tools = vec![greet.read_only().build()];
//! // Over standard input and output it is `haft::mcp::serve(tools).stdio().await`.
//! let server = haft::mcp::serve(tools).named("greeter", "1.0").http(HttpOptions::default()).await?;
//! assert!(server.url().starts_with("http://127.0.0.1:"));
//! server.stop().await;
//! # Ok(())
//! # }
//! # tokio::runtime::Runtime::new().unwrap().block_on(run()).unwrap();
//! ```
//!
//! A call of a client goes through the same eight stages as one of a model.
//! What the rules leave open is asked of the person at the client; a client
//! that cannot ask anybody gets a no.

use std::{io, path::PathBuf, sync::Arc};

use haft_mcp_server::{ClientApprover, Clients, HttpServer};
pub use haft_mcp_server::{
    HttpAuth, HttpOptions, ServerOptions, TokenCheck, TokenIntrospection, TokenVerdict, ToolServer,
};
use haft_session::{ApproverSpec, Command, Session, SessionHandle, SessionSpec};
use haft_tool::DynTool;
use tokio_util::sync::CancellationToken;

use crate::agent::program_spec;

/// Serves tools: say how with the methods, then where with [`McpServeBuilder::stdio`] or
/// [`McpServeBuilder::http`].
pub fn serve(tools: Vec<Arc<dyn DynTool>>) -> McpServeBuilder {
    let cwd = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
    let mut spec = program_spec(cwd);
    spec.tools.own = tools;
    McpServeBuilder { spec, options: ServerOptions::default(), stop: CancellationToken::new() }
}

/// A server that is about to begin.
pub struct McpServeBuilder {
    spec: SessionSpec,
    options: ServerOptions,
    stop: CancellationToken,
}

/// Tools that are served over HTTP.
pub struct ServedTools {
    server: HttpServer,
    session: SessionHandle,
}

impl ServedTools {
    /// Where they are.
    pub fn url(&self) -> String {
        self.server.url()
    }

    /// Stops serving them, and ends their session.
    pub async fn stop(self) {
        self.server.stop().await;
        self.session.close().await;
    }
}

impl McpServeBuilder {
    /// What clients know it by.
    pub fn named(mut self, name: impl Into<String>, version: impl Into<String>) -> Self {
        (self.options.name, self.options.version) = (name.into(), version.into());
        self
    }

    /// How the tools are meant to be used.
    pub fn instructions(mut self, text: impl Into<String>) -> Self {
        self.options.instructions = text.into();
        self
    }

    /// Calls that match this rule need no question.
    pub fn allow(mut self, rule: impl Into<String>) -> Self {
        self.spec.permissions.allow.push(rule.into());
        self
    }

    /// Calls that match this rule are refused.
    pub fn deny(mut self, rule: impl Into<String>) -> Self {
        self.spec.permissions.deny.push(rule.into());
        self
    }

    /// Changes anything else of the session behind the tools. Whom it asks does
    /// not count: the client's person is asked.
    pub fn with_spec(mut self, change: impl FnOnce(&mut SessionSpec)) -> Self {
        change(&mut self.spec);
        self
    }

    /// Where calls run.
    pub fn directory(mut self, cwd: impl Into<PathBuf>) -> Self {
        self.spec.place.cwd = cwd.into();
        self
    }

    /// Ends [`McpServeBuilder::stdio`] when it fires.
    pub fn stop_when(mut self, stop: CancellationToken) -> Self {
        self.stop = stop;
        self
    }

    /// The server itself, for transports of your own, and the session it lives
    /// as long as.
    pub async fn into_server(self) -> io::Result<(ToolServer, SessionHandle)> {
        let clients = Clients::default();
        let mut spec = self.spec;
        spec.asking = ApproverSpec::Port(Arc::new(ClientApprover::new(clients.clone())));
        // A client may have forgotten what it was shown.
        spec.remembers_results = false;
        spec.model = None;
        let (handle, _events) = Session::open(spec).map_err(io::Error::other)?;
        handle.ask(Command::Ready).await;
        let calls = handle.calls();
        let (pipeline, pool) = (Arc::clone(&calls.pipeline), calls.pool.clone());
        let server = ToolServer::new(pipeline, pool, calls.state.clone(), clients, self.options);
        Ok((server, handle))
    }

    /// Serves one client over standard input and output until it leaves.
    pub async fn stdio(self) -> io::Result<()> {
        let stop = self.stop.clone();
        let (server, session) = self.into_server().await?;
        let served = haft_mcp_server::serve_stdio(server, stop).await;
        session.close().await;
        served
    }

    /// Serves any number of clients over HTTP until [`ServedTools::stop`].
    pub async fn http(self, options: HttpOptions) -> io::Result<ServedTools> {
        let (server, session) = self.into_server().await?;
        let server = haft_mcp_server::serve_http(server, options).await?;
        Ok(ServedTools { server, session })
    }
}
