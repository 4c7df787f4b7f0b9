//! Secrets by name: where a worker finds them, who may have them, and nobody else.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde::Deserialize;

/// Where the value of a secret is.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum SecretLocation {
    /// In a variable of the worker.
    Env(String),
    /// In a file.
    File(PathBuf),
    /// A command prints it.
    Command(String),
}

/// Which secrets a worker gives out, and to whom.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SecretRules {
    /// Where secrets are, by name. One that is not here is a variable of its name.
    pub sources: BTreeMap<String, SecretLocation>,
    /// Names that jobs of a tenant or pool may have: `"tenant:NAME"`, `"pool:NAME"`
    /// or `"*"`. Nothing is allowed that is not named.
    pub allow: BTreeMap<String, Vec<String>>,
}

impl SecretRules {
    /// Whether a job may have a secret.
    pub fn allows(&self, tenant: &str, pool: &str, name: &str) -> bool {
        let keys = [format!("tenant:{tenant}"), format!("pool:{pool}"), String::from("*")];
        keys.iter().filter_map(|key| self.allow.get(key)).flatten().any(|it| it == name || it == "*")
    }

    /// Variables of the worker that hold secrets: no job sees them unasked.
    pub(crate) fn hidden_variables(&self) -> Vec<String> {
        let sources = self.sources.values().filter_map(|it| match it {
            SecretLocation::Env(name) => Some(name.clone()),
            SecretLocation::File(_) | SecretLocation::Command(_) => None,
        });
        let allowed = self.allow.values().flatten().filter(|it| *it != "*").cloned();
        sources.chain(allowed).collect()
    }

    /// The value of a secret. The error names it and says what to do.
    pub(crate) async fn value(&self, tenant: &str, pool: &str, name: &str) -> Result<String, String> {
        if !self.allows(tenant, pool, name) {
            return Err(format!(
                "this worker gives the secret {name} to no job of tenant {tenant} in pool {pool}; `allow` in its \
                 secrets file says who may have it"
            ));
        }
        let source = self.sources.get(name).cloned().unwrap_or_else(|| SecretLocation::Env(name.to_owned()));
        let found = match &source {
            SecretLocation::Env(variable) => std::env::var(variable)
                .map_err(|_| format!("the variable {variable} is not set at this worker")),
            SecretLocation::File(path) => {
                tokio::fs::read_to_string(path).await.map_err(|err| format!("{}: {err}", path.display()))
            }
            SecretLocation::Command(command) => printed(command).await,
        };
        let value = found.map_err(|why| format!("the secret {name} cannot be had: {why}"))?;
        let value = value.trim_end_matches(['\n', '\r']).to_owned();
        if value.is_empty() { Err(format!("the secret {name} is empty at this worker")) } else { Ok(value) }
    }
}

async fn printed(command: &str) -> Result<String, String> {
    let mut run = tokio::process::Command::new("/bin/sh");
    run.args(["-c", command]).kill_on_drop(true).stdin(std::process::Stdio::null());
    let limit = std::time::Duration::from_secs(30);
    let ended = tokio::time::timeout(limit, run.output()).await;
    match ended {
        Err(_) => Err(String::from("its command took longer than 30 s")),
        Ok(Err(err)) => Err(err.to_string()),
        Ok(Ok(output)) if output.status.success() => {
            String::from_utf8(output.stdout).map_err(|_| String::from("its command printed no text"))
        }
        // What it printed may be half a secret.
        Ok(Ok(output)) => Err(format!("its command ended with {}", output.status)),
    }
}

/// Takes the values of secrets out of texts, in the forms they may have there.
#[derive(Clone, Debug, Default)]
pub struct ValueMask(Arc<Vec<MaskedForm>>);

#[derive(Debug)]
struct MaskedForm {
    name: String,
    form: String,
    /// Whether it is the value itself.
    is_plain: bool,
}

/// A shorter value would be found in innocent text.
const SHORTEST: usize = 4;

impl ValueMask {
    /// Knows these secrets.
    pub fn new<'a>(secrets: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let mut forms: Vec<MaskedForm> = Vec::new();
        for (name, value) in secrets.into_iter().filter(|(_, value)| SHORTEST <= value.len()) {
            let quoted = serde_json::to_string(value).unwrap_or_default();
            let quoted = quoted.trim_matches('"').to_owned();
            // A value inside a text inside a text, as in the input of a call that is shown.
            let twice = serde_json::to_string(&quoted).unwrap_or_default().trim_matches('"').to_owned();
            let base64 = BASE64_STANDARD.encode(value).trim_end_matches('=').to_owned();
            let percent: String = percent_encoded(value);
            let mut lines: Vec<String> =
                value.lines().map(str::trim).filter(|it| 16 <= it.len()).map(str::to_owned).collect();
            lines.extend([value.to_owned(), quoted, twice, base64, percent]);
            for form in lines {
                if !forms.iter().any(|it| it.form == form) {
                    let is_plain = form == value;
                    forms.push(MaskedForm { name: name.to_owned(), form, is_plain });
                }
            }
        }
        forms.sort_by_key(|it| std::cmp::Reverse(it.form.len()));
        Self(Arc::new(forms))
    }

    /// A text without them.
    pub fn masked(&self, text: &str) -> String {
        let mut masked = std::borrow::Cow::Borrowed(text);
        for it in self.0.iter() {
            if masked.contains(&it.form) {
                masked = masked.replace(&it.form, &placeholder(&it.name)).into();
            }
        }
        masked.into_owned()
    }

    /// The same for every text of a value.
    pub fn mask_value(&self, value: &mut serde_json::Value) {
        match value {
            serde_json::Value::String(text) => *text = self.masked(text),
            serde_json::Value::Array(items) => items.iter_mut().for_each(|it| self.mask_value(it)),
            serde_json::Value::Object(fields) => fields.values_mut().for_each(|it| self.mask_value(it)),
            _ => (),
        }
    }

    /// Bytes of a file without the values themselves, to be put back by
    /// [`ValueMask::unmask_bytes`]; nothing where there are none in it.
    pub(crate) fn mask_bytes(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        let mut masked: Option<Vec<u8>> = None;
        for it in self.0.iter().filter(|it| it.is_plain) {
            let now = masked.as_deref().unwrap_or(bytes);
            masked = replaced(now, it.form.as_bytes(), placeholder(&it.name).as_bytes()).or(masked);
        }
        masked
    }

    pub(crate) fn unmask_bytes(&self, bytes: &[u8]) -> Vec<u8> {
        let mut plain = bytes.to_vec();
        for it in self.0.iter().filter(|it| it.is_plain) {
            if let Some(put_back) = replaced(&plain, placeholder(&it.name).as_bytes(), it.form.as_bytes()) {
                plain = put_back;
            }
        }
        plain
    }

    /// How long the longest of them is: so much of a text that still grows may be
    /// the beginning of one.
    pub(crate) fn longest(&self) -> usize {
        self.0.first().map_or(0, |it| it.form.len())
    }
}

/// What a token is compared by: the time it takes says nothing about it.
pub fn token_hash(token: &str) -> [u8; 32] {
    *blake3::hash(token.trim().as_bytes()).as_bytes()
}

fn placeholder(name: &str) -> String {
    format!("«secret:{name}»")
}

fn percent_encoded(value: &str) -> String {
    let mut encoded = String::new();
    for byte in value.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                encoded.push(char::from(byte))
            }
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

fn replaced(bytes: &[u8], from: &[u8], to: &[u8]) -> Option<Vec<u8>> {
    let finder = memchr::memmem::Finder::new(from);
    let mut found = finder.find_iter(bytes).peekable();
    found.peek()?;
    let (mut out, mut last) = (Vec::with_capacity(bytes.len()), 0);
    for at in found {
        out.extend_from_slice(&bytes[last..at]);
        out.extend_from_slice(to);
        last = at + from.len();
    }
    out.extend_from_slice(&bytes[last..]);
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_in_every_form_and_files_come_back() {
        let value = "p\"q\n8f3a-zz/+=9988776655";
        let mask = ValueMask::new([("KEY", value), ("SHORT", "abc")]);
        let quoted = serde_json::to_string(value).unwrap_or_default();
        let twice = serde_json::to_string(&quoted).unwrap_or_default();
        for text in [value.to_owned(), quoted, twice, BASE64_STANDARD.encode(value), percent_encoded(value)] {
            let shown = mask.masked(&format!("x {text} y abc"));
            assert!(shown.contains("«secret:KEY»") && !shown.contains("9988776655"), "{shown}");
            assert!(shown.ends_with("y abc"), "{shown}");
        }
        let file = format!("K={value}\n");
        let masked = mask.mask_bytes(file.as_bytes()).unwrap_or_default();
        assert!(!String::from_utf8_lossy(&masked).contains("9988776655"));
        assert_eq!(mask.unmask_bytes(&masked), file.as_bytes());
        assert_eq!(mask.mask_bytes(b"nothing"), None);
    }

    #[test]
    fn nobody_gets_what_is_not_allowed() {
        let rules: SecretRules = serde_json::from_value(serde_json::json!({
            "allow": {"tenant:a": ["X"], "pool:gpu": ["*"]}
        }))
        .unwrap_or_default();
        for (tenant, pool, name, want) in
            [("a", "p", "X", true), ("a", "p", "Y", false), ("b", "p", "X", false), ("b", "gpu", "Y", true)]
        {
            assert_eq!(rules.allows(tenant, pool, name), want, "{tenant} {pool} {name}");
        }
    }
}
