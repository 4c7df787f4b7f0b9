//! OpenTelemetry: traces, metrics and logs of a run, named by the GenAI conventions, sent as OTLP over
//! HTTP in JSON.
//!
//! Disabled unless environment variables enable it. Content (prompts, inputs, results) has to be enabled
//! separately. Data is sent once, at the end of a run, with a time limit of one second, so an
//! unavailable collector has no earlier effect.
//!
//! Hand-written: three JSON bodies and three requests do not justify the SDK with its own runtime and a
//! dozen dependencies.

mod headers_helper;
mod observer;
mod otlp_json;
mod spans;

use std::time::{Duration, SystemTime};

use haft_agent::{AgentEvent, TurnEnd};
use haft_types::AgentId;

pub(crate) use self::headers_helper::HeadersHelper;
pub(crate) use self::observer::{Observer, TraceDesk};
use self::spans::{RunInfo, SpannedRun};

/// Time limit of all three requests together.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Endpoint and content of telemetry.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct TelemetrySettings {
    endpoint: String,
    headers: Vec<(String, String)>,
    /// A command that prints further headers.
    helper: Option<HeadersHelper>,
    content: SentContent,
    service: String,
    traceparent: Option<String>,
}

/// Whether content is sent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum SentContent {
    /// Only names, numbers and times.
    Off,
    /// Prompts, inputs and results, too.
    On,
}

/// Collects and sends telemetry of a run.
pub(crate) struct Telemetry {
    settings: TelemetrySettings,
    run: SpannedRun,
}

impl Telemetry {
    /// Starts collecting.
    pub(crate) fn new(settings: TelemetrySettings, info: RunInfoOf<'_>) -> Self {
        let info = RunInfo {
            session: info.session.to_owned(),
            model: info.model.to_owned(),
            provider: info.provider.to_owned(),
            prompt: (settings.content == SentContent::On).then(|| info.prompt.to_owned()),
        };
        let run = SpannedRun::new(info, settings.traceparent.as_deref(), SystemTime::now());
        Self { settings, run }
    }

    /// Records an event of an agent.
    fn hear(&mut self, agent: &AgentId, event: &AgentEvent) {
        self.run.hear(agent, event, SystemTime::now(), self.settings.content == SentContent::On);
    }

    /// Records the end of the run.
    pub(crate) fn end(&mut self, end: &TurnEnd) {
        self.run.end(end, SystemTime::now());
    }

    /// Sends everything. Returns errors as text.
    pub(crate) async fn send(self) -> Result<(), String> {
        let client = reqwest::Client::builder().timeout(TIMEOUT).build().map_err(|err| err.to_string())?;
        let resource = otlp_json::resource(&self.settings.service);
        let mut headers = self.settings.headers.clone();
        if let Some(helper) = &self.settings.helper {
            headers.extend(helper.headers().await?);
        }
        let bodies = [
            ("traces", otlp_json::traces(&resource, &self.run)),
            ("metrics", otlp_json::metrics(&resource, &self.run)),
            ("logs", otlp_json::logs(&resource, &self.run)),
        ];
        let posts = bodies.map(|(signal, body)| {
            let url = format!("{}/v1/{signal}", self.settings.endpoint);
            let mut post = client.post(url).header("content-type", "application/json").body(body.to_string());
            for (name, value) in &headers {
                post = post.header(name, value);
            }
            async move {
                let sent = post.send().await.map_err(|err| format!("{signal}: {}", err.without_url()))?;
                if sent.status().is_success() { Ok(()) } else { Err(format!("{signal}: {}", sent.status())) }
            }
        });
        let [traces, metrics, logs] = posts;
        let all = async { tokio::join!(traces, metrics, logs) };
        let (traces, metrics, logs) = tokio::time::timeout(TIMEOUT, all)
            .await
            .map_err(|_| String::from("the collector is too slow"))?;
        traces.and(metrics).and(logs)
    }
}

/// Facts about a run.
pub(crate) struct RunInfoOf<'a> {
    pub(crate) session: &'a str,
    pub(crate) model: &'a str,
    pub(crate) provider: &'a str,
    pub(crate) prompt: &'a str,
}

impl TelemetrySettings {
    /// Reads the settings from environment variables; `None` unless telemetry is enabled.
    pub(crate) fn from_env(env: &dyn Fn(&str) -> Option<String>) -> Option<Self> {
        let get = |name: &str| env(name).filter(|value| !value.trim().is_empty());
        let is_on = |name: &str| get(name).is_some_and(|it| !matches!(it.as_str(), "0" | "false" | "no"));
        if !is_on("HAFT_ENABLE_TELEMETRY") && !is_on("CLAUDE_CODE_ENABLE_TELEMETRY") {
            return None;
        }
        let endpoint =
            get("OTEL_EXPORTER_OTLP_ENDPOINT").unwrap_or_else(|| String::from("http://127.0.0.1:4318"));
        let pairs = get("OTEL_EXPORTER_OTLP_HEADERS").unwrap_or_default();
        let headers = pairs.split(',').filter_map(|pair| pair.split_once('='));
        let content = ["OTEL_LOG_USER_PROMPTS", "OTEL_LOG_TOOL_CONTENT", "OTEL_LOG_TOOL_DETAILS"];
        Some(Self {
            endpoint: endpoint.trim_end_matches('/').to_owned(),
            headers: headers.map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned())).collect(),
            helper: None,
            content: if content.into_iter().any(is_on) { SentContent::On } else { SentContent::Off },
            service: get("OTEL_SERVICE_NAME").unwrap_or_else(|| String::from("haft")),
            traceparent: get("TRACEPARENT"),
        })
    }

    /// Adds a command that prints headers.
    #[must_use]
    pub(crate) fn with_helper(self, helper: Option<HeadersHelper>) -> Self {
        Self { helper, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_off_until_somebody_asks() {
        let read = |vars: &[(&str, &str)]| {
            let vars: Vec<(String, String)> =
                vars.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            TelemetrySettings::from_env(&move |name| {
                vars.iter().find(|(it, _)| it == name).map(|(_, value)| value.clone())
            })
        };
        assert_eq!(read(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://x")]), None);
        assert_eq!(read(&[("HAFT_ENABLE_TELEMETRY", "0")]), None);
        let on = read(&[
            ("CLAUDE_CODE_ENABLE_TELEMETRY", "1"),
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://x/"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "a=b, c=d=e"),
        ])
        .unwrap();
        assert_eq!((on.endpoint.as_str(), on.content), ("http://x", SentContent::Off));
        assert_eq!(on.headers, [("a".to_owned(), "b".to_owned()), ("c".to_owned(), "d=e".to_owned())]);
        let content = read(&[("HAFT_ENABLE_TELEMETRY", "1"), ("OTEL_LOG_TOOL_CONTENT", "1")]).unwrap();
        assert_eq!(content.content, SentContent::On);
    }
}
