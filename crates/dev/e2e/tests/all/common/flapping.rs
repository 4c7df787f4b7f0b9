//! A real MCP server that can be stopped and changed during a test.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used, reason = "test code")]

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::common::{Haft, eventually};

pub struct Flapping {
    dir: PathBuf,
}

/// Input schema of its tools: a number.
pub fn schema(about: &str) -> Value {
    json!({
        "type": "object", "required": ["count"],
        "properties": {"count": {"type": "integer", "description": about}},
    })
}

impl Flapping {
    /// A server with these tools: name and description.
    pub fn new(haft: &Haft, name: &str, tools: &[(&str, &str)]) -> Self {
        let server = Self { dir: haft.home().join(format!("server-{name}")) };
        std::fs::create_dir_all(&server.dir).unwrap();
        let tools: Vec<(&str, Value)> = tools.iter().map(|(name, about)| (*name, schema(about))).collect();
        server.offer(&tools);
        server
    }

    /// Offers other tools from the next listing on.
    pub fn offer(&self, tools: &[(&str, Value)]) {
        let tool = |(name, input): &(&str, Value)| json!({"name": name, "description": format!("Does {name}, {}", input["properties"]["count"]["description"]), "inputSchema": input});
        let tools: Vec<Value> = tools.iter().map(tool).collect();
        let part = self.dir.join("tools.part");
        std::fs::write(&part, json!(tools).to_string()).unwrap();
        std::fs::rename(part, self.dir.join("tools.json")).unwrap();
    }

    pub fn config(&self) -> Value {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/common/flapping_server.py");
        json!({"command": "python3", "args": ["-IS", script, self.dir]})
    }

    /// Ends, and fails to start again.
    pub fn go_down(&self) {
        std::fs::write(self.dir.join("down"), "").unwrap();
        let pid = std::fs::read_to_string(self.dir.join("pid")).unwrap();
        std::process::Command::new("kill").args(["-9", &pid]).status().unwrap();
        let stat = format!("/proc/{pid}/stat");
        eventually("the server is gone", || {
            let stat = std::fs::read_to_string(&stat).unwrap_or_default();
            stat.is_empty() || stat.rsplit(')').next().unwrap_or_default().trim_start().starts_with('Z')
        });
    }

    /// File with its process id.
    pub fn pid_file(&self) -> PathBuf {
        self.dir.join("pid")
    }

    pub fn come_up(&self) {
        std::fs::remove_file(self.dir.join("down")).unwrap();
    }
}
