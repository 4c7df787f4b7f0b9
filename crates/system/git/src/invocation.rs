use crate::{ExecutableSetting, path_bytes};

/// One call of the git binary, built as a shell command line.
#[derive(Clone, Debug)]
pub struct GitInvocation {
    config: Vec<String>,
    /// Configuration keys (any bytes) that are overridden through environment variables.
    off: Vec<(Vec<u8>, &'static str)>,
    words: Vec<String>,
    /// Paths, as bytes.
    paths: Option<Vec<Vec<u8>>>,
    reads: bool,
}

/// Settings of every call: no file system monitor, no pager, no background maintenance.
const ALWAYS: &[&str] = &[
    "core.fsmonitor=false",
    "core.pager=cat",
    "core.quotePath=false",
    "color.ui=false",
    "advice.detachedHead=false",
    "maintenance.auto=false",
    "gc.auto=0",
    "user.useConfigOnly=true",
    "submodule.recurse=false",
    "protocol.ext.allow=never",
];

/// Additional settings of calls that only read.
const READING: &[&str] = &[
    "core.hooksPath=/dev/null",
    "log.showSignature=false",
    "diff.external=",
    "protocol.allow=never",
    "core.sshCommand=false",
    "credential.helper=",
    "core.askPass=false",
    "core.editor=false",
    "sequence.editor=false",
    "core.alternateRefsCommand=",
    "uploadpack.packObjectsHook=",
    "gpg.program=false",
    "diff.submodule=short",
    "status.submoduleSummary=false",
    "diff.ignoreSubmodules=dirty",
];

impl GitInvocation {
    /// Creates a read-only call. Programs that the repository's configuration names (`sinks`) are
    /// switched off.
    pub fn reading(subcommand: &str, sinks: &[ExecutableSetting]) -> Self {
        let mut line = Self::changing(subcommand);
        line.config.extend(READING.iter().map(|it| String::from(*it)));
        line.off.extend(sinks.iter().flat_map(ExecutableSetting::switched_off));
        line.reads = true;
        line
    }

    /// Creates a call that modifies the repository: hooks and filters run as usual.
    pub fn changing(subcommand: &str) -> Self {
        let config = ALWAYS.iter().map(|it| String::from(*it)).collect();
        Self { config, off: Vec::new(), words: vec![subcommand.to_owned()], paths: None, reads: false }
    }

    /// Adds a setting (`-c`).
    pub fn set(mut self, setting: &str) -> Self {
        self.config.push(setting.to_owned());
        self
    }

    /// Adds a trusted flag.
    pub fn flag(mut self, flag: &str) -> Self {
        self.words.push(flag.to_owned());
        self
    }

    /// Adds a trusted flag with an untrusted value, as `flag=value`.
    pub fn value(mut self, flag: &str, value: &str) -> Self {
        self.words.push(format!("{flag}{value}"));
        self
    }

    /// Adds a trusted flag and an untrusted value as the next word.
    pub fn with(mut self, flag: &str, value: &str) -> Self {
        self.words.push(flag.to_owned());
        self.words.push(value.to_owned());
        self
    }

    /// Adds untrusted names after `--end-of-options`, so that they are never parsed as flags.
    pub fn names<'a>(mut self, names: impl IntoIterator<Item = &'a str>) -> Self {
        let mut names = names.into_iter().peekable();
        if names.peek().is_some() {
            self.words.push(String::from("--end-of-options"));
            self.words.extend(names.map(str::to_owned));
        }
        self
    }

    /// Adds an untrusted name for a subcommand without `--end-of-options`. The caller must have checked
    /// that it does not start with `-`.
    pub fn plain(mut self, name: &str) -> Self {
        self.words.push(name.to_owned());
        self
    }

    /// Ends the line with `--` and paths in the notation of `path_quoting`; the list may be empty.
    pub fn paths<'a>(mut self, paths: impl IntoIterator<Item = &'a str>) -> Self {
        self.paths = Some(paths.into_iter().map(path_bytes).collect());
        self
    }

    /// Environment variables of this call. Overrides are passed as variables, because with `-c` a key
    /// containing `=` would end early. The network is blocked by `GIT_ALLOW_PROTOCOL`, because the
    /// repository's setting for one protocol would override ours for all protocols.
    fn switches(&self) -> String {
        let silent = if self.reads { "GIT_ALLOW_PROTOCOL= GIT_NO_LAZY_FETCH=1 " } else { "" };
        if self.off.is_empty() {
            return silent.to_owned();
        }
        let one = |(number, (key, value)): (usize, &(Vec<u8>, &str))| {
            format!(
                "GIT_CONFIG_KEY_{number}={} GIT_CONFIG_VALUE_{number}={} ",
                quoted_bytes(key),
                quoted(value)
            )
        };
        let all: String = self.off.iter().enumerate().map(one).collect();
        format!("{silent}GIT_CONFIG_COUNT={} {all}", self.off.len())
    }

    /// The shell command line.
    pub fn text(&self) -> String {
        let config = self.config.iter().map(|it| format!("-c {}", quoted(it)));
        let words = self.words.iter().map(|it| quoted(it));
        let paths = self.paths.iter().flat_map(|paths| {
            [String::from("--")].into_iter().chain(paths.iter().map(|it| quoted_bytes(it)))
        });
        let all = config.chain(words).chain(paths).collect::<Vec<_>>().join(" ");
        format!("{}command git --no-pager --literal-pathspecs {all}", self.switches())
    }
}

/// Quotes a word for a shell.
pub fn quoted(word: &str) -> String {
    let plain = |it: char| it.is_ascii_alphanumeric() || "-_./=:,@%+".contains(it);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

/// Quotes bytes (without NUL) for a shell. Bytes that are not UTF-8 are produced with `printf` in a
/// command substitution, which drops trailing newlines.
fn quoted_bytes(word: &[u8]) -> String {
    if let Ok(text) = std::str::from_utf8(word) {
        return quoted(text);
    }
    let inner: String = word
        .iter()
        .map(|byte| match byte {
            b' '..=b'~' if !b"'\\%\"$`!".contains(byte) => char::from(*byte).to_string(),
            byte => format!("\\{byte:03o}"),
        })
        .collect();
    format!("\"$(printf '{inner}')\"")
}

/// Environment variables for every call: no prompts, no localised messages.
pub fn variables() -> Vec<(String, String)> {
    [
        ("GIT_TERMINAL_PROMPT", "0"),
        ("GIT_ASKPASS", "false"),
        ("SSH_ASKPASS", "false"),
        ("SSH_ASKPASS_REQUIRE", "never"),
        ("GIT_EDITOR", "true"),
        ("GIT_SEQUENCE_EDITOR", "true"),
        ("GIT_PAGER", "cat"),
        ("PAGER", "cat"),
        ("LC_ALL", "C.UTF-8"),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_produces_one_shell_word() {
        for (word, want) in [
            ("plain-1.txt", "plain-1.txt"),
            ("a b", "'a b'"),
            ("it's", "'it'\\''s'"),
            ("$(x)", "'$(x)'"),
            ("", "''"),
            ("a\nb", "'a\nb'"),
        ] {
            assert_eq!(quoted(word), want);
        }
        let line = GitInvocation::changing("log").names(["-x"]).paths(["-y", ":(glob)z"]).text();
        assert!(line.ends_with("log --end-of-options -x -- -y ':(glob)z'"), "{line}");
        let line = GitInvocation::changing("add").paths(["\"caf\\351'.txt\""]).text();
        assert!(line.ends_with(r#"add -- "$(printf 'caf\351\047.txt')""#), "{line}");
    }
}
