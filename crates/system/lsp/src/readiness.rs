//! Loading state of a server, as far as it reports it.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use serde_json::Value;

/// Maximum number of concurrent progress items.
const MAX_WORKS: usize = 64;
/// Progress without an update for this long counts as ended.
const FORGOTTEN: Duration = Duration::from_secs(120);

/// Loading state of a server.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServerReadiness {
    works: BTreeMap<String, ReportedWork>,
    /// Last `quiescent` value of rust-analyzer's `experimental/serverStatus`; overrides progress
    /// reports.
    quiescent: Option<bool>,
    /// A problem reported by the server.
    trouble: Option<String>,
    /// Whether the server has reported any state.
    spoke: bool,
}

#[derive(Clone, Debug, PartialEq)]
struct ReportedWork {
    title: String,
    message: String,
    percent: Option<u64>,
    heard: Instant,
}

impl ServerReadiness {
    /// Handles a `$/progress` notification.
    pub(crate) fn progress(&mut self, params: &Value) {
        let token = haft_types::text::head(&params["token"].to_string(), 200).to_owned();
        let value = &params["value"];
        let text = |name: &str| value[name].as_str().map(|it| haft_types::text::one_line(it, 80));
        match value["kind"].as_str() {
            Some("begin") if self.works.len() < MAX_WORKS => {
                self.spoke = true;
                let work = ReportedWork {
                    title: text("title").unwrap_or_default(),
                    message: text("message").unwrap_or_default(),
                    percent: value["percentage"].as_u64(),
                    heard: Instant::now(),
                };
                self.works.insert(token, work);
            }
            Some("report") => {
                if let Some(work) = self.works.get_mut(&token) {
                    work.heard = Instant::now();
                    work.percent = value["percentage"].as_u64().or(work.percent);
                    if let Some(message) = text("message") {
                        work.message = message;
                    }
                }
            }
            Some("end") => drop(self.works.remove(&token)),
            _ => (),
        }
    }

    /// Handles rust-analyzer's `experimental/serverStatus`.
    pub(crate) fn status(&mut self, params: &Value) {
        self.spoke = true;
        self.quiescent = params["quiescent"].as_bool().or(self.quiescent);
        let trouble = params["health"].as_str().is_some_and(|it| it != "ok");
        let message = params["message"].as_str().filter(|_| trouble);
        self.trouble = message.map(|it| haft_types::text::one_line(it, 300));
    }

    /// Whether it is loading or indexing, so that answers may be incomplete.
    pub fn is_busy(&self) -> bool {
        match self.quiescent {
            Some(quiescent) => !quiescent,
            None => self.works.values().any(|it| it.heard.elapsed() < FORGOTTEN),
        }
    }

    /// Whether the server reports its loading state at all.
    pub fn reports_progress(&self) -> bool {
        self.spoke
    }

    /// Problem reported by the server.
    pub fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    /// Short description of the current work.
    pub fn words(&self) -> String {
        let work = self.works.values().max_by_key(|it| it.heard);
        let Some(ReportedWork { title, message, percent, .. }) = work else { return String::from("loading") };
        let title = if title.is_empty() { "working" } else { title.as_str() };
        let percent = percent.map(|it| format!(", {} %", it.min(100))).unwrap_or_default();
        let message = if message.is_empty() { String::new() } else { format!(" ({message})") };
        format!("{title}{percent}{message}")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn progress_makes_server_busy_until_it_ends() {
        let mut it = ServerReadiness::default();
        assert!(!it.is_busy() && !it.reports_progress());
        it.progress(&json!({"token": 1, "value": {"kind": "begin", "title": "Indexing", "percentage": 0}}));
        it.progress(&json!({"token": 1, "value": {"kind": "report", "message": "3/9", "percentage": 40}}));
        assert!(it.is_busy() && it.reports_progress());
        assert_eq!(it.words(), "Indexing, 40 % (3/9)");
        it.progress(&json!({"token": 2, "value": {"kind": "end"}}));
        it.progress(&json!({"token": 3, "value": 7}));
        assert!(it.is_busy());
        it.progress(&json!({"token": 1, "value": {"kind": "end"}}));
        assert!(!it.is_busy());
        it.status(&json!({"quiescent": false, "health": "error", "message": "no Cargo.toml"}));
        assert!(it.is_busy());
        assert_eq!((it.words().as_str(), it.trouble()), ("loading", Some("no Cargo.toml")));
        it.status(&json!({"quiescent": true, "health": "ok"}));
        assert!(!it.is_busy() && it.trouble().is_none());
        for token in 0..10_000 {
            it.progress(&json!({"token": token, "value": {"kind": "begin", "title": "x"}}));
        }
        assert!(it.works.len() <= MAX_WORKS);
    }
}
