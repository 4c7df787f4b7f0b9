//! Serves a pool of tools to any MCP client.
//!
//! The official SDK implements the protocol and passes the conformance suite for both generations. Each
//! call goes through the same eight stages as a call of a model, with the client's user as the approver.
//!
//! Start reading at [`ToolServer`], which offers a pool, and [`serve_stdio`] and [`serve_http`], which
//! serve it.
//!
//! **Out of scope**: the client side of the protocol, settings files, terminals, concrete tools.
//!
//! **Invariant:** a call runs only if the permission rules allow it or the client's user approves it;
//! without a user it is denied.

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

/// A pool of tools and everything needed to serve it. Clones share state.
///
/// State that a session changes (the working directory) belongs to a clone made with
/// [`ToolServer::session`]; everything else is shared.
#[derive(Clone)]
pub struct ToolServer {
    shared: Arc<SharedServer>,
    state: Arc<Mutex<CallSessionState>>,
    /// Unguessable prefix of the names of what a session stores.
    client: Arc<str>,
}

struct SharedServer {
    pipeline: Arc<Pipeline>,
    pool: SharedPool,
    state: CallSessionState,
    options: ServerOptions,
    clients: Clients,
    /// Seals the state a client carries between rounds of a call.
    seal: input_rounds::StateSealer,
    tasks: TaskManager,
    changes: broadcast::Sender<()>,
    busy: Semaphore,
    listed: Mutex<Option<ListedTools>>,
    /// Owners of background tasks.
    tasks_of_clients: client_tasks::ClientTasks,
}

/// Tool list, cached for the current pool.
#[derive(Clone)]
struct ListedTools {
    pool: Arc<Pool>,
    tools: Arc<Vec<Tool>>,
}

/// Information for clients, and limits.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    pub name: String,
    pub version: String,
    /// Usage instructions for the model; may be empty.
    pub instructions: String,
    /// Directories besides the result store in which tools keep large output. A file there that a result
    /// refers to can be read as a resource.
    pub spools: Vec<PathBuf>,
    /// Whether structured results are sent.
    pub structured: StructuredResults,
    /// Whether there may be several clients that do not trust each other.
    pub several_clients: bool,
    /// Maximum concurrent calls of all clients together.
    pub max_calls: usize,
    /// Time after which a call continues as a task, for clients that support tasks.
    pub task_after: std::time::Duration,
}

/// Whether tools declare output schemas and send structured results besides the text.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum StructuredResults {
    /// Yes, for clients that are programs.
    #[default]
    Sent,
    /// No, because some clients show the structured data to the model in place of the text written for
    /// it.
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
    /// Serves `pool` through `pipeline`. Calls run in the directory of `state`. `clients` must be the
    /// ones the pipeline's approver asks; see [`ClientApprover`].
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

    /// Returns the server for another client, with its own working directory and without access to what
    /// other clients stored or left running.
    pub fn session(&self) -> Self {
        let state = Arc::new(Mutex::new(self.shared.state.clone()));
        Self { shared: Arc::clone(&self.shared), state, client: new_client() }
    }

    /// Notifies all subscribed clients that the pool has changed.
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
