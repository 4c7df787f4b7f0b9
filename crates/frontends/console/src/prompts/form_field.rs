//! One field of a form: how it is shown, and how a typed line is parsed.

use haft_tool::check_input;
use haft_types::text;
use serde_json::{Map, Value, json};

/// Maximum number of choices shown.
const MAX_CHOICES: usize = 50;

pub(super) struct FormField<'a> {
    pub(super) name: &'a str,
    schema: &'a Value,
    pub(super) is_required: bool,
    choices: Vec<FieldChoice>,
}

/// An allowed value of a field, and its label.
struct FieldChoice {
    value: Value,
    title: String,
}

impl<'a> FormField<'a> {
    /// The fields of a form, in its order.
    pub(super) fn all(form: &'a Value) -> Vec<Self> {
        let required: Vec<&str> =
            form["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let properties = form["properties"].as_object().into_iter().flatten();
        let field = |(name, schema): (&'a String, &'a Value)| Self {
            name,
            schema,
            is_required: required.contains(&name.as_str()),
            choices: choices(schema),
        };
        properties.map(field).collect()
    }

    /// Label of the field.
    pub(super) fn title(&self) -> String {
        text::one_line(self.schema["title"].as_str().unwrap_or(self.name), 100)
    }

    /// The text before the input: one line of description, and the choices.
    pub(super) fn about(&self) -> String {
        let mut about = format!("{} ({})", self.title(), self.kind());
        if let Some(said) = self.schema["description"].as_str() {
            about.push_str(&format!(": {}", text::one_line(said, 500)));
        }
        for (at, choice) in self.choices.iter().take(MAX_CHOICES).enumerate() {
            about.push_str(&format!("\n  {}  {}", at + 1, text::one_line(&choice.title, 100)));
        }
        if MAX_CHOICES < self.choices.len() {
            about.push_str(&format!("\n  and {} more", self.choices.len() - MAX_CHOICES));
        }
        about
    }

    /// Describes the expected input, for example "a number from 1 to 9".
    fn kind(&self) -> String {
        let kind = match (self.schema["type"].as_str(), self.choices.is_empty()) {
            (Some("array"), false) => "some of these, with commas",
            (Some("array"), true) => "values with commas",
            (_, false) => "one of these",
            (Some("boolean"), _) => "yes or no",
            (Some("integer"), _) => "a whole number",
            (Some("number"), _) => "a number",
            _ => match self.schema["format"].as_str() {
                Some("email") => "an e-mail address",
                Some("uri") => "an address",
                Some("date") => "a date like 2026-01-31",
                Some("date-time") => "a time like 2026-01-31T12:00:00Z",
                _ => "text",
            },
        };
        let mut words =
            vec![if self.is_required { "needed" } else { "optional" }.to_owned(), kind.to_owned()];
        words.extend(self.range());
        words.join(", ")
    }

    /// Describes minimum and maximum, if the form sets them.
    fn range(&self) -> Option<String> {
        let (least, most, unit) = match self.schema["type"].as_str() {
            Some("array") => ("minItems", "maxItems", ""),
            Some("string") => ("minLength", "maxLength", " characters"),
            _ => ("minimum", "maximum", ""),
        };
        let (least, most) = (&self.schema[least], &self.schema[most]);
        match (least.is_number(), most.is_number()) {
            (true, true) => Some(format!("{least} to {most}{unit}")),
            (true, false) => Some(format!("at least {least}{unit}")),
            (false, true) => Some(format!("at most {most}{unit}")),
            (false, false) => None,
        }
    }

    pub(super) fn default(&self) -> Option<&'a Value> {
        self.schema.get("default").filter(|it| !it.is_null())
    }

    /// A value as shown to the user.
    pub(super) fn shown(&self, value: &Value) -> String {
        let one = |value: &Value| match (value, self.choices.iter().find(|it| it.value == *value)) {
            (_, Some(choice)) => choice.title.clone(),
            (Value::Bool(true), _) => String::from("yes"),
            (Value::Bool(false), _) => String::from("no"),
            (Value::String(text), _) => text.clone(),
            (other, _) => other.to_string(),
        };
        text::one_line(
            &match value {
                Value::Array(items) => items.iter().map(one).collect::<Vec<_>>().join(", "),
                single => one(single),
            },
            200,
        )
    }

    /// Parses the typed line into a value of the field's type. The error is for the user.
    pub(super) fn read(&self, line: &str) -> Result<Value, String> {
        let typed = match self.schema["type"].as_str() {
            Some("array") => {
                let items = line.split(',').map(str::trim).filter(|it| !it.is_empty());
                Value::Array(items.map(|it| self.one(it)).collect::<Result<_, _>>()?)
            }
            _ => self.one(line)?,
        };
        self.check(typed)
    }

    fn one(&self, line: &str) -> Result<Value, String> {
        if !self.choices.is_empty() {
            return self.choice(line);
        }
        let kind = match self.schema["type"].as_str() {
            Some("array") => self.schema["items"]["type"].as_str(),
            kind => kind,
        };
        match kind {
            Some("boolean") => match line.to_lowercase().as_str() {
                "y" | "yes" | "true" => Ok(json!(true)),
                "n" | "no" | "false" => Ok(json!(false)),
                _ => Err(String::from("yes or no?")),
            },
            Some("integer") => match line.parse::<i64>() {
                Ok(number) => Ok(json!(number)),
                Err(_) => Err(String::from("that is not a whole number")),
            },
            Some("number") => match (line.parse::<i64>(), line.parse::<f64>()) {
                (Ok(whole), _) => Ok(json!(whole)),
                (_, Ok(number)) if number.is_finite() => Ok(json!(number)),
                _ => Err(String::from("that is not a number")),
            },
            Some("string") | None => Ok(json!(line)),
            // MCP forms allow no other types; if one occurs, the value can be typed as JSON.
            Some(_) => serde_json::from_str(line).map_err(|_| String::from("that is not JSON")),
        }
    }

    /// Parses a choice: its number from 1 on, value, or label (any case).
    fn choice(&self, line: &str) -> Result<Value, String> {
        let named = |it: &&FieldChoice| it.value == *line || it.title.eq_ignore_ascii_case(line);
        let numbered = || line.parse::<usize>().ok().and_then(|at| self.choices.get(at.checked_sub(1)?));
        let found = self.choices.iter().find(named).or_else(numbered);
        found.map(|it| it.value.clone()).ok_or_else(|| {
            format!("that is none of the choices; type a number from 1 to {}", self.choices.len())
        })
    }

    /// Validates the value against the field's schema.
    fn check(&self, value: Value) -> Result<Value, String> {
        if let Some(text) = value.as_str() {
            check_format(self.schema["format"].as_str(), text)?;
        }
        let form = json!({"type": "object", "properties": {self.name: self.schema}, "required": [self.name]});
        let mut filled = Value::Object(Map::from_iter([(self.name.to_owned(), value)]));
        let (is_number, range) = (filled[self.name].is_number(), self.range());
        check_input("the form", &form, &mut filled).map_err(|err| match range.filter(|_| is_number) {
            Some(range) => format!("it must be {range}"),
            None => problem(&err.message, self.name),
        })?;
        Ok(filled[self.name].take())
    }
}

/// Removes the parts of a validation message that address the model.
fn problem(message: &str, field: &str) -> String {
    let lines = message.lines().filter_map(|it| it.strip_prefix("- "));
    let said: Vec<&str> = lines.map(|it| it.strip_prefix(&format!("`{field}` ")).unwrap_or(it)).collect();
    if said.is_empty() {
        String::from("the form does not take that")
    } else {
        format!("it {}", said.join("; "))
    }
}

fn check_format(format: Option<&str>, text: &str) -> Result<(), String> {
    let fits = match format {
        Some("email") => text.split_once('@').is_some_and(|(user, host)| {
            !user.is_empty() && !host.is_empty() && !host.contains('@') && !text.contains(char::is_whitespace)
        }),
        Some("uri") => url::Url::parse(text).is_ok(),
        Some("date") => is_date(text),
        Some("date-time") => {
            let rest = text.get(10..).unwrap_or_default();
            let time = rest.strip_prefix(['T', 't']).unwrap_or_default();
            text.get(..10).is_some_and(is_date) && is_time(time)
        }
        _ => true,
    };
    if fits { Ok(()) } else { Err(format!("that is not {}", format.map_or("it", article))) }
}

fn article(format: &str) -> &'static str {
    match format {
        "email" => "an e-mail address",
        "uri" => "an address; it begins with https:// or the like",
        "date" => "a date; they look like 2026-01-31",
        _ => "a time; they look like 2026-01-31T12:00:00Z",
    }
}

fn is_date(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let [year, month, day] = parts[..] else { return false };
    let number = |text: &str, digits: usize| {
        if text.len() == digits && text.bytes().all(|it| it.is_ascii_digit()) {
            text.parse::<u32>().ok()
        } else {
            None
        }
    };
    let (Some(year), Some(month), Some(day)) = (number(year, 4), number(month, 2), number(day, 2)) else {
        return false;
    };
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        4 | 6 | 9 | 11 => 30,
        2 if is_leap => 29,
        2 => 28,
        1..=12 => 31,
        _ => return false,
    };
    (1..=days).contains(&day)
}

/// Whether the text is an RFC 3339 time with zone: `12:00:00Z`, `12:00:00.5+02:00`.
fn is_time(text: &str) -> bool {
    let at = text.find(['Z', 'z', '+', '-']).unwrap_or(text.len());
    let (clock, zone) = text.split_at(at);
    let clock = clock.split_once('.').map_or(clock, |(clock, _)| clock);
    let pairs = |text: &str, most: &[u32]| {
        let parts: Vec<&str> = text.split(':').collect();
        parts.len() == most.len()
            && parts.iter().zip(most).all(|(part, most)| {
                part.len() == 2 && part.parse::<u32>().is_ok_and(|number| number <= *most)
            })
    };
    pairs(clock, &[23, 59, 60])
        && (matches!(zone, "Z" | "z") || zone.get(1..).is_some_and(|it| pairs(it, &[23, 59])))
}

/// The allowed values, if the schema lists them.
fn choices(schema: &Value) -> Vec<FieldChoice> {
    let schema = if schema["type"] == "array" { &schema["items"] } else { schema };
    let titles = schema["enumNames"].as_array().map(Vec::as_slice).unwrap_or_default();
    let plain = schema["enum"]
        .as_array()
        .into_iter()
        .flatten()
        .enumerate()
        .map(|(at, value)| (value, titles.get(at).and_then(Value::as_str)));
    let titled = ["oneOf", "anyOf"].iter().filter_map(|key| schema[*key].as_array()).flatten();
    let titled = titled.filter_map(|it| Some((it.get("const")?, it["title"].as_str())));
    let choice = |(value, title): (&Value, Option<&str>)| {
        let spelt = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        FieldChoice { value: value.clone(), title: title.map_or(spelt, str::to_owned) }
    };
    plain.chain(titled).map(choice).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_become_values_or_say_what_is_wrong() {
        let titled = json!({"type": "string", "oneOf": [{"const": "#f00", "title": "Red"}, {"const": "#00f", "title": "Blue"}]});
        let named = json!({"type": "string", "enum": ["a", "b"], "enumNames": ["Alpha", "Beta"]});
        let several =
            json!({"type": "array", "minItems": 1, "maxItems": 2, "items": {"enum": ["x", "y", "z"]}});
        let several_titled = json!({"type": "array", "items": {"anyOf": [{"const": 1, "title": "One"}, {"const": 2, "title": "Two"}]}});
        let text = |format: &str| json!({"type": "string", "format": format});
        for (schema, line, want) in [
            (json!({"type": "string"}), "a b", Ok(json!("a b"))),
            (json!({"type": "string", "minLength": 3}), "ab", Err("at least 3")),
            (json!({"type": "string", "maxLength": 1}), "ab", Err("at most 1")),
            (json!({"type": "string", "pattern": "^[0-9]+$"}), "x", Err("pattern")),
            (text("email"), "a@b.test", Ok(json!("a@b.test"))),
            (text("email"), "a b@c", Err("e-mail")),
            (text("uri"), "https://x.test/", Ok(json!("https://x.test/"))),
            (text("uri"), "x.test", Err("https://")),
            (text("date"), "2024-02-29", Ok(json!("2024-02-29"))),
            (text("date"), "2023-02-29", Err("2026-01-31")),
            (text("date-time"), "2024-02-29T23:59:60.5+02:00", Ok(json!("2024-02-29T23:59:60.5+02:00"))),
            (text("date-time"), "2024-02-29 10:00", Err("like")),
            (json!({"type": "integer", "minimum": 1}), "7", Ok(json!(7))),
            (json!({"type": "integer", "minimum": 1}), "0", Err("it must be at least 1")),
            (json!({"type": "integer"}), "1.5", Err("whole number")),
            (json!({"type": "number"}), "1.5", Ok(json!(1.5))),
            (json!({"type": "number"}), "2", Ok(json!(2))),
            (json!({"type": "number"}), "inf", Err("not a number")),
            (json!({"type": "boolean"}), "Y", Ok(json!(true))),
            (json!({"type": "boolean"}), "no", Ok(json!(false))),
            (json!({"type": "boolean"}), "perhaps", Err("yes or no?")),
            (titled.clone(), "2", Ok(json!("#00f"))),
            (titled.clone(), "red", Ok(json!("#f00"))),
            (titled.clone(), "#00f", Ok(json!("#00f"))),
            (titled, "3", Err("1 to 2")),
            (named.clone(), "beta", Ok(json!("b"))),
            (named, "0", Err("none of the choices")),
            (several.clone(), "1, z", Ok(json!(["x", "z"]))),
            (several.clone(), "x,y,z", Err("at most 2")),
            (several, ",", Err("at least 1")),
            (several_titled, "two", Ok(json!([2]))),
            (json!({"type": "array", "items": {"type": "integer"}}), "1,2", Ok(json!([1, 2]))),
            (json!({"type": "object"}), "{\"a\": 1}", Ok(json!({"a": 1}))),
            (json!({"type": "object"}), "a", Err("not JSON")),
        ] {
            let form = json!({"type": "object", "properties": {"f": schema}});
            let fields = FormField::all(&form);
            match (fields[0].read(line), want) {
                (Ok(got), Ok(want)) => assert_eq!(got, want, "{schema} {line}"),
                (Err(why), Err(part)) => assert!(why.contains(part), "{schema} {line}: {why}"),
                (got, want) => panic!("{schema} {line}: {got:?}, not {want:?}"),
            }
        }
    }

    #[test]
    fn a_field_says_what_belongs_into_it() {
        for (schema, want) in [
            (json!({"type": "integer", "minimum": 1, "maximum": 9}), "f (optional, a whole number, 1 to 9)"),
            (
                json!({"type": "string", "title": "T", "description": "D", "maxLength": 5}),
                "T (optional, text, at most 5 characters): D",
            ),
            (json!({"enum": ["a", "b"]}), "f (optional, one of these)\n  1  a\n  2  b"),
            (
                json!({"type": "array", "maxItems": 2, "items": {"enum": ["a"]}}),
                "f (optional, some of these, with commas, at most 2)\n  1  a",
            ),
        ] {
            let form = json!({"properties": {"f": schema}});
            assert_eq!(FormField::all(&form)[0].about(), want);
        }
    }
}
