//! The project's own files that a command names.

use std::path::{Component, Path, PathBuf};

use serde_json::Value;
use sha2::{Digest, Sha256};

use super::{BoundFile, hex};
use crate::read::read;

/// More than this many files are not bound one by one.
const MOST: usize = 64;

/// The largest script that is bound to its content.
const LARGEST: u64 = 16 * 1024 * 1024;

/// Every regular file inside the project that a text of this value names, as a
/// word of a command or as a whole. It need not be certain that the file is
/// run: one file too many asks once too often, one too few runs what nobody has
/// seen.
pub(super) fn named_in(value: &Value, project: &Path) -> Vec<BoundFile> {
    let mut words = Vec::new();
    collect(value, &mut words);
    let Ok(project) = std::fs::canonicalize(project) else { return Vec::new() };
    let mut files: Vec<BoundFile> =
        words.iter().filter_map(|word| bound(word, &project)).take(MOST).collect();
    files.sort();
    files.dedup();
    files
}

fn collect(value: &Value, words: &mut Vec<String>) {
    match value {
        Value::String(text) => {
            words.push(text.clone());
            let separators = |it: char| it.is_whitespace() || ";|&()<>\"'`=,".contains(it);
            // Quotes go, so that "$DIR"/x stays one word.
            let bare: String = text.chars().filter(|it| *it != '"' && *it != '\'').collect();
            words.extend(bare.split(separators).filter(|it| !it.is_empty()).map(str::to_owned));
        }
        Value::Array(list) => list.iter().for_each(|it| collect(it, words)),
        Value::Object(map) => map.values().for_each(|it| collect(it, words)),
        Value::Null | Value::Bool(_) | Value::Number(_) => (),
    }
}

fn bound(word: &str, project: &Path) -> Option<BoundFile> {
    let mut rest = word;
    for name in ["CLAUDE_PROJECT_DIR", "HAFT_PROJECT_DIR", "PWD"] {
        for prefix in [format!("${{{name}}}"), format!("${name}")] {
            rest = rest.strip_prefix(&prefix).map_or(rest, |it| it.trim_start_matches('/'));
        }
    }
    let path = project.join(rest);
    // A quick no for the many words that are no paths at all.
    if rest.is_empty()
        || 4096 < rest.len()
        || path.components().any(|it| it == Component::ParentDir) && !path.exists()
    {
        return None;
    }
    let real = std::fs::canonicalize(&path).ok()?;
    let inside: PathBuf = real.strip_prefix(project).ok()?.to_owned();
    if !real.is_file() {
        return None;
    }
    let sha256 = match read(&real, LARGEST) {
        Ok(contents) => hex(&Sha256::digest(&contents.bytes)),
        // Too large or unreadable: then it can never be what somebody has seen.
        Err(_) => "unreadable".to_owned(),
    };
    Some(BoundFile { path: inside, sha256 })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn scripts_of_the_project_are_found_in_commands() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(directory.path().join("a b")).unwrap();
        for name in ["check.sh", "a b/c.py", "server.js"] {
            std::fs::write(directory.path().join(name), name).unwrap();
        }
        for (value, want) in [
            (json!({"command": "bash ./check.sh --fast"}), &["check.sh"][..]),
            (json!({"command": "python3 \"$CLAUDE_PROJECT_DIR\"/check.sh | cat"}), &["check.sh"]),
            (json!({"command": "${CLAUDE_PROJECT_DIR}/check.sh;true"}), &["check.sh"]),
            (json!({"command": "node", "args": ["server.js", "a b/c.py"]}), &["a b/c.py", "server.js"]),
            (json!({"command": "--config=check.sh"}), &["check.sh"]),
            (json!({"command": "cat /etc/passwd ../x $HOME/y"}), &[]),
            (json!({"command": "rg TODO"}), &[]),
        ] {
            let files = named_in(&value, directory.path());
            let names: Vec<String> = files.iter().map(|it| it.path.to_string_lossy().into_owned()).collect();
            assert_eq!(names, want, "{value}");
        }
        let before = named_in(&json!("check.sh"), directory.path());
        std::fs::write(directory.path().join("check.sh"), "rm -rf ~").unwrap();
        assert_ne!(named_in(&json!("check.sh"), directory.path()), before);
    }
}
