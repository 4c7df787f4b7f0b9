//! All keys of settings files: type, merge rule, and what an untrusted project may set. Validation,
//! merging, trust and help use this one table.

mod descriptions;
mod key_table;

use serde_json::Value;

pub(crate) use key_table::KEYS;

/// Returns the documentation page of all settings keys, as Markdown.
pub fn settings_page() -> String {
    let mut page = String::from(include_str!("settings_intro.md"));
    page.push_str("| key | value | an untrusted project may set | meaning |\n|---|---|---|---|\n");
    for (name, about) in descriptions::ABOUT {
        if let Some(key) = key_named(name) {
            let managed = if key.from == AllowedLayers::Managed { "Managed settings only. " } else { "" };
            let (shape, may) = (key.shape.words(), key.from_project.words());
            page.push_str(&format!("| `{name}` | {shape} | {may} | {managed}{about} |\n"));
        }
    }
    page.push_str(
        "\n## Keys without effect\n\nOther programs read these keys. Haft accepts and ignores them; `haft doctor` names \
         those in your files.\n\n",
    );
    let unused: Vec<String> = all_names().into_iter().filter(|name| !has_effect(name)).collect();
    page.push_str(&unused.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", "));
    page.push_str(".\n");
    page
}

/// Whether Haft uses a key, given by its dotted name.
pub(crate) fn has_effect(name: &str) -> bool {
    descriptions::ABOUT.iter().any(|(it, _)| *it == name)
}

fn key_named(name: &str) -> Option<&'static SettingKey> {
    let mut keys = KEYS;
    let mut steps = name.split('.').peekable();
    while let Some(step) = steps.next() {
        let key = keys.iter().find(|key| key.name == step)?;
        match (steps.peek(), key.shape) {
            (None, _) => return Some(key),
            (Some(_), SettingShape::Object(inner)) => keys = inner,
            (Some(_), _) => return None,
        }
    }
    None
}

/// Returns the dotted names of all keys except containers.
fn all_names() -> Vec<String> {
    fn collect(keys: &[SettingKey], lead: &str, names: &mut Vec<String>) {
        for key in keys {
            let name = format!("{lead}{}", key.name);
            match key.shape {
                SettingShape::Object(inner) => collect(inner, &format!("{name}."), names),
                _ => names.push(name),
            }
        }
    }
    let mut names = Vec::new();
    collect(KEYS, "", &mut names);
    names
}

impl SettingShape {
    fn words(self) -> String {
        match self {
            Self::Flag => String::from("true, false"),
            Self::Number => String::from("number"),
            Self::Text => String::from("string"),
            Self::Word(words) => words.iter().map(|it| format!("`{it}`")).collect::<Vec<_>>().join(", "),
            Self::List => String::from("list of strings"),
            Self::Texts => String::from("list of strings, together"),
            Self::Values => String::from("list, together"),
            Self::TextMap => String::from("map of strings, together"),
            Self::FlagMap => String::from("map of true, false, together"),
            Self::Map => String::from("map, together"),
            Self::Object(_) => String::from("object"),
            Self::Hooks => String::from("hooks, together"),
            Self::Any => String::from("any"),
        }
    }
}

impl ProjectTrustRule {
    fn words(self) -> &'static str {
        match self {
            Self::NeedsTrust => "",
            Self::Tightens | Self::Harmless => "any value",
            Self::TightensIf(_) => "stricter values",
            Self::Never => "none, trusted or not",
            Self::NeverIf { .. } => "stricter values; some never",
        }
    }
}

/// Properties of one settings key.
#[derive(Debug)]
pub(crate) struct SettingKey {
    pub(crate) name: &'static str,
    pub(crate) shape: SettingShape,
    pub(crate) from_project: ProjectTrustRule,
    pub(crate) from: AllowedLayers,
}

/// Type of a value, which also determines how layers are merged.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SettingShape {
    /// Boolean. The highest-precedence layer wins.
    Flag,
    /// Number. The highest-precedence layer wins.
    Number,
    /// String. The highest-precedence layer wins.
    Text,
    /// One of these strings. The highest-precedence layer wins.
    Word(&'static [&'static str]),
    /// List of strings. The highest-precedence layer wins.
    List,
    /// List of strings. All layers are concatenated.
    Texts,
    /// List of any values. All layers are concatenated.
    Values,
    /// Map of strings. Layers are merged by name.
    TextMap,
    /// Map of booleans. Layers are merged by name.
    FlagMap,
    /// Map of any values. Layers are merged by name.
    Map,
    /// Object with known keys.
    Object(&'static [SettingKey]),
    /// Hook definitions. All layers are concatenated.
    Hooks,
    /// Not validated. The highest-precedence layer wins.
    Any,
}

/// What a project may set before it is trusted.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ProjectTrustRule {
    /// Nothing.
    NeedsTrust,
    /// Any value: the key can only restrict.
    Tightens,
    /// Any value: the key neither runs nor allows anything.
    Harmless,
    /// Values that match the function, because they restrict; others need trust.
    TightensIf(fn(&Value) -> bool),
    /// Nothing, even if trusted: only the user can set this.
    Never,
    /// Some values never; others need trust unless they restrict.
    NeverIf {
        /// Matches the values a project may never set.
        never: fn(&Value) -> bool,
        /// Matches the values that restrict.
        tightens: fn(&Value) -> bool,
    },
}

/// Which layers may set a key.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum AllowedLayers {
    All,
    /// The organisation's managed settings only.
    Managed,
}

impl SettingKey {
    const fn new(name: &'static str, shape: SettingShape) -> Self {
        Self { name, shape, from_project: ProjectTrustRule::NeedsTrust, from: AllowedLayers::All }
    }

    const fn tightens(mut self) -> Self {
        self.from_project = ProjectTrustRule::Tightens;
        self
    }

    const fn harmless(mut self) -> Self {
        self.from_project = ProjectTrustRule::Harmless;
        self
    }

    const fn tightens_if(mut self, test: fn(&Value) -> bool) -> Self {
        self.from_project = ProjectTrustRule::TightensIf(test);
        self
    }

    const fn never_from_project(mut self) -> Self {
        self.from_project = ProjectTrustRule::Never;
        self
    }

    const fn managed_only(mut self) -> Self {
        self.from = AllowedLayers::Managed;
        self
    }
}

/// Finds a key by name.
pub(crate) fn find(keys: &'static [SettingKey], name: &str) -> Option<&'static SettingKey> {
    keys.iter().find(|key| key.name == name)
}

/// Returns the dotted names of all settings, sorted.
pub fn known_settings() -> Vec<String> {
    fn collect(keys: &[SettingKey], prefix: &str, into: &mut Vec<String>) {
        for key in keys.iter().filter(|key| !key.name.starts_with('$')) {
            let name = format!("{prefix}{}", key.name);
            if let SettingShape::Object(inner) = key.shape {
                collect(inner, &format!("{name}."), into);
            } else {
                into.push(name);
            }
        }
    }
    let mut names = Vec::new();
    collect(KEYS, "", &mut names);
    names.sort();
    names
}

impl SettingShape {
    /// Returns a description of the expected type if the value has another one.
    pub(crate) fn misfit(self, value: &Value) -> Option<String> {
        let is_text = |value: &Value| value.is_string();
        let all = |test: fn(&Value) -> bool| value.as_array().is_some_and(|list| list.iter().all(test));
        let all_named =
            |test: fn(&Value) -> bool| value.as_object().is_some_and(|map| map.values().all(test));
        let (fits, expected) = match self {
            Self::Flag => (value.is_boolean(), "true or false".to_owned()),
            Self::Number => (value.is_number(), "a number".to_owned()),
            Self::Text => (value.is_string(), "text".to_owned()),
            Self::Word(words) => {
                let fits = value.as_str().is_some_and(|word| words.contains(&word));
                (fits, format!("one of {}", words.join(", ")))
            }
            Self::List | Self::Texts => (all(is_text), "a list of texts".to_owned()),
            Self::Values => (value.is_array(), "a list".to_owned()),
            Self::TextMap => (all_named(is_text), "an object of texts".to_owned()),
            Self::FlagMap => (all_named(Value::is_boolean), "an object of true and false".to_owned()),
            Self::Map | Self::Object(_) => (value.is_object(), "an object".to_owned()),
            // Hooks are validated by the hooks crate.
            Self::Hooks | Self::Any => (true, String::new()),
        };
        (!fits).then_some(expected)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_keys_are_unique() {
        let mut names = known_settings();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
        assert!(names.contains(&"permissions.allow".to_owned()) && names.contains(&"model".to_owned()));
    }

    #[test]
    fn every_public_top_level_key_is_known() {
        // One name per word, easy to compare with the public list of keys.
        const PUBLIC: &str = include_str!("public.txt");
        for name in PUBLIC.split_whitespace() {
            assert!(find(KEYS, name).is_some(), "{name}");
        }
        assert!(180 < PUBLIC.split_whitespace().count());
    }
}

#[cfg(test)]
mod page_tests {
    use super::*;

    #[test]
    fn every_description_belongs_to_a_key() {
        for (name, _) in descriptions::ABOUT {
            assert!(key_named(name).is_some(), "{name} is explained and is no key");
        }
    }
}
