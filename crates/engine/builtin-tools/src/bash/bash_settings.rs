use std::time::Duration;

/// Limits of commands: time, output, background.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct BashSettings {
    /// Default timeout of a foreground command. Default 120 s.
    pub default_timeout: Duration,
    /// Maximum timeout a foreground command may request. Default 600 s, at least `default_timeout`.
    pub max_timeout: Duration,
    /// Default timeout of a background command. Default 30 minutes.
    pub background_timeout: Duration,
    /// Maximum timeout a background command may request. Default 2 hours.
    pub max_background_timeout: Duration,
    /// Maximum timeout of a background command of a sub-agent. Default 1 hour.
    pub subagent_background_timeout: Duration,
    /// Maximum characters of output shown, 1,000 to 150,000. Default 30,000.
    pub shown_chars: usize,
    /// Maximum characters of output shown per look at a background task. Default as `shown_chars`.
    pub task_shown_chars: usize,
    pub background: BackgroundPolicy,
    /// What happens to a foreground command that exceeds its timeout.
    pub on_timeout: OnTimeout,
    /// Whether `cd` affects later commands.
    pub directory: CwdPersistence,
}

/// Whether commands may run in the background.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum BackgroundPolicy {
    /// On request and after a timeout.
    Allowed,
    Disabled,
}

/// What happens to a foreground command that exceeds its timeout.
///
/// A command that starts with `sleep`, uses git or could not be analysed is always stopped.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum OnTimeout {
    /// If the call sets a timeout, the command is stopped with everything it started. The default
    /// timeout only limits how long the call waits: the command continues in the background.
    StopIfAsked,
    /// The command is stopped.
    Stop,
    /// The command continues in the background.
    GoOn,
}

/// Whether the directory a command changed to is kept.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum CwdPersistence {
    /// The next command starts there, if it is inside the workspace.
    Yes,
    /// The next command starts where this one did.
    No,
}

impl Default for BashSettings {
    fn default() -> Self {
        Self {
            default_timeout: Duration::from_secs(120),
            max_timeout: Duration::from_secs(600),
            background_timeout: Duration::from_secs(30 * 60),
            max_background_timeout: Duration::from_secs(2 * 60 * 60),
            subagent_background_timeout: Duration::from_secs(60 * 60),
            shown_chars: 30_000,
            task_shown_chars: 30_000,
            background: BackgroundPolicy::Allowed,
            on_timeout: OnTimeout::StopIfAsked,
            directory: CwdPersistence::Yes,
        }
    }
}

impl BashSettings {
    /// Reads the settings from environment variables. `HAFT_*` takes precedence over the public names.
    /// Invalid values are ignored.
    pub fn from(variable: impl Fn(&str) -> Option<String>) -> Self {
        let get = |name: &str| {
            variable(&format!(
                "HAFT_{}",
                name.trim_start_matches("CLAUDE_CODE_").trim_start_matches("CLAUDE_")
            ))
            .or_else(|| variable(name))
        };
        let number = |name: &str| get(name).and_then(|text| parse_number(&text));
        let millis = |name: &str| number(name).map(Duration::from_millis);
        let is_on = |name: &str| get(name).is_some_and(|text| !matches!(text.as_str(), "" | "0" | "false"));
        let usual = Self::default();
        let default_timeout = millis("BASH_DEFAULT_TIMEOUT_MS").unwrap_or(usual.default_timeout);
        let chars = |name: &str| number(name).and_then(|it| usize::try_from(it).ok());
        let held = |chars: usize| chars.clamp(1_000, 150_000);
        let shown = held(chars("BASH_MAX_OUTPUT_LENGTH").unwrap_or(usual.shown_chars));
        Self {
            default_timeout,
            max_timeout: millis("BASH_MAX_TIMEOUT_MS").unwrap_or(usual.max_timeout).max(default_timeout),
            subagent_background_timeout: millis("CLAUDE_SUBAGENT_BG_SHELL_MAX_MS")
                .unwrap_or(usual.subagent_background_timeout),
            shown_chars: shown,
            task_shown_chars: chars("TASK_MAX_OUTPUT_LENGTH").map_or(shown, held),
            background: if is_on("CLAUDE_CODE_DISABLE_BACKGROUND_TASKS") {
                BackgroundPolicy::Disabled
            } else {
                usual.background
            },
            on_timeout: match variable("HAFT_BASH_ON_TIMEOUT").as_deref() {
                Some("stop") => OnTimeout::Stop,
                Some("background") => OnTimeout::GoOn,
                _ => usual.on_timeout,
            },
            directory: if is_on("CLAUDE_BASH_MAINTAIN_PROJECT_WORKING_DIR") {
                CwdPersistence::No
            } else {
                usual.directory
            },
            ..usual
        }
    }

    /// Returns the timeout of a foreground command that requested `asked` milliseconds.
    pub(crate) fn timeout(&self, asked: Option<u64>) -> Duration {
        asked.map_or(self.default_timeout, Duration::from_millis).min(self.max_timeout)
    }

    /// Returns the timeout of a background command that requested `asked` milliseconds.
    pub(crate) fn background_timeout(&self, asked: Option<u64>, is_main: bool) -> Duration {
        let most = if is_main { self.max_background_timeout } else { self.subagent_background_timeout };
        asked.map_or(self.background_timeout, Duration::from_millis).min(most)
    }
}

/// Parses numbers as written in environment variables: `120000`, `64_000`, `1e6`.
fn parse_number(text: &str) -> Option<u64> {
    let text = text.trim().replace('_', "");
    if let Ok(number) = text.parse() {
        return Some(number);
    }
    let (mantissa, exponent) = text.split_once(['e', 'E'])?;
    let (mantissa, exponent): (u64, u32) = (mantissa.parse().ok()?, exponent.parse().ok()?);
    mantissa.checked_mul(10_u64.checked_pow(exponent)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn env_overrides_bash_settings() {
        let made = BashSettings::from(|name| {
            let value = match name {
                "BASH_DEFAULT_TIMEOUT_MS" => "1e6",
                "HAFT_BASH_MAX_TIMEOUT_MS" => "700_000",
                "BASH_MAX_TIMEOUT_MS" => "1",
                "BASH_MAX_OUTPUT_LENGTH" => "999999",
                "TASK_MAX_OUTPUT_LENGTH" => "2000",
                "CLAUDE_BASH_MAINTAIN_PROJECT_WORKING_DIR" => "1",
                "HAFT_DISABLE_BACKGROUND_TASKS" => "true",
                "HAFT_BASH_ON_TIMEOUT" => "stop",
                _ => return None,
            };
            Some(value.to_owned())
        });
        let want = BashSettings {
            default_timeout: Duration::from_secs(1_000),
            max_timeout: Duration::from_secs(1_000),
            shown_chars: 150_000,
            task_shown_chars: 2_000,
            background: BackgroundPolicy::Disabled,
            on_timeout: OnTimeout::Stop,
            directory: CwdPersistence::No,
            ..BashSettings::default()
        };
        assert_eq!(made, want);
        assert_eq!(BashSettings::default().timeout(Some(9_999_999)), Duration::from_secs(600));
        assert_eq!(BashSettings::default().background_timeout(None, false), Duration::from_secs(1_800));
    }
}
