//! Keeps secrets out of what is written down.

use std::sync::LazyLock;

use haft_types::{Message, MessageBlock};
use regex::Regex;
use serde_json::Value;

/// What secrets look like: keys of well-known services, tokens, private keys.
/// Only shapes that nothing else has; a hash or an id is none.
static SHAPES: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    let shapes = [
        r"sk-[A-Za-z0-9_-]{20,}",
        r"\b(?:ghp|gho|ghu|ghs|ghr)_[A-Za-z0-9]{30,}",
        r"\bgithub_pat_[A-Za-z0-9_]{40,}",
        r"\bglpat-[A-Za-z0-9_-]{20,}",
        r"\bxox[abprs]-[A-Za-z0-9-]{10,}",
        r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b",
        r"\bAIza[A-Za-z0-9_-]{35}",
        r"\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}",
        r"-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)",
    ];
    shapes.iter().filter_map(|shape| Regex::new(shape).ok()).collect()
});

/// Texts that may hold a shape hold one of these; looking for them is cheap.
const HINTS: [&str; 10] =
    ["sk-", "gh", "glpat-", "xox", "AKIA", "ASIA", "AIza", "eyJ", "PRIVATE KEY", "github_pat_"];

/// Replaces secrets by stable placeholders: the same secret gets the same name,
/// and names say nothing about it.
#[derive(Clone, Debug, Default)]
pub struct Masker {
    /// Values that are known, the longest first, with what to call them.
    known: Vec<(String, String)>,
}

/// A shorter value would be found in innocent text.
const SHORTEST: usize = 8;

impl Masker {
    /// Knows the values of variables whose names say that they are secret.
    pub fn of_env(variables: impl IntoIterator<Item = (String, String)>) -> Self {
        let mut known: Vec<(String, String)> = variables
            .into_iter()
            .filter(|(name, value)| is_secret_name(name) && SHORTEST <= value.trim().len())
            .map(|(name, value)| (value.trim().to_owned(), format!("«secret:{name}»")))
            .collect();
        known.sort_by_key(|(value, name)| (std::cmp::Reverse(value.len()), name.clone()));
        known.dedup_by(|a, b| a.0 == b.0);
        Self { known }
    }

    /// The text without secrets; `None` when there are none in it.
    pub fn mask(&self, text: &str) -> Option<String> {
        let mut masked: Option<String> = None;
        for (value, name) in &self.known {
            let now = masked.as_deref().unwrap_or(text);
            if now.contains(value.as_str()) {
                masked = Some(now.replace(value.as_str(), name));
            }
        }
        let now = masked.as_deref().unwrap_or(text);
        if !HINTS.iter().any(|hint| now.contains(hint)) {
            return masked;
        }
        for shape in SHAPES.iter() {
            let now = masked.as_deref().unwrap_or(text);
            if shape.is_match(now) {
                masked = Some(shape.replace_all(now, "«secret»").into_owned());
            }
        }
        masked
    }

    /// Masks every text in a value.
    pub fn mask_value(&self, value: &mut Value) {
        match value {
            Value::String(text) => {
                if let Some(masked) = self.mask(text) {
                    *text = masked;
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.mask_value(item)),
            Value::Object(fields) => fields.values_mut().for_each(|field| self.mask_value(field)),
            _ => (),
        }
    }

    /// Masks a message. Thinking is signed: what had to be masked loses its
    /// signature, so that it is never sent back.
    pub(crate) fn mask_message(&self, message: &mut Message) {
        for block in &mut message.content {
            match block {
                MessageBlock::Text { text } => {
                    if let Some(masked) = self.mask(text) {
                        *text = masked;
                    }
                }
                MessageBlock::Thinking { thinking, signature, .. } => {
                    if let Some(masked) = self.mask(thinking) {
                        (*thinking, *signature) = (masked, String::new());
                    }
                }
                MessageBlock::ToolUse(call) => self.mask_value(&mut call.input),
                MessageBlock::ToolResult { content, .. } => {
                    for inner in &mut content.0 {
                        if let haft_types::Block::Text { text } = inner
                            && let Some(masked) = self.mask(text)
                        {
                            *text = masked;
                        }
                    }
                }
                MessageBlock::Other(value) => self.mask_value(value),
                MessageBlock::RedactedThinking { .. }
                | MessageBlock::Image { .. }
                | MessageBlock::Document { .. } => (),
            }
        }
    }
}

fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    let ends = ["KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIALS", "AUTH"];
    let parts: Vec<&str> = name.split('_').collect();
    parts.iter().any(|part| ends.contains(part)) && !parts.contains(&"PUBLIC")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_go_and_look_alikes_stay() {
        let env = [
            ("ANTHROPIC_API_KEY", "value-4711-x"),
            ("HOME", "/home/somebody"),
            ("SHORT_TOKEN", "abc"),
            ("DB_PASSWORD", "hunter2hunter2"),
        ];
        let masker = Masker::of_env(env.map(|(name, value)| (name.to_owned(), value.to_owned())));
        let key = format!("a sk-{} b", "a1B2".repeat(8));
        let jwt = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N";
        for (text, want) in [
            ("key=value-4711-x;", "key=«secret:ANTHROPIC_API_KEY»;".to_owned()),
            ("hunter2hunter2", "«secret:DB_PASSWORD»".to_owned()),
            (key.as_str(), "a «secret» b".to_owned()),
            (jwt, "«secret»".to_owned()),
            (
                "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----\nafter",
                "«secret»\nafter".to_owned(),
            ),
        ] {
            assert_eq!(masker.mask(text), Some(want), "{text}");
        }
        for innocent in [
            "${TOKEN}",
            "4b825dc642cb6eb9a060e54bf8d69288fbee4904",
            "123e4567-e89b-12d3-a456-426614174000",
            "iVBORw0KGgoAAAANSUhEUgAAAAUAAAAFCAYAAACNbyblAAAAHElEQVQI12P4",
            "abc /home/somebody task-force sk-short",
        ] {
            assert_eq!(masker.mask(innocent), None, "{innocent}");
        }
    }
}
