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
//! let pool = Pool::assemble(vec![greet.read_only().build()], Vec::new());
//! // Over standard input and output it is `haft::mcp::serve(pool).stdio().await`.
//! let server = haft::mcp::serve(pool).named("greeter", "1.0").http(HttpOptions::default()).await?;
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

use haft_mcp_server::{ClientAsk, Clients};
pub use haft_mcp_server::{
    HttpAuth, HttpOptions, HttpServer, Introspection, ServerOptions, TokenCheck, ToolServer, Verdict,
};
use haft_permission::Policy;
use haft_runtime::{Gate, Pipeline, Pool, ResultStore, SessionState, SharedPool, StoreLimits};
use tokio_util::sync::CancellationToken;

/// Serves the tools of a pool: say how with the methods, then where with
/// [`Serve::stdio`] or [`Serve::http`].
pub fn serve(pool: Pool) -> Serve {
    Serve {
        pool,
        gate: Gate::new(Policy::default()),
        cwd: std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/")),
        options: ServerOptions::default(),
        stop: CancellationToken::new(),
    }
}

/// A server that is about to begin.
pub struct Serve {
    pool: Pool,
    gate: Gate,
    cwd: PathBuf,
    options: ServerOptions,
    stop: CancellationToken,
}

impl Serve {
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

    /// Rules and hooks of your own. Whom it asks does not count: the client's
    /// person is asked.
    pub fn gate(mut self, gate: Gate) -> Self {
        self.gate = gate;
        self
    }

    /// Where calls run.
    pub fn directory(mut self, cwd: impl Into<PathBuf>) -> Self {
        self.cwd = cwd.into();
        self
    }

    /// Ends [`Serve::stdio`] when it fires.
    pub fn stop_when(mut self, stop: CancellationToken) -> Self {
        self.stop = stop;
        self
    }

    /// The server itself, for transports of your own.
    pub fn into_server(self) -> ToolServer {
        let clients = Clients::default();
        let gate = self.gate.with_ask(Arc::new(ClientAsk::new(clients.clone())));
        let results = std::env::temp_dir().join(format!("haft-{}", std::process::id())).join("tool-results");
        let pipeline = Pipeline::new(gate, ResultStore::new(results, StoreLimits::default()));
        let (pool, state) = (SharedPool::new(self.pool), SessionState::new(self.cwd));
        ToolServer::new(Arc::new(pipeline), pool, state, clients, self.options)
    }

    /// Serves one client over standard input and output until it leaves.
    pub async fn stdio(self) -> io::Result<()> {
        let stop = self.stop.clone();
        haft_mcp_server::serve_stdio(self.into_server(), stop).await
    }

    /// Serves any number of clients over HTTP until [`HttpServer::stop`].
    pub async fn http(self, options: HttpOptions) -> io::Result<HttpServer> {
        haft_mcp_server::serve_http(self.into_server(), options).await
    }
}
