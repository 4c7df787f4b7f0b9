//! Tool names appear only in the tool's own folder, in documents and in tests.
//!
//! Code elsewhere that compares names would have to be changed whenever a tool is added, removed or
//! renamed. Tools describe their effect (`CallEffect`), what they access (`AccessSet`) and their
//! properties (`Traits`) instead.

use std::{fs, path::Path};

use crate::command;

/// Files that may contain names, with the reason. An unnecessary exception is an error.
const EXCEPTIONS: &[(&str, &str)] = &[
    (
        "crates/calls/permission/src/",
        "Read(...), Edit(...) and Bash(...) are families of rules that people write into settings, and a deny must hold under an older name also where the tool is not there",
    ),
    ("crates/frontends/cli/src/commands/permissions/", "a plain text is judged as a command line"),
    (
        "crates/frontends/console/src/prompts/permission.rs",
        "shows the effects of a command on lines of their own",
    ),
    ("crates/frontends/cli/src/commands/demo.rs", "counts what its own script did"),
    (
        "crates/frontends/cli/src/commands/import/",
        "rules of other agents name their tools, and become rules of ours",
    ),
    (
        "crates/frontends/cli/src/commands/tool/listing.rs",
        "prints results the way programs of the shell print them",
    ),
    ("crates/frontends/cli/src/run/session_spec.rs", "--bare is three tools by their names"),
    ("crates/frontends/cli/src/commands/tool/mod.rs", "reads a file for the person by calling the tool"),
    (
        "crates/frontends/fleet/src/worker/takeover.rs",
        "calls that change files and nothing else may be made again when their workspace is gone",
    ),
    (
        "crates/frontends/fleet/src/worker/blob_reads.rs",
        "only reading may mean a blob of the fleet, never changing",
    ),
    (
        "crates/sessions/session/src/agents/builtin.rs",
        "a kind of agents is called as the tool that starts it",
    ),
    (
        "crates/sessions/session/src/build/unknown_tool_names.rs",
        "lists tools that a session may still get, so that a rule about one is no slip",
    ),
    (
        "crates/sessions/session/src/mcp_servers/tool_sync.rs",
        "whether a call needs servers is asked before there is a session with tools",
    ),
    (
        "crates/sessions/session/src/permission_dry_run.rs",
        "judges calls of tools that are not there, by what their usual parameters name",
    ),
    (
        "crates/frontends/sdk-server/src/frames.rs",
        "the protocol says of results of commands alone that they are no errors",
    ),
];

/// Text before the name in a tool's definition.
const DEFINITION: &str = concat!("const NAME: &'static str", " = \"");

struct SourceFile {
    path: String,
    /// Code without tests and comments.
    code: String,
}

pub(crate) fn check(root: &Path) -> Result<Vec<String>, String> {
    let root_text = root.to_string_lossy();
    let listed = command::output(
        "git",
        &["-C", &root_text, "ls-files", "--cached", "--others", "--exclude-standard"],
    )?;
    let sources = listed.lines().filter(|path| is_source(path)).filter_map(|path| {
        let text = fs::read_to_string(root.join(path)).ok()?;
        Some(SourceFile { path: path.to_owned(), code: code_of(&text) })
    });
    Ok(problems(&sources.collect::<Vec<_>>()))
}

fn problems(files: &[SourceFile]) -> Vec<String> {
    let names: Vec<(&str, &str)> =
        files.iter().flat_map(|file| defined(&file.code).map(|name| (name, folder(&file.path)))).collect();
    let mut needed = vec![false; EXCEPTIONS.len()];
    let mut problems = Vec::new();
    for file in files {
        let foreign = names.iter().filter(|(name, home)| {
            !file.path.starts_with(home) && file.code.contains(&format!("\"{name}\""))
        });
        for (name, home) in foreign {
            match EXCEPTIONS.iter().position(|(path, _)| file.path.starts_with(path)) {
                Some(idx) => needed[idx] = true,
                None => {
                    problems.push(format!("{} names the tool {name}, which belongs to {home}", file.path))
                }
            }
        }
    }
    let stale = EXCEPTIONS
        .iter()
        .zip(needed)
        .filter(|((path, _), needed)| !needed && files.iter().any(|file| file.path.starts_with(path)));
    problems.extend(stale.map(|((path, _), _)| {
        format!("{path} names no tool any more; take it out of xtask/src/tidy/tool_names.rs")
    }));
    problems
}

fn is_source(path: &str) -> bool {
    let is_test = ["/tests/", "/benches/", "/examples/", "crates/dev/"].iter().any(|it| path.contains(it))
        || path.ends_with("_tests.rs")
        || path.ends_with("/tests.rs");
    path.starts_with("crates/") && path.ends_with(".rs") && !is_test
}

/// Returns the code of a file before its tests, without comments.
fn code_of(text: &str) -> String {
    let code = text.split("#[cfg(test)]").next().unwrap_or_default();
    code.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

fn defined(code: &str) -> impl Iterator<Item = &str> {
    code.split(DEFINITION).skip(1).filter_map(|rest| rest.split('"').next())
}

fn folder(path: &str) -> &str {
    path.rfind('/').map_or(path, |at| &path[..=at])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tool_name_outside_its_folder_is_reported() {
        let file = |path: &str, text: &str| SourceFile { path: path.to_owned(), code: code_of(text) };
        let tool = file("crates/engine/builtin-tools/src/dig/mod.rs", &format!("    {DEFINITION}Dig\";"));
        let check = |path: &str, text: &str| {
            problems(&[
                SourceFile { ..file(path, text) },
                SourceFile { path: tool.path.clone(), code: tool.code.clone() },
            ])
        };
        for (path, text, allowed) in [
            ("crates/engine/builtin-tools/src/dig/view.rs", "f(\"Dig\")", true),
            ("crates/engine/agent/src/x.rs", "// \"Dig\"", true),
            ("crates/engine/agent/src/x.rs", "f(\"Digs\")", true),
            ("crates/engine/agent/src/x.rs", "#[cfg(test)] f(\"Dig\")", true),
            ("crates/frontends/sdk-server/src/frames.rs", "f(\"Dig\")", true),
            ("crates/engine/agent/src/x.rs", "f(\"Dig\")", false),
            ("crates/frontends/sdk-server/src/frames.rs", "", false),
        ] {
            assert_eq!(check(path, text).is_empty(), allowed, "{path} {text}");
        }
    }
}
