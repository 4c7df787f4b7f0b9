//! Lists existing sessions.

use std::{
    io::{BufRead as _, BufReader, Read as _},
    path::{Path, PathBuf},
    time::SystemTime,
};

use haft_agent::log::session_list::{SessionInfo, list};
use haft_session::{LocationSpec, LogDestination, SessionLogs};
use serde_json::{Value, json};

use crate::jsonrpc::AcpError;

/// Sessions per page.
const PAGE: usize = 50;

/// Bytes of a log that are searched for its working directory.
const LOOKED_AT: u64 = 64 << 10;

/// Returns the sessions of a directory, or all, newest first. Blocks.
pub(crate) fn list_sessions(place: &LocationSpec, params: &Value) -> Result<Value, AcpError> {
    let logs = SessionLogs::new(place, &LogDestination::Own);
    let dirs = match params["cwd"].as_str() {
        Some(_) => logs.dirs().to_vec(),
        None => all_projects(&logs),
    };
    let mut found: Vec<SessionInfo> = Vec::new();
    for dir in dirs {
        found.extend(list(&dir).map_err(|err| AcpError::internal(format!("{}: {err}", dir.display())))?);
    }
    found.sort_by(|a, b| b.modified.cmp(&a.modified).then_with(|| a.id.cmp(&b.id)));
    let start = match params["cursor"].as_str() {
        None => 0,
        Some(cursor) => cursor.parse::<usize>().map_err(|_| AcpError::params("`cursor` is none of ours"))?,
    };
    let page: Vec<Value> = found.iter().skip(start).take(PAGE).filter_map(|it| entry(it, params)).collect();
    let mut answer = json!({"sessions": page});
    if start + PAGE < found.len() {
        answer["nextCursor"] = json!((start + PAGE).to_string());
    }
    Ok(answer)
}

fn entry(info: &SessionInfo, params: &Value) -> Option<Value> {
    let cwd = match params["cwd"].as_str() {
        Some(cwd) => PathBuf::from(cwd),
        None => cwd_of(&info.path)?,
    };
    let mut entry =
        json!({"sessionId": info.id, "cwd": cwd.to_string_lossy(), "updatedAt": iso(info.modified)});
    if !info.title.is_empty() {
        entry["title"] = json!(info.title);
    }
    Some(entry)
}

/// Returns the log directories of all projects.
fn all_projects(logs: &SessionLogs) -> Vec<PathBuf> {
    let roots = logs.dirs().iter().filter_map(|it| it.parent());
    let dirs = roots.flat_map(|root| std::fs::read_dir(root).into_iter().flatten().flatten());
    dirs.map(|it| it.path()).filter(|it| it.is_dir()).collect()
}

/// Returns the working directory of a log.
fn cwd_of(log: &Path) -> Option<PathBuf> {
    let lines = BufReader::new(std::fs::File::open(log).ok()?.take(LOOKED_AT)).lines();
    let mut found = lines.map_while(Result::ok).filter_map(|line| {
        let line: Value = serde_json::from_str(&line).ok()?;
        Some(PathBuf::from(line["cwd"].as_str().filter(|it| !it.is_empty())?))
    });
    found.next()
}

/// Formats a time as ISO 8601, to the second.
fn iso(moment: SystemTime) -> String {
    // Reuses the RFC 7231 formatter and reorders its parts.
    let words = httpdate::fmt_http_date(moment);
    let parts: Vec<&str> = words.split([' ', ',']).filter(|it| !it.is_empty()).collect();
    let [_, day, month, year, time, _] = parts.as_slice() else { return words };
    let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let month = months.iter().position(|it| it == month).map_or(1, |it| it + 1);
    format!("{year}-{month:02}-{day}T{time}Z")
}

/// Deletes the log of a session. Blocks.
pub(crate) fn delete_session(logs: &[PathBuf], id: &str) -> Result<(), AcpError> {
    // An id must be a plain file name.
    if id.is_empty() || id.contains(['/', '\\', '\0']) || id.starts_with('.') {
        return Err(AcpError::no_session(id));
    }
    let mut found = false;
    for path in logs.iter().map(|dir| dir.join(format!("{id}.jsonl"))).filter(|it| it.is_file()) {
        std::fs::remove_file(&path)
            .map_err(|err| AcpError::internal(format!("{}: {err}", path.display())))?;
        found = true;
    }
    if found { Ok(()) } else { Err(AcpError::no_session(id)) }
}

/// Returns every directory that may contain the log of a session. Blocks.
pub(crate) fn log_dirs(place: &LocationSpec) -> Vec<PathBuf> {
    all_projects(&SessionLogs::new(place, &LogDestination::Own))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn timestamps_are_formatted_as_iso() {
        let at = SystemTime::UNIX_EPOCH + Duration::from_secs(1_794_870_653);
        assert_eq!(iso(at), "2026-11-16T23:10:53Z");
    }

    #[test]
    fn session_ids_with_path_parts_are_rejected() {
        for id in ["", "../x", "a/b", ".hidden", "a\0b"] {
            assert!(delete_session(&[std::env::temp_dir()], id).is_err(), "{id}");
        }
    }
}
