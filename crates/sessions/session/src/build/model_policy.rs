//! Which models the settings allow.

use haft_config::Settings;
use haft_model::Catalog;
use serde_json::Value;

/// The settings `availableModels` and `deniedModels`. An entry is a name, an alias, or a prefix followed
/// by `*`.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct ModelPolicy {
    /// Allowed models; `None` allows all.
    available: Option<Vec<String>>,
    /// Denied models.
    denied: Vec<String>,
}

impl ModelPolicy {
    pub(crate) fn from_settings(settings: &Settings) -> Self {
        let texts = |name: &str| {
            let listed = settings.get(name)?.value;
            let entries = listed.as_array()?.iter().filter_map(Value::as_str);
            Some(entries.map(|it| it.trim().to_owned()).collect::<Vec<_>>())
        };
        Self { available: texts("availableModels"), denied: texts("deniedModels").unwrap_or_default() }
    }

    /// Returns the reason why the model is not allowed, or `None` if it is.
    pub(crate) fn refusal(&self, catalog: &Catalog, model: &str) -> Option<String> {
        if let Some(entry) = self.denied.iter().find(|entry| names(catalog, entry, model)) {
            return Some(format!("the settings deny the model {model} (deniedModels: {entry})"));
        }
        let available = self.available.as_ref()?;
        if available.iter().any(|entry| names(catalog, entry, model)) {
            return None;
        }
        let these = if available.is_empty() { String::from("none") } else { available.join(", ") };
        Some(format!("the settings do not offer the model {model} (availableModels: {these})"))
    }
}

fn names(catalog: &Catalog, entry: &str, model: &str) -> bool {
    match entry.strip_suffix('*') {
        Some(beginning) => model.starts_with(beginning),
        None => entry == model || catalog.resolve(entry) == model,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_denied_or_not_offered_is_refused_by_any_name() {
        let catalog = Catalog::built_in();
        let opus = catalog.resolve("opus").to_owned();
        let texts = |list: &[&str]| list.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
        for (available, denied, model, refused) in [
            (None, vec![], opus.as_str(), false),
            (Some(vec!["opus"]), vec![], &opus, false),
            (Some(vec![opus.as_str()]), vec![], &opus, false),
            (Some(vec!["sonnet"]), vec![], &opus, true),
            (Some(vec!["claude-*"]), vec![], &opus, false),
            (Some(vec![]), vec![], &opus, true),
            (None, vec!["opus"], &opus, true),
            (Some(vec!["opus"]), vec!["claude-opus*"], &opus, true),
            (None, vec!["opus"], "some-other", false),
        ] {
            let policy = ModelPolicy { available: available.as_deref().map(texts), denied: texts(&denied) };
            assert_eq!(policy.refusal(&catalog, model).is_some(), refused, "{policy:?} {model}");
        }
    }
}
