//! Serves a few tools to any MCP client: over standard input and output, or
//! over HTTP when an address is given.
//!
//! ```text
//! tool_server                     # stdio
//! tool_server 127.0.0.1:8080      # http://127.0.0.1:8080/mcp
//! ```

use std::{error::Error, io::Write, sync::Arc, time::Duration};

use haft_mcp_server::{
    ClientApprover, Clients, HttpAuth, HttpOptions, ServerOptions, ToolServer, serve_http, serve_stdio,
};
use haft_permission::Policy;
use haft_tool::{DynTool, Outcome, ToolContext, ToolError, tool};
use haft_tool_runtime::{CallSessionState, Gate, Pipeline, Pool, ResultStore, SharedPool, StoreLimits};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

#[derive(Deserialize, JsonSchema)]
struct Text {
    /// What to say.
    text: String,
}

#[derive(Deserialize, JsonSchema)]
struct Count {
    /// How many.
    count: u64,
}

/// The tools. Only the first runs without a prompt.
fn tools() -> Vec<Arc<dyn DynTool>> {
    vec![
        tool("echo", "Says the same.", async |args: Text, _cx| Ok(args.text.into())).read_only().build(),
        tool("write", "Says the same, but asks first.", async |args: Text, _cx| {
            Ok(format!("wrote {}", args.text).into())
        })
        .build(),
        tool("count", "Counts slowly and reports progress.", count).read_only().build(),
        tool("big", "Says a lot.", async |args: Count, _cx| {
            Ok("0123456789abcdef\n".repeat(usize::try_from(args.count).unwrap_or(0)).into())
        })
        .read_only()
        .build(),
        tool("fail", "Fails.", async |args: Text, _cx| {
            Err::<Outcome<String>, _>(ToolError::failed(format!("failed as told: {}", args.text)))
        })
        .read_only()
        .build(),
    ]
}

async fn count(args: Count, cx: ToolContext<Value>) -> Result<Outcome<String>, ToolError> {
    for step in 1..=args.count {
        tokio::select! {
            () = tokio::time::sleep(Duration::from_millis(20)) => (),
            () = cx.cancel.cancelled() => return Err(ToolError::failed(format!("stopped at {step}"))),
        }
        cx.progress(&json!({"progress": step, "total": args.count, "message": format!("step {step}")}));
    }
    Ok(format!("counted to {}", args.count).into())
}

fn server() -> Result<ToolServer, Box<dyn Error>> {
    let clients = Clients::default();
    let gate = Gate::new(Policy::default()).with_approver(Arc::new(ClientApprover::new(clients.clone())));
    let results = std::env::temp_dir().join(format!("haft-tool-server-{}", std::process::id()));
    let pipeline = Arc::new(Pipeline::new(gate, ResultStore::new(results, StoreLimits::default())));
    let pool = SharedPool::new(Pool::assemble(tools(), Vec::new()));
    let state = CallSessionState::new(std::env::current_dir()?);
    let mut options = ServerOptions::default();
    if let Ok(millis) = std::env::var("TOOL_SERVER_TASK_AFTER_MS") {
        options.task_after = Duration::from_millis(millis.parse()?);
    }
    Ok(ToolServer::new(pipeline, pool, state, clients, options))
}

fn main() -> Result<(), Box<dyn Error>> {
    let address = std::env::args().nth(1);
    let mut runtime = match address {
        // A single client needs only one thread, which has the lowest latency.
        None => tokio::runtime::Builder::new_current_thread(),
        Some(_) => tokio::runtime::Builder::new_multi_thread(),
    };
    runtime.enable_all().build()?.block_on(run(address))
}

async fn run(address: Option<String>) -> Result<(), Box<dyn Error>> {
    let Some(address) = address else {
        return Ok(serve_stdio(server()?, CancellationToken::new()).await?);
    };
    let auth = std::env::var("TOOL_SERVER_TOKEN").map_or(HttpAuth::Anyone, HttpAuth::Token);
    let options = HttpOptions { bind: address.parse()?, auth, ..HttpOptions::default() };
    let server = serve_http(server()?, options).await?;
    writeln!(std::io::stdout(), "{}", server.url())?;
    tokio::signal::ctrl_c().await?;
    server.stop().await;
    Ok(())
}
