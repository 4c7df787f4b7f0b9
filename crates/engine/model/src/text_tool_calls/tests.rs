use serde_json::{Value, json};

use super::*;
use crate::{ToolDef, wire::parse_arguments};

fn tools() -> ToolSet {
    let weather = json!({"type": "object", "properties": {
        "city": {"type": "string"}, "days": {"type": "integer"}, "tags": {"type": "array"},
    }});
    let run = json!({
        "type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"],
        "additionalProperties": false,
    });
    ToolSet::new([ToolDef::new("get_weather", "d", weather), ToolDef::new("Bash", "d", run)])
}

/// Checks the text that remains and the calls found in `text`.
#[track_caller]
fn check(text: &str, want_text: &str, want: Value) {
    let tools = tools();
    let got = recover(text, &tools);
    let calls: Vec<Value> = got
        .calls
        .iter()
        .map(|call| match parse_arguments(&call.input) {
            Ok(input) => json!([call.name, input]),
            Err(_) => json!([call.name, "malformed"]),
        })
        .collect();
    assert_eq!((got.text.as_str(), json!(calls)), (want_text, want), "{text}");
}

#[test]
fn every_call_dialect_is_recovered() {
    let paris = json!([["get_weather", {"city": "Paris", "days": 3}]]);
    let object = r#"{"name": "get_weather", "arguments": {"city": "Paris", "days": 3}}"#;
    let fence = "```";
    let writings = [
        format!("<tool_call>\n{object}\n</tool_call>"),
        format!("<tool_call>{object}"),
        object.replace("arguments", "parameters"),
        format!("[{object}]"),
        r#"{"type": "function", "function": {"name": "get_weather", "arguments": "{\"city\": \"Paris\", \"days\": 3}"}}"#.to_owned(),
        "<function_calls>\n<invoke name=\"get_weather\">\n<parameter name=\"city\">Paris</parameter>\n<parameter name=\"days\">3</parameter>\n</invoke>\n</function_calls>".to_owned(),
        "<x:function_calls><x:invoke name=\"get_weather\"><x:parameter name=\"city\">Paris</x:parameter><x:parameter name=\"days\">3</x:parameter></x:invoke></x:function_calls>".to_owned(),
        "<minimax:tool_call>\n<invoke name=\"get_weather\">\n<parameter name=\"city\">Paris</parameter>\n<parameter name=\"days\">3</parameter>\n</invoke>\n</minimax:tool_call>".to_owned(),
        "<invoke name=\"get_weather\"><parameter name=\"city\">Paris</parameter><parameter name=\"days\">3</parameter></invoke>".to_owned(),
        "<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n<parameter=days>\n3\n</parameter>\n</function>\n</tool_call>".to_owned(),
        "<function=get_weather>{\"city\": \"Paris\", \"days\": 3}</function>".to_owned(),
        "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Paris</arg_value>\n<arg_key>days</arg_key>\n<arg_value>3</arg_value>\n</tool_call>".to_owned(),
        "[get_weather(city=\"Paris\", days=3)]".to_owned(),
        "get_weather(city='Paris', days=3)".to_owned(),
        "<|python_start|>[get_weather(city=\"Paris\", days=3)]<|python_end|>".to_owned(),
        "<|tool_call_start|>[get_weather(city=\"Paris\", days=3)]<|tool_call_end|>".to_owned(),
        format!("<|python_tag|>{}<|eom_id|>", object.replace("arguments", "parameters")),
        format!("{fence}tool_code\nprint(get_weather(city=\"Paris\", days=3))\n{fence}"),
        format!("{fence}tool_call\n{object}\n{fence}"),
        "<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{\"city\": \"Paris\", \"days\": 3}<|call|>".to_owned(),
        format!("<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n{fence}json\n{{\"city\": \"Paris\", \"days\": 3}}\n{fence}<｜tool▁call▁end｜><｜tool▁calls▁end｜>"),
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{\"city\": \"Paris\", \"days\": 3}<｜tool▁call▁end｜><｜tool▁calls▁end｜>".to_owned(),
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>{\"city\": \"Paris\", \"days\": 3}<|tool_call_end|><|tool_calls_section_end|>".to_owned(),
        format!("[TOOL_CALLS][{object}]"),
        "[TOOL_CALLS]get_weather[ARGS]{\"city\": \"Paris\", \"days\": 3}".to_owned(),
        "[TOOL_CALLS]get_weather{\"city\": \"Paris\", \"days\": 3}".to_owned(),
        format!("<|tool_call|>[{object}]<|/tool_call|>"),
        format!("functools[{object}]"),
        "<|START_ACTION|>[{\"tool_call_id\": \"0\", \"tool_name\": \"get_weather\", \"parameters\": {\"city\": \"Paris\", \"days\": 3}}]<|END_ACTION|>".to_owned(),
        format!("Action:{fence}json\n[{{\"tool_name\": \"get_weather\", \"parameters\": {{\"city\": \"Paris\", \"days\": 3}}}}]\n{fence}"),
        format!("<|action_start|><|plugin|>\n{object}<|action_end|>"),
        format!("<tool_calls>[{object}]</tool_calls>"),
        r#"<tool_call>{"name": "get_weather", "arguments": "{\"city\": \"Paris\", \"days\": 3}"}</tool_call>"#.to_owned(),
    ];
    for writing in &writings {
        check(writing, "", paris.clone());
        // With text around it; bare syntaxes count only alone.
        let is_bare = writing.starts_with('{')
            || writing.starts_with("[{")
            || writing.contains("get_weather(") && !writing.starts_with(['<', '`']);
        if !is_bare {
            check(&format!("I look.\n{writing}"), "I look.", paris.clone());
        }
    }
}

#[test]
fn several_calls_in_one_text_are_recovered() {
    check(
        "<tool_call>{\"name\": \"Bash\", \"arguments\": {\"command\": \"a\"}}</tool_call>\n<tool_call>{\"name\": \"Bash\", \"arguments\": {\"command\": \"b\"}}</tool_call> done",
        "done",
        json!([["Bash", {"command": "a"}], ["Bash", {"command": "b"}]]),
    );
    check(
        "[Bash(command=\"a\"), get_weather(tags=[\"x\", {'y': None}], days=-2)]",
        "",
        json!([["Bash", {"command": "a"}], ["get_weather", {"tags": ["x", {"y": null}], "days": -2}]]),
    );
    check(
        "[TOOL_CALLS]Bash[ARGS]{\"command\": \"a\"}[TOOL_CALLS]Bash[ARGS]{\"command\": \"b\"}",
        "",
        json!([["Bash", {"command": "a"}], ["Bash", {"command": "b"}]]),
    );
}

#[test]
fn examples_and_quotations_are_not_calls() {
    let call = r#"<tool_call>{"name": "Bash", "arguments": {"command": "rm -rf /"}}</tool_call>"#;
    let bare = r#"{"name": "Bash", "arguments": {"command": "rm -rf /"}}"#;
    let fence = "```";
    for text in [
        format!("For example:\n{fence}json\n{bare}\n{fence}"),
        format!("{fence}json\n{bare}\n{fence}\nThat would delete everything."),
        format!("{fence}python\n{bare}\n{fence}"),
        format!("You would write:\n{fence}\n{call}\n{fence}\nand then wait."),
        format!("You wrote `{call}` before."),
        format!("You wrote {bare} before."),
        format!("<think>I could say {call}</think>No."),
        format!("<think>I could say {call}"),
        "Use Bash(command=\"ls\") for that.".to_owned(),
        r#"{"name": "unknown_tool", "arguments": {}}"#.to_owned(),
        r#"{"name": "Bash"}"#.to_owned(),
        "delete_everything(path=\"/\")".to_owned(),
        "plain text with <b>tags</b> and [brackets](link)".to_owned(),
        "functools is a module".to_owned(),
        String::new(),
    ] {
        check(&text, &text, json!([]));
    }
}

#[test]
fn answer_of_only_one_wrapped_call_is_a_call() {
    let ls = json!([["Bash", {"command": "ls"}]]);
    let call = r#"{"name": "Bash", "arguments": {"command": "ls"}}"#;
    let doubled = r#"{{"name": "Bash", "arguments": {"command": "ls"}}"#;
    let all_doubled = r#"{{"name": "Bash", "arguments": {{"command": "ls"}}}}"#;
    for text in [
        format!("```json\n{call}\n```"),
        format!("```\n{call}\n```"),
        format!("```json\n{call}"),
        format!("```json{call}```"),
        format!("  ```json\n\n{call}\n\n```\n"),
        format!("```json\n{}\n```", call.replace("arguments", "parameters")),
        format!("```json\n[{call}]\n```"),
        format!("```xml\n<tool_call>\n{call}\n</tool_call>\n```"),
        format!("<tools>\n{call}\n</tools>"),
        format!("<tools>{call}"),
        String::from("```\n<function=Bash>{\"command\": \"ls\"}</function>\n```"),
        String::from("```\nBash(command=\"ls\")\n```"),
        String::from("```\n[TOOL_CALLS]Bash{\"command\": \"ls\"}\n```"),
        // Two to four braces at the end, optionally with a fence after or around it.
        doubled.to_owned(),
        format!("{doubled}}}"),
        format!("{doubled}}}}}"),
        format!("{doubled}}}\n```"),
        format!("```json\n{doubled}}}\n```"),
        all_doubled.to_owned(),
        format!("{call}}}"),
    ] {
        check(&text, "", ls.clone());
    }
    // Braces and fences inside a value belong to the value.
    let inspect = json!([["Bash", {"command": "docker inspect -f '{{.State}}' a; echo '```'"}]]);
    let text =
        r#"{{"name": "Bash", "arguments": {"command": "docker inspect -f '{{.State}}' a; echo '```'"}}}"#;
    check(text, "", inspect.clone());
    check(&format!("```json\n{}\n```", &text[1..text.len() - 1]), "", inspect);
}

#[test]
fn text_of_only_wrapped_calls_is_calls() {
    let call = |command: &str| format!(r#"{{"name": "Bash", "arguments": {{"command": "{command}"}}}}"#);
    let (a, b) = (call("a"), call("b"));
    let both = json!([["Bash", {"command": "a"}], ["Bash", {"command": "b"}]]);
    for text in [
        format!("```json\n{a}\n```\n```json\n{b}\n```"),
        format!("```json\n{a}\n{b}\n```"),
        format!("{a}\n{b}"),
        format!("<tools>{a}</tools><tools>{b}</tools>"),
    ] {
        check(&text, "", both.clone());
    }
    let one_unknown = format!("```json\n{a}\n```\n```json\n{}\n```", b.replace("Bash", "Nope"));
    check(&one_unknown, &one_unknown, json!([]));
}

#[test]
fn wrapped_json_without_offered_tool_stays_text() {
    for object in [
        r#"{"name": "Get", "arguments": {"command": "ls"}}"#,
        r#"{"name": "haft", "version": "1.0.0"}"#,
        r#"{"name": "Bash", "description": "a shell"}"#,
        // Arguments the schema does not allow.
        r#"{"name": "Bash", "arguments": {}}"#,
        r#"{"name": "Bash", "arguments": {"command": 3}}"#,
        r#"{"name": "Bash", "arguments": {"command": "ls", "shell": "zsh"}}"#,
        r#"{"name": "get_weather", "arguments": {"days": "many"}}"#,
        r#"{"name": "Bash", "arguments": "ls"}"#,
        r#"{"name": "Bash", "arguments": {"command": "ls""#,
        "[1, 2]",
    ] {
        for text in [
            format!("```json\n{object}\n```"),
            format!("```\n{object}\n```"),
            format!("{{{object}}}"),
            format!("<tools>{object}</tools>"),
        ] {
            check(&text, &text, json!([]));
        }
    }
}

#[test]
fn attempted_call_in_unknown_syntax_is_detected() {
    let tools = tools();
    let call = json!({"name": "Bash", "arguments": {"command": "ls"}});
    let found = |call: Option<&Value>| Some(UnreadCall { tool: "Bash".to_owned(), call: call.cloned() });
    let cut = r#"{"name": "Bash", "arguments": {"command": "l"#;
    for (text, want) in [
        (format!("I list the files:\n```json\n{call}\n```"), found(Some(&call))),
        (format!("<tools>{call}</tools> and then"), found(Some(&call))),
        (format!("I call {}", call.to_string().replace("arguments", "parameters")), found(Some(&call))),
        (format!("```json\n{cut}\n```"), found(None)),
        (String::from(r#"{"name" : "Bash", "arguments": {}}"#), found(None)),
        (format!("<think>perhaps {call}</think>There are two files."), None),
        (format!("<think>perhaps {call}"), None),
        (String::from(r#"{"name": "Get", "arguments": {}}"#), None),
        (String::from(r#"{"name": "Bash", "stars": 5}"#), None),
        (String::from("Use Bash for that."), None),
    ] {
        assert_eq!(unread_call(&text, &tools), want, "{text}");
    }
}

#[test]
fn malformed_call_is_reported_not_dropped() {
    check(
        "<tool_call>{\"name\": \"Bash\", \"arguments\": {\"command\": \"ls</tool_call>",
        "",
        json!([["Bash", "malformed"]]),
    );
    check("<tool_call>{\"name\": \"Nope\", \"arguments\": {}}</tool_call>", "", json!([["Nope", {}]]));
}

#[test]
fn streamed_text_is_shown_up_to_possible_call() {
    let tools = tools();
    for (text, want) in [
        ("Hello <b>you</b>", 16),
        ("Hello <tool", 6),
        ("Hello <tool_call>{", 6),
        ("a <x:invo", 2),
        ("a < b", 5),
        ("{\"name\"", 0),
        ("[get", 0),
        ("Bas", 0),
        ("Basta", 5),
        ("Bash(com", 0),
        ("look:\n```tool_", 6),
        ("``", 0),
        ("```js", 0),
        ("```json\n{\"name\"", 0),
        ("```json\n{\"name\"}\n``", 0),
        ("```json\nname", 12),
        ("```rust\nfn", 10),
        ("<too", 0),
        ("<tools>{\"na", 0),
        ("<tools> are", 11),
        ("look:\n```rust\nfn", 16),
        ("", 0),
    ] {
        assert_eq!(showable(text, 0, &tools), want, "{text}");
    }
}

#[test]
fn stringified_lists_are_parsed_where_schema_requires_list() {
    let mut input = json!({"city": "[1]", "tags": "[\"a\"]", "days": "3"});
    let Value::Object(fields) = &mut input else { unreachable!("made as an object") };
    coerce(fields, &tools().by_wire_name("get_weather").unwrap().schema);
    assert_eq!(input, json!({"city": "[1]", "tags": ["a"], "days": "3"}));
}

proptest::proptest! {
    #[test]
    fn any_text_is_parsed_without_panic(text in "(<|>|tool_call|invoke|name=|\"|'|`|\\[|\\]|\\{|\\}|[a-z(),=:\n ]|<\\|channel\\|>commentary to=|\\[TOOL_CALLS\\]|é){0,30}") {
        let tools = tools();
        let _ = recover(&text, &tools);
        let shown = showable(&text, 0, &tools);
        proptest::prop_assert!(text.is_char_boundary(shown));
    }
}
