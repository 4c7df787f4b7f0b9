//! `{name}` placeholders in texts of a job file.

use std::collections::BTreeMap;

/// Replaces `{name}` by its value; an unknown name is an error. `{{` and `}}` are literal braces. Braces
/// around anything but a name are kept, because prompts contain code.
pub(super) fn fill(text: &str, values: &BTreeMap<String, String>) -> Result<String, String> {
    let mut filled = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['{', '}']) {
        filled.push_str(&rest[..at]);
        let brace = &rest[at..=at];
        let behind = &rest[at + 1..];
        if let Some(behind) = behind.strip_prefix(brace) {
            filled.push_str(brace);
            rest = behind;
            continue;
        }
        let name = behind.find('}').map(|end| &behind[..end]).filter(|it| brace == "{" && is_name(it));
        let Some(name) = name else {
            filled.push_str(brace);
            rest = behind;
            continue;
        };
        let Some(value) = values.get(name) else {
            let known: Vec<&str> = values.keys().map(String::as_str).collect();
            return Err(format!(
                "nothing fills {{{name}}}; there are: {}. Write {{{{{name}}}}} for the braces themselves",
                known.join(", ")
            ));
        };
        filled.push_str(value);
        rest = &behind[name.len() + 1..];
    }
    filled.push_str(rest);
    Ok(filled)
}

/// Returns the placeholder names in a text.
pub(super) fn names(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find(['{', '}']) {
        let brace = &rest[at..=at];
        let behind = &rest[at + 1..];
        if let Some(behind) = behind.strip_prefix(brace) {
            rest = behind;
            continue;
        }
        if let Some(name) =
            behind.find('}').map(|end| &behind[..end]).filter(|it| brace == "{" && is_name(it))
        {
            found.push(name.to_owned());
        }
        rest = behind;
    }
    found
}

fn is_name(text: &str) -> bool {
    let mut chars = text.chars();
    chars.next().is_some_and(|it| it.is_ascii_alphabetic() || it == '_')
        && chars.all(|it| it.is_ascii_alphanumeric() || matches!(it, '_' | '-' | '.'))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "test code")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn placeholders_are_filled_and_other_braces_kept() {
        let values =
            [("repo", "a/b"), ("x", "{repo}")].map(|(name, value)| (name.to_owned(), value.to_owned()));
        let values = BTreeMap::from(values);
        for (text, want) in [
            ("see {repo}", "see a/b"),
            ("{{repo}}", "{repo}"),
            ("fn f() { 1 }", "fn f() { 1 }"),
            ("{x}", "{repo}"),
            ("a } b", "a } b"),
            ("{\"k\": 1}", "{\"k\": 1}"),
        ] {
            assert_eq!(fill(text, &values).unwrap(), want, "{text}");
        }
        assert!(fill("{nope}", &values).unwrap_err().contains("{nope}"));
        assert_eq!(names("{a} {{b}} {c}"), ["a", "c"]);
    }

    proptest! {
        #[test]
        fn text_with_doubled_braces_round_trips(text in "[a-z{}äö ]{0,60}") {
            let doubled = text.replace('{', "{{").replace('}', "}}");
            prop_assert_eq!(fill(&doubled, &BTreeMap::new()).unwrap(), text);
        }
    }
}
