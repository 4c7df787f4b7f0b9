use std::{collections::BTreeMap, path::PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A prompt that webhooks or users may start, as configured.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Trigger {
    #[serde(skip)]
    pub name: String,
    /// Prompt template, with placeholders for the delivery.
    pub prompt: String,
    /// Working directory; absolute.
    pub dir: PathBuf,
    /// How deliveries are signed. Without a scheme, only the user and local tools can fire the trigger.
    #[serde(default)]
    pub scheme: Option<SignatureScheme>,
    /// Where the signing key is stored.
    #[serde(default)]
    pub secret: Option<SecretSource>,
    /// Event types that start a run; empty for all.
    #[serde(default)]
    pub events: Vec<String>,
    /// Permissions of its runs.
    #[serde(default)]
    pub mode: TriggerMode,
    /// Maximum model requests per run. Default 20.
    #[serde(default = "turns")]
    pub max_turns: u32,
    /// Maximum minutes per run. Default 15.
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
    /// GitHub: `X-Hub-Signature-256` over the body.
    Github,
    /// Stripe: `Stripe-Signature` with `t=` and `v1=`.
    Stripe,
    /// Slack: `X-Slack-Signature` with `X-Slack-Request-Timestamp`.
    Slack,
    /// Standard Webhooks: `webhook-id`, `webhook-timestamp` and `webhook-signature`.
    Standard,
}

/// Where a signing key is stored.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum SecretSource {
    /// In this environment variable.
    Env(String),
    /// In this file, which must be readable only by the user.
    File(PathBuf),
}

/// Permissions of a run. No approver is available, so calls that would ask are denied; the current
/// permission rules apply.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum TriggerMode {
    /// Runs what the permission rules allow.
    #[default]
    Default,
    /// Plan mode: only reads.
    Plan,
    /// Also edits files in its directory.
    AcceptEdits,
}

impl TriggerMode {
    /// Name in settings and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Plan => "plan",
            Self::AcceptEdits => "acceptEdits",
        }
    }
}

/// Maximum number of triggers.
const MOST: usize = 200;

/// Parses the `triggers` setting. Invalid entries are skipped and reported in the second value.
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
    /// Whether an event type starts a run. If the trigger lists events, a delivery without an event type
    /// does not.
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
    fn read_triggers_returns_valid_entries_and_reports_invalid_ones() {
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
