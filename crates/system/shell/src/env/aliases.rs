use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    path::Path,
    sync::LazyLock,
};

use regex::Regex;

/// Aliases and functions of the user's shell.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ShellDefinitions {
    /// Alias text by name.
    pub aliases: BTreeMap<String, String>,
    /// Function definition as printed by bash, by name.
    pub functions: BTreeMap<String, String>,
}

/// A call of a private helper function, which is missing if a start-up file failed half way.
static HELPER: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"(?m)(?:^|[;|&({!]|\bthen|\bdo|\belse)[ \t]*(_[A-Za-z0-9_]+)(?:[ \t;)]|$)").ok()
});

impl ShellDefinitions {
    /// Whether there are no definitions.
    pub fn is_empty(&self) -> bool {
        self.aliases.is_empty() && self.functions.is_empty()
    }

    /// Removes definitions that cannot work in a command. Returns a notice for each.
    pub(crate) fn drop_broken(&mut self, path: &[&Path], builtins: &BTreeSet<String>) -> Vec<String> {
        let mut notices = Vec::new();
        self.drop_asking(&mut notices);
        while let Some((name, helper)) = self.incomplete(path) {
            notices.push(format!("function `{name}` calls `{helper}`, which does not exist"));
            self.functions.remove(&name);
        }
        let aliases = std::mem::take(&mut self.aliases);
        for (name, value) in &aliases {
            let command = value.split_whitespace().find(|word| !word.contains('=')).unwrap_or_default();
            let resolves = command.contains(|it: char| !is_name_char(it))
                || command.contains('/')
                || builtins.contains(command)
                || self.functions.contains_key(command)
                || (command != name && aliases.contains_key(command))
                || path.iter().any(|dir| dir.join(command).is_file());
            if resolves {
                self.aliases.insert(name.clone(), value.clone());
            } else {
                notices.push(format!("alias `{name}` stands for `{command}`, which does not exist"));
            }
        }
        notices
    }

    /// An alias such as `rm -i` would wait for an answer nobody can give, and silently remove nothing.
    fn drop_asking(&mut self, notices: &mut Vec<String>) {
        let asks = |name: &String, value: &String| {
            let mut words = value.split_whitespace();
            words.next() == Some(name) && words.any(|word| matches!(word, "-i" | "-I" | "--interactive"))
        };
        let asking: Vec<String> =
            self.aliases.iter().filter(|it| asks(it.0, it.1)).map(|it| it.0.clone()).collect();
        if !asking.is_empty() {
            notices.push(format!("aliases that ask before they act are not used: {}", asking.join(", ")));
            self.aliases.retain(|name, _| !asking.contains(name));
        }
    }

    /// A function that calls a missing private helper.
    fn incomplete(&self, path: &[&Path]) -> Option<(String, String)> {
        let pattern = HELPER.as_ref()?;
        self.functions.iter().find_map(|(name, body)| {
            let helpers = pattern.captures_iter(body).filter_map(|found| found.get(1));
            let missing = helpers.map(|it| it.as_str()).find(|helper| {
                !self.functions.contains_key(*helper)
                    && !self.aliases.contains_key(*helper)
                    && !path.iter().any(|dir| dir.join(helper).is_file())
            });
            Some((name.clone(), missing?.to_owned()))
        })
    }

    /// Shell code that defines the aliases and functions this command may use; empty if none.
    pub fn needed_for(&self, command: &str) -> String {
        let mut wanted: BTreeSet<&str> = BTreeSet::new();
        let mut open: Vec<&str> = Vec::new();
        let words: BTreeSet<&str> = names(command).collect();
        if words.contains("eval") || words.contains("source") || words.contains(".") {
            // Function names computed at run time cannot be predicted, so all public functions are
            // included.
            let public = self.functions.keys().filter(|name| !name.starts_with('_'));
            open.extend(public.chain(self.aliases.keys()).map(String::as_str));
        } else {
            open.extend(words);
        }
        while let Some(name) = open.pop() {
            let body = self.functions.get(name);
            let alias = self.aliases.get(name);
            if (body.is_some() || alias.is_some()) && wanted.insert(name) {
                open.extend(body.into_iter().chain(alias).flat_map(|text| names(text)));
            }
        }
        self.text(&wanted)
    }

    fn text(&self, wanted: &BTreeSet<&str>) -> String {
        let mut out = String::new();
        for (name, body) in self.functions.iter().filter(|it| wanted.contains(it.0.as_str())) {
            if out.is_empty() {
                // Patterns in functions may need `extglob` to parse.
                out.push_str("shopt -s extglob\n");
            }
            // The name may be an alias by now; the keyword `function` prevents its expansion.
            let body = body.strip_prefix(name.as_str()).unwrap_or(body);
            writeln!(out, "function {name}{body}").ok();
        }
        let aliases = self.aliases.iter().filter(|it| wanted.contains(it.0.as_str()));
        for (idx, (name, value)) in aliases.enumerate() {
            if idx == 0 {
                out.push_str("shopt -s expand_aliases\n");
            }
            writeln!(out, "alias -- {name}={}", quote(value)).ok();
        }
        out
    }
}

/// All words in a text that could be names of functions or aliases.
fn names(text: &str) -> impl Iterator<Item = &str> {
    text.split(|it: char| !is_name_char(it)).filter(|word| !word.is_empty())
}

fn is_name_char(it: char) -> bool {
    it.is_alphanumeric() || matches!(it, '_' | '-' | '.' | ':' | '@' | '+' | '%' | '/')
}

/// Quotes a word for the shell.
pub(crate) fn quote(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made() -> ShellDefinitions {
        let functions = [
            ("wrapper", "wrapper () \n{ \n    _helper \"$@\"\n}"),
            ("_helper", "_helper () \n{ \n    command ls \"$@\"\n}"),
            ("_unused", "_unused () \n{ \n    true\n}"),
            ("cd", "cd () \n{ \n    __zoxide_z \"$@\"\n}"),
            ("up", "up () \n{ \n    cd ..\n}"),
        ];
        let aliases =
            [("ls", "wrapper -l"), ("rm", "rm -i"), ("gone", "no-such-program-at-all x"), ("t", "true")];
        ShellDefinitions {
            functions: functions.map(|(name, body)| (name.to_owned(), body.to_owned())).into(),
            aliases: aliases.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        }
    }

    #[test]
    fn drop_broken_removes_unusable_definitions_with_notice() {
        let mut made = made();
        let builtins = BTreeSet::from([String::from("true")]);
        let notices = made.drop_broken(&[Path::new("/bin")], &builtins);
        assert_eq!(made.functions.keys().collect::<Vec<_>>(), ["_helper", "_unused", "up", "wrapper"]);
        assert_eq!(made.aliases.keys().collect::<Vec<_>>(), ["ls", "t"]);
        let all = notices.join("\n");
        assert!(
            all.contains("`cd` calls `__zoxide_z`") && all.contains("rm") && all.contains("`gone`"),
            "{all}"
        );
    }

    #[test]
    fn needed_for_includes_only_used_definitions() {
        let made = made();
        for (command, want, without) in [
            ("echo hi", "", "function"),
            ("ls -a", "function wrapper", "_unused"),
            ("ls -a", "function _helper", "function up"),
            ("ls -a", "alias -- ls='wrapper -l'", "alias -- t"),
            ("x=1; up", "function cd", "wrapper"),
            ("source x", "function up", "_unused"),
        ] {
            let got = made.needed_for(command);
            assert!(got.contains(want) && !got.contains(without), "{command}: {got}");
        }
        assert_eq!(made.needed_for("git status"), "");
    }
}
