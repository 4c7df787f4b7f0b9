//! Edits configuration files as text, leaving everything else unchanged.

use serde_json::{Map, Value};

/// Returns the text with a server added or replaced. An empty text becomes a new configuration.
pub fn add_server(text: &str, name: &str, server: Map<String, Value>) -> Result<String, String> {
    let mut config = parse(text)?;
    let servers = config.entry("mcpServers").or_insert_with(|| Value::Object(Map::new()));
    let Value::Object(servers) = servers else { return Err(String::from("`mcpServers` is not an object")) };
    servers.insert(name.to_owned(), Value::Object(server));
    print(&config)
}

/// Returns the text without a server; `None` if it was not there.
pub fn remove_server(text: &str, name: &str) -> Result<Option<String>, String> {
    let mut config = parse(text)?;
    let servers = config.get_mut("mcpServers").and_then(Value::as_object_mut);
    // Keeps the order of the others.
    match servers.and_then(|it| it.shift_remove(name)) {
        Some(_) => print(&config).map(Some),
        None => Ok(None),
    }
}

fn parse(text: &str) -> Result<Map<String, Value>, String> {
    if text.trim().is_empty() {
        return Ok(Map::new());
    }
    serde_json::from_str(text).map_err(|err| format!("the file is not a JSON object: {err}"))
}

fn print(config: &Map<String, Value>) -> Result<String, String> {
    let mut text = serde_json::to_string_pretty(config).map_err(|err| err.to_string())?;
    text.push('\n');
    Ok(text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn adding_server_keeps_other_entries_unchanged() {
        let server = json!({"command": "x"}).as_object().unwrap().clone();
        let first = add_server("", "b", server.clone()).unwrap();
        let second = add_server(
            &first.replace("{\n  \"mcpServers\"", "{\n  \"z\": 1,\n  \"mcpServers\""),
            "a",
            server,
        );
        let second = second.unwrap();
        let order = ["\"z\"", "\"b\"", "\"a\""].map(|key| second.find(key).unwrap());
        assert!(order.is_sorted(), "{second}");
        let third = remove_server(&second, "b").unwrap().unwrap();
        assert!(third.contains("\"a\"") && third.contains("\"z\": 1") && !third.contains("\"b\""));
        assert_eq!(remove_server(&third, "b"), Ok(None));
        assert!(add_server("[]", "a", Map::new()).is_err());
    }
}
