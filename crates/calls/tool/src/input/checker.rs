//! Walks schema and value together.

use std::collections::BTreeSet;

use haft_types::nearest;
use regex::Regex;
use serde_json::{Map, Value};

use super::{
    coerce::{coerce, is_type},
    describe::{describe_actual, expected, list, types},
};
use crate::schema::{constants, resolve};

/// Maximum nesting of a value; deeper ones are rejected, because the walk is recursive.
const MAX_DEPTH: usize = 100;

/// Maximum length of a chain of references; longer ones are circular.
const MAX_REFS: usize = 32;

/// Whether values may be coerced.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum CoercionMode {
    Coerce,
    Exact,
}

pub(super) struct InputChecker<'a> {
    root: &'a Value,
    issues: Vec<String>,
    shape: CoercionMode,
    depth: usize,
}

impl<'a> InputChecker<'a> {
    pub(super) fn new(root: &'a Value) -> Self {
        Self { root, issues: Vec::new(), shape: CoercionMode::Coerce, depth: 0 }
    }

    /// Checks the whole input and returns all problems.
    pub(super) fn run(mut self, input: &mut Value) -> Vec<String> {
        let root = self.root;
        if !input.is_object() {
            coerce(&["object"], input);
        }
        if input.is_object() {
            self.value(root, "", input);
        } else {
            self.issues.push(format!("the input must be an object, got {}", describe_actual(input)));
        }
        self.issues
    }

    fn value(&mut self, schema: &'a Value, path: &str, value: &mut Value) {
        if MAX_DEPTH < self.depth {
            self.issue(path, "is nested too deeply");
            return;
        }
        self.depth += 1;
        match schema {
            Value::Bool(false) => self.issue(path, "is not allowed here"),
            Value::Object(schema) => self.node(schema, path, value),
            _ => (),
        }
        self.depth -= 1;
    }

    fn node(&mut self, node: &'a Map<String, Value>, path: &str, value: &mut Value) {
        let mut node = node;
        for _ in 0..MAX_REFS {
            let target = node.get("$ref").and_then(Value::as_str).and_then(|link| resolve(self.root, link));
            match target {
                Some(target) => node = target,
                None => break,
            }
        }
        if self.wrong_type(node, path, value) {
            return;
        }
        for arm in node.get("allOf").and_then(Value::as_array).into_iter().flatten() {
            self.value(arm, path, value);
        }
        for key in ["anyOf", "oneOf"] {
            if let Some(Value::Array(arms)) = node.get(key) {
                self.union(arms, path, value);
            }
        }
        self.conditions(node, path, value);
        if self.not_listed(node, path, value) {
            return;
        }
        match value {
            Value::Object(object) => self.object(node, path, object),
            Value::Array(items) => self.array(node, path, items),
            Value::String(text) => self.string(node, path, text),
            Value::Number(_) => self.number(node, path, value),
            Value::Null | Value::Bool(_) => (),
        }
    }

    /// Reports a value that cannot have the schema's type. Returns whether it did.
    fn wrong_type(&mut self, node: &Map<String, Value>, path: &str, value: &mut Value) -> bool {
        let Some(ty) = node.get("type") else { return false };
        let types: Vec<&str> = match ty {
            Value::String(ty) => vec![ty],
            Value::Array(types) => types.iter().filter_map(Value::as_str).collect(),
            _ => return false,
        };
        if self.shape == CoercionMode::Coerce {
            coerce(&types, value);
        }
        let known = ["integer", "number", "string", "boolean", "array", "object", "null"];
        let fits = types.iter().any(|ty| is_type(ty, value) || !known.contains(ty));
        if !fits {
            let wanted = expected(&Value::Object(node.clone()));
            self.issue(path, &format!("must be {wanted}, got {}", describe_actual(value)));
        }
        !fits
    }

    fn not_listed(&mut self, node: &Map<String, Value>, path: &str, value: &mut Value) -> bool {
        if !node.contains_key("const") && !node.contains_key("enum") {
            return false;
        }
        let schema = Value::Object(node.clone());
        let Some(values) = constants(&schema) else { return false };
        if values.contains(value) {
            return false;
        }
        if self.shape == CoercionMode::Coerce
            && !values.iter().any(Value::is_string)
            && let Value::String(text) = &*value
            && let Ok(parsed) = serde_json::from_str::<Value>(text.trim())
            && values.contains(&parsed)
        {
            *value = parsed;
            return false;
        }
        let mut problem = format!("must be {}, got {}", expected(&schema), describe_actual(value));
        let words: Vec<&str> = values.iter().filter_map(Value::as_str).collect();
        if let Some(word) = value.as_str()
            && let [meant] = nearest(word, words, 1)[..]
        {
            problem.push_str(&format!("; did you mean \"{meant}\"?"));
        }
        self.issue(path, &problem);
        true
    }

    /// Uses the first arm that matches without coercion, else the first that matches with it, else
    /// reports the problems of the most likely arm.
    fn union(&mut self, arms: &'a [Value], path: &str, value: &mut Value) {
        if arms.iter().any(|arm| self.problems(arm, path, &mut value.clone(), CoercionMode::Exact).is_empty())
        {
            return;
        }
        let mut tried: Vec<(usize, Vec<String>)> = Vec::new();
        for (idx, arm) in arms.iter().enumerate() {
            let mut candidate = value.clone();
            let problems = self.problems(arm, path, &mut candidate, self.shape);
            if problems.is_empty() {
                *value = candidate;
                return;
            }
            tried.push((idx, problems));
        }
        let meant = tried.iter().find(|(idx, _)| tags_agree(self.root, &arms[*idx], value));
        match meant {
            Some((_, problems)) => self.issues.extend(problems.iter().cloned()),
            None => {
                let words: Vec<String> = arms.iter().map(|arm| arm_words(self.root, arm)).collect();
                self.issue(path, &format!("must be {}, got {}", words.join(" or "), describe_actual(value)));
                let nearest = tried.into_iter().map(|(_, problems)| problems).min_by_key(Vec::len);
                let said_already = format!("`{path}` must be");
                let details = nearest.into_iter().flatten().filter(|it| !it.starts_with(&said_already));
                self.issues.extend(details);
            }
        }
    }

    /// Conditional keywords: `if`, `not`, and dependencies of a given parameter.
    fn conditions(&mut self, node: &'a Map<String, Value>, path: &str, value: &mut Value) {
        let fits = |me: &Self, schema: &'a Value, value: &Value| {
            me.problems(schema, path, &mut value.clone(), CoercionMode::Exact).is_empty()
        };
        if let Some(condition) = node.get("if") {
            let branch = if fits(self, condition, value) { "then" } else { "else" };
            if let Some(schema) = node.get(branch) {
                self.value(schema, path, value);
            }
        }
        if node.get("not").is_some_and(|schema| fits(self, schema, value)) {
            self.issue(path, "is ruled out here");
        }
        let Value::Object(given) = &*value else { return };
        let names = |key: &str| node.get(key).and_then(Value::as_object).into_iter().flatten();
        let mut missing = Vec::new();
        for (name, needed) in names("dependentRequired").filter(|it| given.contains_key(it.0)) {
            let needed = needed.as_array().into_iter().flatten().filter_map(Value::as_str);
            missing.extend(needed.filter(|it| !given.contains_key(*it)).map(|it| (it, name)));
        }
        let schemas: Vec<&Value> =
            names("dependentSchemas").filter(|it| given.contains_key(it.0)).map(|it| it.1).collect();
        for (needed, name) in missing {
            self.issue(&child(path, needed), &format!("is required when `{name}` is given"));
        }
        for schema in schemas {
            self.value(schema, path, value);
        }
    }

    /// The problems of one arm, without recording them.
    fn problems(&self, arm: &'a Value, path: &str, value: &mut Value, shape: CoercionMode) -> Vec<String> {
        let mut inner = Self { root: self.root, issues: Vec::new(), shape, depth: self.depth };
        inner.value(arm, path, value);
        inner.issues
    }

    fn object(&mut self, node: &'a Map<String, Value>, path: &str, object: &mut Map<String, Value>) {
        let properties = node.get("properties").and_then(Value::as_object);
        let required: Vec<&str> = required(node).collect();
        if self.shape == CoercionMode::Coerce {
            self.drop_absent(properties, &required, object);
        }
        for name in required.iter().filter(|name| !object.contains_key(**name)) {
            let schema = properties.and_then(|it| it.get(*name));
            let wanted = schema.map(expected).unwrap_or_else(|| String::from("a value"));
            self.issue(&child(path, name), &format!("is required ({wanted}) but missing"));
        }
        let rest = node.get("additionalProperties");
        let patterns = node.get("patternProperties").and_then(Value::as_object);
        for (name, value) in object.iter_mut() {
            let at = child(path, name);
            let by_pattern = patterns
                .into_iter()
                .flatten()
                .find(|(pattern, _)| Regex::new(pattern).is_ok_and(|pattern| pattern.is_match(name)));
            match (properties.and_then(|it| it.get(name)), by_pattern, rest) {
                (Some(schema), _, _) | (None, Some((_, schema)), _) => self.value(schema, &at, value),
                (None, None, Some(Value::Bool(false))) => self.unknown(&at, name, properties),
                (None, None, Some(schema)) => self.value(schema, &at, value),
                (None, None, None) => (),
            }
        }
        if node.get("unevaluatedProperties") == Some(&Value::Bool(false)) {
            self.unevaluated(node, path, object);
        }
        self.count(node, path, object.len(), ["minProperties", "maxProperties"], "entries");
    }

    /// Removes `null` for an optional parameter that is not nullable.
    fn drop_absent(
        &self,
        properties: Option<&'a Map<String, Value>>,
        required: &[&str],
        object: &mut Map<String, Value>,
    ) {
        object.retain(|name, value| {
            let Some(schema) = properties.and_then(|it| it.get(name)) else { return true };
            !value.is_null()
                || required.contains(&name.as_str())
                || self.problems(schema, "", &mut Value::Null, CoercionMode::Exact).is_empty()
        });
    }

    fn unknown(&mut self, path: &str, name: &str, properties: Option<&Map<String, Value>>) {
        let known: Vec<&str> = properties.into_iter().flatten().map(|(name, _)| name.as_str()).collect();
        let hint = match (nearest(name, known.iter().copied(), 1).as_slice(), known.is_empty()) {
            ([meant], _) => format!("; did you mean `{meant}`?"),
            (_, true) => String::from("; no parameters are accepted here"),
            _ => format!("; accepted are {}", list(known.iter().map(|it| format!("`{it}`")))),
        };
        self.issues.push(format!("`{path}` is not a known parameter{hint}"));
    }

    fn unevaluated(&mut self, node: &'a Map<String, Value>, path: &str, object: &Map<String, Value>) {
        let mut known = BTreeSet::new();
        let whole = Value::Object(object.clone());
        self.evaluated(node, &whole, &mut known, 0);
        for name in object.keys().filter(|name| !known.contains(name.as_str())) {
            self.unknown(&child(path, name), name, node.get("properties").and_then(Value::as_object));
        }
    }

    /// Properties mentioned by any subschema that applies to this object.
    fn evaluated(
        &self,
        node: &'a Map<String, Value>,
        whole: &Value,
        known: &mut BTreeSet<&'a str>,
        depth: usize,
    ) {
        if MAX_REFS < depth {
            return;
        }
        let properties = node.get("properties").and_then(Value::as_object).into_iter().flatten();
        known.extend(properties.map(|(name, _)| name.as_str()));
        for key in ["allOf", "anyOf", "oneOf"] {
            for arm in node.get(key).and_then(Value::as_array).into_iter().flatten() {
                let applies = key == "allOf"
                    || self.problems(arm, "", &mut whole.clone(), CoercionMode::Coerce).is_empty();
                if let Some(arm) = arm.as_object().filter(|_| applies) {
                    self.evaluated(arm, whole, known, depth + 1);
                }
            }
        }
        if let Some(target) = node.get("$ref").and_then(Value::as_str).and_then(|it| resolve(self.root, it)) {
            self.evaluated(target, whole, known, depth + 1);
        }
    }

    fn array(&mut self, node: &'a Map<String, Value>, path: &str, items: &mut [Value]) {
        let fixed = node.get("prefixItems").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        for (idx, item) in items.iter_mut().enumerate() {
            if let Some(schema) = fixed.get(idx).or_else(|| node.get("items")) {
                self.value(schema, &format!("{path}[{idx}]"), item);
            }
        }
        self.count(node, path, items.len(), ["minItems", "maxItems"], "items");
        if node.get("uniqueItems") == Some(&Value::Bool(true))
            && let Some(twice) = items.iter().enumerate().find(|(idx, item)| items[..*idx].contains(item))
        {
            self.issue(path, &format!("must not repeat items, got {} twice", describe_actual(twice.1)));
        }
    }

    fn string(&mut self, node: &Map<String, Value>, path: &str, text: &str) {
        self.count(node, path, text.chars().count(), ["minLength", "maxLength"], "characters");
        if let Some(pattern) = node.get("pattern").and_then(Value::as_str)
            // A pattern our regex engine cannot parse is left to the server.
            && let Ok(regex) = Regex::new(pattern)
            && !regex.is_match(text)
        {
            self.issue(
                path,
                &format!("must match the pattern {pattern}, got {}", describe_actual(&Value::from(text))),
            );
        }
    }

    fn number(&mut self, node: &Map<String, Value>, path: &str, value: &Value) {
        let Some(number) = value.as_f64() else { return };
        let bound = |key: &str| node.get(key).and_then(Value::as_f64);
        let fits = bound("minimum").is_none_or(|it| it <= number)
            && bound("maximum").is_none_or(|it| number <= it)
            && bound("exclusiveMinimum").is_none_or(|it| it < number)
            && bound("exclusiveMaximum").is_none_or(|it| number < it)
            && bound("multipleOf").is_none_or(|it| it == 0.0 || (number / it).fract().abs() < 1e-9);
        if !fits {
            let wanted = ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"];
            let limits = wanted.iter().filter_map(|key| node.get(*key).map(|it| format!("{key} {it}")));
            self.issue(path, &format!("must satisfy {}, got {}", list(limits), describe_actual(value)));
        }
    }

    fn count(&mut self, node: &Map<String, Value>, path: &str, have: usize, keys: [&str; 2], unit: &str) {
        let [least, most] = keys.map(|key| node.get(key).and_then(Value::as_u64));
        let have = have as u64;
        if let Some(least) = least.filter(|least| have < *least) {
            self.issue(path, &format!("must have at least {least} {unit}, got {have}"));
        }
        if let Some(most) = most.filter(|most| *most < have) {
            self.issue(path, &format!("must have at most {most} {unit}, got {have}"));
        }
    }

    fn issue(&mut self, path: &str, problem: &str) {
        match path {
            "" => self.issues.push(format!("the input {problem}")),
            path => self.issues.push(format!("`{path}` {problem}")),
        }
    }
}

fn required(node: &Map<String, Value>) -> impl Iterator<Item = &str> {
    node.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

fn child(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// Whether the value has the tag of this arm of a tagged union.
fn tags_agree(root: &Value, arm: &Value, value: &Value) -> bool {
    let arm = arm.get("$ref").and_then(Value::as_str).and_then(|it| resolve(root, it)).or(arm.as_object());
    let properties = arm.and_then(|arm| arm.get("properties")).and_then(Value::as_object);
    let mut tags =
        properties.into_iter().flatten().filter(|(_, schema)| schema.get("const").is_some()).peekable();
    tags.peek().is_some() && tags.all(|(name, schema)| value.get(name) == schema.get("const"))
}

/// Describes an arm by its tag, type or parameters.
fn arm_words(root: &Value, arm: &Value) -> String {
    let resolved = arm.get("$ref").and_then(Value::as_str).and_then(|it| resolve(root, it));
    let arm = resolved.map_or_else(|| arm.clone(), |it| Value::Object(it.clone()));
    let properties = arm.get("properties").and_then(Value::as_object);
    let tag = properties.into_iter().flatten().find_map(|(name, it)| it.get("const").map(|tag| (name, tag)));
    if let Some((name, tag)) = tag {
        return format!("an object with `{name}`: {tag}");
    }
    if types(&arm) == ["object"] || properties.is_some() {
        let names = arm.as_object().map(|it| required(it).map(|it| format!("`{it}`")).collect::<Vec<_>>());
        return match names {
            Some(names) if !names.is_empty() => format!("an object with {}", names.join(", ")),
            _ => String::from("an object"),
        };
    }
    expected(&arm)
}
