//! The server under the official conformance suite: the production tool server,
//! with the tools, prompts and resources the suite wants to see.
//!
//! ```text
//! PORT=39102 conformance_server
//! ```

mod handler;
mod tools;

use std::{error::Error, io::Write, net::SocketAddr, sync::Arc, time::Duration};

use haft_mcp_server::{ClientApprover, Clients, HttpOptions, ServerOptions, ToolServer, serve_http_handler};
use haft_permission::Policy;
use haft_tool_runtime::{CallSessionState, Gate, Pipeline, Pool, ResultStore, SharedPool, StoreLimits};
use tokio::sync::broadcast;

use handler::Fixtures;

/// What changed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Change {
    Tools,
    Prompts,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let port = std::env::var("PORT").ok().and_then(|it| it.parse().ok()).unwrap_or(39102);
    let clients = Clients::default();
    let (changes, _) = broadcast::channel(16);
    let gate = Gate::new(Policy::default()).with_approver(Arc::new(ClientApprover::new(clients.clone())));
    let results = ResultStore::new(std::env::temp_dir().join("haft-conformance"), StoreLimits::default());
    let pipeline = Arc::new(Pipeline::new(gate, results));
    let pool = SharedPool::new(Pool::assemble(tools::all(&clients, &changes), Vec::new()));
    let options = ServerOptions { task_after: Duration::from_millis(200), ..ServerOptions::default() };
    let server = ToolServer::new(pipeline, pool, CallSessionState::new("/"), clients, options);
    let fixtures = Fixtures::new(server, changes);
    let options = HttpOptions { bind: SocketAddr::from(([127, 0, 0, 1], port)), ..HttpOptions::default() };
    let running = serve_http_handler(move || fixtures.session(), options).await?;
    writeln!(std::io::stdout(), "{}", running.url())?;
    Ok(running.wait().await?)
}
