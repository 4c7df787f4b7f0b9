use std::collections::HashMap;

/// Names and aliases of tools, so that a rule may use any of them.
///
/// Immutable: replaced when MCP servers connect or disconnect.
#[derive(Clone, Debug, Default)]
pub struct Names {
    aliases: HashMap<String, String>,
    remote: HashMap<String, RemoteToolOrigin>,
    by_original: HashMap<String, String>,
}

/// Server and original name of an MCP tool.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct RemoteToolOrigin {
    pub(crate) server: String,
    pub(crate) original: String,
}

/// Alternative names of built-in tools. Defined here and not only in the tools, because a deny rule that
/// misses its tool for lack of an alias would fail open.
const BUILT_IN: &[(&str, &str)] = &[
    ("read_file", "Read"),
    ("FileRead", "Read"),
    ("view_file", "Read"),
    ("open_file", "Read"),
    ("write_file", "Write"),
    ("FileWrite", "Write"),
    ("edit_file", "Edit"),
    ("replace", "Edit"),
    ("FileEdit", "Edit"),
    ("list_files", "Glob"),
    ("find_files", "Glob"),
    ("grep_search", "Grep"),
    ("list_directory", "LS"),
    ("list_dir", "LS"),
    ("run_shell", "Bash"),
    ("shell", "Bash"),
    ("run_command", "Bash"),
    ("execute_command", "Bash"),
    ("web_fetch", "WebFetch"),
    ("BashInput", "TaskInput"),
    ("BashOutput", "TaskOutput"),
    ("KillShell", "TaskStop"),
    ("Task", "Agent"),
    ("agent", "Agent"),
    ("skill", "Skill"),
    ("tool_search", "ToolSearch"),
    ("SyntheticOutput", "StructuredOutput"),
];

impl Names {
    /// The built-in tools with their older names.
    pub fn built_in() -> Self {
        let mut names = Self::default();
        for (alias, name) in BUILT_IN {
            names.add_alias(alias, name);
        }
        names
    }

    /// Adds an alias. Ignored if it equals a name or already exists.
    pub fn add_alias(&mut self, alias: &str, name: &str) {
        if alias != name {
            self.aliases.entry(alias.to_owned()).or_insert_with(|| name.to_owned());
        }
    }

    /// Registers the server and original name of an MCP tool.
    pub fn add_remote(&mut self, name: &str, server: &str, tool: &str) {
        let original = format!("mcp__{server}__{tool}");
        self.by_original.insert(original.clone(), name.to_owned());
        self.remote.insert(name.to_owned(), RemoteToolOrigin { server: server.to_owned(), original });
    }

    /// The name used by the registry.
    pub fn canonical<'a>(&'a self, name: &'a str) -> &'a str {
        match self.aliases.get(name).or_else(|| self.by_original.get(name)) {
            Some(canonical) => canonical,
            None => class_name(name).and_then(|bare| self.built_in_named(bare)).unwrap_or(name),
        }
    }

    /// The tool for a class-like name: `BashTool`, `FileReadTool`.
    fn built_in_named<'a>(&'a self, bare: &'a str) -> Option<&'a str> {
        let known = BUILT_IN.iter().find(|(_, name)| *name == bare).map(|it| it.1);
        known.or_else(|| self.aliases.get(bare).map(String::as_str))
    }

    pub(crate) fn remote(&self, name: &str) -> Option<&RemoteToolOrigin> {
        self.remote.get(name)
    }
}

/// The name without the suffix `Tool`.
fn class_name(name: &str) -> Option<&str> {
    name.strip_suffix("Tool").filter(|bare| !bare.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn canonical_maps_aliases_to_registry_names() {
        let mut names = Names::built_in();
        names.add_remote("mcp__my_server__a_b", "my.server", "a.b");
        names.add_alias("Bash", "Bash");
        for (name, want) in [
            ("Task", "Agent"),
            ("BashTool", "Bash"),
            ("FileWriteTool", "Write"),
            ("GlobTool", "Glob"),
            ("MyTool", "MyTool"),
            ("read_file", "Read"),
            ("Bash", "Bash"),
            ("mcp__my.server__a.b", "mcp__my_server__a_b"),
            ("mcp__my_server__a_b", "mcp__my_server__a_b"),
            ("Unknown", "Unknown"),
        ] {
            assert_eq!(names.canonical(name), want);
        }
    }
}
