//! Files, as the host asks for them.

use std::{
    fs::File,
    io::Read as _,
    path::{Path, PathBuf},
    sync::Arc,
    time::UNIX_EPOCH,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use haft_permission::{Opinion, Policy};
use haft_sdk::{fail, succeed};
use haft_tool::{CallContext, DynTool};
use haft_types::{AgentId, CallId};
use haft_workspace::{Files, Viewer};
use serde_json::{Value, json};

use super::{driver::Driver, requests::Answered};
use crate::wiring::Readers;

/// More does not fit a line as base64, nor as text in most files.
const MOST: u64 = 700_000;

/// So much fits, whatever it is made of.
const ALWAYS_FITS: usize = 150_000;

/// Larger files are not compared with what a host says was read.
const MOST_SEEDED: u64 = 8 << 20;

impl Driver {
    /// Reads a file the rules let be read. Answered when it is read.
    pub(super) fn read_file(&self, request_id: String, request: &Value) {
        let Some(path) = self.path_of(request) else {
            return self.out.frame(&fail(&request_id, "read_file needs `path`"));
        };
        let policy = self.pipeline.gate.permissions().policy();
        if !may_read(&policy, &self.readers, &path, &self.setup.cwd) {
            let problem = format!("the permission rules do not let {} be read", path.display());
            return self.out.frame(&fail(&request_id, &problem));
        }
        let most = request["max_bytes"].as_u64().unwrap_or(MOST).min(MOST);
        let is_base64 = request["encoding"] == "base64";
        let host = self.host.clone();
        tokio::task::spawn_blocking(move || {
            host.tell(match contents(&path, most, is_base64) {
                Ok(answer) => succeed(&request_id, answer),
                Err(problem) => fail(&request_id, &format!("{}: {problem}", path.display())),
            });
        });
    }

    /// The host says that the model has read a file, when it had this time.
    pub(super) fn seed_read_state(&self, request: &Value) -> Answered {
        let (Some(path), Some(mtime)) = (self.path_of(request), request["mtime"].as_f64()) else {
            return Err(String::from("seed_read_state needs `path` and `mtime`").into());
        };
        if let Some(files) = self.setup.files() {
            seed(files, &path, mtime);
        }
        Ok(json!({}))
    }

    fn path_of(&self, request: &Value) -> Option<PathBuf> {
        let text = request["path"].as_str().filter(|it| !it.is_empty())?;
        let path = haft_paths::expand(Path::new(text), &self.setup.cwd, self.setup.home.as_deref()).ok()?;
        Some(haft_paths::lexical(&path))
    }
}

/// Whether Read would show it without asking anybody.
fn may_read(policy: &Policy, readers: &Readers, path: &Path, cwd: &Path) -> bool {
    let cx = CallContext::detached("read_file", cwd);
    let tool: &Arc<dyn DynTool> = &readers.read;
    let parsed = Arc::clone(tool).parse(json!({"file_path": path}), &cx);
    let judged = parsed.map(|call| policy.judge(tool.name(), call.as_ref(), &cx, &Opinion::default()));
    judged.is_ok_and(|decision| decision.permit().is_ok())
}

fn contents(path: &Path, most: u64, is_base64: bool) -> Result<Value, String> {
    let in_words = |err: std::io::Error| err.to_string();
    let about = std::fs::metadata(path).map_err(in_words)?;
    if !about.is_file() {
        return Err(String::from("not a regular file"));
    }
    let mut bytes = Vec::new();
    File::open(path).map_err(in_words)?.take(most).read_to_end(&mut bytes).map_err(in_words)?;
    let mut answer = json!({"absPath": path});
    if is_base64 {
        answer["contents"] = json!(STANDARD.encode(&bytes));
        answer["encoding"] = json!("base64");
    } else {
        if MOST < json!(String::from_utf8_lossy(&bytes)).to_string().len() as u64 {
            bytes.truncate(ALWAYS_FITS);
        }
        let text = String::from_utf8_lossy(&bytes);
        answer["lossy"] = json!(std::str::from_utf8(&bytes).is_err());
        answer["contents"] = json!(text);
    }
    if (bytes.len() as u64) < about.len() {
        answer["truncated"] = json!(true);
    }
    Ok(answer)
}

/// A file that changed since then, or is gone, has to be read again.
fn seed(files: &Arc<Files>, path: &Path, mtime: f64) {
    let Ok(about) = std::fs::metadata(path) else { return };
    let changed = about.modified().ok().and_then(|it| it.duration_since(UNIX_EPOCH).ok());
    // Hosts count in whole milliseconds, in either direction.
    let is_same = changed.is_some_and(|it| it.as_secs_f64() * 1000.0 < mtime + 1.0);
    if !about.is_file() || MOST_SEEDED < about.len() || !is_same {
        return;
    }
    let viewer = Viewer { agent: AgentId::Main, call: CallId::from("seed_read_state") };
    let real = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    if let Ok(text) = std::fs::read_to_string(&real) {
        files.printed(&viewer, &real, &text).ok();
    }
}
