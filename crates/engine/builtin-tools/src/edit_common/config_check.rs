//! Checks the future content of configuration files.

use std::path::Path;

use serde_json::Value;

use super::elision_check::{replaces_lost_lines, stand_in};

/// Validates the future content of files that programs read as settings. Writing invalid content would
/// disable the session's rules, hooks or servers. The embedding program knows the real schemas and may
/// supply its own check.
pub trait ConfigCheck: Send + Sync {
    /// Returns why the content must not be written; `None` if it is acceptable or the file is not known.
    fn problem(&self, path: &Path, content: &str) -> Option<String>;
}

/// Checks settings files, recognised by name, for their basic structure.
#[derive(Clone, Copy, Debug)]
pub struct KnownShapes;

impl ConfigCheck for KnownShapes {
    fn problem(&self, path: &Path, content: &str) -> Option<String> {
        let shape = Shape::of(path)?;
        let value: Value = match serde_json::from_str(content.trim_start_matches('\u{feff}')) {
            Ok(value) => value,
            Err(err) => {
                let (line, column) = (err.line(), err.column());
                return Some(format!("it would not be valid JSON (line {line}, column {column}: {err})"));
            }
        };
        shape.problem(&value)
    }
}

#[derive(Clone, Copy)]
enum Shape {
    Settings,
    Servers,
}

impl Shape {
    fn of(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_str()?.to_lowercase();
        let parent =
            path.parent().and_then(Path::file_name).and_then(|it| it.to_str()).map(str::to_lowercase);
        match (parent.as_deref(), name.as_str()) {
            (Some(".claude" | ".haft"), "settings.json" | "settings.local.json") => Some(Self::Settings),
            (_, "managed-settings.json") => Some(Self::Settings),
            (_, ".mcp.json") => Some(Self::Servers),
            _ => None,
        }
    }

    fn problem(self, value: &Value) -> Option<String> {
        let Value::Object(root) = value else { return Some("it must be a JSON object".to_owned()) };
        let wrong = |key: &str, wanted: &str| Some(format!("`{key}` must be {wanted}"));
        match self {
            Self::Servers => match root.get("mcpServers") {
                Some(Value::Object(servers)) => servers
                    .iter()
                    .find(|(_, server)| !server.is_object())
                    .and_then(|(name, _)| wrong(&format!("mcpServers.{name}"), "an object")),
                None => None,
                Some(_) => wrong("mcpServers", "an object"),
            },
            Self::Settings => {
                for (key, value) in root {
                    let fine = match key.as_str() {
                        "permissions" | "hooks" | "env" | "sandbox" => value.is_object(),
                        "model" | "outputStyle" | "apiKeyHelper" => value.is_string(),
                        _ => true,
                    };
                    if !fine {
                        let wanted = if matches!(key.as_str(), "model" | "outputStyle" | "apiKeyHelper") {
                            "a string"
                        } else {
                            "an object"
                        };
                        return wrong(key, wanted);
                    }
                }
                let permissions = root.get("permissions").and_then(Value::as_object)?;
                for key in ["allow", "ask", "deny", "additionalDirectories"] {
                    let strings =
                        |it: &Value| it.as_array().is_some_and(|it| it.iter().all(Value::is_string));
                    if permissions.get(key).is_some_and(|it| !strings(it)) {
                        return wrong(&format!("permissions.{key}"), "a list of strings");
                    }
                }
                None
            }
        }
    }
}

/// Returns why a replacement is a placeholder instead of real text. `None` if the text it replaces has
/// the same line.
pub(crate) fn stub_in(new: &str, there: &str) -> Option<String> {
    let problem = stand_in(new).filter(|_| stand_in(there).is_none());
    problem.or_else(|| replaces_lost_lines(new, there))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_settings_structure_is_rejected() {
        for (path, content, want) in [
            ("/p/.claude/settings.json", r#"{"permissions":{"allow":["Read"]}}"#, None),
            ("/p/.claude/settings.json", r#"{"permissions":{"allow":"Read"}}"#, Some("permissions.allow")),
            ("/p/.claude/settings.local.json", r#"{"permissions":[]}"#, Some("permissions")),
            ("/p/.haft/settings.json", "{,}", Some("line 1, column 2")),
            ("/p/.haft/settings.json", "[]", Some("object")),
            ("/p/.mcp.json", r#"{"mcpServers":{"a":1}}"#, Some("mcpServers.a")),
            ("/p/.mcp.json", r#"{"mcpServers":{"a":{}}}"#, None),
            ("/p/settings.json", "not json", None),
            ("/p/.claude/notes.json", "not json", None),
        ] {
            let got = KnownShapes.problem(Path::new(path), content);
            match want {
                None => assert_eq!(got, None, "{path}"),
                Some(part) => assert!(got.clone().is_some_and(|it| it.contains(part)), "{path}: {got:?}"),
            }
        }
    }
}
