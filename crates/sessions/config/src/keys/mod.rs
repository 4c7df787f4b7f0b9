//! Every key a settings file may hold: its shape, how layers are joined, and
//! what a project may say about it before it is trusted. One list; checking,
//! merging, trust and help all read it.

mod descriptions;
mod key_table;

use serde_json::Value;

pub(crate) use key_table::KEYS;

/// The page about the keys of settings files.
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

/// Whether Haft does something with a key, named with dots.
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

/// Whole names of all keys but those that only hold others.
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

/// What is known about one key of a settings file.
#[derive(Debug)]
pub(crate) struct SettingKey {
    pub(crate) name: &'static str,
    pub(crate) shape: SettingShape,
    pub(crate) from_project: ProjectTrustRule,
    pub(crate) from: AllowedLayers,
}

/// What a value looks like; this also says how layers are joined.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SettingShape {
    /// True or false. The strongest layer wins.
    Flag,
    /// A number. The strongest layer wins.
    Number,
    /// Text. The strongest layer wins.
    Text,
    /// One of these words. The strongest layer wins.
    Word(&'static [&'static str]),
    /// A list of texts. The strongest layer wins.
    List,
    /// A list of texts. All layers count together.
    Texts,
    /// A list of anything. All layers count together.
    Values,
    /// Texts by name. All layers count together, the strongest wins a name.
    TextMap,
    /// Switches by name. All layers count together, the strongest wins a name.
    FlagMap,
    /// Anything by name. All layers count together, the strongest wins a name.
    Map,
    /// Known keys again.
    Object(&'static [SettingKey]),
    /// Hook definitions. All layers count together.
    Hooks,
    /// Not looked at. The strongest layer wins.
    Any,
}

/// What a project may say before it is trusted.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ProjectTrustRule {
    /// Nothing.
    NeedsTrust,
    /// Everything: it can only make things stricter.
    Tightens,
    /// Everything: it runs nothing and allows nothing.
    Harmless,
    /// What makes things stricter; the rest needs trust.
    TightensIf(fn(&Value) -> bool),
    /// Nothing, trusted or not: only the person can say this.
    Never,
    /// Some values never, the rest needs trust unless it tightens.
    NeverIf {
        /// What a project can never say.
        never: fn(&Value) -> bool,
        /// What makes things stricter.
        tightens: fn(&Value) -> bool,
    },
}

/// Who may use a key.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum AllowedLayers {
    /// Every layer.
    All,
    /// The organisation only.
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

/// A key of a list, by name.
pub(crate) fn find(keys: &'static [SettingKey], name: &str) -> Option<&'static SettingKey> {
    keys.iter().find(|key| key.name == name)
}

/// Every setting a caller may ask for, with dots for nested ones, sorted.
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
    /// What is expected, in words, if the value is something else.
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
            // The hooks crate looks at these itself.
            Self::Hooks | Self::Any => (true, String::new()),
        };
        (!fits).then_some(expected)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_key_stands_twice() {
        let mut names = known_settings();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
        assert!(names.contains(&"permissions.allow".to_owned()) && names.contains(&"model".to_owned()));
    }

    #[test]
    fn every_public_top_level_key_is_known() {
        // Spelled as one text, to be compared with the public list at a glance.
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
    fn what_is_explained_is_a_key() {
        for (name, _) in descriptions::ABOUT {
            assert!(key_named(name).is_some(), "{name} is explained and is no key");
        }
    }
}
