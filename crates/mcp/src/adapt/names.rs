use std::collections::HashMap;

use crate::client::ToolDef;

/// The part of a name as rules and the wire spell it.
pub(crate) fn sanitised(name: &str) -> String {
    name.chars()
        .map(|it| if it.is_ascii_alphanumeric() || it == '_' || it == '-' { it } else { '_' })
        .collect()
}

/// `mcp__server__tool` for every tool of one server.
///
/// Foreign characters become `_`. Where that would give two tools one name,
/// those that needed it keep their original name, which the pool then marks:
/// the result does not depend on the order of the list.
pub(crate) fn tool_names(server: &str, tools: &[ToolDef]) -> Vec<String> {
    let mut users = HashMap::<String, usize>::new();
    for tool in tools {
        *users.entry(sanitised(&tool.name)).or_default() += 1;
    }
    let server = sanitised(server);
    let name = |tool: &ToolDef| {
        let clean = sanitised(&tool.name);
        match users.get(&clean) {
            Some(2..) if clean != tool.name => format!("mcp__{server}__{}", tool.name),
            _ => format!("mcp__{server}__{clean}"),
        }
    };
    tools.iter().map(name).collect()
}

/// What the names of all tools of a server begin with.
pub fn tool_prefix(server: &str) -> String {
    format!("mcp__{}__", sanitised(server))
}

/// The name with nothing replaced, as people may write it in rules.
pub(crate) fn original(server: &str, tool: &str) -> String {
    format!("mcp__{server}__{tool}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::client::tools;

    #[test]
    fn names_are_clean_unique_and_independent_of_order() {
        let named = |names: &[&str]| {
            let defs = tools(names.iter().map(|name| json!({"name": name})).collect()).0;
            tool_names("my server", &defs)
        };
        assert_eq!(named(&["a", "b.c"]), ["mcp__my_server__a", "mcp__my_server__b_c"]);
        assert_eq!(named(&["a_b", "a.b"]), ["mcp__my_server__a_b", "mcp__my_server__a.b"]);
        assert_eq!(named(&["a.b", "a_b"]), ["mcp__my_server__a.b", "mcp__my_server__a_b"]);
        assert_eq!(named(&["größe"]), ["mcp__my_server__gr__e"]);
    }
}
