//! Finds the project's own files that a command refers to.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use serde_json::Value;
use sha2::{Digest, Sha256};

use super::{BoundFile, hex};
use crate::stable_read::{FileFingerprint, read};

/// Maximum bytes of a script that is hashed. Larger ones are identified by size, times and inode, which
/// also change with every modification.
const LARGEST: u64 = 16 * 1024 * 1024;

/// Maximum bytes hashed for one item, as a defence against a hostile list of files.
const BUDGET: u64 = 256 * 1024 * 1024;

/// A file of the project, and its state when it was read.
#[derive(Debug)]
pub(super) struct NamedFile {
    pub(super) file: BoundFile,
    pub(super) path: PathBuf,
    pub(super) print: FileFingerprint,
}

/// Returns every regular file inside the project that a string in this value names, as a word of a
/// command or as a whole. Over-approximates on purpose: an unnecessary file causes an extra prompt, a
/// missing one would run code the user has not seen.
pub(super) fn named_in(value: &Value, project: &Path) -> Vec<NamedFile> {
    let mut words = BTreeSet::new();
    collect(value, &mut words);
    let Ok(project) = std::fs::canonicalize(project) else { return Vec::new() };
    let files: BTreeSet<PathBuf> = words.iter().filter_map(|word| file_of(word, &project)).collect();
    let mut budget = BUDGET;
    files.into_iter().filter_map(|path| bound(path, &project, &mut budget)).collect()
}

fn collect(value: &Value, words: &mut BTreeSet<String>) {
    match value {
        Value::String(text) => {
            words.insert(text.clone());
            let separators = |it: char| it.is_whitespace() || ";|&()<>\"'`=,".contains(it);
            words.extend(text.split(['"', '\'']).map(str::to_owned));
            // Remove quotes, so that "$DIR"/x stays one word.
            let bare: String = text.chars().filter(|it| *it != '"' && *it != '\'').collect();
            words.extend(bare.split(separators).filter(|it| !it.is_empty()).map(str::to_owned));
        }
        Value::Array(list) => list.iter().for_each(|it| collect(it, words)),
        Value::Object(map) => map.values().for_each(|it| collect(it, words)),
        Value::Null | Value::Bool(_) | Value::Number(_) => (),
    }
}

/// Resolves a word to a file inside the project, if it names one.
fn file_of(word: &str, project: &Path) -> Option<PathBuf> {
    let mut rest = word;
    for name in ["CLAUDE_PROJECT_DIR", "HAFT_PROJECT_DIR", "PWD"] {
        for prefix in [format!("${{{name}}}"), format!("${name}")] {
            rest = rest.strip_prefix(&prefix).map_or(rest, |it| it.trim_start_matches('/'));
        }
    }
    if rest.is_empty() || 4096 < rest.len() {
        return None;
    }
    let real = std::fs::canonicalize(project.join(rest)).ok()?;
    (real.starts_with(project) && real.is_file()).then_some(real)
}

fn bound(path: PathBuf, project: &Path, budget: &mut u64) -> Option<NamedFile> {
    let inside = path.strip_prefix(project).ok()?.to_owned();
    let (sha256, print) = match read(&path, LARGEST.min(*budget)) {
        Ok(contents) => {
            *budget -= contents.bytes.len() as u64;
            (hex(&Sha256::digest(&contents.bytes)), contents.print)
        }
        // Too large or unreadable: identified by metadata only.
        Err(_) => {
            let print = FileFingerprint::at(&path);
            (hex(&Sha256::digest(print.without_content())), print)
        }
    };
    Some(NamedFile { file: BoundFile { path: inside, sha256 }, path, print })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn project_scripts_in_commands_are_found() {
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
            (json!({"command": "python3 'a b/c.py' -v"}), &["a b/c.py"]),
            (json!({"command": "cat /etc/passwd ../x $HOME/y"}), &[]),
            (json!({"command": "rg TODO"}), &[]),
        ] {
            let files = named_in(&value, directory.path());
            let names: Vec<String> =
                files.iter().map(|it| it.file.path.to_string_lossy().into_owned()).collect();
            assert_eq!(names, want, "{value}");
        }
        let hash = || named_in(&json!("check.sh"), directory.path())[0].file.sha256.clone();
        let before = hash();
        std::fs::write(directory.path().join("check.sh"), "rm -rf ~").unwrap();
        assert_ne!(hash(), before);
    }
}
