//! Parameters under names models use for them.

use serde_json::{Map, Value};

use crate::schema::resolve;

/// Renames parameters the schema does not know: those a synonym names, and those
/// that differ from a known one only in case and separators (`filePath` for
/// `file_path`). A parameter that is given under its own name keeps its value,
/// and what two could mean is left alone: the check says what is wrong with it.
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

/// Flags such as `-A` and `-a` differ in nothing but case, so theirs counts.
fn fold(name: &str) -> String {
    if name.starts_with('-') {
        return name.to_owned();
    }
    name.chars().filter(char::is_ascii_alphanumeric).map(|it| it.to_ascii_lowercase()).collect()
}
