//! Reference pages that are generated from tables are complete: every environment variable
//! that the source reads is in the list of variables, and every exit code has a name there.

use std::{collections::BTreeSet, fs, path::Path};

use crate::command;

/// The list that docs/reference/environment.md is made of.
const LIST: &str = "crates/base/types/src/environment.txt";

/// Where the program's exit codes come from; helper processes have codes of their own.
const FRONTENDS: &str = "crates/frontends/";

/// Beginnings of names that Haft or a provider of models owns: a string that begins so and is
/// all capitals is the name of a variable, wherever it stands.
const PREFIXES: &[&str] = &[
    "HAFT_",
    "CLAUDE_",
    "ANTHROPIC_",
    "OPENAI_",
    "GEMINI_",
    "OPENROUTER_",
    "OTEL_",
    "MCP_",
    "BASH_",
    "OLLAMA_",
    "LMSTUDIO_",
    "VLLM_",
    "LLAMACPP_",
];

/// Functions and closures of the source that look a variable up by its name.
const READERS: &[&str] = &[
    "var",
    "var_os",
    "variable",
    "text",
    "os_text",
    "is_on",
    "is_set",
    "get",
    "env",
    "named",
    "ours",
    "says",
    "directory",
    "lookup",
    "millis",
    "number",
];

/// Names that are read without their beginning stand in the list with it.
const SHARED: &[&str] = &["HAFT_", "CLAUDE_CODE_"];

/// Strings that look like a variable and are none that Haft reads, and why.
const OTHERS: &[(&str, &str)] = &[
    ("BASH_ENV", "removed from the environment of commands"),
    ("BASH_XTRACEFD", "removed from the environment of commands"),
    ("HAFT_BLOBS", "a stream of NATS"),
    ("HAFT_LEDGER", "a stream of NATS"),
];

pub(crate) fn check(root: &Path) -> Result<Vec<String>, String> {
    let list = fs::read_to_string(root.join(LIST)).map_err(|err| format!("{LIST}: {err}"))?;
    let listed: BTreeSet<&str> = list
        .lines()
        .filter(|line| line.starts_with(|first: char| first.is_ascii_uppercase()))
        .flat_map(|line| line.split('|').next().unwrap_or_default().split(", ").map(str::trim))
        .collect();
    let root_text = root.to_string_lossy();
    let files = command::output(
        "git",
        &["-C", &root_text, "ls-files", "--cached", "--others", "--exclude-standard", "*.rs"],
    )?;
    let mut problems = BTreeSet::new();
    for name in files.lines().filter(|name| is_source(name)) {
        let Ok(text) = fs::read_to_string(root.join(name)) else { continue };
        let code = code_of(&text);
        for variable in variables_in(&code).into_iter().filter(|it| !is_listed(it, &listed)) {
            problems.insert(format!("{name} reads the variable {variable}, which is not in {LIST}"));
        }
        for code in bare_exit_codes(&code).into_iter().filter(|_| name.starts_with(FRONTENDS)) {
            problems.insert(format!("{name} ends with {code}: use a constant of haft_types::exit_codes"));
        }
    }
    Ok(problems.into_iter().collect())
}

fn is_source(path: &str) -> bool {
    let is_test = ["/tests/", "/benches/", "/examples/", "crates/dev/"].iter().any(|it| path.contains(it))
        || path.ends_with("tests.rs")
        || path.ends_with("/build.rs");
    path.starts_with("crates/") && !is_test
}

/// The code in front of the tests of a file, without comments.
fn code_of(text: &str) -> String {
    let code = text.split("#[cfg(test)]").next().unwrap_or_default();
    code.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

fn is_listed(name: &str, listed: &BTreeSet<&str>) -> bool {
    listed.contains(name)
        || OTHERS.iter().any(|(other, _)| *other == name)
        || SHARED.iter().any(|start| listed.contains(format!("{start}{name}").as_str()))
}

/// Strings of the code that are names of variables: by how they begin, or because they are
/// handed to something that looks variables up.
fn variables_in(code: &str) -> Vec<String> {
    let pieces: Vec<&str> = code.split('"').collect();
    let mut found = Vec::new();
    for (at, piece) in pieces.iter().enumerate().skip(1) {
        let before = pieces[at - 1];
        let is_owned = PREFIXES.iter().any(|start| piece.starts_with(start) && start.len() < piece.len());
        let is_read =
            before.strip_suffix('(').is_some_and(|it| READERS.iter().any(|reader| ends_in(it, reader)));
        if is_name(piece) && (is_owned || is_read) {
            found.push((*piece).to_owned());
        }
    }
    found
}

/// Whether a text ends in this word.
fn ends_in(text: &str, word: &str) -> bool {
    let before = text.strip_suffix(word);
    before.is_some_and(|it| !it.ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_'))
}

fn is_name(text: &str) -> bool {
    let is_capital = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    2 < text.len()
        && text.starts_with(|c: char| c.is_ascii_uppercase())
        && text.chars().all(is_capital)
        && !text.ends_with('_')
}

/// Exit codes that stand in the code as numbers.
fn bare_exit_codes(code: &str) -> Vec<String> {
    let mut found = Vec::new();
    for start in ["ExitCode::from(", "process::exit("] {
        for rest in code.split(start).skip(1) {
            let argument: String = rest.chars().take_while(|c| *c != ')').collect();
            if argument.parse::<i32>().is_ok() {
                found.push(format!("{start}{argument})"));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_found_in_code_and_looked_up_in_the_list() {
        let listed = BTreeSet::from(["HAFT_LOG", "HAFT_MAX_RETRIES", "TERM"]);
        for (code, unknown) in [
            (r#"std::env::var_os("HAFT_LOG")"#, ""),
            (r#"const NAME: &str = "HAFT_NEW";"#, "HAFT_NEW"),
            (r#"vars.ours("MAX_RETRIES")"#, ""),
            (r#"vars.ours("MAX_WAIT")"#, "MAX_WAIT"),
            (r#"variable("TERM")"#, ""),
            (r#"variable("TERM_COLOUR")"#, "TERM_COLOUR"),
            (r#"print("MAX_TOKENS")"#, ""),
            (r#"get(&format!("HAFT_{name}"))"#, ""),
            (r#"starts_with("CLAUDE_CODE_")"#, ""),
        ] {
            let found = variables_in(&code_of(code));
            let unlisted: Vec<String> = found.into_iter().filter(|it| !is_listed(it, &listed)).collect();
            assert_eq!(unlisted.join(" "), unknown, "{code}");
        }
    }

    #[test]
    fn comments_and_tests_are_not_read() {
        let code = "// \"HAFT_A\"\nfn f() {}\n#[cfg(test)]\nmod tests { const A: &str = \"HAFT_B\"; }\n";
        assert_eq!(variables_in(&code_of(code)), Vec::<String>::new());
    }

    #[test]
    fn exit_codes_have_names() {
        assert_eq!(bare_exit_codes("ExitCode::from(141)"), ["ExitCode::from(141)"]);
        assert_eq!(bare_exit_codes("ExitCode::from(exit_codes::USAGE)"), Vec::<String>::new());
    }
}
