//! Servers of local models, and where they listen.

/// A server of models on this machine that speaks Chat Completions.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct LocalServer {
    /// How it is called on the command line.
    pub name: &'static str,
    /// The port it listens on when nobody says another.
    pub port: u16,
    /// The variable that says where it listens.
    pub variable: &'static str,
}

impl LocalServer {
    /// The servers people run.
    pub const ALL: [Self; 4] = [
        Self { name: "ollama", port: 11434, variable: "OLLAMA_HOST" },
        Self { name: "lmstudio", port: 1234, variable: "LMSTUDIO_BASE_URL" },
        Self { name: "vllm", port: 8000, variable: "VLLM_BASE_URL" },
        Self { name: "llamacpp", port: 8080, variable: "LLAMACPP_BASE_URL" },
    ];

    /// Where it listens, without a slash at the end: what its variable says
    /// (an address, `host:port` or a port), else its usual port of this machine.
    pub fn base_url(&self, env: &dyn Fn(&str) -> Option<String>) -> String {
        let said = env(self.variable).map(|it| it.trim().trim_end_matches('/').to_owned());
        let said = said.filter(|it| !it.is_empty());
        let root = match said {
            None => format!("http://127.0.0.1:{}", self.port),
            Some(url) if url.contains("://") => url,
            Some(port) if port.parse::<u16>().is_ok() => format!("http://127.0.0.1:{port}"),
            // What a server listens on everywhere is reached at this machine.
            Some(place) => {
                let place = place.replace("0.0.0.0", "127.0.0.1");
                let has_port = place.rsplit_once(':').is_some_and(|(_, it)| it.parse::<u16>().is_ok());
                if has_port { format!("http://{place}") } else { format!("http://{place}:{}", self.port) }
            }
        };
        root.strip_suffix("/v1").map(str::to_owned).unwrap_or(root)
    }

    /// The server of a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|server| server.name == name)
    }
}
