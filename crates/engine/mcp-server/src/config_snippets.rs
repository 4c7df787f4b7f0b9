use serde_json::json;

/// How to configure a client to use this server.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ConfigSnippet {
    /// Name of the client.
    pub client: &'static str,
    /// Configuration file.
    pub file: &'static str,
    /// Language of the text: `json` or `toml`.
    pub language: &'static str,
    pub text: String,
}

/// Returns configuration snippets for common clients that start `command` with `args` as a server named
/// `name`.
pub fn client_snippets(name: &str, command: &str, args: &[&str]) -> Vec<ConfigSnippet> {
    let server = json!({"command": command, "args": args});
    let typed = json!({"type": "stdio", "command": command, "args": args});
    let json = |client, file, value: serde_json::Value| ConfigSnippet {
        client,
        file,
        language: "json",
        text: serde_json::to_string_pretty(&value).unwrap_or_default(),
    };
    // JSON strings and lists of strings are also valid TOML.
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
