//! A session with files, and tools called as the runtime calls them.
#![allow(clippy::type_complexity, dead_code, reason = "each test file uses a part")]

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use haft_builtin_tools::{
    KnownShapes, edit::Edit, multi_edit::MultiEdit, notebook_edit::NotebookEdit, read::Read,
    read::ReadLimits, write::Write,
};
use haft_tool::{
    Access, AllowReason, CallContext, DynTool, GrantedPath, Output, Permit, ToolError, UnrestrictedRead,
    erase,
};
use haft_types::{AgentId, CallId};
use haft_workspace::{
    ChangeOrigin, ContextView, JournalLimits, SessionFiles, UndoTarget, Workspace, WorkspaceConfig,
};
use serde_json::Value;

pub(crate) struct Rig {
    _dir: tempfile::TempDir,
    pub(crate) ws: PathBuf,
    pub(crate) home: PathBuf,
    pub(crate) files: Arc<SessionFiles>,
    pub(crate) tools: Vec<(&'static str, Arc<dyn DynTool>)>,
    pub(crate) in_context: Arc<AtomicBool>,
    calls: AtomicUsize,
}

/// Reports either all earlier results as still in the conversation, or none.
struct Switch(Arc<AtomicBool>);

impl ContextView for Switch {
    fn holds(&self, _agent: &AgentId, _call: &CallId) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl Rig {
    pub(crate) fn new(files: &[(&str, &str)]) -> Self {
        Self::with_limits(files, ReadLimits::default())
    }

    pub(crate) fn with_limits(files: &[(&str, &str)], limits: ReadLimits) -> Self {
        let memory = Path::new("/dev/shm");
        let dir = tempfile::tempdir_in(memory).or_else(|_| tempfile::tempdir()).unwrap();
        let top = dir.path().canonicalize().unwrap();
        let (ws, home) = (top.join("ws"), top.join("home"));
        fs::create_dir_all(&ws).unwrap();
        fs::create_dir_all(&home).unwrap();
        let in_context = Arc::new(AtomicBool::new(false));
        let (session, tools) = session(&ws, &home, limits, Arc::clone(&in_context));
        let rig = Self { _dir: dir, ws, home, files: session, tools, in_context, calls: AtomicUsize::new(0) };
        for (path, text) in files {
            rig.put(path, text);
        }
        rig
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.ws.join(path)
    }

    pub(crate) fn put(&self, path: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.ws.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        path
    }

    pub(crate) fn get(&self, path: &str) -> Vec<u8> {
        fs::read(self.ws.join(path)).unwrap()
    }

    pub(crate) fn text(&self, path: &str) -> String {
        String::from_utf8(self.get(path)).unwrap()
    }

    pub(crate) fn context(&self) -> CallContext {
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        let home: Arc<Path> = Arc::from(self.home.as_path());
        CallContext { home: Some(home), ..CallContext::detached(format!("call-{number}"), self.ws.as_path()) }
    }

    pub(crate) async fn run_as(
        &self,
        cx: CallContext,
        name: &str,
        input: Value,
    ) -> Result<Output, ToolError> {
        let tool = self.tools.iter().find(|it| it.0 == name).unwrap();
        run(&tool.1, input, cx).await
    }

    pub(crate) async fn run(&self, name: &str, input: Value) -> Result<Output, ToolError> {
        self.run_as(self.context(), name, input).await
    }

    /// Returns what the model reads; errors begin with `error: `.
    pub(crate) async fn say(&self, name: &str, input: Value) -> String {
        let shown = match self.run(name, input).await {
            Ok(output) => output.content.to_text(),
            Err(error) => format!("error: {}", error.message),
        };
        shown.replace(&self.ws.display().to_string(), "$WS")
    }

    pub(crate) async fn read(&self, path: &str) -> String {
        self.say("Read", serde_json::json!({ "file_path": path })).await
    }

    pub(crate) fn undo(&self) -> Vec<PathBuf> {
        let origin = ChangeOrigin { session: None, turn: None, call: "undo".into(), tool: "undo".to_owned() };
        self.files.workspace().undo(&UndoTarget::Last, &origin).unwrap().restored
    }

    /// Returns temporary files of Haft below the root.
    pub(crate) fn litter(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let mut todo = vec![self.ws.clone()];
        while let Some(dir) = todo.pop() {
            for entry in fs::read_dir(dir).unwrap().flatten() {
                if entry.file_name().to_string_lossy().starts_with(".haft-") {
                    found.push(entry.path());
                }
                if entry.file_type().unwrap().is_dir() {
                    todo.push(entry.path());
                }
            }
        }
        found
    }
}

/// Creates the tools of another session over the same directory.
pub(crate) fn session(
    ws: &Path,
    home: &Path,
    limits: ReadLimits,
    in_context: Arc<AtomicBool>,
) -> (Arc<SessionFiles>, Vec<(&'static str, Arc<dyn DynTool>)>) {
    let config = WorkspaceConfig {
        state_dir: home.join(".haft"),
        root: ws.to_owned(),
        limits: JournalLimits::default(),
    };
    let workspace = Arc::new(Workspace::open(config).unwrap());
    let files = Arc::new(SessionFiles::new(workspace, None, Switch(in_context)));
    let check = Arc::new(KnownShapes);
    let tools: Vec<(&'static str, Arc<dyn DynTool>)> = vec![
        ("Read", erase(Read::new(Arc::clone(&files), limits))),
        ("Edit", erase(Edit::new(Arc::clone(&files), check.clone()))),
        ("Write", erase(Write::new(Arc::clone(&files), check.clone()))),
        ("MultiEdit", erase(MultiEdit::new(Arc::clone(&files), check))),
        ("NotebookEdit", erase(NotebookEdit::new(Arc::clone(&files)))),
    ];
    (files, tools)
}

pub(crate) async fn run(tool: &Arc<dyn DynTool>, input: Value, cx: CallContext) -> Result<Output, ToolError> {
    let call = Arc::clone(tool).parse(input, &cx)?;
    call.validate(&cx)?;
    let reach = call.reach(&cx);
    let grants = reach.accesses().iter().map(|access| match access {
        Access::Read(path) | Access::Write(path) => Ok(GrantedPath {
            asked: path.clone(),
            real: haft_paths::real(path).map_err(|err| ToolError::failed(err.to_string()))?,
        }),
        other => panic!("{other:?}"),
    });
    let grants = grants.collect::<Result<Vec<_>, ToolError>>()?;
    #[expect(clippy::disallowed_methods, reason = "stands in for the permission engine")]
    let permit = Permit::issue(AllowReason::Mode, grants, Arc::new(UnrestrictedRead));
    call.run(permit, cx).await
}
