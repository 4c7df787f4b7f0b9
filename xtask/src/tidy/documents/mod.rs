//! What the documents name in backticks exists in the source.
//!
//! Checked are commands and flags of the program, environment variables, paths
//! of the repository, `Type::function` and `module::item`, and single names that
//! can only be names of code. The check reads text and builds nothing.

mod source;
mod spans;

use std::{fs, path::Path};

use self::{
    source::SourceIndex,
    spans::{NamedText, named_texts},
};
use crate::command;

/// Written by the program from its own definitions.
const GENERATED: &[&str] = &["docs/tools.md", "docs/flags.md"];

/// Beginnings of environment variables that the program reads.
const VARIABLES: &[&str] = &["HAFT_", "CLAUDE_", "ANTHROPIC_", "OPENAI_", "BASH_", "MCP_"];

/// What the program reads under both of its names, `HAFT_X` and `CLAUDE_CODE_X`,
/// stands in the source without either.
const SHARED_VARIABLES: &[&str] = &["HAFT_", "CLAUDE_CODE_"];

/// Names of other programs that ours does not know, with the page that says so.
const FOREIGN: &[(&str, &[&str])] = &[(
    "docs/agent-sdk.md",
    &[
        "file_suggestions",
        "list_permission_rules",
        "get_hooks_listing",
        "register_repo_root",
        "set_mcp_permission_mode_override",
        "end_user_input",
    ],
)];

pub(crate) fn check(root: &Path) -> Result<Vec<String>, String> {
    let root_text = root.to_string_lossy();
    let listed = command::output(
        "git",
        &["-C", &root_text, "ls-files", "--cached", "--others", "--exclude-standard"],
    )?;
    let files: Vec<String> = listed.lines().map(str::to_owned).collect();
    let documents: Vec<&String> = files.iter().filter(|name| is_document(name)).collect();
    let index = SourceIndex::read(root, &files);
    let mut problems = Vec::new();
    for name in documents {
        let text = fs::read_to_string(root.join(name)).map_err(|err| format!("{name}: {err}"))?;
        let foreign = FOREIGN.iter().find(|(page, _)| page == name).map_or(&[][..], |it| it.1);
        for named in named_texts(&text).into_iter().filter(|it| !foreign.contains(&it.text.as_str())) {
            let wrong = problem_of(&named, &index);
            problems.extend(wrong.map(|why| format!("{name}:{}: {why}", named.line)));
        }
    }
    Ok(problems)
}

fn is_document(name: &str) -> bool {
    let is_root_page = !name.contains('/') && name.ends_with(".md");
    let is_page = name.starts_with("docs/") && name.ends_with(".md");
    (is_root_page || is_page) && !GENERATED.contains(&name)
}

/// What is wrong with one name, if anything is.
fn problem_of(named: &NamedText, index: &SourceIndex) -> Option<String> {
    let text = named.text.as_str();
    if text == "haft" {
        return None;
    }
    if let Some(words) = text.strip_prefix("haft ") {
        return command_problem(words, index);
    }
    if text.starts_with("--") {
        return flag_problem(text, index);
    }
    variable_problem(text, index)
        .or_else(|| path_problem(text, index))
        .or_else(|| item_problem(text, index))
        .or_else(|| name_problem(text, index))
}

/// `haft tool list|describe`, `haft undo | redo`, `haft tasks stop ID --json`.
fn command_problem(words: &str, index: &SourceIndex) -> Option<String> {
    let mut level = Some(String::from("CliCommand"));
    let mut above = None;
    for word in words.split_whitespace() {
        if word == "--" {
            return None;
        }
        if word == "|" {
            level = above.clone();
            continue;
        }
        let Some(current) = level.clone() else { break };
        let is_plain = word.chars().all(|c| c.is_ascii_lowercase() || c == '-' || c == '|');
        if !is_plain || word.starts_with('-') {
            break;
        }
        for name in word.split('|') {
            if !index.has_command(&current, name) {
                return Some(format!("the program has no command `{name}` (in `haft {words}`)"));
            }
        }
        let below = format!("{}Command", pascal(word));
        above = Some(current);
        level = index.has_level(&below).then_some(below);
    }
    let own = words.split(" -- ").next().unwrap_or(words);
    flag_problem(own, index)
}

fn flag_problem(text: &str, index: &SourceIndex) -> Option<String> {
    let flags = text.split_whitespace().filter_map(|word| {
        let flag = word.trim_start_matches('[').strip_prefix("--")?;
        let end = flag.find(|c: char| !c.is_ascii_alphanumeric() && c != '-').unwrap_or(flag.len());
        Some(&flag[..end])
    });
    let mut unknown = flags.filter(|flag| !flag.is_empty() && !index.has_flag(&kebab(flag)));
    unknown.next().map(|flag| format!("the program has no flag `--{flag}`"))
}

fn variable_problem(text: &str, index: &SourceIndex) -> Option<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '…');
    let mut unknown = words.filter(|word| {
        VARIABLES.iter().any(|start| word.starts_with(start) && word.len() > start.len())
            && !word.contains('…')
            && !word.contains(|c: char| c.is_ascii_lowercase())
            && !index.has_word(word)
            && !SHARED_VARIABLES
                .iter()
                .any(|start| word.strip_prefix(start).is_some_and(|end| index.has_word(end)))
    });
    unknown.next().map(|word| format!("no source names the variable `{word}`"))
}

/// Paths that begin with a directory of the repository or a crate, and every
/// path of a Rust file.
fn path_problem(text: &str, index: &SourceIndex) -> Option<String> {
    let is_path = |c: char| c.is_ascii_alphanumeric() || "_-./<>*".contains(c);
    if !text.contains('/') || !text.chars().all(is_path) {
        return None;
    }
    let first = text.split('/').next().unwrap_or_default();
    if first.starts_with('.') {
        return None;
    }
    let is_ours = index.is_top_directory(first) || index.is_crate(first) || text.ends_with(".rs");
    let is_known = !is_ours || index.has_path(text.trim_end_matches('/'));
    (!is_known).then(|| format!("the repository has no `{text}`"))
}

/// `Type::function(…)`, `module::item`, `Enum::Variant`.
fn item_problem(text: &str, index: &SourceIndex) -> Option<String> {
    if !text.contains("::") {
        return None;
    }
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != ':').unwrap_or(text.len());
    let parts: Vec<&str> = text[..end].split("::").filter(|part| !part.is_empty()).collect();
    let mut pairs = parts.windows(2);
    let wrong = pairs.find(|pair| !index.has_item(pair[0], pair[1]))?;
    Some(format!("no source defines `{}::{}`", wrong[0], wrong[1]))
}

/// A single word with a hump or an underscore is a name of code, of a field or
/// of an event: it stands somewhere in the source, fields also as serde derives
/// them from. Cases of the Agent SDKs' options are named at run time.
fn name_problem(text: &str, index: &SourceIndex) -> Option<String> {
    let is_word = text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let humps = text.chars().skip(1).filter(char::is_ascii_uppercase).count();
    let has_lower = text.contains(|c: char| c.is_ascii_lowercase());
    let is_name = is_word && has_lower && (text.trim_matches('_').contains('_') || humps > 0);
    let snake = kebab(text).replace('-', "_");
    let is_known = index.has_word(text) || index.has_word(&snake) || text.starts_with("option_");
    (is_name && !is_known).then(|| format!("no source contains `{text}`"))
}

/// `add-json` becomes `AddJson`.
fn pascal(word: &str) -> String {
    let capital = |part: &str| part[..1].to_uppercase() + &part[1..];
    word.split('-').filter(|part| !part.is_empty()).map(capital).collect()
}

/// `AddJson`, `addJson` and `add_json` become `add-json`.
fn kebab(word: &str) -> String {
    let mut out = String::new();
    for c in word.chars() {
        if c.is_ascii_uppercase() && !out.is_empty() {
            out.push('-');
        }
        out.push(if c == '_' { '-' } else { c.to_ascii_lowercase() });
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index() -> SourceIndex {
        let mut index = SourceIndex::default();
        index.add_file(
            "crates/frontends/cli/src/args/mod.rs",
            "#[derive(Debug, Subcommand)]\npub(crate) enum CliCommand {\n    /// Lists: `A`.\n    #[command(subcommand)]\n    Tool(ToolCommand),\n    Undo {\n        #[arg(long, requires = \"id\")]\n        turn: bool,\n    },\n    Redo,\n}\n#[derive(Subcommand)]\nenum ToolCommand {\n    List,\n    Run,\n}\n#[arg(long = \"allowedTools\", alias = \"allowed-tools\")]\npub(crate) allowed: Vec<String>,\n",
        );
        index.add_file(
            "crates/calls/tool-runtime/src/tool_pool.rs",
            "pub struct Pool;\nimpl Pool {\n    pub fn explaining() {}\n}\npub enum Sort {\n    First,\n}\nconst X: &str = \"HAFT_CALL\";\n",
        );
        index
    }

    #[test]
    fn wrong_names_are_found() {
        let index = index();
        for (text, is_right) in [
            ("haft tool list|run", true),
            ("haft tool list|fly", false),
            ("haft fly", false),
            ("haft undo | redo ID", true),
            ("haft undo | fly", false),
            ("haft undo ID --turn", true),
            ("haft undo --turns", false),
            ("haft tool run -- prog --any", true),
            ("--allowedTools RULES", true),
            ("--allowed-tools", true),
            ("--no", false),
            ("HAFT_CALL=1", true),
            ("HAFT_CALLS", false),
            ("HAFT_…", true),
            ("tool-runtime/tool_pool", true),
            ("tool-runtime/tool_pools", false),
            ("crates/calls/tool-runtime", true),
            ("crates/<layer>/tool-runtime", true),
            ("crates/calls/gone.rs", false),
            ("tool_pool.rs/x", true),
            ("src/tool_pool.rs", true),
            ("a/b", true),
            ("Pool::explaining(x)", true),
            ("Pool::gone", false),
            ("tool_runtime::Pool::explaining", true),
            ("tool_runtime::Gone", false),
            ("Sort::First", true),
            ("Sort::Last", false),
            ("allowedTools", true),
            ("someField", false),
            ("plain", true),
        ] {
            let named = NamedText { line: 1, text: text.to_owned() };
            assert_eq!(problem_of(&named, &index).is_none(), is_right, "{text}");
        }
    }

    #[test]
    fn names_are_read_from_text_and_commands() {
        let text = "See `a` and `b c`.\n```sh\nhaft tool list | haft run  # both\nexport X=1\n```\n```rust\n`no`\n```\n    haft cost `x`\n";
        let found: Vec<(usize, String)> =
            named_texts(text).into_iter().map(|named| (named.line, named.text)).collect();
        let want = [(1, "a"), (1, "b c"), (3, "haft tool list"), (3, "haft run"), (9, "x")];
        assert_eq!(found, want.map(|(line, text)| (line, text.to_owned())));
    }
}
