use serde_json::Value;

use crate::rule::wildcard::Wildcard;

/// `Tool(param:value)`: matches a top-level input that is a string, a number or a boolean.
#[derive(Clone, Debug)]
pub(crate) struct ParamPattern {
    pub(crate) param: String,
    value: Wildcard,
}

impl ParamPattern {
    /// Parses a specification that may name a parameter.
    pub(crate) fn parse(spec: &str) -> Option<Self> {
        let (param, value) = spec.split_once(':')?;
        let named = param.starts_with(|it: char| it.is_ascii_alphabetic() || it == '_')
            && param.chars().all(|it| it.is_ascii_alphanumeric() || matches!(it, '_' | '-'));
        let value = value.trim();
        (named && !value.is_empty()).then(|| Self { param: param.to_owned(), value: Wildcard::new(value) })
    }

    pub(crate) fn matches(&self, input: &Value) -> bool {
        match input.get(&self.param) {
            Some(Value::String(text)) => self.value.matches(text),
            Some(Value::Bool(flag)) => self.value.matches(if *flag { "true" } else { "false" }),
            Some(Value::Number(number)) => self.value.matches(&number.to_string()),
            Some(Value::Null | Value::Array(_) | Value::Object(_)) | None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn param_pattern_compares_scalars_as_text() {
        let input =
            json!({"model": "opus", "run_in_background": true, "timeout": 5, "list": ["x"], "none": null});
        for (spec, want) in [
            ("model:opus", true),
            ("model:op*", true),
            ("model: opus", true),
            ("model:*", true),
            ("model:sonnet", false),
            ("run_in_background:true", true),
            ("run_in_background:false", false),
            ("timeout:5", true),
            ("list:*", false),
            ("none:*", false),
            ("absent:*", false),
        ] {
            assert_eq!(ParamPattern::parse(spec).unwrap().matches(&input), want, "{spec}");
        }
        for spec in ["plain", "npm run test:*", ":x", "x:", "1x:y", "./a:b"] {
            assert!(ParamPattern::parse(spec).is_none(), "{spec}");
        }
    }
}
