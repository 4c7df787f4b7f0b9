//! Servers of models on this machine: asked on loopback only, and briefly.

use std::{net::IpAddr, time::Duration};

use haft_model::LocalServer;
use serde::Serialize;
use serde_json::Value;

/// How long a server may take to say which models it has, when
/// `HAFT_LOCAL_PATIENCE_MS` does not say it.
const TIMEOUT: Duration = Duration::from_millis(1000);
/// More than any list has.
const MAX_LIST_BYTES: usize = 4 * 1024 * 1024;

/// What is known of a server after looking.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct DetectedServer {
    /// How `--provider` calls it.
    pub(crate) name: &'static str,
    /// Where it is, or would be.
    pub(crate) url: String,
    /// What came of asking.
    pub(crate) state: ServerProbe,
    /// The models it has.
    pub(crate) models: Vec<ServedModel>,
}

/// A model that a server has.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub(crate) struct ServedModel {
    pub(crate) id: String,
    /// Tokens it was started for, where the server says so.
    pub(crate) window: Option<u64>,
}

/// What came of asking a server.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ServerProbe {
    /// It answers.
    Running,
    /// Nobody listens, or it is somebody else.
    NotThere,
    /// It is not on this machine, so nobody asked.
    Elsewhere,
}

/// Asks every server people run, all at the same time.
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

/// Whether an address is of this machine, whatever a resolver would say.
pub(crate) fn is_loopback(url: &str) -> bool {
    let Ok(parsed) = url::Url::parse(url) else { return false };
    match parsed.host() {
        Some(url::Host::Ipv4(ip)) => IpAddr::V4(ip).is_loopback(),
        Some(url::Host::Ipv6(ip)) => IpAddr::V6(ip).is_loopback(),
        Some(url::Host::Domain(name)) => name.eq_ignore_ascii_case("localhost"),
        None => false,
    }
}

/// An error of the network with what lies behind it, without the address.
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

/// The models a server lists, and who it says they belong to.
async fn list(url: &str, patience: Duration) -> Option<(Vec<ServedModel>, Vec<String>)> {
    // Neither a proxy nor a redirect may lead the question off this machine.
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
    // What listens there may be anything, and say anything for as long as it is heard.
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

/// Whether a list is the server's own: on ports that many programs like, the
/// owner of the models tells.
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
