use serde_json::json;

/// How one client is told about a server of ours.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ConfigSnippet {
    /// The client.
    pub client: &'static str,
    /// Where the text belongs.
    pub file: &'static str,
    /// The language of the text: `json` or `toml`.
    pub language: &'static str,
    /// The text.
    pub text: String,
}

/// What to write into the configuration of common clients so that they start
/// `command` with `args` as a server called `name`.
pub fn client_snippets(name: &str, command: &str, args: &[&str]) -> Vec<ConfigSnippet> {
    let server = json!({"command": command, "args": args});
    let typed = json!({"type": "stdio", "command": command, "args": args});
    let json = |client, file, value: serde_json::Value| ConfigSnippet {
        client,
        file,
        language: "json",
        text: serde_json::to_string_pretty(&value).unwrap_or_default(),
    };
    // A JSON text is a TOML text too, for strings and lists of them.
    let codex = format!("[mcp_servers.{name}]\ncommand = {}\nargs = {}", json!(command), json!(args));
    vec![
        json("Claude Code", ".mcp.json", json!({"mcpServers": {name: typed}})),
        json("Claude Desktop", "claude_desktop_config.json", json!({"mcpServers": {name: server}})),
        json("Cursor", ".cursor/mcp.json", json!({"mcpServers": {name: server}})),
        json("VS Code", ".vscode/mcp.json", json!({"servers": {name: typed}})),
        json("Zed", "settings.json", json!({"context_servers": {name: server}})),
        ConfigSnippet { client: "Codex", file: "~/.codex/config.toml", language: "toml", text: codex },
    ]
}
