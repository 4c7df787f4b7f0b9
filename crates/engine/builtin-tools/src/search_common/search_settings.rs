use std::time::Duration;

/// Settings of the search tools.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SearchToolSettings {
    /// Whether Glob lists names that begin with a dot. Default true.
    pub glob_hidden: bool,
    /// Whether Glob lists files excluded by ignore files. Default true.
    pub glob_ignored: bool,
    /// Maximum duration of a search; then it returns what it has found. Default 20 s, on WSL 60 s.
    pub timeout: Duration,
}

impl Default for SearchToolSettings {
    fn default() -> Self {
        Self { glob_hidden: true, glob_ignored: true, timeout: Duration::from_secs(20) }
    }
}

/// Windows file systems are slow under WSL.
const WSL_TIMEOUT: Duration = Duration::from_secs(60);

impl SearchToolSettings {
    /// Reads the settings from `HAFT_GLOB_HIDDEN`, `HAFT_GLOB_NO_IGNORE` and
    /// `HAFT_GLOB_TIMEOUT_SECONDS`, or the same names with the prefix `CLAUDE_CODE_`. Invalid values are
    /// ignored.
    pub fn from_env(get: impl Fn(&str) -> Option<String>) -> Self {
        let value = |name: &str| get(&format!("HAFT_{name}")).or_else(|| get(&format!("CLAUDE_CODE_{name}")));
        let is_off = |name| value(name).is_some_and(|it| matches!(it.trim(), "false" | "0" | "no" | "off"));
        let seconds = value("GLOB_TIMEOUT_SECONDS").and_then(|it| it.trim().parse().ok());
        let usual = if get("WSL_DISTRO_NAME").is_some() { WSL_TIMEOUT } else { Self::default().timeout };
        Self {
            glob_hidden: !is_off("GLOB_HIDDEN"),
            glob_ignored: !is_off("GLOB_NO_IGNORE"),
            timeout: seconds.filter(|it| 0 < *it).map_or(usual, Duration::from_secs),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn environment_overrides_search_settings() {
        let of = |pairs: &[(&str, &str)]| {
            SearchToolSettings::from_env(|name| {
                pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
            })
        };
        assert_eq!(of(&[]), SearchToolSettings::default());
        assert!(!of(&[("CLAUDE_CODE_GLOB_HIDDEN", "false")]).glob_hidden);
        assert!(of(&[("CLAUDE_CODE_GLOB_HIDDEN", "false"), ("HAFT_GLOB_HIDDEN", "true")]).glob_hidden);
        assert!(!of(&[("HAFT_GLOB_NO_IGNORE", "0")]).glob_ignored);
        assert_eq!(of(&[("CLAUDE_CODE_GLOB_TIMEOUT_SECONDS", "7")]).timeout, Duration::from_secs(7));
        assert_eq!(of(&[("HAFT_GLOB_TIMEOUT_SECONDS", "nonsense")]).timeout, Duration::from_secs(20));
        assert_eq!(of(&[("WSL_DISTRO_NAME", "x")]).timeout, Duration::from_secs(60));
    }
}
