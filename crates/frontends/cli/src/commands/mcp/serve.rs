//! `haft mcp serve`: offers the built-in tools to any MCP client.

use std::{process::ExitCode, sync::Arc};

use haft_console::{
    GlobalArgs,
    interrupt::stop_on_signal,
    stdout::{CliError, CommandExit, print_error, write_error},
};
use haft_mcp_server::{
    ClientApprover, Clients, HttpAuth, HttpOptions, ServerOptions, StructuredResults, TokenIntrospection,
    ToolServer, serve_http, serve_stdio,
};
use haft_session::{ApproverSpec, Command, ServerStart, Session, SessionEventKind, needs_servers};
use haft_tool::{DynTool, Tool as _};
use haft_tool_runtime::{Pool, SharedPool, ToolSearch};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::print_config;
use crate::{args::mcp::ServeArgs, run::session_spec};

pub(super) fn run(args: &ServeArgs, options: &GlobalArgs) -> CommandExit {
    if let Some(client) = args.print_config {
        return print_config::run(client);
    }
    match args.http {
        // Stdio has one client: a single thread gives the lowest latency.
        None => {
            crate::run::thread_limit::check_threads()?;
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let ended = runtime.block_on(serve(args, options));
            // A blocking read of standard input cannot be cancelled, so do not wait for it.
            runtime.shutdown_background();
            ended
        }
        Some(_) => session_spec::runtime()?.block_on(serve(args, options)),
    }
}

async fn serve(args: &ServeArgs, options: &GlobalArgs) -> CommandExit {
    let clients = Clients::default();
    let mut spec = session_spec::of_options(options)?;
    spec.asking = ApproverSpec::Port(Arc::new(ClientApprover::new(clients.clone())));
    spec.servers.start = ServerStart::ForHooks;
    // The client's model may no longer have earlier results in its context, so no call may refer to
    // them.
    spec.remembers_results = false;
    spec.has_several_clients = args.http.is_some();
    let (handle, mut events) = Session::open(spec)?;
    let notices = tokio::spawn(async move {
        while let Some(event) = events.next().await {
            if let SessionEventKind::Notice(text) = &event.what {
                print_error(text);
            }
        }
    });
    handle.ask(Command::Ready).await;
    let calls = handle.calls();
    let server = ToolServer::new(
        Arc::clone(&calls.pipeline),
        SharedPool::new(Pool::assemble(own_tools(&calls.pool.get()), Vec::new())),
        calls.state.clone(),
        clients,
        ServerOptions {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            instructions: instructions(&calls.state.cwd),
            structured: if args.structured { StructuredResults::Sent } else { StructuredResults::LeftOut },
            spools: vec![handle.premises().state_dir().join("tasks").join(handle.id().as_str())],
            several_clients: args.http.is_some(),
            ..ServerOptions::default()
        },
    );
    let stop = stop_on_signal()?;
    let ended = match args.http {
        None => serve_stdio(server, stop).await.map_err(CliError::from),
        Some(_) => over_http(server, args, stop).await,
    };
    handle.close().await;
    notices.abort();
    ended.map(|()| ExitCode::SUCCESS)
}

/// The server instructions, which a client may show its model.
fn instructions(cwd: &std::path::Path) -> String {
    format!(
        "Haft's tools work on the machine of this server, in {}; relative paths start there. Read a file before you \
         edit it. Look with Read, Grep, Glob and LS instead of Bash where they suffice. Calls that rules do not allow \
         are asked about or refused, and the answer says how to allow them. What tools and commands change can be \
         taken back by the person with `haft undo`.",
        cwd.display()
    )
}

/// The tools to offer. Leaves out tools that load other tools on demand or manage MCP servers: an MCP
/// client lists all tools at once.
fn own_tools(pool: &Pool) -> Vec<Arc<dyn DynTool>> {
    let own = pool.tools().filter(|(name, _)| *name != ToolSearch::NAME && !needs_servers(name));
    own.map(|(_, tool)| Arc::clone(tool)).collect()
}

async fn over_http(server: ToolServer, args: &ServeArgs, stop: CancellationToken) -> Result<(), CliError> {
    let bind = args.http.unwrap_or_else(|| ([127, 0, 0, 1], 0).into());
    let options = HttpOptions {
        bind,
        auth: auth(args)?,
        hosts: args.allow_host.clone(),
        origins: args.allow_origin.clone(),
        ..HttpOptions::default()
    };
    let running = serve_http(server, options).await.map_err(|err| format!("{bind}: {err}"))?;
    write_error(&format!("Serving at {}", running.url()));
    stop.cancelled().await;
    running.stop().await;
    Ok(())
}

/// How HTTP clients authenticate.
fn auth(args: &ServeArgs) -> Result<HttpAuth, CliError> {
    if let Some(name) = &args.token_env {
        let token = std::env::var(name).map_err(|_| format!("--token-env: {name} is not set"))?;
        return token_of(&token, name);
    }
    if let Some(path) = &args.token_file {
        let token = std::fs::read_to_string(path).map_err(|err| format!("{}: {err}", path.display()))?;
        return token_of(&token, &path.display().to_string());
    }
    let (Some(issuer), Some(endpoint)) = (&args.oauth_server, &args.oauth_introspect) else {
        return Ok(HttpAuth::Anyone);
    };
    let resource = match (&args.resource, args.http) {
        (Some(resource), _) => resource.clone(),
        (None, Some(bind)) if bind.port() != 0 => format!("http://{bind}/mcp"),
        (None, _) => {
            return Err(CliError::Message(String::from("--oauth-server needs --resource or a fixed port")));
        }
    };
    let named = |name: &str| std::env::var(name).ok().filter(|it| !it.is_empty());
    let client = named("HAFT_OAUTH_CLIENT_ID").zip(named("HAFT_OAUTH_CLIENT_SECRET"));
    let mut metadata = json!({
        "resource": resource,
        "authorization_servers": [issuer],
        "bearer_methods_supported": ["header"],
    });
    if !args.oauth_scope.is_empty() {
        metadata["scopes_supported"] = json!(args.oauth_scope);
    }
    let check = TokenIntrospection::new(endpoint.as_str(), client, resource);
    let check = check.of_issuer(issuer.as_str()).with_scopes(args.oauth_scope.clone());
    Ok(HttpAuth::Resource { metadata, check: Arc::new(check) })
}

fn token_of(text: &str, place: &str) -> Result<HttpAuth, CliError> {
    let token = text.trim();
    if token.is_empty() {
        return Err(CliError::Message(format!("{place} holds no token")));
    }
    Ok(HttpAuth::Token(token.to_owned()))
}
