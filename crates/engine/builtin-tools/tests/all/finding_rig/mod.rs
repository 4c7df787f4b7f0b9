//! A directory, with tools called as the runtime calls them.
#![allow(dead_code, reason = "each test uses a part of it")]

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use haft_tool::{
    Access, AllowReason, CallContext, DynTool, ErrorKind, GrantedPath, Output, Permit, ReadScope, ToolError,
};
use serde_json::Value;

pub(crate) struct Rig {
    _dir: tempfile::TempDir,
    pub(crate) ws: PathBuf,
    pub(crate) home: PathBuf,
    pub(crate) denied: Arc<Vec<PathBuf>>,
    /// Replaces the list of denied paths.
    pub(crate) scope: Option<Arc<dyn ReadScope>>,
}

struct Denied(Arc<Vec<PathBuf>>);

impl ReadScope for Denied {
    fn may_read(&self, path: &Path) -> bool {
        !self.0.iter().any(|denied| path.starts_with(denied))
    }
}

impl Rig {
    pub(crate) fn new(files: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        let rig = Self {
            _dir: dir,
            ws: top.join("ws"),
            home: top.join("home"),
            denied: Arc::default(),
            scope: None,
        };
        fs::create_dir_all(&rig.ws).unwrap();
        fs::create_dir_all(&rig.home).unwrap();
        for (path, text) in files {
            rig.write(path, text);
        }
        rig
    }

    pub(crate) fn write(&self, path: &str, bytes: impl AsRef<[u8]>) {
        let path = self.ws.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    pub(crate) fn deny(&mut self, paths: &[&str]) {
        self.denied = Arc::new(paths.iter().map(|path| self.ws.join(path)).collect());
    }

    pub(crate) fn context(&self) -> CallContext {
        let home: Arc<Path> = Arc::from(self.home.as_path());
        CallContext { home: Some(home), ..CallContext::detached("call", self.ws.as_path()) }
    }

    /// Returns the paths a call declares to read.
    pub(crate) fn reach(&self, tool: &Arc<dyn DynTool>, input: &Value) -> Vec<PathBuf> {
        let call = Arc::clone(tool).parse(input.clone(), &self.context()).unwrap();
        let reach = call.reach(&self.context());
        reach
            .accesses()
            .iter()
            .map(|access| match access {
                Access::Read(path) => path.clone(),
                other => panic!("{other:?}"),
            })
            .collect()
    }

    pub(crate) async fn run(
        &self,
        tool: &Arc<dyn DynTool>,
        input: &Value,
        cx: CallContext,
    ) -> Result<Output, ToolError> {
        let call = Arc::clone(tool).parse(input.clone(), &cx)?;
        call.validate(&cx)?;
        let reach = call.reach(&cx);
        let grants = reach.accesses().iter().map(|access| match access {
            Access::Read(path) => Ok(GrantedPath {
                asked: path.clone(),
                real: haft_paths::real(path).map_err(|err| ToolError::failed(err.to_string()))?,
            }),
            other => Err(ToolError::new(ErrorKind::Denied, format!("{other:?}"))),
        });
        let grants = grants.collect::<Result<Vec<_>, _>>()?;
        let denied = || Arc::new(Denied(Arc::clone(&self.denied))) as Arc<dyn ReadScope>;
        let scope = self.scope.clone().unwrap_or_else(denied);
        #[expect(clippy::disallowed_methods, reason = "stands in for the permission engine")]
        let permit = Permit::issue(AllowReason::Mode, grants, scope);
        call.run(permit, cx).await
    }

    /// Returns what the model reads; errors begin with `error: `.
    pub(crate) async fn text(&self, tool: &Arc<dyn DynTool>, input: Value) -> String {
        match self.run(tool, &input, self.context()).await {
            Ok(output) => output.content.to_text(),
            Err(error) => format!("error: {}", error.message),
        }
    }
}
