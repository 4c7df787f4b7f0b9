use serde_json::json;

use super::*;

fn parse(hooks: &Value) -> (Vec<HookDefinition>, Vec<String>) {
    let source = Arc::new(HookSource::Named("test".to_owned()));
    let (definitions, problems) = parse_definitions(hooks, &source);
    (definitions, problems.iter().map(ToString::to_string).collect())
}

#[test]
fn complete_definition_is_parsed() {
    let (definitions, problems) = parse(&json!({"PreToolUse": [{"matcher": "Bash|Edit", "hooks": [
        {"type": "command", "command": "check", "args": ["a b"], "timeout": 1.5, "if": "Bash(git *)",
         "statusMessage": "checking", "once": true, "onFailure": "continue", "id": "mine"},
        {"type": "command", "command": "x | y", "shell": "zsh", "async": true},
        {"type": "http", "url": "http://h/x", "headers": {"A": "$T"}, "allowedEnvVars": ["T"]},
        {"type": "mcp_tool", "server": "s", "tool": "t"},
    ]}]}));
    assert_eq!(problems, Vec::<String>::new());
    let [exec, shell, http, tool] = &definitions[..] else { panic!("{definitions:?}") };
    assert_eq!(exec.id.as_str(), "mine");
    assert_eq!(exec.timeout, Duration::from_millis(1500));
    assert_eq!(exec.condition.as_deref(), Some("Bash(git *)"));
    assert_eq!(exec.status_message.as_deref(), Some("checking"));
    assert_eq!((exec.repeat, exec.mode), (HookRepeat::Once, HookRunMode::Wait));
    assert_eq!(exec.on_error, ErrorPolicy::Explicit(ErrorEffect::Open));
    assert_eq!(exec.handler.label(), "check a b");
    assert_eq!(shell.mode, HookRunMode::Background);
    assert_eq!((shell.when_broken(), http.when_broken()), (ErrorEffect::Open, ErrorEffect::Closed));
    assert_eq!(http.handler.kind(), HandlerKind::Http);
    assert_eq!(tool.handler.label(), "mcp__s__t");
}

#[test]
fn hook_ids_are_stable_and_depend_on_the_handler() {
    let hooks = json!({"PreToolUse": [
        {"matcher": "Bash", "hooks": [{"type": "command", "command": "a"}]},
        {"matcher": "Bash", "hooks": [{"type": "command", "command": "a", "timeout": 3}]},
        {"matcher": "Edit", "hooks": [{"type": "command", "command": "a"}]},
        {"matcher": "Bash", "hooks": [{"type": "command", "command": "b"}]},
    ]});
    let ids: Vec<String> = parse(&hooks).0.iter().map(|it| it.id.to_string()).collect();
    assert_eq!(ids[0], ids[1]);
    assert!(ids[0] != ids[2] && ids[0] != ids[3] && ids[2] != ids[3], "{ids:?}");
    // Users write ids into their settings, so this one must not change between releases.
    assert_eq!(ids[0], "PreToolUse-2dd365d1");
}

#[test]
fn invalid_definition_is_reported_and_kept_as_unusable_gate() {
    let gate = |hook: Value| json!({"PreToolUse": [{"hooks": [hook]}]});
    for (hooks, problem, unusable) in [
        (json!([]), "must be an object of events", 0),
        (json!({"PreTool": []}), "no hook event called \"PreTool\"", 0),
        (json!({"PreToolUse": {}}), "must be a list of matcher groups", 1),
        (json!({"PreToolUse": ["x"]}), "with a list called \"hooks\"", 1),
        (json!({"PreToolUse": [{"matcher": 1, "hooks": []}]}), "matcher that is not text", 1),
        (json!({"PreToolUse": [{"matcher": "(", "hooks": []}]}), "not a regular expression", 0),
        (gate(json!("x")), "with a \"type\"", 1),
        (gate(json!({"type": "comand", "command": "x"})), "the type \"comand\"", 1),
        (gate(json!({"type": "command"})), "needs \"command\"", 1),
        (gate(json!({"type": "command", "command": "x", "args": "y"})), "\"args\" must be a list", 1),
        (gate(json!({"type": "http", "url": "u", "headers": {"A": 1}})), "header \"A\" must be text", 1),
        (gate(json!({"type": "prompt"})), "needs \"prompt\"", 1),
        (json!({"SessionStart": [{"hooks": [{"type": "http", "url": "u"}]}]}), "can only be commands", 1),
        (gate(json!({"type": "command", "command": "x", "timeout": -1})), "600 s is used", 0),
        (gate(json!({"type": "command", "command": "x", "timeout": "5"})), "600 s is used", 0),
        (gate(json!({"type": "command", "command": "x", "async": "yes"})), "true or false", 0),
        (gate(json!({"type": "command", "command": "x", "on_error": "maybe"})), "\"closed\" is assumed", 0),
    ] {
        let (definitions, problems) = parse(&hooks);
        assert!(problems.len() == 1 && problems[0].contains(problem), "{hooks}: {problems:?}");
        let found = definitions.iter().filter(|it| matches!(it.handler, HookHandler::Unusable(_))).count();
        assert_eq!(found, unusable, "{hooks}");
    }
}

#[test]
fn conflicting_error_policies_resolve_to_closed() {
    let hook = json!({"type": "command", "command": "x", "on_error": "open", "onFailure": "block"});
    let (definitions, problems) = parse(&json!({"PreToolUse": [{"hooks": [hook]}]}));
    assert_eq!(definitions[0].when_broken(), ErrorEffect::Closed);
    assert_eq!(
        problems,
        ["hooks/PreToolUse/0/hooks/0: says both open and closed about errors; closed counts"]
    );
}

#[test]
fn unsupported_definition_fields_are_reported() {
    let hook = json!({"type": "command", "command": "x", "if": "Bash", "onFailure": "block"});
    let (_, problems) = parse(&json!({"SessionEnd": [{"hooks": [hook]}]}));
    assert_eq!(problems.len(), 2, "{problems:?}");
    let hook = json!({"type": "command", "command": "x", "timeout": 500});
    let (definitions, _) = parse(&json!({"SessionEnd": [{"hooks": [hook]}]}));
    assert_eq!(definitions[0].timeout, Duration::from_secs(60));
}

fn any_json() -> impl proptest::strategy::Strategy<Value = Value> {
    use proptest::prelude::*;
    let words = ["command", "http", "x", "(", "", "closed"];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        prop::sample::select(words.to_vec()).prop_map(Value::from),
    ];
    let names =
        ["hooks", "matcher", "type", "command", "args", "url", "timeout", "if", "on_error", "headers"];
    leaf.prop_recursive(5, 40, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((prop::sample::select(names.to_vec()), inner), 0..5).prop_map(|it| {
                Value::Object(it.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
            }),
        ]
    })
}

proptest::proptest! {
    /// An invalid definition is never silently dropped: a hook or a problem remains, unless the list was
    /// empty.
    #[test]
    fn arbitrary_definition_is_kept_or_reported(groups in any_json()) {
        let (definitions, problems) = parse(&json!({"PreToolUse": groups}));
        let wanted = match &groups {
            Value::Array(groups) => groups.iter().any(|it| it["hooks"].as_array().is_none_or(|it| !it.is_empty())),
            _ => true,
        };
        proptest::prop_assert_eq!(!definitions.is_empty(), wanted);
        let broken = definitions.iter().filter(|it| matches!(it.handler, HookHandler::Unusable(_))).count();
        proptest::prop_assert!(broken <= problems.len());
    }
}
