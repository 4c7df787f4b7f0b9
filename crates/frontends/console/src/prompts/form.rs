//! An MCP server's form, for frontends that show it as a whole.

use haft_tool::check_input;
use haft_tui::QuestionField;
use haft_types::text;
use serde_json::{Map, Value};

use super::form_field::FormField;

/// The fields of a form, with its default values filled in.
pub fn fields(form: &Value) -> Vec<QuestionField> {
    let field = |field: &FormField<'_>| QuestionField {
        name: field.name.to_owned(),
        label: field.title(),
        hint: text::one_line(&field.about(), 200),
        value: field.default().map(|it| field.shown(it)).unwrap_or_default(),
    };
    FormField::all(form).iter().map(field).collect()
}

/// Converts the typed values, in the order of the fields, into the answer. Empty optional fields are
/// left out. The error names the invalid field.
pub fn read(form: &Value, values: &[String]) -> Result<Map<String, Value>, String> {
    let mut filled = Map::new();
    for (field, value) in FormField::all(form).iter().zip(values) {
        if value.trim().is_empty() && !field.is_required {
            continue;
        }
        let value = field.read(value.trim()).map_err(|problem| format!("{}: {problem}", field.title()))?;
        filled.insert(field.name.to_owned(), value);
    }
    let mut whole = Value::Object(filled);
    check_input("The form", form, &mut whole).map_err(|problem| problem.to_string())?;
    Ok(whole.as_object().cloned().unwrap_or_default())
}
