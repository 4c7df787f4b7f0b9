//! Lossless coercion of a value to a type that the schema allows.

use serde_json::{Number, Value};

/// Coerces a value that has none of `types`, if that is lossless. A string stays a string where one is
/// allowed.
pub(super) fn coerce(types: &[&str], value: &mut Value) {
    if types.iter().any(|ty| is_type(ty, value)) {
        return;
    }
    let coerced = match &*value {
        Value::String(text) => types.iter().find_map(|ty| from_text(ty, text)),
        Value::Number(number) if types.contains(&"integer") => whole(number),
        _ => None,
    };
    if let Some(coerced) = coerced {
        *value = coerced;
    }
}

/// Whether a value has a JSON Schema type. `1.0` counts as an integer.
pub(super) fn is_type(ty: &str, value: &Value) -> bool {
    match (ty, value) {
        ("integer", Value::Number(number)) => is_integer(number),
        ("number", Value::Number(_))
        | ("string", Value::String(_))
        | ("boolean", Value::Bool(_))
        | ("array", Value::Array(_))
        | ("object", Value::Object(_))
        | ("null", Value::Null) => true,
        _ => false,
    }
}

fn is_integer(number: &Number) -> bool {
    number.is_i64() || number.is_u64()
}

fn from_text(ty: &str, text: &str) -> Option<Value> {
    let trimmed = text.trim();
    match ty {
        "integer" => match number(trimmed)? {
            Value::Number(number) if is_integer(&number) => Some(Value::Number(number)),
            Value::Number(number) => whole(&number),
            _ => None,
        },
        "number" => number(trimmed),
        "boolean" => match trimmed.to_ascii_lowercase().as_str() {
            "true" => Some(Value::Bool(true)),
            "false" => Some(Value::Bool(false)),
            _ => None,
        },
        "array" | "object" => {
            let parsed: Value = serde_json::from_str(trimmed).ok()?;
            is_type(ty, &parsed).then_some(parsed)
        }
        "null" => (trimmed == "null").then_some(Value::Null),
        _ => None,
    }
}

/// Parses a number that is represented exactly.
fn number(text: &str) -> Option<Value> {
    let text = text.strip_prefix('+').unwrap_or(text);
    if !text.starts_with(|it: char| it == '-' || it.is_ascii_digit()) {
        return None;
    }
    let parsed: Number = serde_json::from_str(text).ok()?;
    if is_integer(&parsed) {
        return Some(Value::Number(parsed));
    }
    let back = parsed.as_f64().map(|it| format!("{it:e}"))?;
    (digits(&back) == digits(text)).then_some(Value::Number(parsed))
}

/// The significant digits of a number's mantissa. The exponent needs no check: the parser rejects one
/// that does not fit.
fn digits(text: &str) -> String {
    let mantissa = text.split(['e', 'E']).next().unwrap_or_default();
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    digits.trim_matches('0').to_owned()
}

/// Converts `10.0` to `10`.
fn whole(number: &Number) -> Option<Value> {
    /// All integers up to this have an exact `f64`.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let float = number.as_f64()?;
    if float.fract() != 0.0 || EXACT < float.abs() {
        return None;
    }
    #[expect(clippy::cast_possible_truncation, reason = "whole and within the exact range")]
    let whole = float as i64;
    Some(Value::from(whole))
}
