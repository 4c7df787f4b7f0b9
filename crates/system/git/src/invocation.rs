use crate::{ExecutableSetting, path_bytes};

/// One call of the git binary, as words for a shell.
#[derive(Clone, Debug)]
pub struct GitInvocation {
    config: Vec<String>,
    /// Keys of any bytes that are set for this call.
    off: Vec<(Vec<u8>, &'static str)>,
    words: Vec<String>,
    /// Paths, which are bytes.
    paths: Option<Vec<Vec<u8>>>,
    reads: bool,
}

/// What holds for every call: nothing watches files for git, nothing pages,
/// nothing is fetched behind our back.
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

/// What holds for calls that read.
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
    /// A call that reads; `sinks` are the programs the repository itself names.
    pub fn reading(subcommand: &str, sinks: &[ExecutableSetting]) -> Self {
        let mut line = Self::changing(subcommand);
        line.config.extend(READING.iter().map(|it| String::from(*it)));
        line.off.extend(sinks.iter().flat_map(ExecutableSetting::switched_off));
        line.reads = true;
        line
    }

    /// A call that changes something: hooks and filters run as git runs them.
    pub fn changing(subcommand: &str) -> Self {
        let config = ALWAYS.iter().map(|it| String::from(*it)).collect();
        Self { config, off: Vec::new(), words: vec![subcommand.to_owned()], paths: None, reads: false }
    }

    /// Adds a setting for this call.
    pub fn set(mut self, setting: &str) -> Self {
        self.config.push(setting.to_owned());
        self
    }

    /// Adds a flag of ours.
    pub fn flag(mut self, flag: &str) -> Self {
        self.words.push(flag.to_owned());
        self
    }

    /// Adds a flag of ours with a value from outside, as one word.
    pub fn value(mut self, flag: &str, value: &str) -> Self {
        self.words.push(format!("{flag}{value}"));
        self
    }

    /// Adds a flag of ours and a value from outside as the next word.
    pub fn with(mut self, flag: &str, value: &str) -> Self {
        self.words.push(flag.to_owned());
        self.words.push(value.to_owned());
        self
    }

    /// Adds names from outside that are no flags, whatever they look like.
    pub fn names<'a>(mut self, names: impl IntoIterator<Item = &'a str>) -> Self {
        let mut names = names.into_iter().peekable();
        if names.peek().is_some() {
            self.words.push(String::from("--end-of-options"));
            self.words.extend(names.map(str::to_owned));
        }
        self
    }

    /// Adds a name from outside to a subcommand that does not know the mark
    /// before names. The caller has checked that it is no flag.
    pub fn plain(mut self, name: &str) -> Self {
        self.words.push(name.to_owned());
        self
    }

    /// Ends the line with paths, as `path_quoting` writes them; they may be
    /// none.
    pub fn paths<'a>(mut self, paths: impl IntoIterator<Item = &'a str>) -> Self {
        self.paths = Some(paths.into_iter().map(path_bytes).collect());
        self
    }

    /// What holds for this call as variables. Settings are some because on the
    /// command line a key could end early: its name may hold any character. That a
    /// call that reads talks to nobody is one because a setting of the repository
    /// for one protocol is stronger than ours for all of them.
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

    /// The line for a shell.
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

/// One word for a shell, whatever it holds.
pub fn quoted(word: &str) -> String {
    let plain = |it: char| it.is_ascii_alphanumeric() || "-_./=:,@%+".contains(it);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

/// One word for a shell, of any bytes but NUL. What is no text is printed by the
/// shell itself, which every shell can do; line ends at its end get lost.
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

/// Variables of every call: nobody is asked for anything, messages are in one
/// language.
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
    fn words_stay_words() {
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
