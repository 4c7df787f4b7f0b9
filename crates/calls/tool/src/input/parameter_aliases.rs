//! Alternative parameter names.

use serde_json::{Map, Value};

use crate::schema::resolve;

/// Renames unknown parameters: synonyms, and names that differ from a known one only in case and
/// separators (`filePath` for `file_path`). A parameter given under its own name takes precedence.
/// Ambiguous names are left for the check to report.
pub(crate) fn translate(schema: &Value, synonyms: &[(&str, &str)], input: &mut Map<String, Value>) {
    let target = schema.get("$ref").and_then(Value::as_str).and_then(|link| resolve(schema, link));
    let node = target.or(schema.as_object());
    let Some(known) = node.and_then(|it| it.get("properties")).and_then(Value::as_object) else { return };
    let foreign: Vec<String> = input.keys().filter(|name| !known.contains_key(*name)).cloned().collect();
    for name in foreign {
        let synonym = synonyms.iter().find(|(theirs, _)| fold(theirs) == fold(&name)).map(|it| it.1);
        let mut alike = known.keys().filter(|it| fold(it) == fold(&name)).map(String::as_str);
        let meant = match (synonym, alike.next(), alike.next()) {
            (_, Some(only), None) | (Some(only), None, _) => only,
            _ => continue,
        };
        if known.contains_key(meant)
            && !input.contains_key(meant)
            && let Some(value) = input.remove(&name)
        {
            input.insert(meant.to_owned(), value);
        }
    }
}

/// Flags such as `-A` and `-a` differ only in case, so their case is kept.
fn fold(name: &str) -> String {
    if name.starts_with('-') {
        return name.to_owned();
    }
    name.chars().filter(char::is_ascii_alphanumeric).map(|it| it.to_ascii_lowercase()).collect()
}
