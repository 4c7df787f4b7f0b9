//! The editor this terminal belongs to, if it has the extension for Claude Code. A lock file in the
//! configuration directory names the editor's port and token; an MCP server with the selection,
//! diagnostics and diffs listens there.
//!
//! The protocol is undocumented, so anything unexpected means "no editor": a lock file of another owner
//! or writable by others, a dead process, another transport, a workspace that does not contain the
//! working directory.

use std::{
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use haft_types::EnvVars;
use serde::Deserialize;
use serde_json::{Value, json};

/// Name of the MCP server; its tools are `mcp__ide__…`.
pub(crate) const NAME: &str = "ide";

/// HTTP header that carries the token.
const TOKEN_HEADER: &str = "X-Claude-Code-Ide-Authorization";

/// Variable with the editor's port, set by editors in their terminals.
const PORT_VARIABLE: &str = "CLAUDE_CODE_SSE_PORT";

/// Maximum size of a lock file; a larger one is ignored.
const MAX_FILE_BYTES: u64 = 64 << 10;

/// Contents of a lock file.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct LockFile {
    pid: u32,
    workspace_folders: Vec<PathBuf>,
    transport: String,
    auth_token: String,
}

/// Whether to connect to an editor: `--ide` was given, or this terminal runs inside one.
pub(crate) fn is_wanted(asked: bool, variables: &EnvVars) -> bool {
    asked || variables.text(PORT_VARIABLE).is_some_and(|it| !it.is_empty())
}

/// Returns the MCP configuration of the editor that has `cwd` open: the one named by
/// `CLAUDE_CODE_SSE_PORT`, otherwise the only one. `None` without one or with several. Reads the disk.
pub(crate) fn editor_server(cwd: &Path, variables: &EnvVars) -> Option<Value> {
    let moved = variables.os_text("CLAUDE_CONFIG_DIR").filter(|it| !it.is_empty()).map(PathBuf::from);
    let home = variables.os_text("HOME").filter(|it| !it.is_empty()).map(PathBuf::from);
    let dir = moved.or_else(|| home.map(|it| it.join(".claude")))?.join("ide");
    let wanted = variables.text(PORT_VARIABLE).filter(|it| !it.is_empty());
    let wanted = wanted.map(|it| it.parse::<u16>()).transpose().ok()?;
    let cwd = cwd.canonicalize().ok()?;
    let mut found = fs::read_dir(dir).ok()?.flatten().filter_map(|it| editor(&it.path(), &cwd));
    match wanted {
        Some(port) => found.find(|(of, _)| *of == port).map(|(port, token)| config(port, &token)),
        None => {
            let (port, token) = found.next()?;
            // With several editors the choice would be a guess.
            found.next().is_none().then(|| config(port, &token))
        }
    }
}

fn config(port: u16, token: &str) -> Value {
    let server =
        json!({"type": "ws", "url": format!("ws://127.0.0.1:{port}"), "headers": {TOKEN_HEADER: token}});
    json!({"mcpServers": {NAME: server}})
}

/// Port and token from a valid lock file of an editor that has `cwd` open.
fn editor(path: &Path, cwd: &Path) -> Option<(u16, String)> {
    let port: u16 = path.file_name()?.to_str()?.strip_suffix(".lock")?.parse().ok()?;
    let about = path.symlink_metadata().ok()?;
    let is_ours = about.is_file() && about.uid() == rustix::process::geteuid().as_raw();
    if !is_ours || about.mode() & 0o022 != 0 || MAX_FILE_BYTES < about.len() || port < 1024 {
        return None;
    }
    let lock: LockFile = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
    let is_token = !lock.auth_token.is_empty() && lock.auth_token.bytes().all(|it| it.is_ascii_graphic());
    let is_alive = Path::new("/proc").join(lock.pid.to_string()).exists();
    let holds = |folder: &PathBuf| folder.canonicalize().is_ok_and(|it| cwd.starts_with(it));
    let fits = lock.transport == "ws" && is_token && is_alive && lock.workspace_folders.iter().any(holds);
    fits.then_some((port, lock.auth_token))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "test code")]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn only_an_editor_that_is_exactly_as_expected_is_used() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        let (ide, project) = (root.join(".claude/ide"), root.join("project/src"));
        fs::create_dir_all(&ide).unwrap();
        fs::create_dir_all(&project).unwrap();
        let us = std::process::id();
        let good = json!({"pid": us, "workspaceFolders": [root.join("project")], "ideName": "VS Code",
            "transport": "ws", "authToken": "secret"});
        let with = |key: &str, value: Value| {
            let mut lock = good.clone();
            lock[key] = value;
            lock.to_string()
        };
        let home = [("HOME", root.display().to_string())];
        for (name, text, mode, want) in [
            ("41234.lock", good.to_string(), 0o600, true),
            ("41234.lock", good.to_string(), 0o644, true),
            ("41234.lock", good.to_string(), 0o666, false),
            ("80.lock", good.to_string(), 0o600, false),
            ("x.lock", good.to_string(), 0o600, false),
            ("41234.txt", good.to_string(), 0o600, false),
            ("41234.lock", with("pid", json!(4_000_000_000_u32)), 0o600, false),
            ("41234.lock", with("transport", json!("sse")), 0o600, false),
            ("41234.lock", with("authToken", json!("")), 0o600, false),
            ("41234.lock", with("authToken", json!("a\nb: c")), 0o600, false),
            ("41234.lock", with("workspaceFolders", json!([root.join("other")])), 0o600, false),
            ("41234.lock", with("workspaceFolders", json!("/")), 0o600, false),
            ("41234.lock", String::from("{"), 0o600, false),
        ] {
            let path = ide.join(name);
            fs::write(&path, &text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let variables: EnvVars = home.clone().into_iter().collect();
            let found = editor_server(&project, &variables);
            assert_eq!(found.is_some(), want, "{name} {mode:o} {text}");
            fs::remove_file(&path).unwrap();
        }
        // Of two editors, the one this terminal belongs to.
        for name in ["41234.lock", "41235.lock"] {
            fs::write(ide.join(name), good.to_string()).unwrap();
            fs::set_permissions(ide.join(name), fs::Permissions::from_mode(0o600)).unwrap();
        }
        let variables: EnvVars = home.clone().into_iter().collect();
        assert_eq!(editor_server(&project, &variables), None);
        let port = [(PORT_VARIABLE, String::from("41235"))];
        let variables: EnvVars = home.into_iter().chain(port).collect();
        let found = editor_server(&project, &variables).unwrap();
        assert_eq!(found["mcpServers"]["ide"]["url"], "ws://127.0.0.1:41235");
        assert_eq!(found["mcpServers"]["ide"]["headers"][TOKEN_HEADER], "secret");
    }
}
