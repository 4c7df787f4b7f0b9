use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    sync::Arc,
};

use crate::secret_variables::{is_own_secret, is_provider_secret};

/// Environment variables of one session. Clones share the data.
///
/// A process has one environment, but its sessions may have different homes and keys; a session reads
/// variables only from here.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct EnvVars(Arc<BTreeMap<OsString, OsString>>);

impl EnvVars {
    /// Takes a snapshot of this process's environment.
    pub fn of_process() -> Self {
        Self(Arc::new(std::env::vars_os().collect()))
    }

    /// Returns a copy with one variable set.
    #[must_use]
    pub fn with(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        Arc::make_mut(&mut self.0).insert(name.into(), value.into());
        self
    }

    /// Returns a copy without one variable.
    #[must_use]
    pub fn without(mut self, name: impl AsRef<OsStr>) -> Self {
        Arc::make_mut(&mut self.0).remove(name.as_ref());
        self
    }

    /// The value of a variable; `None` if it is unset or not UTF-8.
    pub fn text(&self, name: &str) -> Option<String> {
        self.os_text(name)?.into_string().ok()
    }

    /// The value of a variable, also if it is not UTF-8.
    pub fn os_text(&self, name: &str) -> Option<OsString> {
        self.0.get(OsStr::new(name)).cloned()
    }

    /// Whether a variable is set to anything but empty, `0` or `false`.
    pub fn is_on(&self, name: &str) -> bool {
        self.text(name).is_some_and(|it| !matches!(it.as_str(), "" | "0" | "false"))
    }

    /// The variables that child programs inherit: all except keys of models and search services and
    /// `OTEL_*`. `HAFT_ENV_KEEP` (comma-separated) lists provider keys and `OTEL_*` variables to pass on
    /// anyway; Haft's own keys are never passed on.
    pub fn inherited(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        let kept = self.text("HAFT_ENV_KEEP").unwrap_or_default();
        let kept: Vec<String> = kept.split(',').map(|name| name.trim().to_owned()).collect();
        self.iter().filter(move |(name, _)| {
            let Some(name) = name.to_str() else { return true };
            let is_kept = kept.iter().any(|it| it == name) && !is_own_secret(name);
            is_kept || !(is_provider_secret(name) || name.starts_with("OTEL_"))
        })
    }

    /// All variables, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.0.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str()))
    }
}

impl<N: Into<OsString>, V: Into<OsString>> FromIterator<(N, V)> for EnvVars {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(variables: I) -> Self {
        let all = variables.into_iter().map(|(name, value)| (name.into(), value.into()));
        Self(Arc::new(all.collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn env_vars_with_and_without_return_changed_copies() {
        let base: EnvVars = [("HOME", "/a"), ("FLAG", "0")].into_iter().collect();
        let other = base.clone().with("HOME", "/b").with("FLAG", "1").without("NONE");
        let seen = |it: &EnvVars| (it.text("HOME"), it.is_on("FLAG"), it.text("NONE"));
        assert_eq!(seen(&base), (Some("/a".to_owned()), false, None));
        assert_eq!(seen(&other), (Some("/b".to_owned()), true, None));
        assert_eq!(other.without("HOME").text("HOME"), None);
    }

    #[test]
    fn inherited_variables_omit_provider_keys() {
        let names = |keep: &str| {
            let all = ["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GH_TOKEN", "OTEL_X", "PATH"];
            let variables: EnvVars = all.into_iter().map(|name| (name, "x")).collect();
            let variables = variables.with("HAFT_ENV_KEEP", keep);
            let names: Vec<_> =
                variables.inherited().map(|(name, _)| name.to_string_lossy().into_owned()).collect();
            names.join(" ")
        };
        assert_eq!(names(""), "GH_TOKEN HAFT_ENV_KEEP PATH");
        let kept = names("OPENAI_API_KEY, ANTHROPIC_API_KEY");
        assert_eq!(kept, "GH_TOKEN HAFT_ENV_KEEP OPENAI_API_KEY PATH");
    }
}
