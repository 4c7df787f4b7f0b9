//! What a call is about: title, kind, places.

use std::{
    borrow::Cow,
    panic::AssertUnwindSafe,
    path::{Path, PathBuf},
    sync::Arc,
};

use haft_tool::{Access, CallContext};
use haft_tool_runtime::SharedPool;
use haft_types::{ToolUse, text};
use haft_workspace::SessionFiles;
use serde_json::{Value, json};

use super::update::{CallAnnounced, CallLocation};

/// Longest title, in characters: editors show one line.
const MAX_TITLE_CHARS: usize = 1_000;

/// Longest input that is handed on as it is, in bytes.
const MAX_INPUT_BYTES: usize = 200_000;

/// Looks at calls with the tools of a session.
#[derive(Clone)]
pub(crate) struct CallInspector {
    pub(crate) pool: SharedPool,
    pub(crate) cwd: Arc<Path>,
    /// The files as tools see them: what is unsaved in the editor is the file.
    pub(crate) files: Option<Arc<SessionFiles>>,
}

/// What a call is about.
#[derive(Clone, Debug, Default)]
pub(crate) struct CallPresentation {
    pub(crate) title: String,
    pub(crate) kind: &'static str,
    /// Files it reads or writes.
    pub(crate) paths: Vec<PathBuf>,
    /// Files it writes.
    pub(crate) writes: Vec<PathBuf>,
    /// The command line it runs.
    pub(crate) command: Option<String>,
    /// The line it begins at, where the input says so.
    pub(crate) line: Option<u64>,
}

impl CallInspector {
    /// Looks at a call. Only what the tool declares to touch is asked of it, so
    /// that a call looks the same while its server is gone.
    pub(crate) fn look(&self, call: &ToolUse) -> CallPresentation {
        let found = std::panic::catch_unwind(AssertUnwindSafe(|| self.declared(call))).ok().flatten();
        found.unwrap_or_else(|| CallPresentation {
            title: text::one_line(&format!("{} {}", call.name, call.input), 160),
            kind: "other",
            ..CallPresentation::default()
        })
    }

    fn declared(&self, call: &ToolUse) -> Option<CallPresentation> {
        let pool = self.pool.get();
        let cx = CallContext::detached(call.id.clone(), Arc::clone(&self.cwd));
        let parsed = Arc::clone(pool.get(&call.name)?).parse(call.input.clone(), &cx).ok()?;
        let reach = parsed.reach(&cx);
        let haft_tool::AccessSet::Declared(accesses) = &reach else { return None };
        let mut look = CallPresentation {
            title: parsed.render().headline,
            line: call.input["offset"].as_u64(),
            ..CallPresentation::default()
        };
        let mut fetches = false;
        for access in accesses {
            match access {
                Access::Read(path) => look.paths.push(path.clone()),
                Access::Write(path) => {
                    look.paths.push(path.clone());
                    look.writes.push(path.clone());
                }
                Access::Command(line) => look.command = Some(line.text().to_owned()),
                Access::Fetch(_) => fetches = true,
                Access::Named(_) => (),
            }
        }
        let searches = ["pattern", "query"].iter().any(|key| call.input[key].is_string());
        look.kind = match () {
            () if look.command.is_some() => "execute",
            () if !look.writes.is_empty() => "edit",
            () if fetches => "fetch",
            () if searches => "search",
            () if !look.paths.is_empty() => "read",
            () if accesses.is_empty() => "think",
            () => "other",
        };
        if let Some(command) = &look.command {
            let lines = command.lines().map(str::trim).filter(|it| !it.is_empty());
            look.title = lines.collect::<Vec<_>>().join(" ⏎ ");
        }
        look.title = text::one_line(&self.shortened(&look.title), MAX_TITLE_CHARS);
        if look.title.is_empty() {
            look.title.clone_from(&call.name);
        }
        Some(look)
    }

    /// Paths inside the working directory without it.
    fn shortened<'a>(&self, words: &'a str) -> Cow<'a, str> {
        let cwd = self.cwd.to_string_lossy();
        if cwd == "/" || !words.contains(&*cwd) {
            words.into()
        } else {
            words.replace(&format!("{cwd}/"), "").into()
        }
    }
}

impl CallPresentation {
    /// The places an editor may follow.
    pub(crate) fn locations(&self) -> Vec<CallLocation<'_>> {
        self.paths.iter().map(|path| CallLocation::new(path, self.line)).collect()
    }

    /// The update by which the editor hears of the call.
    pub(crate) fn announced<'a>(&'a self, call: &'a ToolUse) -> CallAnnounced<'a> {
        CallAnnounced {
            tool_call_id: &call.id,
            title: self.title.as_str().into(),
            name: &call.name,
            kind: self.kind,
            status: "pending",
            raw_input: raw_input(&call.input),
            locations: self.locations(),
        }
    }
}

/// The input, as far as a line may hold it.
fn raw_input(input: &Value) -> Cow<'_, Value> {
    // Most are short: those are not written to be measured.
    if most_bytes(input) <= MAX_INPUT_BYTES {
        return Cow::Borrowed(input);
    }
    let length = input.to_string().len();
    if length <= MAX_INPUT_BYTES {
        Cow::Borrowed(input)
    } else {
        Cow::Owned(json!({"left_out": format!("{length} bytes of input")}))
    }
}

/// A bound on the bytes a value is written with: no character takes more than six.
fn most_bytes(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 32,
        Value::String(text) => text.len() * 6 + 2,
        Value::Array(list) => list.iter().map(|it| most_bytes(it) + 1).sum::<usize>() + 2,
        Value::Object(map) => {
            map.iter().map(|(key, it)| key.len() * 6 + 4 + most_bytes(it)).sum::<usize>() + 2
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_inputs_are_left_out() {
        let with = |bytes: usize| json!({"a": "x".repeat(bytes), "b": [1, -2.5e300, null, true]});
        let more = with(0).to_string().len();
        for (bytes, is_shown) in [
            (0, true),
            (MAX_INPUT_BYTES / 6 - more, true),
            (MAX_INPUT_BYTES - more, true),
            (MAX_INPUT_BYTES - more + 1, false),
        ] {
            let input = with(bytes);
            assert!(input.to_string().len() <= most_bytes(&input));
            assert_eq!(*raw_input(&input) == input, is_shown, "{bytes}");
        }
        let odd = json!(["\u{1}\"\\é😀", {"\u{7f}\u{0}": i64::MIN}, u64::MAX, f64::MIN_POSITIVE]);
        assert!(odd.to_string().len() <= most_bytes(&odd));
    }
}
