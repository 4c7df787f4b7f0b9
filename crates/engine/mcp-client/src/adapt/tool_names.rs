use std::collections::HashMap;

use crate::client::OfferedTool;

/// Returns a name with characters outside of the permitted set replaced by `_`.
pub(crate) fn sanitised(name: &str) -> String {
    name.chars()
        .map(|it| if it.is_ascii_alphanumeric() || it == '_' || it == '-' { it } else { '_' })
        .collect()
}

/// Returns `mcp__server__tool` for every tool of a server.
///
/// Other characters than letters, digits, `_` and `-` become `_`. If two tools would get the same name,
/// those that were changed keep their original name, which the tool pool then makes unique; so names do
/// not depend on the order of the list.
pub(crate) fn tool_names(server: &str, tools: &[OfferedTool]) -> Vec<String> {
    let mut users = HashMap::<String, usize>::new();
    for tool in tools {
        *users.entry(sanitised(&tool.name)).or_default() += 1;
    }
    let server = server_part(server);
    let name = |tool: &OfferedTool| {
        let clean = sanitised(&tool.name);
        match users.get(&clean) {
            Some(2..) if clean != tool.name => format!("mcp__{server}__{}", tool.name),
            _ => format!("mcp__{server}__{clean}"),
        }
    };
    tools.iter().map(name).collect()
}

/// Returns the prefix of all tool names of a server.
pub fn tool_prefix(server: &str) -> String {
    format!("mcp__{}__", server_part(server))
}

/// Returns the name of a tool, assuming that no other tool of the server has the same one.
pub fn tool_name(server: &str, tool: &str) -> String {
    tool_prefix(server) + &sanitised(tool)
}

/// Returns the server part of tool names. A server name without any letter or digit gets a hash
/// appended, so that two such servers differ.
pub(crate) fn server_part(server: &str) -> String {
    let clean = sanitised(server);
    if server.is_empty() || clean.bytes().any(|it| it.is_ascii_alphanumeric()) {
        return clean;
    }
    // FNV-1a is stable across sessions; the standard hasher is not.
    let step = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    format!("{clean}-{:08x}", server.bytes().fold(0x811c_9dc5, step))
}

/// Returns the name without replacements, as users may write it in rules.
pub(crate) fn original(server: &str, tool: &str) -> String {
    format!("mcp__{server}__{tool}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::client::tools;

    #[test]
    fn tool_names_are_valid_unique_and_order_independent() {
        let named = |names: &[&str]| {
            let defs = tools(names.iter().map(|name| json!({"name": name})).collect()).0;
            tool_names("my server", &defs)
        };
        assert_eq!(named(&["a", "b.c"]), ["mcp__my_server__a", "mcp__my_server__b_c"]);
        assert_eq!(named(&["a_b", "a.b"]), ["mcp__my_server__a_b", "mcp__my_server__a.b"]);
        assert_eq!(named(&["a.b", "a_b"]), ["mcp__my_server__a.b", "mcp__my_server__a_b"]);
        assert_eq!(named(&["größe"]), ["mcp__my_server__gr__e"]);
        assert_eq!(tool_prefix("größe"), "mcp__gr__e__");
        let (weather, mail) = (tool_prefix("天気"), tool_prefix("메일"));
        assert!(weather != mail && weather.starts_with("mcp____-") && weather.is_ascii(), "{weather} {mail}");
    }
}
