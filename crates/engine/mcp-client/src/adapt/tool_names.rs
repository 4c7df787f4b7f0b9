use std::collections::HashMap;

use crate::client::OfferedTool;

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

/// What the names of all tools of a server begin with.
pub fn tool_prefix(server: &str) -> String {
    format!("mcp__{}__", server_part(server))
}

/// The name of one tool of a server, unless another tool of that server would have
/// the same.
pub fn tool_name(server: &str, tool: &str) -> String {
    tool_prefix(server) + &sanitised(tool)
}

/// A server's part of the names of its tools. Where nothing of its name is left,
/// every such server would have the same: those get a mark of their own.
pub(crate) fn server_part(server: &str) -> String {
    let clean = sanitised(server);
    if server.is_empty() || clean.bytes().any(|it| it.is_ascii_alphanumeric()) {
        return clean;
    }
    // FNV-1a: the same in every session, which the standard hasher does not promise.
    let step = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    format!("{clean}-{:08x}", server.bytes().fold(0x811c_9dc5, step))
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
        assert_eq!(tool_prefix("größe"), "mcp__gr__e__");
        let (weather, mail) = (tool_prefix("天気"), tool_prefix("메일"));
        assert!(weather != mail && weather.starts_with("mcp____-") && weather.is_ascii(), "{weather} {mail}");
    }
}
