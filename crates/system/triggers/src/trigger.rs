use std::{collections::BTreeMap, path::PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A prompt that others may start, as the person wrote it down.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Trigger {
    /// Its name.
    #[serde(skip)]
    pub name: String,
    /// What is asked, with places for what was delivered.
    pub prompt: String,
    /// Where it runs.
    pub dir: PathBuf,
    /// How deliveries are signed; without, only the person and their tools fire it.
    #[serde(default)]
    pub scheme: Option<SignatureScheme>,
    /// Where the key is.
    #[serde(default)]
    pub secret: Option<SecretSource>,
    /// Which events count; all without.
    #[serde(default)]
    pub events: Vec<String>,
    /// How much a run may do by itself.
    #[serde(default)]
    pub mode: TriggerMode,
    /// Requests to the model at most.
    #[serde(default = "turns")]
    pub max_turns: u32,
    /// Minutes at most.
    #[serde(default = "minutes")]
    pub max_minutes: u64,
}

fn turns() -> u32 {
    20
}

fn minutes() -> u64 {
    15
}

/// How deliveries are signed.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SignatureScheme {
    /// `X-Hub-Signature-256` over the body.
    Github,
    /// `Stripe-Signature` with `t=` and `v1=`.
    Stripe,
    /// `X-Slack-Signature` with `X-Slack-Request-Timestamp`.
    Slack,
    /// `webhook-id`, `webhook-timestamp` and `webhook-signature`.
    Standard,
}

/// Where a key is.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum SecretSource {
    /// In this variable.
    Env(String),
    /// In this file, which only the person can read.
    File(PathBuf),
}

/// How much a run may do by itself. Nobody is asked in either; rules of today
/// hold in both.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum TriggerMode {
    /// What rules allow.
    #[default]
    Default,
    /// Looking only.
    Plan,
    /// Edits in the directory, too.
    AcceptEdits,
}

impl TriggerMode {
    /// As it is called on a command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Plan => "plan",
            Self::AcceptEdits => "acceptEdits",
        }
    }
}

/// Triggers of one person.
const MOST: usize = 200;

/// Reads triggers from settings; what makes no sense is told and left out.
pub fn read_triggers(settings: &Value) -> (BTreeMap<String, Trigger>, Vec<String>) {
    let (mut found, mut wrong) = (BTreeMap::new(), Vec::new());
    let Some(map) = settings.as_object() else {
        return (found, vec![String::from("triggers is no object of triggers")]);
    };
    for (name, value) in map.iter().take(MOST) {
        let proper = |it: u8| it.is_ascii_lowercase() || it.is_ascii_digit() || it == b'-';
        if name.is_empty() || 64 < name.len() || !name.bytes().all(proper) {
            wrong.push(format!("triggers.{name}: a name has small letters, digits and hyphens"));
            continue;
        }
        let trigger = match serde_json::from_value::<Trigger>(value.clone()) {
            Ok(trigger) => Trigger { name: name.clone(), ..trigger },
            Err(err) => {
                wrong.push(format!("triggers.{name}: {err}"));
                continue;
            }
        };
        match trigger.problem() {
            Some(problem) => wrong.push(format!("triggers.{name}: {problem}")),
            None => drop(found.insert(name.clone(), trigger)),
        }
    }
    (found, wrong)
}

impl Trigger {
    /// Whether an event starts it. Where events are named, a delivery that does
    /// not say which it is starts nothing.
    pub fn wants(&self, event: Option<&str>) -> bool {
        self.events.is_empty() || event.is_some_and(|event| self.events.iter().any(|it| it == event))
    }

    fn problem(&self) -> Option<&'static str> {
        match (&self.scheme, &self.secret) {
            _ if !self.dir.is_absolute() => Some("dir must be an absolute path"),
            _ if self.prompt.trim().is_empty() => Some("prompt is empty"),
            (Some(_), None) => Some("scheme needs secret: {\"env\": NAME} or {\"file\": PATH}"),
            (None, Some(_)) => Some("secret needs scheme: github, stripe, slack or standard"),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn triggers_are_read_and_mistakes_told() {
        let (found, wrong) = read_triggers(&json!({
            "review": {"prompt": "Look at {{body.x}}", "dir": "/w", "scheme": "github", "secret": {"env": "KEY"}},
            "by-hand": {"prompt": "x", "dir": "/w", "mode": "plan"},
            "Bad Name": {"prompt": "x", "dir": "/w"},
            "relative": {"prompt": "x", "dir": "w"},
            "open": {"prompt": "x", "dir": "/w", "scheme": "slack"},
            "bypass": {"prompt": "x", "dir": "/w", "mode": "bypassPermissions"},
        }));
        assert_eq!(found.keys().collect::<Vec<_>>(), ["by-hand", "review"]);
        assert_eq!((found["review"].max_turns, found["by-hand"].mode), (20, TriggerMode::Plan));
        assert_eq!(wrong.len(), 4, "{wrong:?}");
        assert!(wrong.iter().any(|it| it.starts_with("triggers.bypass: unknown variant")), "{wrong:?}");
    }
}
