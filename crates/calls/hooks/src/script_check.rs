//! Distinguishes a denial from a script that never ran.
//!
//! Both can be exit status 2: hooks deny with it, and `python3 missing.py`, `perl missing.pl` and a
//! shell syntax error also exit with it. Treating the latter as a denial locks the user out; treating a
//! denial as a failure lets a denied call pass where failures are ignored. So only proof counts: the
//! script does not exist, or standard error starts with the interpreter's own error message.

use std::{
    path::{Path, PathBuf},
    sync::LazyLock,
};

use regex::Regex;

use crate::CommandHandler;

/// Context for finding a command's script.
pub(crate) struct ScriptContext<'a> {
    pub(crate) cwd: &'a Path,
    /// Looks up an environment variable of the hook.
    pub(crate) variable: &'a dyn Fn(&str) -> Option<String>,
}

/// Why a command that exited with this status never ran, if certain.
pub(crate) fn never_ran(
    command: &CommandHandler,
    status: i32,
    stderr: &str,
    around: &ScriptContext<'_>,
) -> Option<String> {
    let first = || haft_types::text::one_line(stderr, 200);
    match status {
        // Exit statuses of shells for a command that cannot be executed or found.
        126 | 127 if stderr.trim().is_empty() => Some("the command cannot be executed".to_owned()),
        126 | 127 => Some(first()),
        2 => match missing_script(command, around) {
            Some(script) => Some(format!("there is no script {}", script.display())),
            None => is_interpreter_complaint(stderr).then(first),
        },
        _ => None,
    }
}

/// Error messages of interpreters that could not start. They are anchored at the start of standard error
/// and begin with the interpreter's name.
fn is_interpreter_complaint(stderr: &str) -> bool {
    static COMPLAINTS: LazyLock<Option<Regex>> = LazyLock::new(|| {
        let shell = r"(?:\S*/)?(?:ba|da|k|z|a)?sh";
        Regex::new(&format!(
            r"(?x)^(?:
                (?:\S*/)?(?:python|pypy)[\d.]*:\ can't\ open\ file\ \S
              | (?:\S*/)?(?:python|pypy)[\d.]*:\ can't\ find\ '__main__'
              | Can't\ open\ perl\ script\ \S
              | {shell}:\ \d+:\ (?:cannot|can't)\ open\ \S
              | {shell}:\ (?:cannot|can't)\ open\ \S
              | {shell}:\ \d+:\ Syntax\ error:
              | {shell}:\ (?:-c:\ )?line\ \d+:\ (?:syntax\ error|unexpected\ EOF)
              | \S+:\ line\ \d+:\ (?:syntax\ error\ near\ unexpected\ token|syntax\ error:\ unexpected\ end\ of\ file|unexpected\ EOF\ while\ looking)
              | \S+:\ \d+:\ Syntax\ error:
              | error:\ Failed\ to\ spawn:
            )"
        ))
        .ok()
    });
    COMPLAINTS.as_ref().is_some_and(|regex| regex.is_match(stderr.trim_start()))
}

/// The script that a command passes to an interpreter, if it is certain which word that is and the file
/// does not exist.
fn missing_script(command: &CommandHandler, around: &ScriptContext<'_>) -> Option<PathBuf> {
    let words = match command {
        CommandHandler::Shell { line, .. } => plain_words(line, around.variable)?,
        CommandHandler::Exec { program, args } => [&[program.clone()][..], args].concat(),
    };
    let script = around.cwd.join(script_word(&words)?);
    match std::fs::metadata(&script) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Some(script),
        Ok(_) | Err(_) => None,
    }
}

/// The script among the words of a simple command. `None` after an option that may take a value, because
/// then the script's position is uncertain.
fn script_word(words: &[String]) -> Option<&str> {
    let mut words = words.iter().map(String::as_str).skip_while(|word| is_assignment(word)).peekable();
    if words.peek().is_some_and(|word| basename(word) == "env" || *word == "exec") {
        words.next();
        while words.next_if(|word| is_assignment(word)).is_some() {}
    }
    let plain_options = plain_options(basename(words.next()?))?;
    while let Some(option) = words.next_if(|word| word.starts_with('-')) {
        let letters = option.strip_prefix('-').filter(|letters| !letters.is_empty())?;
        if !letters.chars().all(|letter| plain_options.contains(letter)) {
            return None;
        }
    }
    words.next()
}

fn basename(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

fn is_assignment(word: &str) -> bool {
    let name = word.split_once('=').map(|(name, _)| name);
    name.is_some_and(|name| {
        !name.is_empty() && name.chars().all(|it| it.is_ascii_alphanumeric() || it == '_')
    })
}

/// One-letter options without a value of an interpreter that takes a script as first argument.
fn plain_options(interpreter: &str) -> Option<&'static str> {
    let version_free = interpreter.trim_end_matches(|it: char| it.is_ascii_digit() || it == '.');
    match version_free {
        "python" | "pypy" => Some("uBEsSIOqbdv"),
        "sh" | "bash" | "dash" | "zsh" | "ksh" | "ash" => Some("eulxfpv"),
        "perl" | "ruby" => Some("wTW"),
        "node" | "nodejs" | "bun" | "php" | "lua" => Some(""),
        _ => None,
    }
}

/// The words of a shell line that is one simple command, with quotes removed and known variables
/// expanded. `None` if the shell would do anything else.
fn plain_words(line: &str, variable: &dyn Fn(&str) -> Option<String>) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote: Option<char> = None;
    let mut chars = line.trim().chars().peekable();
    while let Some(next) = chars.next() {
        match (quote, next) {
            (Some(open), it) if it == open => quote = None,
            (Some('\''), it) => word.get_or_insert_default().push(it),
            (_, '$') => {
                let name = variable_name(&mut chars)?;
                word.get_or_insert_default().push_str(&variable(&name)?);
            }
            (_, '\\' | '`') => return None,
            (Some(_), it) => word.get_or_insert_default().push(it),
            (None, '\'' | '"') => {
                quote = Some(next);
                word.get_or_insert_default();
            }
            (None, it) if it.is_whitespace() && it != '\n' => words.extend(word.take()),
            (None, '~') if word.is_none() => word = Some(variable("HOME")?),
            (None, it) if it == '\n' || ";|&<>()*?[]{}#!".contains(it) => return None,
            (None, it) => word.get_or_insert_default().push(it),
        }
    }
    words.extend(word);
    quote.is_none().then_some(words)
}

fn variable_name(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Option<String> {
    let braced = chars.next_if_eq(&'{').is_some();
    let mut name = String::new();
    while let Some(letter) = chars.next_if(|it| it.is_ascii_alphanumeric() || *it == '_') {
        name.push(letter);
    }
    let closed = !braced || chars.next_if_eq(&'}').is_some();
    (closed && !name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(line: &str, status: i32, stderr: &str) -> bool {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("there.py"), "").unwrap();
        let command = CommandHandler::Shell { line: line.to_owned(), shell: None };
        let root = directory.path().to_string_lossy().into_owned();
        let variable = |name: &str| (name == "CLAUDE_PROJECT_DIR").then(|| root.clone());
        let around = ScriptContext { cwd: directory.path(), variable: &variable };
        never_ran(&command, status, stderr, &around).is_some()
    }

    #[test]
    fn never_ran_requires_proof() {
        for (line, status, stderr, want) in [
            ("python3 missing.py", 2, "", true),
            ("python3 -u missing.py a b", 2, "", true),
            ("python3 \"$CLAUDE_PROJECT_DIR\"/missing.py", 2, "", true),
            ("python3 ${CLAUDE_PROJECT_DIR}/there.py", 2, "", false),
            ("A=1 env B=2 python3.12 missing.py", 2, "", true),
            ("python3 there.py", 2, "no", false),
            ("python3 there.py missing.py", 2, "no", false),
            ("python3 -c 'exit(2)'", 2, "no", false),
            ("python3 -m mod", 2, "no", false),
            ("bash -o pipefail there.py", 2, "no", false),
            ("node -r missing there.py", 2, "no", false),
            ("cd x && python3 missing.py", 2, "no", false),
            ("python3 $UNKNOWN/x.py", 2, "no", false),
            ("exit 2", 2, "", false),
            ("check missing.py", 2, "", false),
            ("x", 2, "python3: can't open file '/x/m.py': [Errno 2] No such file or directory", true),
            ("x", 2, "/usr/bin/python3.12: can't open file '/x/m.py': [Errno 13] Permission denied", true),
            ("x", 2, "Can't open perl script \"m.pl\": No such file or directory", true),
            ("x", 2, "sh: 0: cannot open m.sh: No such file", true),
            ("x", 2, "bash: -c: line 1: syntax error near unexpected token `fi'", true),
            ("x", 2, "hook.sh: line 7: syntax error near unexpected token `done'", true),
            ("x", 2, "hook.sh: line 9: syntax error: unexpected end of file", true),
            ("x", 2, "sh: 1: Syntax error: end of file unexpected", true),
            ("x", 2, "Blocked: python3: can't open file is what you would get", false),
            ("x", 2, "a.py: No such file or directory", false),
            ("x", 2, "line 3: syntax error in your JSON", false),
            ("x", 127, "bash: nope: command not found", true),
            ("x", 126, "", true),
            ("x", 1, "python3: can't open file 'x'", false),
        ] {
            assert_eq!(judge(line, status, stderr), want, "{line} / {status} / {stderr}");
        }
    }
}
