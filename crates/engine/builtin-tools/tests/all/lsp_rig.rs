//! The language server tool with a project of its own.
#![allow(dead_code, unreachable_pub, reason = "every test file uses its own part")]

use crate::shell_rig;

use std::{
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use haft_builtin_tools::{
    KnownShapes,
    edit::Edit,
    lsp::{Lsp, LspServers, ServerShell},
    read::{Read, ReadLimits},
    write::Write,
};
use haft_lsp::{LspSettings, PoolLimits, ProgramPath, ServerPool};
use haft_tool::{
    Access, AllowReason, CallContext, DynTool, GrantedPath, Output, Permit, ToolError, UnrestrictedRead,
    erase,
};
use haft_types::AgentId;
use haft_workspace::{FullContextView, JournalLimits, SessionFiles, Workspace, WorkspaceConfig};
use serde_json::{Value, json};

pub struct Project {
    pub rig: shell_rig::Rig,
    pub pool: Arc<ServerPool>,
    pub desk: Arc<LspServers>,
    pub lsp: Arc<dyn DynTool>,
    pub edit: Arc<dyn DynTool>,
    pub write: Arc<dyn DynTool>,
    pub read: Arc<dyn DynTool>,
    /// Messages the main agent received with its next request.
    pub told: Arc<Mutex<Vec<String>>>,
    calls: AtomicUsize,
}

impl Project {
    /// Creates a project with these settings and directories of programs.
    pub fn new(settings: LspSettings, path: Vec<PathBuf>) -> Self {
        Self::with(settings, path, PoolLimits::default(), None)
    }

    /// Also with these limits, in a project that is not trusted for this reason.
    pub fn with(
        settings: LspSettings,
        path: Vec<PathBuf>,
        limits: PoolLimits,
        distrust: Option<&'static str>,
    ) -> Self {
        Self::looking_further(settings, path, limits, distrust, Vec::new())
    }

    /// Also with further directories of programs, which are slow to compute.
    pub fn looking_further(
        settings: LspSettings,
        path: Vec<PathBuf>,
        limits: PoolLimits,
        distrust: Option<&'static str>,
        further: Vec<PathBuf>,
    ) -> Self {
        let rig = shell_rig::Rig::new();
        let state_dir = rig.work.parent().unwrap().join("journal");
        let config = WorkspaceConfig { state_dir, root: rig.work.clone(), limits: JournalLimits::default() };
        let files =
            Arc::new(SessionFiles::new(Arc::new(Workspace::open(config).unwrap()), None, FullContextView));
        let pool = ServerPool::new(limits);
        let shell = Arc::new(ServerShell(Arc::clone(rig.tasks.shell())));
        let programs = ProgramPath { path, never: vec![rig.work.clone()] };
        let settings = Arc::new(move || settings.clone());
        let open = Box::new(move || Ok(Arc::clone(&shell)));
        let desk = LspServers::new(Arc::clone(&pool), open, settings, programs);
        let desk = desk.with_further_dirs(Box::new(move || further.clone()));
        let desk = Arc::new(desk.with_distrust(Box::new(move || distrust.map(str::to_owned))));
        desk.follow(&files, &rig.work);
        let told = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&told);
        desk.tell_with(Box::new(move |text| heard.lock().unwrap().push(text)));
        let shapes = || Arc::new(KnownShapes);
        Self {
            lsp: erase(Lsp::new(Arc::clone(&desk))),
            edit: erase(Edit::new(Arc::clone(&files), shapes()).with_news(Arc::clone(&desk) as _)),
            write: erase(Write::new(Arc::clone(&files), shapes()).with_news(Arc::clone(&desk) as _)),
            read: erase(Read::new(Arc::clone(&files), ReadLimits::default())),
            rig,
            pool,
            desk,
            told,
            calls: AtomicUsize::new(0),
        }
    }

    /// With the fake server for `.x` files.
    pub fn fake(words: &[&str]) -> Self {
        Self::new(fake_settings(&[("x", words)]), path_dirs())
    }

    pub fn dir(&self) -> &Path {
        &self.rig.work
    }

    pub fn put(&self, name: &str, text: &str) -> PathBuf {
        let path = self.dir().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    pub async fn call(&self, tool: &Arc<dyn DynTool>, input: Value) -> Result<Output, ToolError> {
        let id = format!("call_{}", self.calls.fetch_add(1, Ordering::SeqCst));
        run(tool, input, CallContext::detached(id.as_str(), self.dir())).await
    }

    /// Returns what an agent other than the main one reads.
    pub async fn said_as(&self, agent: &AgentId, tool: &Arc<dyn DynTool>, input: Value) -> String {
        let id = format!("call_{}", self.calls.fetch_add(1, Ordering::SeqCst));
        let cx = CallContext { agent_id: agent.clone(), ..CallContext::detached(id.as_str(), self.dir()) };
        match run(tool, input, cx).await {
            Ok(output) => output.content.to_text(),
            Err(error) => format!("{}: {}", error.kind.name(), error.message),
        }
    }

    /// Returns what the model reads, whether result or error.
    pub async fn said(&self, input: Value) -> String {
        self.said_by(&self.lsp, input).await
    }

    pub async fn said_by(&self, tool: &Arc<dyn DynTool>, input: Value) -> String {
        let text = match self.call(tool, input).await {
            Ok(output) => output.content.to_text(),
            Err(error) => format!("{}: {}", error.kind.name(), error.message),
        };
        self.rig.plain(&text)
    }
}

/// Settings with fake servers for these file extensions, each with its arguments.
pub fn fake_settings(servers: &[(&str, &[&str])]) -> LspSettings {
    let script =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../system/lsp/tests/all/support/fake_server.py");
    let mut settings = LspSettings::default();
    for (ending, words) in servers {
        let mut args = vec![json!(script.canonicalize().unwrap())];
        args.extend(words.iter().map(|it| json!(it)));
        let name = if *ending == "x" { String::from("fake") } else { format!("fake-{ending}") };
        let said = json!({name: {"command": "python3", "args": args, "extensionToLanguage": {format!(".{ending}"): "text"}}});
        assert_eq!(settings.read_servers(&said), Vec::<String>::new());
    }
    settings
}

pub fn path_dirs() -> Vec<PathBuf> {
    std::env::split_paths(&std::env::var_os("PATH").unwrap()).collect()
}

pub fn program(dir: &Path, name: &str, text: &str) {
    std::fs::create_dir_all(dir).unwrap();
    std::fs::write(dir.join(name), text).unwrap();
    std::fs::set_permissions(dir.join(name), std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// Runs a call with all declared accesses granted.
async fn run(tool: &Arc<dyn DynTool>, input: Value, cx: CallContext) -> Result<Output, ToolError> {
    let call = Arc::clone(tool).parse(input, &cx)?;
    call.validate(&cx)?;
    let reach = call.reach(&cx);
    let grants = reach.accesses().iter().filter_map(|access| match access {
        Access::Read(path) | Access::Write(path) => Some(GrantedPath {
            asked: path.clone(),
            real: haft_paths::real(path).unwrap_or_else(|_| path.clone()),
        }),
        _ => None,
    });
    #[expect(clippy::disallowed_methods, reason = "stands in for the permission engine")]
    let permit = Permit::issue(AllowReason::Mode, grants.collect(), Arc::new(UnrestrictedRead));
    call.run(permit, cx).await
}
