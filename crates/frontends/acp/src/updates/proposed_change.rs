//! The change a call would make, shown in the permission request.

use std::path::Path;

use haft_session::{ProposedText, proposed_text};
use haft_types::ToolUse;
use haft_workspace::{OpenFile, SessionFiles};
use serde_json::Value;

use super::{call_info::CallPresentation, diffs::diff};

/// Maximum bytes of a file that is read.
const LARGEST: u64 = 4 << 20;

/// Returns the diffs a call would make, if its input contains file content or replacements. Blocks on
/// disk and, for a file with unsaved changes, on the editor.
pub(crate) fn proposed_diffs(
    call: &ToolUse,
    look: &CallPresentation,
    files: Option<&SessionFiles>,
) -> Vec<Value> {
    let [path] = look.writes.as_slice() else { return Vec::new() };
    let unsaved = files.and_then(|files| unsaved(path, files));
    let Some(there) = unsaved.map(Some).map_or_else(|| current(path), Some) else { return Vec::new() };
    match proposed_text(&call.input, there.as_deref()) {
        Some(ProposedText::Whole(text)) => vec![diff(path, there.as_deref(), &text)],
        // The text to replace does not occur verbatim: show the replacement itself.
        Some(ProposedText::Part { old, new }) => vec![diff(path, Some(&old), &new)],
        None => Vec::new(),
    }
}

/// Returns the unsaved content of a file in the editor. Only for files that were read from the editor
/// before, which means that they may be read.
fn unsaved(path: &Path, files: &SessionFiles) -> Option<String> {
    let workspace = files.workspace();
    let real = path.canonicalize().ok()?;
    if !workspace.unsaved_files().contains(&real) {
        return None;
    }
    let loaded = workspace.load(OpenFile::open(&real).ok()?).ok()?;
    String::from_utf8(loaded.bytes).ok()
}

/// Returns the content of a file: `Some(None)` if it does not exist, `None` if it is not text or too
/// large.
fn current(path: &Path) -> Option<Option<String>> {
    match std::fs::metadata(path) {
        Err(err) if err.kind() == std::io::ErrorKind::NotFound => Some(None),
        Ok(found) if found.is_file() && found.len() <= LARGEST => {
            std::fs::read_to_string(path).ok().map(Some)
        }
        _ => None,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "test code")]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn call_input_gives_proposed_diff() {
        let dir = std::env::temp_dir().join(format!("haft-proposal-{}", uuid::Uuid::new_v4()));
        std::fs::create_dir_all(&dir).unwrap();
        let path = dir.join("a.txt");
        std::fs::write(&path, "one two one\n").unwrap();
        let check = |path: &Path, input: Value, want: &[(Option<&str>, &str)]| {
            let look = CallPresentation { writes: vec![path.to_owned()], ..CallPresentation::default() };
            let call = ToolUse { id: "c".into(), name: "any".into(), input: input.clone() };
            let shown = proposed_diffs(&call, &look, None);
            let sides: Vec<(Option<&str>, &str)> =
                shown.iter().map(|it| (it["oldText"].as_str(), it["newText"].as_str().unwrap())).collect();
            assert_eq!(sides, want, "{input}");
        };
        let there = Some("one two one\n");
        check(&path, json!({"content": "new\n"}), &[(there, "new\n")]);
        check(&dir.join("b"), json!({"content": "new\n"}), &[(None, "new\n")]);
        check(&path, json!({"old_string": "one", "new_string": "1"}), &[(there, "1 two one\n")]);
        check(
            &path,
            json!({"old_string": "one", "new_string": "1", "replace_all": true}),
            &[(there, "1 two 1\n")],
        );
        check(&path, json!({"old_string": "nine", "new_string": "9"}), &[(Some("nine"), "9")]);
        let edits = json!({"edits": [{"old_string": "one", "new_string": "1"}, {"old_string": "two", "new_string": "2"}]});
        check(&path, edits, &[(there, "1 2 one\n")]);
        check(&path, json!({"cell": 1}), &[]);
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
