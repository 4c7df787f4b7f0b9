use proptest::prelude::*;
use serde_json::json;

use super::*;

fn object(text: &str) -> Map<String, Value> {
    serde_json::from_str(text).unwrap()
}

#[track_caller]
fn check(text: &str, change: impl FnOnce(&mut Map<String, Value>), want: &str) {
    let old = object(text);
    let mut new = old.clone();
    change(&mut new);
    assert_eq!(rewrite(text, &old, &new).as_deref(), Some(want));
}

#[test]
fn edit_changes_only_changed_values() {
    let text = "{\n    \"z\": 1e-05,\n    \"big\": 123456789012345678901234567890,\n    \"a\": [1,   2],\n\n    \"s\": \"\\u00e9\"\n}\n";
    check(text, |_| (), text);
    check(text, |it| drop(it.insert("a".into(), json!([1, 3]))), &text.replace("1,   2", "1,   3"));
    check(
        text,
        |it| drop(it.insert("new".into(), json!({"k": [1]}))),
        &text.replace(
            "\"\\u00e9\"\n",
            "\"\\u00e9\",\n    \"new\": {\n        \"k\": [\n            1\n        ]\n    }\n",
        ),
    );
    check(text, |it| drop(it.shift_remove("z")), &text.replace("\"z\": 1e-05,\n    ", ""));
    check(text, |it| drop(it.shift_remove("s")), &text.replace(",\n\n    \"s\": \"\\u00e9\"", ""));
    check(
        text,
        |it| drop(it.shift_remove("big")),
        &text.replace(",\n    \"big\": 123456789012345678901234567890", ""),
    );
}

#[test]
fn edit_keeps_layout() {
    check("{}", |it| drop(it.insert("a".into(), json!(1))), "{\n  \"a\": 1\n}");
    check("{\"a\": 1}", |it| drop(it.insert("b".into(), json!(2))), "{\"a\": 1, \"b\": 2}");
    check("{\"a\": 1}", |it| it.clear(), "{}");
    check(
        "{\r\n\t\"a\": []\r\n}\r\n",
        |it| it["a"] = json!(["x"]),
        "{\r\n\t\"a\": [\r\n\t\t\"x\"\r\n\t]\r\n}\r\n",
    );
    let rules = "{\n  \"allow\": [\n    \"one\",\n    \"two\",\n    \"three\"\n  ]\n}";
    let push = |it: &mut Map<String, Value>| it["allow"].as_array_mut().unwrap().push(json!("four"));
    check(rules, push, &rules.replace("\"three\"", "\"three\",\n    \"four\""));
    let remove =
        |at: usize| move |it: &mut Map<String, Value>| drop(it["allow"].as_array_mut().unwrap().remove(at));
    check(rules, remove(0), &rules.replace("\"one\",\n    ", ""));
    check(rules, remove(1), &rules.replace(",\n    \"two\"", ""));
    check(rules, remove(2), &rules.replace(",\n    \"three\"", ""));
    let first = |it: &mut Map<String, Value>| it["allow"].as_array_mut().unwrap().insert(0, json!("zero"));
    check(rules, first, &rules.replace("\"one\"", "\"zero\",\n    \"one\""));
}

#[test]
fn removed_duplicate_key_does_not_reappear() {
    let text = "{\"deny\": [\"old\"], \"x\": 1, \"deny\": [\"new\"]}";
    check(text, |it| drop(it.shift_remove("deny")), "{\"x\": 1}");
    check(text, |it| it["deny"] = json!(["newer"]), "{\"x\": 1, \"deny\": [\"newer\"]}");
}

fn any_json() -> impl Strategy<Value = Value> {
    let number = prop_oneof![any::<i64>().prop_map(Value::from), any::<f64>().prop_map(Value::from)];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        number,
        "(\\PC|\n|\u{1}){0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec(("[a-e/~\u{e9}\"]{0,2}", inner), 0..6)
                .prop_map(|it| Value::Object(it.into_iter().collect())),
        ]
    })
}

fn any_object() -> impl Strategy<Value = Map<String, Value>> {
    prop::collection::vec(("[a-e]{0,2}", any_json()), 0..8).prop_map(|it| it.into_iter().collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    /// Any object can be edited into any other; the result parses as exactly that, and keys that stay
    /// keep their order.
    #[test]
    fn any_object_can_be_edited_into_any_other(old in any_object(), new in any_object(), pretty in any::<bool>()) {
        let value = Value::Object(old);
        let text = if pretty { format!("{value:#}") } else { value.to_string() };
        let old = object(&text);
        let changed = rewrite(&text, &old, &new);
        prop_assert!(changed.is_some(), "{} -> {}", text, Value::Object(new));
        let after = object(&changed.unwrap_or_default());
        let order = |map: &Map<String, Value>| -> Vec<String> {
            map.keys().filter(|key| old.contains_key(*key) && new.contains_key(*key)).cloned().collect()
        };
        prop_assert_eq!(order(&after), order(&old));
    }

    /// Adding a key leaves all other bytes unchanged.
    #[test]
    fn added_key_leaves_other_bytes_unchanged(old in any_object(), pretty in any::<bool>(), value in any_json()) {
        let text = Value::Object(old);
        let text = if pretty { format!("{text:#}") } else { text.to_string() };
        let old = object(&text);
        let mut new = old.clone();
        new.insert("brand new".to_owned(), value);
        let changed = rewrite(&text, &old, &new).unwrap_or_default();
        if old.is_empty() {
            return Ok(());
        }
        let body = text.trim_end_matches(['}', '\n', ' ']);
        prop_assert!(changed.starts_with(body), "{}", changed);
    }
}
