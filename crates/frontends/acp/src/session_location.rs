//! Location of a session, and the MCP servers the editor provides.

use std::path::PathBuf;

use serde_json::{Map, Value, json};
use url::Url;

use crate::jsonrpc::AcpError;

/// Location of a session, from the editor.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SessionLocation {
    pub cwd: PathBuf,
    /// Additional workspace directories.
    pub extra_dirs: Vec<PathBuf>,
    /// `{"mcpServers": {name: configuration}}`.
    pub servers: Value,
}

impl SessionLocation {
    /// Parses the parameters of `session/new`, `session/load` and similar requests.
    pub(crate) fn read(params: &Value) -> Result<Self, AcpError> {
        let cwd = absolute(&params["cwd"], "cwd")?;
        let listed = params["additionalDirectories"].as_array().into_iter().flatten();
        let extra_dirs =
            listed.map(|it| absolute(it, "additionalDirectories")).collect::<Result<Vec<_>, _>>()?;
        let mut servers = Map::new();
        for server in params["mcpServers"].as_array().into_iter().flatten() {
            let (name, config) = server_config(server)?;
            servers.insert(name, config);
        }
        Ok(Self { cwd, extra_dirs, servers: json!({"mcpServers": servers}) })
    }

    /// Whether the editor provides servers.
    pub(crate) fn has_servers(&self) -> bool {
        self.servers["mcpServers"].as_object().is_some_and(|it| !it.is_empty())
    }
}

fn absolute(value: &Value, what: &str) -> Result<PathBuf, AcpError> {
    let path = value.as_str().map(PathBuf::from).filter(|it| it.is_absolute());
    path.ok_or_else(|| AcpError::params(format!("`{what}` must be an absolute path, not {value}")))
}

/// Converts a server from the protocol's format to that of Haft's settings.
fn server_config(server: &Value) -> Result<(String, Value), AcpError> {
    let name = server["name"].as_str().filter(|it| !it.is_empty());
    let name = name.ok_or_else(|| AcpError::params("an MCP server has no `name`"))?;
    let pairs = |list: &Value| {
        let pairs = list.as_array().into_iter().flatten();
        let pairs = pairs.filter_map(|it| Some((it["name"].as_str()?.to_owned(), it["value"].clone())));
        Value::Object(pairs.collect())
    };
    let needed = |field: &str| match server[field].as_str().filter(|it| !it.is_empty()) {
        Some(_) => Ok(()),
        None => Err(AcpError::params(format!("the MCP server {name} has no `{field}`"))),
    };
    let config = match server["type"].as_str() {
        None | Some("stdio") => {
            needed("command")?;
            let env = pairs(&server["env"]);
            json!({"type": "stdio", "command": server["command"], "args": server["args"], "env": env})
        }
        Some(kind @ ("http" | "sse")) => {
            needed("url")?;
            json!({"type": kind, "url": server["url"], "headers": pairs(&server["headers"])})
        }
        Some(kind) => {
            return Err(AcpError::params(format!(
                "the MCP server {name} is of type `{kind}`; stdio, http and sse are known"
            )));
        }
    };
    Ok((name.to_owned(), config))
}

/// Returns the path of a `file://` URI; `None` for other URIs.
pub fn file_uri_path(uri: &str) -> Option<PathBuf> {
    Url::parse(uri).ok().filter(|it| it.scheme() == "file")?.to_file_path().ok()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use proptest::prelude::*;

    use super::*;

    fn path_uri(path: &Path) -> String {
        Url::from_file_path(path).map(String::from).unwrap_or_default()
    }

    #[test]
    fn every_server_format_is_parsed() {
        let params = json!({"cwd": "/w", "additionalDirectories": ["/x"], "mcpServers": [
            {"name": "a", "command": "run", "args": ["1"], "env": [{"name": "K", "value": "v"}]},
            {"name": "b", "type": "http", "url": "http://localhost/", "headers": [{"name": "H", "value": "w"}]},
        ]});
        let place = SessionLocation::read(&params).map_err(|it| it.message);
        let want = json!({"mcpServers": {
            "a": {"type": "stdio", "command": "run", "args": ["1"], "env": {"K": "v"}},
            "b": {"type": "http", "url": "http://localhost/", "headers": {"H": "w"}},
        }});
        assert_eq!(place.map(|it| it.servers), Ok(want));
        for bad in [
            json!({"cwd": "relative"}),
            json!({}),
            json!({"cwd": "/w", "mcpServers": [{"command": "x"}]}),
            json!({"cwd": "/w", "mcpServers": [{"name": "x"}]}),
            json!({"cwd": "/w", "mcpServers": [{"name": "x", "command": 7}]}),
            json!({"cwd": "/w", "mcpServers": [{"name": "x", "type": "http", "command": "x"}]}),
            json!({"cwd": "/w", "additionalDirectories": ["x"]}),
        ] {
            assert!(SessionLocation::read(&bad).is_err(), "{bad}");
        }
        let other = json!({"cwd": "/w", "mcpServers": [{"name": "x", "type": "acp", "id": "1"}]});
        let problem = SessionLocation::read(&other).map(|_| ()).map_err(|it| it.message);
        let want = "the MCP server x is of type `acp`; stdio, http and sse are known";
        assert_eq!(problem, Err(String::from(want)));
    }

    proptest! {
        #[test]
        fn file_uris_round_trip(name in "[ -~é#%?]{1,40}") {
            let path = Path::new("/some where").join(name.replace('/', "_"));
            prop_assume!(path.components().all(|it| !matches!(it, std::path::Component::ParentDir)));
            let path: PathBuf = path.components().collect();
            prop_assert_eq!(file_uri_path(&path_uri(&path)), Some(path));
        }
    }
}
