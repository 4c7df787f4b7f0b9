//! Sessions without a model that run tool calls for remote callers.

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
    sync::Arc,
};

use haft_shell::run::{TaskNoticeKind, TaskRegistry};
use haft_tool::{BoxFuture, DynTool};
use haft_tool_host::{
    HostOperations, HostSession, RunRequest, SessionFactory,
    protocol::{HostCommand, HostLocation, HostNotice},
};
use haft_tool_runtime::{Approver, Pool, SharedPool};
use haft_types::AgentId;
use serde_json::{Value, json};

use crate::{
    ApproverSpec, Command, HostSpec, LogDestination, ServerStart, Session, SessionEventKind, SessionHandle,
    SessionSpec, build::place_notes, environment::SessionEnvironment, rewind_files::rewind_calls, undo,
};

/// Opens sessions for callers, based on a spec.
pub struct HostSessionFactory {
    spec: SessionSpec,
    /// Whether callers may only work in the spec's directory.
    only_here: bool,
    notice: Arc<dyn Fn(&str) + Send + Sync>,
}

impl HostSessionFactory {
    /// Creates a factory of sessions like this one, in directories that callers name. Messages for the
    /// user are passed to `notice`.
    pub fn new(spec: SessionSpec, notice: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self { spec, only_here: false, notice: Arc::new(notice) }
    }

    /// Restricts callers to the spec's own directory.
    pub fn restrict_to_spec_dir(mut self) -> Self {
        self.only_here = true;
        self
    }
}

impl SessionFactory for HostSessionFactory {
    fn directory(&self, wanted: &str) -> Result<PathBuf, String> {
        let own = &self.spec.place.cwd;
        let home = self.spec.place.home();
        let base = home.as_deref().unwrap_or(own);
        let dir = match wanted {
            "" => own.clone(),
            named => {
                haft_paths::expand(Path::new(named), base, home.as_deref()).map_err(|err| err.to_string())?
            }
        };
        let dir = dir.canonicalize().map_err(|err| format!("the directory {}: {err}", dir.display()))?;
        if !dir.is_dir() {
            return Err(format!("{} is not a directory", dir.display()));
        }
        if self.only_here && own.canonicalize().is_ok_and(|own| own != dir) {
            return Err(format!("this tool host works in {} only", own.display()));
        }
        Ok(dir)
    }

    fn lend(&self, wanted: RunRequest, ask: Arc<dyn Approver>) -> BoxFuture<'_, Result<HostSession, String>> {
        let mut spec = self.spec.clone();
        spec.place.cwd = wanted.dir;
        spec.model = None;
        spec.hosts = HostSpec { is_lent: true, ..HostSpec::default() };
        spec.log.id = Some(wanted.id);
        spec.log.kept = LogDestination::Nowhere;
        spec.asking = ApproverSpec::Port(ask);
        spec.servers.start = ServerStart::ForHooks;
        // The caller's context is not known here.
        spec.remembers_results = false;
        let notice = Arc::clone(&self.notice);
        Box::pin(async move {
            let (handle, mut events) = Session::open(spec).map_err(|err| err.to_string())?;
            tokio::spawn(async move {
                while let Some(event) = events.next().await {
                    if let SessionEventKind::Notice(text) = &event.what {
                        notice(text);
                    }
                }
            });
            handle.ask(Command::Ready).await;
            Ok(lent(handle))
        })
    }
}

fn lent(handle: SessionHandle) -> HostSession {
    let premises = Arc::clone(handle.premises());
    let calls = handle.calls().clone();
    let pool = calls.pool.get();
    let tools: Vec<Arc<dyn DynTool>> = pool
        .tools()
        .filter(|it| haft_builtin_tools::OF_MACHINE.contains(&it.0))
        .map(|it| Arc::clone(it.1))
        .collect();
    let place = HostLocation {
        cwd: premises.cwd.clone(),
        home: premises.home.clone(),
        extra_dirs: premises.extra_dirs.clone(),
        is_git_repository: premises.cwd.ancestors().any(|dir| dir.join(".git").exists()),
        platform: std::env::consts::OS.to_owned(),
        notes: place_notes(&premises),
    };
    HostSession {
        pipeline: calls.pipeline,
        pool: SharedPool::new(Pool::assemble(tools, Vec::new())),
        state: calls.state,
        place,
        hands: Arc::new(SessionOperations { tasks: handle.tasks(), handle, premises }),
    }
}

/// Operations of a caller other than tool calls.
struct SessionOperations {
    handle: SessionHandle,
    premises: Arc<SessionEnvironment>,
    tasks: Option<Arc<TaskRegistry>>,
}

impl HostOperations for SessionOperations {
    fn news(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            match &self.tasks {
                Some(tasks) => tasks.any_news().await,
                None => std::future::pending().await,
            }
        })
    }

    fn agents_with_news(&self) -> Vec<AgentId> {
        self.tasks.as_ref().map(|it| it.agents_with_news()).unwrap_or_default()
    }

    fn order(&self, order: HostCommand) -> BoxFuture<'_, Result<Value, String>> {
        Box::pin(async move {
            let premises = Arc::clone(&self.premises);
            match order {
                HostCommand::TakeNews { agent } => {
                    let notices = self.tasks.as_ref().map(|it| it.drain(&agent)).unwrap_or_default();
                    let news = notices.into_iter().map(|it| HostNotice {
                        task: it.task.id.clone(),
                        ended: matches!(it.news, TaskNoticeKind::Ended(_)),
                        text: it.text(),
                    });
                    Ok(json!(news.collect::<Vec<_>>()))
                }
                HostCommand::StopTask { id } => {
                    let stopped = match &self.tasks {
                        Some(tasks) => tasks.stop(&id).await.is_some(),
                        None => false,
                    };
                    Ok(json!(stopped))
                }
                HostCommand::Rewind { calls, dry_run } => {
                    blocking(move || {
                        let calls = calls.into_iter().collect::<HashSet<_>>();
                        rewind_calls(&premises, &premises.session_id, &calls, dry_run).map(|it| json!(it))
                    })
                    .await
                }
                HostCommand::Undo { id, turn } => {
                    blocking(move || undo::undo_change(&premises, id, turn).map(|it| undo::undo_json(&it)))
                        .await
                }
                HostCommand::Redo => {
                    blocking(move || undo::redo_change(&premises).map(|it| undo::undo_json(&it))).await
                }
                HostCommand::History => blocking(move || undo::history_json(&premises)).await,
            }
        })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.handle.close())
    }
}

async fn blocking(work: impl FnOnce() -> Result<Value, String> + Send + 'static) -> Result<Value, String> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|err| Err(err.to_string()))
}
