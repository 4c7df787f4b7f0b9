use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    sync::Arc,
};

/// The environment variables that one session sees. Clones share them.
///
/// A process has one environment, but sessions of one process may have different
/// homes and keys: a session reads its variables here and nowhere else.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Variables(Arc<BTreeMap<OsString, OsString>>);

impl Variables {
    /// The environment of this process, as it is now.
    pub fn of_process() -> Self {
        Self(Arc::new(std::env::vars_os().collect()))
    }

    /// The same variables, but for this one.
    #[must_use]
    pub fn with(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        Arc::make_mut(&mut self.0).insert(name.into(), value.into());
        self
    }

    /// The same variables without this one.
    #[must_use]
    pub fn without(mut self, name: impl AsRef<OsStr>) -> Self {
        Arc::make_mut(&mut self.0).remove(name.as_ref());
        self
    }

    /// The value of a variable, if it is set and is text.
    pub fn text(&self, name: &str) -> Option<String> {
        self.os_text(name)?.into_string().ok()
    }

    /// The value of a variable, whatever it is made of.
    pub fn os_text(&self, name: &str) -> Option<OsString> {
        self.0.get(OsStr::new(name)).cloned()
    }

    /// Whether a variable is set to something that does not mean no.
    pub fn is_on(&self, name: &str) -> bool {
        self.text(name).is_some_and(|it| !matches!(it.as_str(), "" | "0" | "false"))
    }

    /// All variables, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.0.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str()))
    }
}

impl<N: Into<OsString>, V: Into<OsString>> FromIterator<(N, V)> for Variables {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(variables: I) -> Self {
        let all = variables.into_iter().map(|(name, value)| (name.into(), value.into()));
        Self(Arc::new(all.collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_of_a_session_are_its_own() {
        let base: Variables = [("HOME", "/a"), ("FLAG", "0")].into_iter().collect();
        let other = base.clone().with("HOME", "/b").with("FLAG", "1").without("NONE");
        let seen = |it: &Variables| (it.text("HOME"), it.is_on("FLAG"), it.text("NONE"));
        assert_eq!(seen(&base), (Some("/a".to_owned()), false, None));
        assert_eq!(seen(&other), (Some("/b".to_owned()), true, None));
        assert_eq!(other.without("HOME").text("HOME"), None);
    }
}
