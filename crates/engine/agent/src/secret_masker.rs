//! Masks secrets in logs, and in files with secrets that a model reads.
//!
//! A secret is replaced by a placeholder with a name. In a call, the placeholder is replaced by the
//! value, so that a file with secrets can be edited.

use std::{
    path::Path,
    sync::{Arc, LazyLock, PoisonError, RwLock},
};

use haft_tool::{Access, AccessSet};
use haft_tool_runtime::SecretMask;
use haft_types::{
    Block, Content, Message, MessageBlock,
    secret_variables::{is_key_file, is_secret_name},
};
use regex::Regex;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

/// Patterns of secrets: API keys of well-known services, tokens, private keys. Only formats that are
/// unambiguous; hashes and ids do not match.
static SHAPES: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    let shapes = [
        r"\b(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{16,}",
        r"sk-[A-Za-z0-9_-]{20,}",
        r"\bwhsec_[A-Za-z0-9+/=]{20,}",
        r"\b(?:ghp|gho|ghu|ghs|ghr)_[A-Za-z0-9]{30,}",
        r"\bgithub_pat_[A-Za-z0-9_]{40,}",
        r"\bglpat-[A-Za-z0-9_-]{20,}",
        r"\bnpm_[A-Za-z0-9]{36}",
        r"\bhf_[A-Za-z0-9]{30,}",
        r"\bSG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}",
        r"\bxox[abprs]-[A-Za-z0-9-]{10,}",
        r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b",
        r"\bAIza[A-Za-z0-9_-]{35}",
        r"\bya29\.[A-Za-z0-9_-]{20,}",
        r"\bAGE-SECRET-KEY-1[A-Z0-9]{50,}",
        r"\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}",
        r"-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)",
    ];
    shapes.iter().filter_map(|shape| Regex::new(shape).ok()).collect()
});

/// A cheap pre-check: every text that matches a pattern contains one of these.
static HINT: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let hints = [
        "_live_",
        "_test_",
        "sk-",
        "whsec_",
        "ghp_",
        "gho_",
        "ghu_",
        "ghs_",
        "ghr_",
        "github_pat_",
        "glpat-",
        "npm_",
        "hf_",
        r"SG\.",
        "xox",
        "AKIA",
        "ASIA",
        "AIza",
        r"ya29\.",
        "AGE-SECRET-KEY-1",
        "eyJ",
        "PRIVATE KEY",
    ];
    Regex::new(&hints.join("|")).ok()
});

/// `NAME=value`, as in a file of environment variables; upper case only, to skip source code. The name
/// decides whether the value is secret.
static VARIABLE: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r#"\b([A-Z][A-Z0-9_]*)=(["']?)([^\s"'`$(){}<>,;]{6,})"#).ok());

/// Assignments as in configuration files: `name: value`, `"name": "value"`, `name = value`.
static ASSIGNMENT: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r#"(?m)(?:^|[\s:"'{,/])([A-Za-z_][A-Za-z0-9_.-]*)["']?[ \t]*[=:][ \t]*(?:"([^"\n]{4,})"|'([^'\n]{4,})'|([^\s"'#,]{4,}))"#,
    )
    .ok()
});

/// `password value`, as in `.netrc`.
static SPOKEN: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"(?i)\b(password|passwd|passphrase)[ \t]+([^\s=:]{4,})").ok());

/// The password in a URL.
static IN_ADDRESS: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"[a-z]://[^/\s:@]*:([^@\s/]{4,})@").ok());

static PLACEHOLDER: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"«secret:[^»\s]{1,80}»").ok());

/// Replaces secrets by placeholders. The same secret always gets the same placeholder, which does not
/// reveal its value. Clones share the known secrets.
#[derive(Clone, Debug, Default)]
pub struct Masker {
    known: Arc<RwLock<Vec<KnownSecret>>>,
    in_results: MaskedResults,
}

/// Which tool results are masked before the model reads them.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum MaskedResults {
    Off,
    /// Values from key files, wherever they occur.
    #[default]
    KeyFiles,
    /// Everything that looks like a secret.
    All,
}

/// A secret value and its name.
#[derive(Clone, Debug)]
struct KnownSecret {
    value: String,
    placeholder: String,
}

impl KnownSecret {
    /// Whether the value could also be a common word.
    fn is_telling(&self) -> bool {
        let has = |kind: fn(&char) -> bool| self.value.chars().any(|letter| kind(&letter));
        12 <= self.value.len() && has(char::is_ascii_digit) && has(char::is_ascii_alphabetic)
    }
}

/// Minimum length of a secret; shorter values would match ordinary text.
const SHORTEST: usize = 8;

impl Masker {
    /// Creates a masker that knows the values of variables with secret-looking names.
    pub fn of_env(variables: impl IntoIterator<Item = (String, String)>) -> Self {
        let masker = Self::default();
        for (name, value) in variables {
            if is_secret_name(&name) && SHORTEST <= value.trim().len() {
                masker.learn(&name, value.trim());
            }
        }
        masker
    }

    /// Adds a secret. Values that are too short are ignored.
    pub fn know(&self, name: &str, value: &str) {
        if SHORTEST <= value.trim().len() {
            self.learn(name, value.trim());
        }
    }

    /// Masks all texts in a serialisable value.
    pub(crate) fn masked<T: Serialize + DeserializeOwned>(&self, value: T) -> T {
        let Ok(mut shown) = serde_json::to_value(&value) else { return value };
        self.mask_value(&mut shown);
        serde_json::from_value(shown).unwrap_or(value)
    }

    /// Sets which tool results are masked.
    #[must_use]
    pub fn in_results(mut self, which: MaskedResults) -> Self {
        self.in_results = which;
        self
    }

    fn known(&self) -> Vec<KnownSecret> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Adds a secret and returns its placeholder.
    fn learn(&self, name: &str, value: &str) -> String {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(secret) = known.iter().find(|secret| secret.value == value) {
            return secret.placeholder.clone();
        }
        let taken = |placeholder: &str| known.iter().any(|secret| secret.placeholder == placeholder);
        let mut placeholder = format!("«secret:{name}»");
        let mut number = 2;
        while taken(&placeholder) {
            placeholder = format!("«secret:{name}-{number}»");
            number += 1;
        }
        known.push(KnownSecret { value: value.to_owned(), placeholder: placeholder.clone() });
        // Longest first, because one secret can contain another.
        known.sort_by_key(|secret| std::cmp::Reverse(secret.value.len()));
        placeholder
    }

    /// Masks a text. Returns `None` if it contains no secret.
    pub fn mask(&self, text: &str) -> Option<String> {
        let mut masked = replace_known(text, &self.known());
        masked = replace_shapes(masked, text);
        let now = masked.as_deref().unwrap_or(text);
        let variable = may_assign(now).then(|| VARIABLE.as_ref()).flatten();
        match variable.and_then(|pattern| replaced(pattern, now, 1, 3, |name, _| format!("«secret:{name}»")))
        {
            Some(text) => Some(text),
            None => masked,
        }
    }

    /// Replaces secrets by asterisks of the same length, so that offsets do not change. Returns `None`
    /// if the text contains no secret.
    pub fn blank(&self, text: &str) -> Option<String> {
        let stars = |value: &str| "*".repeat(value.len());
        let mut blanked: Option<String> = None;
        for secret in self.known().iter().filter(|it| it.is_telling()) {
            let now = blanked.as_deref().unwrap_or(text);
            if now.contains(&secret.value) {
                blanked = Some(now.replace(&secret.value, &stars(&secret.value)));
            }
        }
        let patterns = SHAPES.iter().map(|it| (it, 0, 0)).chain(VARIABLE.as_ref().map(|it| (it, 1, 3)));
        for (pattern, name, value) in patterns {
            let now = blanked.as_deref().unwrap_or(text);
            if let Some(text) = replaced(pattern, now, name, value, |_, value| stars(value)) {
                blanked = Some(text);
            }
        }
        blanked
    }

    /// Masks the content of a key file and adds its secrets to the known ones. Returns `None` if there
    /// are none.
    fn mask_key_file(&self, text: &str) -> Option<String> {
        let mut masked: Option<String> = None;
        for pattern in SHAPES.iter() {
            let now = masked.as_deref().unwrap_or(text);
            if let Some(text) = replaced(pattern, now, 0, 0, |_, value| self.learn("key", value)) {
                masked = Some(text);
            }
        }
        for pattern in [&*IN_ADDRESS, &*ASSIGNMENT, &*SPOKEN].into_iter().flatten() {
            let now = masked.as_deref().unwrap_or(text);
            let name = if pattern.captures_len() == 2 { 0 } else { 1 };
            if let Some(text) = replaced(pattern, now, name, usize::MAX, |name, value| {
                let name = if name.contains("://") { "password" } else { name };
                self.learn(name, value)
            }) {
                masked = Some(text);
            }
        }
        masked
    }

    /// Masks all strings in a JSON value.
    pub fn mask_value(&self, value: &mut Value) {
        each_text(value, &mut |text| {
            if let Some(masked) = self.mask(text) {
                *text = masked;
            }
        });
    }

    /// Masks a message. Thinking blocks that were masked lose their signature, so that they are never
    /// sent back.
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
                    } else if signature.starts_with(['[', '{']) && self.mask(signature).is_some() {
                        // Some providers store the thinking text in the signature.
                        signature.clear();
                    }
                }
                MessageBlock::ToolUse(call) => self.mask_value(&mut call.input),
                MessageBlock::ToolResult { content, .. } => each_block(content, |text| self.mask(text)),
                MessageBlock::Other(value) => self.mask_value(value),
                MessageBlock::RedactedThinking { .. }
                | MessageBlock::Image { .. }
                | MessageBlock::Document { .. } => (),
            }
        }
    }
}

impl SecretMask for Masker {
    fn mask_result(&self, reach: &AccessSet, content: &mut Content) {
        match self.in_results {
            MaskedResults::Off => (),
            MaskedResults::All => each_block(content, |text| self.mask_key_lines(text, true)),
            MaskedResults::KeyFiles => {
                let is_key_file = reads_key_file(reach);
                each_block(content, |text| self.mask_key_lines(text, is_key_file));
            }
        }
    }

    fn unmask_input(&self, input: &mut Value) -> Result<(), String> {
        let mut unknown = None;
        let known = self.known();
        each_text(input, &mut |text| {
            if !text.contains("«secret:") {
                return;
            }
            for secret in &known {
                if text.contains(&secret.placeholder) {
                    *text = text.replace(&secret.placeholder, &secret.value);
                }
            }
            let left = PLACEHOLDER.as_ref().and_then(|pattern| pattern.find(text));
            unknown = unknown.take().or_else(|| left.map(|left| left.as_str().to_owned()));
        });
        match unknown {
            None => Ok(()),
            Some(placeholder) => Err(format!(
                "Not run: {placeholder} stands for a secret that is not known any more. Read the file it comes from again, or leave that part as it is"
            )),
        }
    }
}

impl Masker {
    /// Masks lines from key files, and secrets learnt from such files before.
    fn mask_key_lines(&self, text: &str, is_key_file: bool) -> Option<String> {
        let masked = if is_key_file { self.mask_key_file(text) } else { self.mask_named_lines(text) };
        let telling: Vec<KnownSecret> = self.known().into_iter().filter(KnownSecret::is_telling).collect();
        let again = replace_known(masked.as_deref().unwrap_or(text), &telling);
        again.or(masked)
    }

    /// Masks lines of search output that come from key files: `path:12:line`, or lines below their path.
    fn mask_named_lines(&self, text: &str) -> Option<String> {
        const NAMES: [&str; 9] =
            [".env", ".npmrc", ".netrc", ".pem", ".key", "id_", "redentials", "ecrets.", ".pgpass"];
        if !NAMES.iter().any(|name| text.contains(name)) {
            return None;
        }
        let mut changed = false;
        let mut below_key_file = false;
        let mut out = String::with_capacity(text.len());
        for line in text.split_inclusive('\n') {
            let path = line.split([':', '\n']).next().unwrap_or_default();
            let is_path = !path.is_empty() && !path.contains(char::is_whitespace);
            let names_key_file = is_path && is_key_file(Path::new(path));
            if is_path && path.len() + 1 >= line.len() {
                below_key_file = names_key_file;
            } else if line.trim().is_empty() {
                below_key_file = false;
            }
            match (names_key_file || below_key_file).then(|| self.mask_key_file(line)).flatten() {
                Some(masked) => {
                    changed = true;
                    out.push_str(&masked);
                }
                None => out.push_str(line),
            }
        }
        changed.then_some(out)
    }
}

/// Whether the declared accesses of a call include a key file.
fn reads_key_file(reach: &AccessSet) -> bool {
    let AccessSet::Declared(accesses) = reach else { return false };
    accesses.iter().any(|access| match access {
        Access::Read(path) | Access::Write(path) => is_key_file(path),
        Access::Command(line) => {
            let words = line.text().split(|it: char| it.is_whitespace() || "\"'<>|;&()=".contains(it));
            words.filter(|word| !word.is_empty()).any(|word| is_key_file(Path::new(word)))
        }
        Access::Fetch(_) | Access::Named(_) => false,
    })
}

fn each_block(content: &mut Content, mask: impl Fn(&str) -> Option<String>) {
    for block in &mut content.0 {
        if let Block::Text { text } = block
            && let Some(masked) = mask(text)
        {
            *text = masked;
        }
    }
}

fn each_text(value: &mut Value, change: &mut dyn FnMut(&mut String)) {
    match value {
        Value::String(text) => change(text),
        Value::Array(items) => items.iter_mut().for_each(|item| each_text(item, change)),
        Value::Object(fields) => fields.values_mut().for_each(|field| each_text(field, change)),
        _ => (),
    }
}

fn replace_known(text: &str, known: &[KnownSecret]) -> Option<String> {
    let mut masked: Option<String> = None;
    for secret in known {
        let now = masked.as_deref().unwrap_or(text);
        if now.contains(secret.value.as_str()) {
            masked = Some(now.replace(secret.value.as_str(), &secret.placeholder));
        }
    }
    masked
}

/// Whether an equals sign follows a possible end of a variable name.
fn may_assign(text: &str) -> bool {
    let bytes = text.as_bytes();
    let ends_name = |at: &usize| matches!(bytes[*at], b'A'..=b'Z' | b'0'..=b'9' | b'_');
    memchr::memchr_iter(b'=', bytes).any(|at| at.checked_sub(1).as_ref().is_some_and(ends_name))
}

fn replace_shapes(mut masked: Option<String>, text: &str) -> Option<String> {
    let now = masked.as_deref().unwrap_or(text);
    if HINT.as_ref().is_some_and(|hint| !hint.is_match(now)) {
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

/// Replaces the values of assignments to secret names. `name` and `value` are group numbers; `name` 0
/// means that any name counts, `usize::MAX` means the last group that matched.
fn replaced(
    pattern: &Regex,
    text: &str,
    name: usize,
    value: usize,
    placeholder: impl Fn(&str, &str) -> String,
) -> Option<String> {
    let mut out = String::new();
    let mut end = 0;
    for found in pattern.captures_iter(text) {
        let named = found.get(name).map_or("", |it| it.as_str());
        let held = match value {
            usize::MAX => found.iter().flatten().last(),
            group => found.get(group),
        };
        let Some(held) = held else { continue };
        let decides = 0 < name;
        if (decides && !is_secret_name(named)) || stands_for_a_secret(held.as_str()) {
            continue;
        }
        out.push_str(&text[end..held.start()]);
        out.push_str(&placeholder(named, held.as_str()));
        end = held.end();
    }
    (0 < end).then(|| {
        out.push_str(&text[end..]);
        out
    })
}

/// Whether a value only refers to a secret: a variable, a placeholder, a template.
fn stands_for_a_secret(value: &str) -> bool {
    let lower = value.to_ascii_lowercase();
    value.starts_with(['$', '<', '{', '%', '«', '*', '[', '('])
        || ["true", "false", "null", "none", "example", "placeholder"].contains(&lower.as_str())
        || ["your", "change", "xxxx", "todo", "dummy"].iter().any(|word| lower.starts_with(word))
}

#[cfg(test)]
mod tests {
    use haft_tool::CommandLine;
    use serde_json::json;

    use super::*;

    fn of(pairs: &[(&str, &str)]) -> Masker {
        Masker::of_env(pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())))
    }

    #[test]
    fn secrets_go_and_look_alikes_stay() {
        let masker = of(&[
            ("ANTHROPIC_API_KEY", "value-4711-x"),
            ("HOME", "/home/somebody"),
            ("SHORT_TOKEN", "abc"),
            ("DB_PASSWORD", "hunter2hunter2"),
        ]);
        let key = format!("a sk-{} b", "a1B2".repeat(8));
        let stripe = format!("key: sk_live_{}", "a1B2".repeat(6));
        let jwt = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N";
        for (text, want) in [
            ("key=value-4711-x;", "key=«secret:ANTHROPIC_API_KEY»;".to_owned()),
            ("hunter2hunter2", "«secret:DB_PASSWORD»".to_owned()),
            (key.as_str(), "a «secret» b".to_owned()),
            (stripe.as_str(), "key: «secret»".to_owned()),
            (jwt, "«secret»".to_owned()),
            (
                "MAIL_PASSWORD=tr0ub4dor PORT=3000",
                "MAIL_PASSWORD=«secret:MAIL_PASSWORD» PORT=3000".to_owned(),
            ),
            (
                "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----\nafter",
                "«secret»\nafter".to_owned(),
            ),
        ] {
            assert_eq!(masker.mask(text), Some(want), "{text}");
            let blanked = masker.blank(text).unwrap();
            assert!(blanked.len() == text.len() && blanked.contains("****"), "{text}: {blanked}");
        }
        for innocent in [
            "${TOKEN}",
            "4b825dc642cb6eb9a060e54bf8d69288fbee4904",
            "123e4567-e89b-12d3-a456-426614174000",
            "iVBORw0KGgoAAAANSUhEUgAAAAUAAAAFCAYAAACNbyblAAAAHElEQVQI12P4",
            "abc /home/somebody task-force sk-short",
            "API_KEY=your-key-here DB_PASSWORD=$DB_PASSWORD",
            "let key = map.get(name); const TOKEN: usize = 3;",
        ] {
            assert_eq!(masker.mask(innocent), None, "{innocent}");
        }
    }

    fn read(masker: &Masker, reach: AccessSet, text: &str) -> String {
        let mut content = Content::text(text);
        masker.mask_result(&reach, &mut content);
        content.to_text()
    }

    /// What comes from a file of keys does not reach the model, in whatever way
    /// it is read, and what repeats the placeholder gets the value back.
    #[test]
    fn files_of_keys_are_read_without_their_keys() {
        let env = "     1\tPORT=3000\n     2\tDB_PASSWORD=tr0ub4dor&3x9\n     3\texport STRIPE='sk_live_0123456789abcdefABCD'\n";
        for reach in [
            AccessSet::read("/ws/.env"),
            AccessSet::Declared(vec![Access::Command(CommandLine::new("cat ./.env.local | head -3"))]),
        ] {
            let masker = Masker::default();
            let seen = read(&masker, reach, env);
            assert!(
                seen.contains("PORT=3000") && seen.contains("DB_PASSWORD=«secret:DB_PASSWORD»"),
                "{seen}"
            );
            assert!(!seen.contains("tr0ub4dor") && !seen.contains("sk_live_"), "{seen}");
            // It is known from now on, wherever it turns up.
            let later = read(&masker, AccessSet::read("/ws/log.txt"), "connected with tr0ub4dor&3x9 to db");
            assert_eq!(later, "connected with «secret:DB_PASSWORD» to db");
            let mut input = json!({"content": "PORT=1\nDB_PASSWORD=«secret:DB_PASSWORD»\n"});
            masker.unmask_input(&mut input).unwrap();
            assert_eq!(input["content"], "PORT=1\nDB_PASSWORD=tr0ub4dor&3x9\n");
            let problem = Masker::default().unmask_input(&mut json!(["«secret:DB_PASSWORD»"])).unwrap_err();
            assert!(problem.contains("Read the file"), "{problem}");
        }
        for (path, text, gone) in [
            (".npmrc", "//host/:_authToken=abcd-efgh-1234\nsave-exact=true\n", "abcd-efgh-1234"),
            (".netrc", "machine h login me password s3cr3tpw\n", "s3cr3tpw"),
            ("secrets.yml", "db:\n  password: \"s3cr3t pw\"\n", "s3cr3t pw"),
            ("credentials.json", "{\"client_secret\": \"GOCSPX-abcdef\", \"id\": \"visible-id\"}", "GOCSPX"),
            (".git-credentials", "https://me:s3cr3tpw@host\n", "s3cr3tpw"),
            ("k.pem", "-----BEGIN PRIVATE KEY-----\nMIIEabc\n-----END PRIVATE KEY-----\n", "MIIEabc"),
        ] {
            let seen = read(&Masker::default(), AccessSet::read(path), text);
            assert!(!seen.contains(gone) && seen.contains("«secret:"), "{path}: {seen}");
        }
        let found = ".env:2:DB_PASSWORD=tr0ub4dor9\nsrc/a.rs:2:DB_PASSWORD=tr0ub4dor9\n\n.env.local\n3:API_TOKEN=abcdefg7\n";
        let seen = read(&Masker::default(), AccessSet::read("/ws"), found);
        assert!(seen.contains(".env:2:DB_PASSWORD=«secret:DB_PASSWORD»"), "{seen}");
        assert!(seen.contains("3:API_TOKEN=«secret:API_TOKEN»"), "{seen}");
        let code = "fn password(token: &str) -> bool { token == \"abcdefgh\" }\n";
        assert_eq!(read(&Masker::default(), AccessSet::read("src/auth.rs"), code), code);
        let off = Masker::default().in_results(MaskedResults::Off);
        assert!(read(&off, AccessSet::read(".env"), env).contains("tr0ub4dor"));
    }
}
