//! How far a server is, as far as it says.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use serde_json::Value;

/// Works a server may tell of at once.
const MAX_WORKS: usize = 64;
/// A work nothing was heard of for so long has ended without saying so.
const FORGOTTEN: Duration = Duration::from_secs(120);

/// How far a server is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServerReadiness {
    works: BTreeMap<String, ReportedWork>,
    /// What servers that know say themselves.
    quiescent: Option<bool>,
    /// What is wrong, in a server's own words.
    trouble: Option<String>,
    /// Whether anything was ever said.
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
    /// A `$/progress` notification.
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

    /// What rust-analyzer says of itself.
    pub(crate) fn status(&mut self, params: &Value) {
        self.spoke = true;
        self.quiescent = params["quiescent"].as_bool().or(self.quiescent);
        let trouble = params["health"].as_str().is_some_and(|it| it != "ok");
        let message = params["message"].as_str().filter(|_| trouble);
        self.trouble = message.map(|it| haft_types::text::one_line(it, 300));
    }

    /// Whether it works on something that answers depend on.
    pub fn is_busy(&self) -> bool {
        match self.quiescent {
            Some(quiescent) => !quiescent,
            None => self.works.values().any(|it| it.heard.elapsed() < FORGOTTEN),
        }
    }

    /// Whether it says at all how far it is.
    pub fn speaks(&self) -> bool {
        self.spoke
    }

    /// What is wrong, in the server's own words.
    pub fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    /// What it works on, in a few words.
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
    fn works_come_and_go() {
        let mut it = ServerReadiness::default();
        assert!(!it.is_busy() && !it.speaks());
        it.progress(&json!({"token": 1, "value": {"kind": "begin", "title": "Indexing", "percentage": 0}}));
        it.progress(&json!({"token": 1, "value": {"kind": "report", "message": "3/9", "percentage": 40}}));
        assert!(it.is_busy() && it.speaks());
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
