//! Any pool of tools, served to any MCP client.
//!
//! The SDK's server carries the protocol: it passes the conformance suite in
//! both eras. What is ours is what a call goes through: the same eight stages
//! as a call of a model, with the client in the place of the person.
//!
//! Reads from the top: a [`ToolServer`] offers a pool; [`serve_stdio`] and
//! [`serve_http`] carry it.
//!
//! **Does not know** the client side of the protocol, settings files, terminals
//! or any concrete tool.
//!
//! **Invariant:** the server runs nothing the rules do not allow or the client's
//! person has not agreed to; without a person the answer is no.

mod accept_loop;
mod bounded_sessions;
mod call_clients;
mod call_result;
mod caller;
mod client_tasks;
mod config_snippets;
mod handler;
mod http;
mod http_guard;
mod input_rounds;
mod portable_schema;
mod stdio;
mod stdio_fast_path;
mod stored_results;
mod token_introspection;
mod tool_call;
mod tool_description;

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use haft_tool_runtime::{CallSessionState, Pipeline, Pool, SharedPool};
use rmcp::{model::Tool, task_manager::TaskManager};
use tokio::sync::{Semaphore, broadcast};

pub use accept_loop::{AcceptLimits, accept};
pub use call_clients::{CallClient, ClientApprover, ClientInput, Clients, InputKind, NotAnswered};
pub use config_snippets::{ConfigSnippet, client_snippets};
pub use http::{HttpOptions, HttpServer, serve_http, serve_http_handler};
pub use http_guard::{HttpAuth, TokenCheck, TokenVerdict};
pub use stdio::serve_stdio;
pub use token_introspection::TokenIntrospection;

/// A pool of tools with everything needed to serve it. Cheap to clone.
///
/// What a session changes (the working directory) belongs to one clone made
/// with [`ToolServer::session`]; everything else is shared.
#[derive(Clone)]
pub struct ToolServer {
    shared: Arc<SharedServer>,
    state: Arc<Mutex<CallSessionState>>,
    /// Nobody can guess it: names of what a session stores begin with it.
    client: Arc<str>,
}

struct SharedServer {
    pipeline: Arc<Pipeline>,
    pool: SharedPool,
    state: CallSessionState,
    options: ServerOptions,
    clients: Clients,
    /// Seals what a client carries between two rounds of one call.
    seal: input_rounds::StateSealer,
    tasks: TaskManager,
    changes: broadcast::Sender<()>,
    busy: Semaphore,
    listed: Mutex<Option<ListedTools>>,
    /// Whose tasks in the background are whose.
    tasks_of_clients: client_tasks::ClientTasks,
}

/// The list of tools, as long as the pool it was made of is the current one.
#[derive(Clone)]
struct ListedTools {
    pool: Arc<Pool>,
    tools: Arc<Vec<Tool>>,
}

/// What a client learns about the server, and how much it may ask of it.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// The server's name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// How its tools are meant to be used; empty says nothing.
    pub instructions: String,
    /// Directories in which tools keep output that is too large for a result,
    /// beside the result store: a file there that a result names can be read
    /// as a resource.
    pub spools: Vec<PathBuf>,
    /// Whether results are sent as data, too.
    pub structured: StructuredResults,
    /// Whether several clients may come that do not trust each other.
    pub several_clients: bool,
    /// Calls under way at the same time, of all clients together.
    pub max_calls: usize,
    /// A call that takes longer goes on as a task, for clients that know tasks.
    pub task_after: std::time::Duration,
}

/// Whether tools say what their structured results look like and send them
/// beside the text.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum StructuredResults {
    /// They do: for clients that are programs.
    #[default]
    Sent,
    /// They do not: there are clients that show a model the data in place of the
    /// text, and the text is what was written for it.
    LeftOut,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            name: String::from("haft"),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            instructions: String::new(),
            spools: Vec::new(),
            structured: StructuredResults::default(),
            several_clients: false,
            max_calls: 256,
            task_after: std::time::Duration::from_secs(15),
        }
    }
}

const WAITING_CHANGES: usize = 16;

impl ToolServer {
    /// Serves `pool` through `pipeline`. Calls run in the directory `state`
    /// names. `clients` are those the pipeline's gate asks; see [`ClientApprover`].
    pub fn new(
        pipeline: Arc<Pipeline>,
        pool: SharedPool,
        state: CallSessionState,
        clients: Clients,
        options: ServerOptions,
    ) -> Self {
        let shared = SharedServer {
            pipeline,
            pool,
            state: state.clone(),
            clients,
            seal: input_rounds::StateSealer::fresh(),
            tasks: TaskManager::new(),
            changes: broadcast::channel(WAITING_CHANGES).0,
            busy: Semaphore::new(options.max_calls),
            options,
            listed: Mutex::default(),
            tasks_of_clients: client_tasks::ClientTasks::default(),
        };
        Self { shared: Arc::new(shared), state: Arc::new(Mutex::new(state)), client: new_client() }
    }

    /// The same server for another client: with a working directory of its own,
    /// and without a way to what others have stored or left running.
    pub fn session(&self) -> Self {
        let state = Arc::new(Mutex::new(self.shared.state.clone()));
        Self { shared: Arc::clone(&self.shared), state, client: new_client() }
    }

    /// The pool is another one now: tells all clients that want to know.
    pub fn tools_changed(&self) {
        let _ = self.shared.changes.send(());
    }

    fn listed(&self) -> ListedTools {
        let pool = self.shared.pool.get();
        let mut slot = self.shared.listed.lock().unwrap_or_else(PoisonError::into_inner);
        match slot.as_ref().filter(|listed| Arc::ptr_eq(&listed.pool, &pool)) {
            Some(listed) => listed.clone(),
            None => {
                let listed = ListedTools {
                    tools: Arc::new(tool_description::tools(&pool, self.shared.options.structured)),
                    pool,
                };
                *slot = Some(listed.clone());
                listed
            }
        }
    }
}

fn new_client() -> Arc<str> {
    Arc::from(uuid::Uuid::new_v4().simple().to_string())
}
