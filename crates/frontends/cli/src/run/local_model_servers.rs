//! Finds model servers (Ollama and others) on this machine. Connects to loopback only, with a short
//! timeout.

use std::{net::IpAddr, time::Duration};

use haft_model::LocalServer;
use serde::Serialize;
use serde_json::Value;

/// Timeout per server, unless `HAFT_LOCAL_PATIENCE_MS` sets another.
const TIMEOUT: Duration = Duration::from_millis(1000);
/// Maximum size of a server's model list; a larger response counts as no server.
const MAX_LIST_BYTES: usize = 4 * 1024 * 1024;

/// A known kind of model server, and whether one runs here.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct DetectedServer {
    /// Its name for `--provider`.
    pub(crate) name: &'static str,
    /// Base URL of the server, whether or not it runs.
    pub(crate) url: String,
    pub(crate) state: ServerProbe,
    /// Models the server offers; empty unless it runs.
    pub(crate) models: Vec<ServedModel>,
}

#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub(crate) struct ServedModel {
    pub(crate) id: String,
    /// Context window in tokens that the server was started with, if it reports one.
    pub(crate) window: Option<u64>,
}

/// Result of probing a server.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ServerProbe {
    /// The server answered with its list of models.
    Running,
    /// Nothing answered in time, or another program answered.
    NotThere,
    /// Its configured URL is not on loopback, so it was not probed.
    Elsewhere,
}

/// Probes all known servers concurrently. `env` looks up environment variables (URLs, timeout).
pub(crate) async fn find(env: &(dyn Fn(&str) -> Option<String> + Sync)) -> Vec<DetectedServer> {
    let said = env("HAFT_LOCAL_PATIENCE_MS").and_then(|it| it.trim().parse().ok());
    let patience = said.map_or(TIMEOUT, Duration::from_millis);
    let asked = LocalServer::ALL.map(|server| {
        let url = server.base_url(env);
        async move {
            if !is_loopback(&url) {
                return DetectedServer {
                    name: server.name,
                    url,
                    state: ServerProbe::Elsewhere,
                    models: Vec::new(),
                };
            }
            match list(&url, patience).await {
                Some(models) if is_of(server.name, &models.1) => {
                    DetectedServer { name: server.name, url, state: ServerProbe::Running, models: models.0 }
                }
                _ => DetectedServer {
                    name: server.name,
                    url,
                    state: ServerProbe::NotThere,
                    models: Vec::new(),
                },
            }
        }
    });
    futures_util::future::join_all(asked).await
}

/// Whether the URL's host is a loopback address or the name `localhost`. Does not use DNS.
pub(crate) fn is_loopback(url: &str) -> bool {
    let Ok(parsed) = url::Url::parse(url) else { return false };
    match parsed.host() {
        Some(url::Host::Ipv4(ip)) => IpAddr::V4(ip).is_loopback(),
        Some(url::Host::Ipv6(ip)) => IpAddr::V6(ip).is_loopback(),
        Some(url::Host::Domain(name)) => name.eq_ignore_ascii_case("localhost"),
        None => false,
    }
}

/// The error with its chain of causes, without the URL (it may contain a secret).
pub(crate) fn with_causes(err: reqwest::Error) -> String {
    let err = err.without_url();
    let mut text = err.to_string();
    let mut cause = std::error::Error::source(&err);
    while let Some(inner) = cause {
        text.push_str(&format!(": {inner}"));
        cause = inner.source();
    }
    text
}

/// Fetches `/v1/models`: the models, and the `owned_by` values. `None` on any error or timeout.
async fn list(url: &str, patience: Duration) -> Option<(Vec<ServedModel>, Vec<String>)> {
    // No proxy and no redirects: the request must not leave this machine.
    let client = reqwest::Client::builder()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .timeout(patience)
        .build()
        .ok()?;
    let mut response = client.get(format!("{url}/v1/models")).send().await.ok()?;
    if !response.status().is_success() {
        return None;
    }
    // An unknown program may be listening and send endless data, so the size is limited.
    let mut body = Vec::new();
    while let Some(piece) = response.chunk().await.ok()? {
        body.extend_from_slice(&piece);
        if body.len() > MAX_LIST_BYTES {
            return None;
        }
    }
    let body: Value = serde_json::from_slice(&body).ok()?;
    let list = body["data"].as_array()?;
    let models = list.iter().filter_map(|it| {
        Some(ServedModel { id: it["id"].as_str()?.to_owned(), window: haft_model::listed_window(it) })
    });
    let owners = list.iter().filter_map(|it| it["owned_by"].as_str().map(str::to_owned));
    Some((models.collect(), owners.collect()))
}

/// Whether the model list comes from this kind of server. Many programs use the same ports, so
/// `owned_by` decides.
fn is_of(name: &str, owners: &[String]) -> bool {
    match name {
        "vllm" => owners.iter().all(|owner| owner == "vllm"),
        "llamacpp" => owners.iter().all(|owner| owner.starts_with("llama")),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_is_asked() {
        for (url, want) in [
            ("http://127.0.0.1:11434", true),
            ("http://127.9.9.9:1", true),
            ("http://[::1]:1", true),
            ("http://localhost:1", true),
            ("http://localhost.example.org:1", false),
            ("http://127.0.0.1.example.org", false),
            ("http://127.0.0.1@example.org", false),
            ("http://192.168.0.2:1", false),
            ("nonsense", false),
        ] {
            assert_eq!(is_loopback(url), want, "{url}");
        }
    }
}
