//! Plugin manifests: `.claude-plugin/plugin.json`.

use std::path::{Component, Path, PathBuf};

use serde_json::{Map, Value};

use super::super::ExtensionProblem;

/// Valid keys of a manifest.
const KEYS: [&str; 24] = [
    "$schema",
    "name",
    "version",
    "description",
    "author",
    "homepage",
    "repository",
    "license",
    "keywords",
    "icon",
    "commands",
    "agents",
    "skills",
    "hooks",
    "mcpServers",
    "outputStyles",
    "lspServers",
    "workflows",
    "settings",
    "experimental",
    "userConfig",
    "channels",
    "dependencies",
    "defaultEnabled",
];

/// Valid keys of an entry of `userConfig`.
const CONFIG_KEYS: [&str; 8] =
    ["type", "title", "description", "sensitive", "required", "default", "multiple", "options"];

/// Keys that a marketplace can set instead of the manifest.
pub(super) const COMPONENTS: [&str; 7] =
    ["commands", "agents", "skills", "hooks", "mcpServers", "outputStyles", "lspServers"];

/// A JSON file as text and value.
pub(super) struct JsonText {
    pub(super) path: PathBuf,
    text: String,
    pub(super) value: Map<String, Value>,
}

impl JsonText {
    pub(super) fn new(path: &Path, value: Map<String, Value>) -> Self {
        Self { path: path.to_owned(), text: String::new(), value }
    }

    /// Reads a JSON object. `None` if the file does not exist; a problem if it is not a JSON object.
    pub(super) fn read(path: &Path, what: &'static str) -> Result<Option<Self>, ExtensionProblem> {
        let wrong = |line: usize, reason: String| ExtensionProblem {
            what,
            file: path.to_owned(),
            line,
            reason,
            is_lost: true,
        };
        let text = match std::fs::read(path) {
            Ok(bytes) if bytes.len() <= 1 << 20 => String::from_utf8_lossy(&bytes).into_owned(),
            Ok(_) => return Err(wrong(1, String::from("it is larger than 1 MiB"))),
            Err(err)
                if matches!(err.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory) =>
            {
                return Ok(None);
            }
            Err(err) => return Err(wrong(1, format!("it cannot be read: {err}"))),
        };
        let text = text.trim_start_matches('\u{feff}').to_owned();
        match serde_json::from_str::<Value>(&text) {
            Ok(Value::Object(value)) => Ok(Some(Self { path: path.to_owned(), text, value })),
            Ok(_) => Err(wrong(1, String::from("it is no JSON object"))),
            Err(err) => Err(wrong(err.line().max(1), format!("it is no JSON: {err}"))),
        }
    }

    /// Line number of a key.
    pub(super) fn line_of(&self, key: &str) -> usize {
        let quoted = Value::from(key).to_string();
        let found = self
            .text
            .match_indices(&quoted)
            .find(|(at, _)| self.text[at + quoted.len()..].trim_start().starts_with(':'));
        found.map_or(1, |(at, _)| 1 + self.text[..at].matches('\n').count())
    }

    /// Line number of a text in the file.
    pub(super) fn line_of_text(&self, text: &str) -> usize {
        let quoted = Value::from(text).to_string();
        self.text.find(&quoted).map_or(1, |at| 1 + self.text[..at].matches('\n').count())
    }

    pub(super) fn problem(&self, what: &'static str, line: usize, reason: String) -> ExtensionProblem {
        ExtensionProblem { what, file: self.path.clone(), line, reason, is_lost: false }
    }

    pub(super) fn string(&self, key: &str) -> Option<String> {
        self.value.get(key)?.as_str().filter(|it| !it.is_empty()).map(str::to_owned)
    }
}

/// Problems with the keys of a manifest. An unknown key in `userConfig` makes the plugin unusable,
/// because it might mark a secret.
pub(super) fn check(manifest: &JsonText) -> Vec<ExtensionProblem> {
    let mut problems = Vec::new();
    for key in manifest.value.keys().filter(|it| !KEYS.contains(&it.as_str())) {
        let reason = format!("`{key}` is no key of a plugin; it is passed over");
        problems.push(manifest.problem("plugin", manifest.line_of(key), reason));
    }
    for (key, wanted) in [("name", true), ("version", true), ("description", true), ("userConfig", false)] {
        if let Some(value) = manifest.value.get(key)
            && (value.is_string() != wanted || (!wanted && !value.is_object()))
        {
            let kind = if wanted { "a text" } else { "an object" };
            let problem =
                manifest.problem("plugin", manifest.line_of(key), format!("`{key}` must be {kind}"));
            problems.push(ExtensionProblem { is_lost: key == "name", ..problem });
        }
    }
    let entries = manifest.value.get("userConfig").and_then(Value::as_object);
    for (name, entry) in entries.into_iter().flatten() {
        let unknown = entry.as_object().map(|it| it.keys().find(|key| !CONFIG_KEYS.contains(&key.as_str())));
        let reason = match unknown {
            None => format!("userConfig.{name} must be an object"),
            Some(Some(key)) => format!("`{key}` is no key of userConfig.{name}"),
            Some(None) => continue,
        };
        let problem = manifest.problem("plugin", manifest.line_of(name), reason);
        problems.push(ExtensionProblem { is_lost: true, ..problem });
    }
    if let Some(name) = manifest.string("name")
        && !is_name(&name)
    {
        let reason = format!("the name {name:?} does not fit: letters, digits, - and _");
        let problem = manifest.problem("plugin", manifest.line_of("name"), reason);
        problems.push(ExtensionProblem { is_lost: true, ..problem });
    }
    problems
}

pub(super) fn is_name(name: &str) -> bool {
    let fits = |it: char| it.is_ascii_alphanumeric() || matches!(it, '-' | '_' | '.');
    !name.is_empty() && name.len() <= 64 && name.chars().all(fits) && !name.starts_with('.')
}

/// The paths a key lists, and problems with invalid ones.
pub(super) fn paths(from: &JsonText, key: &str, dir: &Path) -> (Vec<PathBuf>, Vec<ExtensionProblem>) {
    let (mut found, mut problems) = (Vec::new(), Vec::new());
    let listed: Vec<&str> = match from.value.get(key) {
        Some(Value::String(one)) => vec![one.as_str()],
        Some(Value::Array(list)) => list.iter().filter_map(Value::as_str).collect(),
        Some(Value::Object(table)) => table.values().filter_map(|it| it["source"].as_str()).collect(),
        _ => Vec::new(),
    };
    for path in listed {
        match inside(dir, path) {
            Ok(path) => found.push(path),
            Err(why) => {
                let reason = format!("`{key}`: {path:?} {why}");
                problems.push(from.problem("plugin", from.line_of_text(path), reason));
            }
        }
    }
    (found, problems)
}

/// Resolves a path of a plugin, which must start with `./` and stay inside the plugin, also through
/// symlinks.
pub(super) fn inside(dir: &Path, path: &str) -> Result<PathBuf, &'static str> {
    let Some(rest) = path.strip_prefix("./").or((path == ".").then_some("")) else {
        return Err("does not begin with ./");
    };
    if Path::new(rest).components().any(|it| !matches!(it, Component::Normal(_) | Component::CurDir)) {
        return Err("leads out of the directory");
    }
    let whole = dir.join(rest);
    let Ok(real) = whole.canonicalize() else { return Err("is not there") };
    let root = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
    if real.starts_with(&root) { Ok(whole) } else { Err("leads out of the directory") }
}
