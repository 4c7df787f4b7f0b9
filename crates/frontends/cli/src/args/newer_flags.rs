//! Flags of an Agent SDK that is newer than this program.
//!
//! An SDK passes flags that only newer versions know. Such a flag must not end the session, so under an
//! SDK unknown flags are dropped with a warning. At a terminal and with `-p` they stay an error, because
//! the user can correct them.

use std::ffi::OsString;

use clap::{ArgMatches, Command, error::ErrorKind};

/// Whether an SDK started the program, that is `--input-format stream-json` is given. Prompts then
/// arrive as JSON lines, and no word of the command line is a prompt or a subcommand.
pub(crate) fn is_of_sdk(words: &[OsString]) -> bool {
    let is_pair = |pair: &[OsString]| pair[0] == "--input-format" && pair[1] == "stream-json";
    words.windows(2).any(is_pair) || words.iter().any(|it| it == "--input-format=stream-json")
}

/// Parses the command line of an SDK and drops unknown flags with their values. The second value lists
/// the dropped flags. Other errors are returned.
pub(crate) fn parse(
    root: &mut Command,
    mut words: Vec<OsString>,
) -> Result<(ArgMatches, Vec<String>), clap::Error> {
    let mut ignored = Vec::new();
    loop {
        let err = match root.try_get_matches_from_mut(words.iter()) {
            Ok(matches) => return Ok((matches, ignored)),
            Err(err) => err,
        };
        let Some(at) = (err.kind() == ErrorKind::UnknownArgument).then(|| unknown(root, &words)).flatten()
        else {
            return Err(err);
        };
        let flag = words.remove(at);
        let has_value = flag.as_encoded_bytes().contains(&b'=');
        // The value of an unknown flag follows it with or without `=`. An SDK passes no other plain
        // words.
        while !has_value && words.get(at).is_some_and(|it| !it.as_encoded_bytes().starts_with(b"-")) {
            words.remove(at);
        }
        let name = flag.to_string_lossy();
        ignored.push(name.split('=').next().unwrap_or_default().to_owned());
    }
}

/// Index of the first unknown flag. An equal word before it may be the value of another flag, so the
/// text alone does not identify it.
fn unknown(root: &mut Command, words: &[OsString]) -> Option<usize> {
    let is_unknown = |end: &usize| {
        let read = root.try_get_matches_from_mut(words[..=*end].iter());
        read.is_err_and(|err| err.kind() == ErrorKind::UnknownArgument)
    };
    (1..words.len()).find(is_unknown)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "test code")]

    use clap::{CommandFactory as _, FromArgMatches as _};

    use super::*;
    use crate::args::Args;

    fn read(words: &[&str]) -> (Args, Vec<String>) {
        let words: Vec<OsString> =
            std::iter::once("haft").chain(words.iter().copied()).map(OsString::from).collect();
        assert!(is_of_sdk(&words), "{words:?}");
        let (matches, ignored) = parse(&mut Args::command(), words).unwrap();
        (Args::from_arg_matches(&matches).unwrap(), ignored)
    }

    #[test]
    fn unknown_flags_of_an_sdk_are_left_out_with_their_values() {
        let usual = ["--input-format", "stream-json", "--model", "m"];
        for (more, want) in [
            (&[][..], &[][..]),
            (&["--future"], &["--future"]),
            (&["--future=a b", "--verbose"], &["--future"]),
            (&["--future", "value", "--verbose"], &["--future"]),
            // The value of an unknown flag is not parsed as a command.
            (&["--future", "update"], &["--future"]),
            (&["--future", "a", "b", "c", "--more={\"x\": 1}"], &["--future", "--more"]),
            (&["--future", "{\"a\": 1}", "-z"], &["--future", "-z"]),
            // A known flag keeps its value, even one that looks like an unknown flag.
            (&["--append-system-prompt", "--future", "--future"], &["--future"]),
        ] {
            for (before, after) in [(&usual[..], more), (more, &usual[..])] {
                let (args, ignored) = read(&[before, after].concat());
                assert_eq!(ignored, want, "{more:?}");
                assert!(args.command.is_none() && args.run.prompt.is_none(), "{more:?}");
                assert_eq!(args.run.model.model.as_deref(), Some("m"));
                assert_eq!(args.run.output.verbose, more.contains(&"--verbose"));
                let kept = more.contains(&"--append-system-prompt").then_some("--future");
                assert_eq!(args.run.output.append_system_prompt.as_deref(), kept);
            }
        }
    }

    #[test]
    fn other_mistakes_of_an_sdk_stay_errors() {
        for words in [&["--max-turns", "x"][..], &["--permission-mode", "newer"], &["--session-id=x"]] {
            let words = [&["haft", "--input-format=stream-json"], words].concat();
            assert!(
                parse(&mut Args::command(), words.iter().map(OsString::from).collect()).is_err(),
                "{words:?}"
            );
        }
    }

    #[test]
    fn only_json_lines_mean_an_sdk() {
        for words in
            [&["haft", "-p", "--future"][..], &["haft", "--input-format", "text"], &["haft", "stream-json"]]
        {
            assert!(!is_of_sdk(&words.iter().map(OsString::from).collect::<Vec<_>>()), "{words:?}");
        }
    }
}
