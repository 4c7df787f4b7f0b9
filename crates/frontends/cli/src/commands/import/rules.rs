//! Converts permission rules of other agents.

/// Haft's name of a Gemini CLI tool; `None` if it has no counterpart.
pub(super) fn gemini_tool(name: &str) -> Option<&'static str> {
    Some(match name {
        "run_shell_command" | "ShellTool" => "Bash",
        "read_file" | "ReadFileTool" | "read_many_files" | "ReadManyFilesTool" => "Read",
        "write_file" | "WriteFileTool" => "Write",
        "replace" | "EditTool" => "Edit",
        "glob" | "GlobTool" => "Glob",
        "search_file_content" | "grep_search" | "GrepTool" => "Grep",
        "list_directory" | "LSTool" => "LS",
        "web_fetch" | "WebFetchTool" => "WebFetch",
        "google_web_search" | "WebSearchTool" => "WebSearch",
        _ => return None,
    })
}

/// Converts a rule such as `run_shell_command(git status)`; `None` for a tool without counterpart. In
/// the Gemini CLI a command is a prefix match.
pub(super) fn gemini_rule(text: &str) -> Option<String> {
    let (name, inside) = match text.split_once('(') {
        Some((name, rest)) => (name.trim(), rest.strip_suffix(')')?.trim()),
        None => (text.trim(), ""),
    };
    let tool = gemini_tool(name)?;
    match (tool, inside) {
        (tool, "") => Some(tool.to_owned()),
        ("Bash", command) => Some(format!("Bash({command}:*)")),
        (_, _) => None,
    }
}

/// Restricts a file rule to the project. Other agents apply file rules only to the project and ask about
/// files outside; a bare `Edit` in Haft matches every file. The error says why the rule cannot be
/// imported.
pub(super) fn within_project(list: &str, rule: String) -> Result<String, &'static str> {
    match (list, rule.as_str()) {
        ("allow", "Edit" | "Write") => Ok(String::from("Edit(./**)")),
        ("allow", "Read" | "Glob" | "Grep" | "LS") => {
            Err("not needed: Haft looks at files of the project without asking")
        }
        _ => Ok(rule),
    }
}

/// The rule list for opencode's `allow`, `ask` or `deny`; `None` for another value.
pub(super) fn opencode_list(word: &str) -> Option<&'static str> {
    match word {
        "allow" => Some("allow"),
        "ask" => Some("ask"),
        "deny" => Some("deny"),
        _ => None,
    }
}

/// Haft's tools for the name of an opencode permission.
pub(super) fn opencode_tools(name: &str) -> Option<&'static [&'static str]> {
    Some(match name {
        "edit" | "patch" => &["Edit", "Write"],
        "write" => &["Write"],
        "list" => &["LS"],
        "bash" => &["Bash"],
        "webfetch" => &["WebFetch"],
        "websearch" => &["WebSearch"],
        "read" => &["Read"],
        "glob" => &["Glob"],
        "grep" => &["Grep"],
        _ => return None,
    })
}

/// Converts an opencode pattern for one of Haft's tools; `None` if the tool takes no such pattern. The
/// pattern is kept unchanged, although a trailing ` *` has another meaning in Haft: there it matches any
/// arguments.
pub(super) fn opencode_rule(tool: &str, pattern: &str) -> Option<String> {
    match (tool, pattern) {
        (tool, "*") => Some(tool.to_owned()),
        ("Bash", pattern) => Some(format!("Bash({pattern})")),
        ("Edit" | "Write" | "Read", pattern) => {
            Some(format!("{}({pattern})", if tool == "Write" { "Edit" } else { tool }))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_become_ours_or_nothing() {
        for (theirs, want) in [
            ("run_shell_command(git status)", Some("Bash(git status:*)")),
            ("run_shell_command", Some("Bash")),
            ("ShellTool(ls)", Some("Bash(ls:*)")),
            ("read_file", Some("Read")),
            ("read_file(x)", None),
            ("save_memory", None),
            ("run_shell_command(git", None),
        ] {
            assert_eq!(gemini_rule(theirs).as_deref(), want, "{theirs}");
        }
        assert_eq!(opencode_rule("Bash", "git log *").as_deref(), Some("Bash(git log *)"));
        assert_eq!(opencode_rule("Write", "*").as_deref(), Some("Write"));
        assert_eq!(opencode_rule("WebFetch", "x*"), None);
    }

    #[test]
    fn what_is_allowed_ends_with_the_project() {
        for (list, rule, want) in [
            ("allow", "Edit", Some("Edit(./**)")),
            ("allow", "Write", Some("Edit(./**)")),
            ("allow", "Edit(*.md)", Some("Edit(*.md)")),
            ("allow", "Read", None),
            ("allow", "Bash", Some("Bash")),
            ("deny", "Read", Some("Read")),
            ("ask", "Edit", Some("Edit")),
        ] {
            assert_eq!(within_project(list, rule.to_owned()).ok().as_deref(), want, "{list} {rule}");
        }
    }
}
