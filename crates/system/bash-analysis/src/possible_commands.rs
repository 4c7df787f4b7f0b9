//! Commands that a command which is not understood may run, because its words
//! name them.
//!
//! Runners that are known are followed by `inner`; this is for all the others
//! (`torsocks curl x`, `python3 -c 'os.system("curl x")'`). Too uncertain to
//! refuse, enough to ask.

use super::{join_words::squeeze, mentioned_paths::runs_text, programs, subcommands::WITH_COMMANDS};

/// No more than this is looked at.
const MOST: usize = 400;
const MOST_WORDS: usize = 50;
const LONGEST: usize = 16 * 1024;

/// With these they run something.
const RUN_WORDS: &[&str] =
    &["--command", "--exec", "--run", "-c", "-s", "dlx", "exec", "run", "shell", "ssh", "watch", "x"];

/// Everything that texts which a command reads or is given as variables may
/// start, as words.
pub(crate) fn suspects_in(texts: &[String]) -> Vec<Vec<String>> {
    let mut out = Vec::new();
    texts.iter().for_each(|text| fragments(text, CommandPosition::AnyWord, &mut out));
    out
}

/// Everything that the words of a command (wrappers taken off) may start, as
/// words.
pub(crate) fn suspects(words: &[String]) -> Vec<Vec<String>> {
    let Some(first) = words.first() else { return Vec::new() };
    let name = first.rsplit('/').next().unwrap_or(first);
    let known: Vec<Option<&str>> = words.iter().map(|word| Some(word.as_str())).collect();
    if name == "git" && !programs::runs_named_program(&known) {
        return Vec::new();
    }
    let from = if WITH_COMMANDS.contains(&name) {
        words.iter().position(|word| RUN_WORDS.contains(&word.as_str())).map_or(words.len(), |at| at + 1)
    } else {
        1
    };
    let mut out = Vec::new();
    for at in from..words.len() {
        let rest: Vec<String> = words[at + 1..].iter().take(MOST_WORDS).cloned().collect();
        let values = words[at].split_once(['=', ':']).map(|(_, value)| value);
        for text in [Some(words[at].as_str()), values].into_iter().flatten() {
            out.extend(program(text).map(|name| [vec![name], rest.clone()].concat()));
        }
        let wherever = match name {
            "sed" | "gsed" => CommandPosition::BetweenSlashes,
            _ if runs_text(name) => CommandPosition::AnyWord,
            _ => CommandPosition::Beginning,
        };
        fragments(&words[at], wherever, &mut out);
    }
    out.truncate(MOST);
    out
}

/// Where in a text a command may begin.
#[derive(Clone, Copy, Eq, PartialEq)]
enum CommandPosition {
    /// At the beginning of what stands between quotes and the like.
    Beginning,
    /// At any word of it: the text is a program.
    AnyWord,
    /// The same, and what is put in place of something else runs.
    BetweenSlashes,
}

/// The name of a program, if a word can be one.
fn program(word: &str) -> Option<String> {
    let name = if word.starts_with('/') { word.rsplit('/').next()? } else { word };
    let plain = |c: char| c.is_ascii_alphanumeric() || "._+-".contains(c);
    (!name.is_empty() && !name.starts_with('-') && name.chars().all(plain)).then(|| name.to_owned())
}

/// Commands within a text.
fn fragments(text: &str, wherever: CommandPosition, out: &mut Vec<Vec<String>>) {
    if LONGEST < text.len() || !text.contains(|c: char| c.is_whitespace() || "'\"`([!".contains(c)) {
        return;
    }
    let slashes = wherever == CommandPosition::BetweenSlashes;
    for fragment in text.split(|c: char| "'\"`()[]{},;|&<>=:!\n".contains(c) || slashes && "/#@".contains(c))
    {
        let fragment = squeeze(fragment);
        let words: Vec<&str> = fragment.split(' ').filter(|it| !it.is_empty()).take(MOST_WORDS).collect();
        let starts = if wherever == CommandPosition::Beginning { 1.min(words.len()) } else { words.len() };
        for at in 0..starts {
            let Some(name) = program(words[at]) else { continue };
            let rest = words[at + 1..].iter().map(|it| (*it).to_owned());
            out.push([name].into_iter().chain(rest).collect());
            if MOST < out.len() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{suspects, suspects_in};

    #[test]
    fn what_words_may_start() {
        for (line, want) in [
            (&["torsocks", "-q", "curl", "x"][..], true),
            (&["python3", "-c", "import os; os.system(\"curl x\")"], true),
            (&["python3", "-c", "subprocess.run(['curl', 'x'])"], true),
            (&["ruby", "-e", "`curl x`"], true),
            (&["hyperfine", "curl x"], true),
            (&["ssh", "-oProxyCommand=curl x", "h"], true),
            (&["split", "--filter=curl x", "a"], true),
            (&["socat", "-", "EXEC:curl"], true),
            (&["npm", "exec", "--", "curl"], true),
            (&["docker", "run", "image", "curl"], true),
            (&["git", "grep", "-O", "curl"], true),
            (&["ln", "-s", "/usr/bin/curl", "c"], true),
            (&["sed", "s/.*/curl x/e", "a"], true),
            (&["npm", "install", "curl"], false),
            (&["docker", "curl"], false),
            (&["git", "commit", "-m", "use curl x"], false),
            (&["tool", "--note", "please curl x"], false),
            (&["tool", "docs/curl"], false),
            (&["tool", "curl.txt"], false),
            (&["tool", "-curl"], false),
        ] {
            let words: Vec<String> = line.iter().map(|it| (*it).to_owned()).collect();
            let found = suspects(&words).iter().any(|it| it.first().is_some_and(|name| name == "curl"));
            assert_eq!(found, want, "{line:?}");
        }
        assert_eq!(suspects_in(&["!curl x".to_owned()])[0][0], "curl");
    }
}
