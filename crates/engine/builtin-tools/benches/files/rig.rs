use std::{path::Path, sync::Arc};

use haft_builtin_tools::{
    KnownShapes, SearchToolSettings, edit::Edit, glob::Glob, grep::Grep, read::Read, read::ReadLimits,
};
use haft_tool::{
    Access, AllowReason, CallContext, DynTool, GrantedPath, Output, Permit, UnrestrictedRead, erase,
};
use haft_workspace::{EmptyContextView, JournalLimits, SessionFiles, Workspace, WorkspaceConfig};
use serde_json::Value;

/// The tools over a directory, called as the runtime calls them.
pub(crate) struct Rig {
    runtime: tokio::runtime::Runtime,
    context: CallContext,
    tools: Vec<Arc<dyn DynTool>>,
    _state: tempfile::TempDir,
}

impl Rig {
    pub(crate) fn new(root: &Path) -> Self {
        let state = tempfile::tempdir_in(root.parent().unwrap()).unwrap();
        let config = WorkspaceConfig {
            state_dir: state.path().to_owned(),
            root: root.to_owned(),
            limits: JournalLimits::default(),
        };
        let workspace = Arc::new(Workspace::open(config).unwrap());
        let files = Arc::new(SessionFiles::new(workspace, None, EmptyContextView));
        let find = SearchToolSettings {
            timeout: std::time::Duration::from_secs(600),
            ..SearchToolSettings::default()
        };
        let tools = vec![
            erase(Read::new(Arc::clone(&files), ReadLimits::default())),
            erase(Edit::new(files, Arc::new(KnownShapes))),
            erase(Grep::new(find)),
            erase(Glob::new(find)),
        ];
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        Self { runtime, context: CallContext::detached("call", root), tools, _state: state }
    }

    pub(crate) fn call(&self, name: &str, input: &Value) -> Output {
        let tool = self.tools.iter().find(|tool| tool.spec().name == name).unwrap();
        let call = Arc::clone(tool).parse(input.clone(), &self.context).unwrap();
        call.validate(&self.context).unwrap();
        let reach = call.reach(&self.context);
        let grants = reach.accesses().iter().map(|access| match access {
            Access::Read(path) | Access::Write(path) => {
                GrantedPath { asked: path.clone(), real: haft_paths::real(path).unwrap() }
            }
            other => unreachable!("{other:?}"),
        });
        #[expect(clippy::disallowed_methods, reason = "stands in for the permission engine")]
        let permit = Permit::issue(AllowReason::Mode, grants.collect(), Arc::new(UnrestrictedRead));
        self.runtime.block_on(call.run(permit, self.context.clone())).unwrap()
    }
}
