//! Keys stored by `haft login`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{ModelError, SecretString};

/// Providers whose key can be stored, and the variable that otherwise holds it.
const PROVIDERS: [(&str, &str); 4] = [
    ("anthropic", "ANTHROPIC_API_KEY"),
    ("openai", "OPENAI_API_KEY"),
    ("gemini", "GEMINI_API_KEY"),
    ("openrouter", "OPENROUTER_API_KEY"),
];

/// Keys by provider, as stored in `~/.haft/credentials.json`.
///
/// **Invariant:** neither `Debug` nor an error shows a key.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct StoredKeys {
    /// Provider used when the environment selects none: the one of the last login.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
    keys: BTreeMap<String, StoredKey>,
}

/// A key, or the command that prints it.
#[derive(Clone, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StoredKey {
    /// The key itself.
    Key(String),
    /// A command that prints the key, for keys in a system keyring.
    Command(String),
}

impl std::fmt::Debug for StoredKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Key(_) => "Key(…)",
            Self::Command(_) => "Command(…)",
        })
    }
}

impl StoredKeys {
    /// Parses the file's content. Errors give the position but never quote the content.
    pub fn parse(bytes: &[u8]) -> Result<Self, ModelError> {
        serde_json::from_slice(bytes).map_err(|err| {
            // The parser's message may quote a part of the key.
            let (line, column) = (err.line(), err.column());
            ModelError::config(format!(
                "not a list of keys (line {line}, column {column}); move the file away and log in again"
            ))
        })
    }

    /// Returns the names of providers whose key can be stored.
    pub fn providers() -> impl Iterator<Item = &'static str> {
        PROVIDERS.iter().map(|(name, _)| *name)
    }

    /// Returns the environment variable that holds the provider's key.
    pub fn variable(provider: &str) -> Option<&'static str> {
        PROVIDERS.iter().find(|(name, _)| *name == provider).map(|(_, variable)| *variable)
    }

    /// Returns the provider's key.
    pub fn get(&self, provider: &str) -> Option<&StoredKey> {
        self.keys.get(provider)
    }

    /// Returns the providers that have a key.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.keys.keys().map(String::as_str)
    }

    /// Stores a key and makes its provider the default.
    pub fn put(&mut self, provider: &str, key: StoredKey) {
        self.keys.insert(provider.to_owned(), key);
        self.default = Some(provider.to_owned());
    }

    /// Removes a key. Returns whether there was one.
    pub fn remove(&mut self, provider: &str) -> bool {
        let removed = self.keys.remove(provider).is_some();
        if self.default.as_deref() == Some(provider) {
            self.default = self.keys.keys().next().cloned();
        }
        removed
    }

    /// Returns the key itself; `None` for a command.
    pub fn secret(key: &StoredKey) -> Option<SecretString> {
        match key {
            StoredKey::Key(text) => Some(SecretString::new(text)),
            StoredKey::Command(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_keys_round_trip_and_are_never_shown() {
        let mut keys = StoredKeys::default();
        keys.put("openai", StoredKey::Key("sk-one".to_owned()));
        keys.put("gemini", StoredKey::Command("print it".to_owned()));
        let text = serde_json::to_string(&keys).unwrap();
        let read = StoredKeys::parse(text.as_bytes()).unwrap();
        assert_eq!((read.default.as_deref(), read.names().count()), (Some("gemini"), 2));
        assert!(!format!("{read:?}").contains("sk-one"));
        for wrong in [&br#"{"keys": {"openai": "sk-two"}}"#[..], b"\xff\xfesk-two", b""] {
            let wrong = StoredKeys::parse(wrong).unwrap_err().to_string();
            assert!(!wrong.contains("sk-two") && wrong.contains("move the file away"), "{wrong}");
        }
        let mut read = read;
        assert!(read.remove("gemini") && !read.remove("gemini"));
        assert_eq!(read.default.as_deref(), Some("openai"));
    }
}
