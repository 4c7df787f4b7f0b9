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

/// Creates an MCP server for these tools. Configure it with the methods of the builder, then start it
/// with [`McpServeBuilder::stdio`] or [`McpServeBuilder::http`].
pub fn serve(tools: Vec<Arc<dyn DynTool>>) -> McpServeBuilder {
    let cwd = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
    let mut spec = program_spec(cwd);
    spec.tools.own = tools;
    McpServeBuilder { spec, options: ServerOptions::default(), stop: CancellationToken::new() }
}

/// Configures an MCP server.
pub struct McpServeBuilder {
    spec: SessionSpec,
    options: ServerOptions,
    stop: CancellationToken,
}

/// A running MCP server over HTTP.
pub struct ServedTools {
    server: HttpServer,
    session: SessionHandle,
}

impl ServedTools {
    /// URL of the server.
    pub fn url(&self) -> String {
        self.server.url()
    }

    /// Stops the server and closes its session.
    pub async fn stop(self) {
        self.server.stop().await;
        self.session.close().await;
    }
}

impl McpServeBuilder {
    /// Sets the name and version that clients see.
    pub fn named(mut self, name: impl Into<String>, version: impl Into<String>) -> Self {
        (self.options.name, self.options.version) = (name.into(), version.into());
        self
    }

    /// Sets instructions for the model about how to use the tools.
    pub fn instructions(mut self, text: impl Into<String>) -> Self {
        self.options.instructions = text.into();
        self
    }

    /// Adds an allow rule: matching calls run without a prompt.
    pub fn allow(mut self, rule: impl Into<String>) -> Self {
        self.spec.permissions.allow.push(rule.into());
        self
    }

    /// Adds a deny rule: matching calls are refused.
    pub fn deny(mut self, rule: impl Into<String>) -> Self {
        self.spec.permissions.deny.push(rule.into());
        self
    }

    /// Changes any other part of the session spec. Its approver is ignored: permission questions go to
    /// the client's user.
    pub fn with_spec(mut self, change: impl FnOnce(&mut SessionSpec)) -> Self {
        change(&mut self.spec);
        self
    }

    /// Sets the working directory of calls. Default: the current directory.
    pub fn directory(mut self, cwd: impl Into<PathBuf>) -> Self {
        self.spec.place.cwd = cwd.into();
        self
    }

    /// Makes [`McpServeBuilder::stdio`] return when the token is cancelled.
    pub fn stop_when(mut self, stop: CancellationToken) -> Self {
        self.stop = stop;
        self
    }

    /// Returns the server itself, for other transports, and the session it depends on: the server works
    /// as long as the session is open.
    pub async fn into_server(self) -> io::Result<(ToolServer, SessionHandle)> {
        let clients = Clients::default();
        let mut spec = self.spec;
        spec.asking = ApproverSpec::Port(Arc::new(ClientApprover::new(clients.clone())));
        // A client may have dropped earlier results from its context.
        spec.remembers_results = false;
        spec.model = None;
        let (handle, _events) = Session::open(spec).map_err(io::Error::other)?;
        handle.ask(Command::Ready).await;
        let calls = handle.calls();
        let (pipeline, pool) = (Arc::clone(&calls.pipeline), calls.pool.clone());
        let server = ToolServer::new(pipeline, pool, calls.state.clone(), clients, self.options);
        Ok((server, handle))
    }

    /// Serves one client over standard input and output, until the client disconnects.
    pub async fn stdio(self) -> io::Result<()> {
        let stop = self.stop.clone();
        let (server, session) = self.into_server().await?;
        let served = haft_mcp_server::serve_stdio(server, stop).await;
        session.close().await;
        served
    }

    /// Serves any number of clients over HTTP, until [`ServedTools::stop`].
    pub async fn http(self, options: HttpOptions) -> io::Result<ServedTools> {
        let (server, session) = self.into_server().await?;
        let server = haft_mcp_server::serve_http(server, options).await?;
        Ok(ServedTools { server, session })
    }
}
