//! Input from models: strictness, coercion, and errors that list all problems.
#![allow(clippy::unwrap_used, missing_docs, reason = "test code")]

use std::collections::BTreeMap;

use haft_tool::{CallContext, DynTool, Outcome, check_input, example, tool, wire_form};
use proptest::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::sync::Arc;

#[derive(Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Color {
    Red,
    DarkBlue,
}

#[derive(Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Shape {
    Circle { radius: f64 },
    Square { side: u32, color: Option<Color> },
}

#[derive(Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
struct Point {
    x: i64,
    #[serde(default)]
    y: i64,
}

#[derive(Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(untagged)]
enum IdOrName {
    Id(u64),
    Name(String),
}

fn ten() -> u32 {
    10
}

#[derive(Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
struct Args {
    text: String,
    count: Option<u32>,
    #[serde(default = "ten")]
    limit: u32,
    ratio: Option<f64>,
    flag: Option<bool>,
    color: Option<Color>,
    at: Option<Point>,
    shape: Option<Shape>,
    many: Option<Vec<Point>>,
    tags: Option<Vec<String>>,
    map: Option<BTreeMap<String, u8>>,
    who: Option<IdOrName>,
}

fn args_tool() -> Arc<dyn DynTool> {
    tool("Probe", "Probes.", async |args: Args, _cx| Ok(Outcome::from(args))).build()
}

fn parse(input: Value) -> Result<Value, String> {
    let cx = CallContext::detached("call", std::path::Path::new("/"));
    match args_tool().parse(input, &cx) {
        Ok(call) => Ok(call.input().clone()),
        Err(err) => Err(err.message),
    }
}

#[test]
fn coercion_is_lossless() {
    for (given, want) in [
        (json!({"count": "10"}), json!({"count": 10})),
        (json!({"count": " +10 "}), json!({"count": 10})),
        (json!({"count": 10.0}), json!({"count": 10})),
        (json!({"count": "10.0"}), json!({"count": 10})),
        (json!({"ratio": "0.25"}), json!({"ratio": 0.25})),
        (json!({"ratio": "-1e-3"}), json!({"ratio": -0.001})),
        (json!({"ratio": "7"}), json!({"ratio": 7})),
        (json!({"flag": "true"}), json!({"flag": true})),
        (json!({"flag": " False "}), json!({"flag": false})),
        (json!({"at": "{\"x\": \"3\"}"}), json!({"at": {"x": 3}})),
        (json!({"many": "[{\"x\": 1}, {\"x\": \"2\"}]"}), json!({"many": [{"x": 1}, {"x": 2}]})),
        (json!({"tags": "[\"a\", \"b\"]"}), json!({"tags": ["a", "b"]})),
        (json!({"map": {"a": "7"}}), json!({"map": {"a": 7}})),
        (
            json!({"shape": {"kind": "circle", "radius": "2.5"}}),
            json!({"shape": {"kind": "circle", "radius": 2.5}}),
        ),
        (
            json!({"shape": "{\"kind\":\"square\",\"side\":\"4\"}"}),
            json!({"shape": {"kind": "square", "side": 4}}),
        ),
        // A string is allowed here, so it stays one.
        (json!({"who": "10"}), json!({"who": "10"})),
        (json!({"text": "10"}), json!({"text": "10"})),
        (json!({"text": "{\"a\":1}"}), json!({"text": "{\"a\":1}"})),
        (json!({"tags": ["1", "true"]}), json!({"tags": ["1", "true"]})),
        // `null` means that the parameter is omitted.
        (json!({"count": null, "limit": null, "at": null}), json!({})),
    ] {
        let mut given = given;
        given.as_object_mut().unwrap().entry("text").or_insert(json!("t"));
        let mut want = want;
        want.as_object_mut().unwrap().entry("text").or_insert(json!("t"));
        assert_eq!(parse(given.clone()), Ok(want), "{given}");
    }
}

#[test]
fn lossy_coercion_is_rejected() {
    for given in [
        json!({"count": "ten"}),
        json!({"count": "1.5"}),
        json!({"count": "1 0"}),
        json!({"count": "0x10"}),
        json!({"count": ""}),
        json!({"count": true}),
        json!({"count": -1}),
        json!({"count": 4_294_967_296_u64}),
        json!({"count": [1]}),
        json!({"ratio": "0.1234567890123456789"}),
        json!({"ratio": "12345678901234567890123"}),
        json!({"ratio": "1e999"}),
        json!({"ratio": "NaN"}),
        json!({"flag": "yes"}),
        json!({"flag": 1}),
        json!({"flag": "1"}),
        json!({"text": 10}),
        json!({"text": null}),
        json!({"at": "[1]"}),
        json!({"at": {"x": 1, "z": 2}}),
        json!({"at": {}}),
        json!({"tags": "a,b"}),
        json!({"map": {"a": 300}}),
        json!({"color": "blue"}),
        json!({"shape": {"kind": "circle", "radius": 1, "side": 2}}),
        json!({"shape": {"kind": "oval"}}),
        json!({"extra": 1}),
    ] {
        let mut given = given;
        given.as_object_mut().unwrap().entry("text").or_insert(json!("t"));
        assert!(parse(given.clone()).is_err(), "{given}");
    }
}

#[test]
fn all_input_problems_are_reported_at_once() {
    let given = json!({
        "txt": "hello", "count": "two", "at": {"y": "q"}, "shape": {"kind": "square", "side": -1, "hue": 1},
        "color": "dark_blu", "many": [{"x": 1}, {"x": "?"}], "who": [1],
    });
    insta::assert_snapshot!(parse(given).unwrap_err());
}

#[test]
fn derived_schema_is_strict_simplified_and_ordered() {
    insta::assert_json_snapshot!(args_tool().spec().input_schema);
}

#[test]
fn root_union_is_flattened_on_the_wire_and_checked_unflattened() {
    #[derive(Deserialize, JsonSchema, Serialize)]
    #[serde(tag = "action", rename_all = "snake_case")]
    enum Action {
        /// Reads a key.
        Get { key: String },
        /// Writes a key.
        Set { key: String, value: String },
    }
    let tool = tool("Store", "Stores.", async |args: Action, _cx| Ok(Outcome::from(args))).build();
    insta::assert_json_snapshot!(tool.spec().input_schema);
    let cx = CallContext::detached("call", std::path::Path::new("/"));
    let check = |input: Value| Arc::clone(&tool).parse(input, &cx).map(|_| ()).map_err(|err| err.message);
    assert_eq!(check(json!({"action": "set", "key": "a", "value": "b"})), Ok(()));
    insta::assert_snapshot!(check(json!({"action": "get", "key": "a", "value": "b"})).unwrap_err());
    insta::assert_snapshot!(check(json!({"action": "drop", "key": "a"})).unwrap_err());
}

#[test]
fn tool_without_parameters_rejects_input() {
    #[derive(Deserialize, JsonSchema, Serialize)]
    struct None;
    for tool in [
        tool("Unit", "No parameters.", async |(): (), _cx| Ok(Outcome::from(()))).build(),
        tool("Unit", "No parameters.", async |_: None, _cx| Ok(Outcome::from(()))).build(),
    ] {
        let cx = CallContext::detached("call", std::path::Path::new("/"));
        for input in [json!({}), json!(null), json!(""), json!("{}")] {
            assert!(Arc::clone(&tool).parse(input.clone(), &cx).is_ok(), "{input}");
        }
        assert!(Arc::clone(&tool).parse(json!({"a": 1}), &cx).is_err());
    }
}

#[test]
fn recursive_input_type_is_checked() {
    #[derive(Deserialize, JsonSchema, Serialize)]
    struct Node {
        name: String,
        #[serde(default)]
        children: Vec<Node>,
    }
    let tool = tool("Tree", "Trees.", async |args: Node, _cx| Ok(Outcome::from(args))).build();
    let cx = CallContext::detached("call", std::path::Path::new("/"));
    let nested = json!({"name": "a", "children": [{"name": "b", "children": "[{\"name\":\"c\"}]"}]});
    assert!(Arc::clone(&tool).parse(nested, &cx).is_ok());
    let wrong = json!({"name": "a", "children": [{"name": "b", "children": [{"nam": "c"}]}]});
    let message = Arc::clone(&tool).parse(wrong, &cx).err().unwrap().message;
    assert!(message.contains("`children[0].children[0].name` is required"), "{message}");
}

#[test]
fn flattened_fields_are_accepted() {
    #[derive(Deserialize, JsonSchema, Serialize)]
    struct Common {
        verbose: Option<bool>,
    }
    #[derive(Deserialize, JsonSchema, Serialize)]
    struct Outer {
        name: String,
        #[serde(flatten)]
        common: Common,
        #[serde(flatten)]
        shape: Shape,
    }
    let tool = tool("Flat", "Flattens.", async |args: Outer, _cx| Ok(Outcome::from(args))).build();
    let cx = CallContext::detached("call", std::path::Path::new("/"));
    let good = json!({"name": "n", "verbose": "true", "kind": "square", "side": "2"});
    let parsed = Arc::clone(&tool).parse(good, &cx).map_err(|err| err.message).unwrap();
    assert_eq!(parsed.input(), &json!({"name": "n", "verbose": true, "kind": "square", "side": 2}));
    let bad = json!({"name": "n", "kind": "square", "side": 2, "radius": 1});
    assert!(Arc::clone(&tool).parse(bad, &cx).is_err());
}

/// Arbitrary schemas must not make the check panic or hang.
#[test]
fn arbitrary_schema_neither_panics_nor_hangs() {
    for schema in [
        json!(true),
        json!(null),
        json!({"$ref": "#"}),
        json!({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}),
        json!({"type": "object", "properties": {"a": {"$ref": "#"}}}),
        json!({"type": "int"}),
        json!({"type": ["object", 7]}),
        json!({"properties": {"a": {"pattern": "("}}}),
        json!({"anyOf": []}),
        json!({"allOf": [{"anyOf": [{"type": "object"}]}, false]}),
        json!({"type": "object", "properties": {"a": {"multipleOf": 0}}}),
    ] {
        let mut input = json!({"a": {"a": {"a": "x"}}});
        check_input("X", &schema, &mut input).ok();
        assert_eq!(example(&schema), example(&schema), "{schema}");
        assert_eq!(wire_form(&schema)["type"], "object", "{schema}");
    }
}

/// Schemas similar to real ones.
fn schemas() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!({"type": "string"})),
        Just(json!({"type": "string", "minLength": 3, "maxLength": 5})),
        Just(json!({"type": "integer", "minimum": 5, "maximum": 9})),
        Just(json!({"type": "integer", "multipleOf": 4, "minimum": 1})),
        Just(json!({"type": "number", "minimum": 0.5})),
        Just(json!({"type": "boolean"})),
        Just(json!({"enum": ["a", "b"]})),
        Just(json!({"const": 7})),
        Just(json!({"type": ["string", "null"]})),
    ];
    let nested = leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            (inner.clone(), 0_u64..3)
                .prop_map(|(items, n)| json!({"type": "array", "items": items, "minItems": n})),
            prop::collection::vec((inner.clone(), any::<bool>()), 1..4).prop_map(object),
            prop::collection::vec(inner, 1..3).prop_map(|arms| json!({"anyOf": arms})),
        ]
    });
    prop::collection::vec((nested, any::<bool>()), 0..5).prop_map(object)
}

fn object(fields: Vec<(Value, bool)>) -> Value {
    let name = |idx: usize| format!("f{idx}");
    let required: Vec<String> =
        fields.iter().enumerate().filter(|(_, it)| it.1).map(|(idx, _)| name(idx)).collect();
    let properties: serde_json::Map<String, Value> =
        fields.into_iter().enumerate().map(|(idx, it)| (name(idx), it.0)).collect();
    json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
}

/// Arbitrary JSON.
fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-1e6_f64..1e6).prop_map(Value::from),
        "[ a-c0-9\\[\\]{}\",:+.-]{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::hash_map("f[0-5]", inner, 0..4).prop_map(|it| json!(it)),
        ]
    })
}

proptest! {
    #[test]
    fn generated_example_passes_its_schema(schema in schemas()) {
        let mut shown = example(&schema);
        let before = shown.clone();
        prop_assert_eq!(check_input("X", &schema, &mut shown).map_err(|err| err.message), Ok(()));
        prop_assert_eq!(shown, before);
    }

    #[test]
    fn checking_input_is_idempotent(schema in schemas(), value in values()) {
        let mut once = value;
        if check_input("X", &schema, &mut once).is_ok() {
            let mut twice = once.clone();
            prop_assert!(check_input("X", &schema, &mut twice).is_ok());
            prop_assert_eq!(once, twice);
        }
    }
}

/// Conditional keywords, as in schemas of real servers.
#[test]
fn conditional_keywords_are_checked() {
    let sized = json!({
        "type": "object",
        "properties": {"kind": {"type": "string"}, "size": {"type": "integer"}, "by": {"type": "string"}},
        "allOf": [{
            "if": {"properties": {"kind": {"const": "big"}}, "required": ["kind"]},
            "then": {"required": ["size"], "properties": {"size": {"minimum": 10}}},
            "else": {"not": {"required": ["size"]}},
        }],
        "dependentRequired": {"by": ["size"]},
        "dependentSchemas": {"by": {"properties": {"kind": {"const": "big"}}}},
    });
    for (input, want) in [
        (json!({"kind": "big", "size": 10}), ""),
        (json!({"kind": "big", "size": "12"}), ""),
        (json!({"kind": "small"}), ""),
        (json!({}), ""),
        (json!({"kind": "big"}), "`size` is required"),
        (json!({"kind": "big", "size": 3}), "`size` must satisfy minimum 10"),
        (json!({"size": 30}), "ruled out"),
        (json!({"kind": "big", "by": "x"}), "`size` is required when `by` is given"),
        (json!({"kind": "small", "by": "x"}), "`kind` must be"),
    ] {
        let checked = check_input("t", &sized, &mut input.clone());
        match checked {
            Ok(()) => assert_eq!(want, "", "{input}"),
            Err(err) => assert!(!want.is_empty() && err.message.contains(want), "{input}: {}", err.message),
        }
    }
}
