use haft_session::HostAgent;
use serde_json::json;

use super::*;

#[track_caller]
fn check(request: Value, want: ControlRequest) {
    assert_eq!(ControlRequest::parse(request.clone()), Ok(want), "{request}");
}

#[track_caller]
fn refused(request: Value, want: &str, code: Option<&str>) {
    let problem = ControlRequest::parse(request.clone()).expect_err(&request.to_string());
    assert_eq!((problem.text(), problem.code()), (want, code), "{request}");
}

fn object(value: Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap_or_default()
}

#[test]
fn requests_without_fields() {
    for (subtype, want) in [
        ("mcp_status", ControlRequest::McpStatus),
        ("get_context_usage", ControlRequest::GetContextUsage),
        ("reload_skills", ControlRequest::ReloadSkills),
        ("reload_plugins", ControlRequest::ReloadPlugins),
        ("reload_output_styles", ControlRequest::ReloadOutputStyles),
        ("get_usage", ControlRequest::GetUsage),
        ("set_color", ControlRequest::SetColor),
        ("set_has_subscribers", ControlRequest::SetHasSubscribers),
        ("list_models", ControlRequest::ListModels),
        ("get_settings", ControlRequest::GetSettings),
        ("get_session_cost", ControlRequest::GetSessionCost),
        ("get_binary_version", ControlRequest::GetBinaryVersion),
    ] {
        check(json!({"subtype": subtype}), want.clone());
        check(json!({"subtype": subtype, "newerThanUs": {"a": 1}}), want);
    }
}

#[test]
fn fields_have_their_types() {
    type R = ControlRequest;
    let text = String::from;
    check(json!({"subtype": "interrupt"}), R::Interrupt { cancel_queued: false });
    check(json!({"subtype": "interrupt", "cancel_queued": null}), R::Interrupt { cancel_queued: false });
    check(json!({"subtype": "interrupt", "cancel_queued": true}), R::Interrupt { cancel_queued: true });
    let mode = PermissionMode::Plan;
    check(json!({"subtype": "set_permission_mode", "mode": "plan"}), R::SetPermissionMode { mode });
    for model in [json!(null), json!("default")] {
        let model = json!({"subtype": "set_model", "model": model});
        check(model, R::SetModel { model: ModelChoice::SessionDefault });
    }
    check(json!({"subtype": "set_model"}), R::SetModel { model: ModelChoice::SessionDefault });
    let model = ModelChoice::Named(text("opus"));
    check(json!({"subtype": "set_model", "model": "opus"}), R::SetModel { model });
    check(
        json!({"subtype": "mcp_message", "server_name": "calc", "message": {"method": "x"}}),
        R::McpMessage { server_name: text("calc"), message: json!({"method": "x"}) },
    );
    check(
        json!({"subtype": "mcp_set_servers", "servers": {"a": {"command": "cat"}}}),
        R::McpSetServers { servers: json!({"a": {"command": "cat"}}) },
    );
    let server_name = text("calc");
    check(json!({"subtype": "mcp_reconnect", "serverName": "calc"}), R::McpReconnect { server_name });
    check(
        json!({"subtype": "mcp_toggle", "serverName": "calc", "enabled": false}),
        R::McpToggle { server_name: text("calc"), enabled: false },
    );
    for arguments in [json!(null), json!({})] {
        check(
            json!({"subtype": "mcp_call", "tool": "mcp__a__b", "arguments": arguments, "timeout_ms": null}),
            R::McpCall { tool: text("mcp__a__b"), arguments: Map::new() },
        );
    }
    check(
        json!({"subtype": "mcp_read_resource", "serverName": "a", "uri": "ui://b"}),
        R::McpReadResource { server_name: text("a"), uri: text("ui://b") },
    );
    check(json!({"subtype": "stop_task", "task_id": "b1"}), R::StopTask { task_id: text("b1") });
    check(json!({"subtype": "get_task_output", "task_id": "b1"}), R::GetTaskOutput { task_id: text("b1") });
    check(json!({"subtype": "background_tasks"}), R::BackgroundTasks { tool_use_id: None });
    check(
        json!({"subtype": "background_tasks", "tool_use_id": "t"}),
        R::BackgroundTasks { tool_use_id: Some(CallId::from("t")) },
    );
    check(
        json!({"subtype": "cancel_async_message", "message_uuid": "u"}),
        R::CancelAsyncMessage { message_uuid: text("u") },
    );
}

#[test]
fn files_settings_and_names() {
    type R = ControlRequest;
    let text = String::from;
    check(
        json!({"subtype": "read_file", "path": "a", "max_bytes": null}),
        R::ReadFile { path: text("a"), max_bytes: None, encoding: FileEncoding::Text },
    );
    check(
        json!({"subtype": "read_file", "path": "a", "max_bytes": 9, "encoding": "base64"}),
        R::ReadFile { path: text("a"), max_bytes: Some(9), encoding: FileEncoding::Base64 },
    );
    check(
        json!({"subtype": "read_file", "path": "a", "encoding": "utf-8"}),
        R::ReadFile { path: text("a"), max_bytes: None, encoding: FileEncoding::Text },
    );
    for mtime in [json!(12), json!(12.0)] {
        let request = json!({"subtype": "seed_read_state", "path": "a", "mtime": mtime});
        check(request, R::SeedReadState { path: text("a"), mtime: 12.0 });
    }
    check(
        json!({"subtype": "rewind_files", "user_message_id": "u"}),
        R::RewindFiles { user_message_id: text("u"), dry_run: false },
    );
    check(
        json!({"subtype": "rewind_files", "user_message_id": "u", "dry_run": true}),
        R::RewindFiles { user_message_id: text("u"), dry_run: true },
    );
    let settings = object(json!({"model": null}));
    check(
        json!({"subtype": "apply_flag_settings", "settings": {"model": null}}),
        R::ApplyFlagSettings { settings },
    );
    for (source, want) in [("localSettings", SettingsSource::Local), ("userSettings", SettingsSource::User)] {
        check(
            json!({"subtype": "update_settings", "source": source, "settings": {}}),
            R::UpdateSettings { source: want, settings: Map::new() },
        );
    }
    check(
        json!({"subtype": "rename_session", "title": "  a b "}),
        R::RenameSession { title: text("a b"), session_id: None },
    );
    for (fields, budget, display) in [
        (json!({}), SettingChange::Keep, SettingChange::Keep),
        (json!({"max_thinking_tokens": null}), SettingChange::Reset, SettingChange::Keep),
        (json!({"max_thinking_tokens": 0}), SettingChange::Set(0), SettingChange::Keep),
        (json!({"max_thinking_tokens": 1_u64 << 40}), SettingChange::Set(u32::MAX), SettingChange::Keep),
        (
            json!({"thinking_display": "omitted"}),
            SettingChange::Keep,
            SettingChange::Set(ThinkingDisplay::Omitted),
        ),
        (json!({"thinking_display": null}), SettingChange::Keep, SettingChange::Reset),
        (json!({"thinking_display": "newer"}), SettingChange::Keep, SettingChange::Reset),
    ] {
        let mut request = fields;
        request["subtype"] = json!("set_max_thinking_tokens");
        check(request, R::SetMaxThinkingTokens { budget, display });
    }
}

#[test]
fn problems_name_subtype_field_and_what_was_expected() {
    let unknown = Some("unsupported_request");
    refused(json!({"subtype": "frobnicate"}), "Unsupported control request subtype: frobnicate", unknown);
    refused(json!({"subtype": "mcp_fly"}), "Unsupported control request subtype: mcp_fly", unknown);
    for odd in [json!({}), json!({"subtype": 7}), json!(null), json!([1])] {
        refused(odd, "Unsupported control request subtype: ", unknown);
    }
    for (request, want) in [
        (json!({"subtype": "stop_task"}), "stop_task needs `task_id`: expected a string"),
        (json!({"subtype": "stop_task", "task_id": null}), "stop_task needs `task_id`: expected a string"),
        (json!({"subtype": "stop_task", "task_id": 7}), "stop_task: `task_id` must be a string, not 7"),
        (json!({"subtype": "read_file"}), "read_file needs `path`: expected a string"),
        (
            json!({"subtype": "read_file", "path": ""}),
            "read_file: `path` must be a string that is not empty, not \"\"",
        ),
        (
            json!({"subtype": "read_file", "path": "a", "max_bytes": -1}),
            "read_file: `max_bytes` must be a whole number, not -1",
        ),
        (
            json!({"subtype": "seed_read_state", "path": "a", "mtime": "b"}),
            "seed_read_state: `mtime` must be a number, not \"b\"",
        ),
        (
            json!({"subtype": "rewind_files", "user_message_id": "u", "dry_run": "yes"}),
            "rewind_files: `dry_run` must be true or false, not \"yes\"",
        ),
        (
            json!({"subtype": "mcp_toggle", "serverName": "a"}),
            "mcp_toggle needs `enabled`: expected true or false",
        ),
        (json!({"subtype": "mcp_set_servers"}), "mcp_set_servers needs `servers`: expected an object"),
        (
            json!({"subtype": "mcp_call", "tool": "a", "arguments": [1]}),
            "mcp_call: `arguments` must be an object, not [1]",
        ),
        (
            json!({"subtype": "mcp_call", "tool": "a", "check_permissions": true}),
            "The tool did not run: mcp_call with check_permissions is not supported",
        ),
        (
            json!({"subtype": "set_model", "model": 5}),
            "set_model: `model` must be the name of a model, or null, not 5",
        ),
        (
            json!({"subtype": "set_model", "model": " "}),
            "set_model: `model` must be the name of a model, or null, not \" \"",
        ),
        (
            json!({"subtype": "update_settings", "source": "policySettings", "settings": {}}),
            "update_settings: `source` must be \"localSettings\" or \"userSettings\", not \"policySettings\"",
        ),
        (
            json!({"subtype": "rename_session", "title": "  "}),
            "rename_session: `title` must be a string that is not empty, not \"  \"",
        ),
    ] {
        refused(request, want, None);
    }
    let invalid = Some("invalid_mode");
    let want = "Cannot set permission mode: set_permission_mode needs `mode`: expected a string";
    refused(json!({"subtype": "set_permission_mode"}), want, invalid);
    let bad = ControlRequest::parse(json!({"subtype": "set_permission_mode", "mode": "nonsense"}));
    let frame = bad.expect_err("no mode").frame("r1");
    assert_eq!(frame["response"]["error_code"], "invalid_mode");
    assert!(frame["response"]["error"].as_str().is_some_and(|it| it.contains("`nonsense`")), "{frame}");
}

#[track_caller]
fn introduction(request: Value, want: InitializeRequest) {
    let mut request = request;
    request["subtype"] = json!("initialize");
    check(request, ControlRequest::Initialize(Box::new(want)));
}

#[test]
fn introductions_are_never_refused() {
    let text = String::from;
    introduction(json!({}), InitializeRequest::default());
    introduction(
        json!({"hooks": null, "agents": null, "skills": null, "jsonSchema": 7, "plugins": "x", "title": 1}),
        InitializeRequest::default(),
    );
    introduction(
        json!({
            "hooks": {"Stop": []}, "systemPrompt": ["a", "", "b"], "appendSystemPrompt": "c",
            "jsonSchema": {"type": "object"}, "sdkMcpServers": ["calc", 7], "skills": [],
            "agents": {"z": {"description": "d", "prompt": "p", "tools": ["Read"], "model": "inherit"}, "a": 7, "n": null},
            "plugins": [{"path": "p", "skipMcpDiscovery": true}, {"type": "local"}, {"path": "q"}],
            "toolAliases": {"x": "Read", "y": 1}, "forwardSubagentText": true, "promptSuggestions": "yes",
        }),
        InitializeRequest {
            hooks: json!({"Stop": []}),
            system_prompt: Some(text("a\n\nb")),
            append_system_prompt: Some(text("c")),
            json_schema: Some(object(json!({"type": "object"}))),
            sdk_mcp_servers: vec![text("calc")],
            skills: Some(vec![]),
            agents: vec![
                (
                    text("z"),
                    HostAgent {
                        description: text("d"),
                        prompt: text("p"),
                        tools: Some(vec![text("Read")]),
                        model: Some(text("inherit")),
                        definition: json!({"description": "d", "prompt": "p", "tools": ["Read"], "model": "inherit"}),
                    },
                ),
                (text("a"), HostAgent { definition: json!(7), ..HostAgent::default() }),
            ],
            plugins: Some(vec![
                ClientPlugin { path: text("p"), skip_mcp_discovery: true },
                ClientPlugin { path: text("q"), skip_mcp_discovery: false },
            ]),
            tool_aliases: [(text("x"), text("Read"))].into(),
            forward_subagent_text: true,
            ..InitializeRequest::default()
        },
    );
    introduction(
        json!({"systemPrompt": "a"}),
        InitializeRequest { system_prompt: Some(text("a")), ..InitializeRequest::default() },
    );
}

#[test]
fn answers_have_the_names_of_the_protocol() {
    for (answer, want) in [
        (Value::from(InterruptAnswer::default()), json!({"still_queued": []})),
        (
            InterruptAnswer { still_queued: vec![], cancelled: Some(vec![String::from("u")]) }.into(),
            json!({"still_queued": [], "cancelled": ["u"]}),
        ),
        (ServersAnswer::default().into(), json!({"added": [], "removed": [], "errors": {}})),
        (
            RewindAnswer { can_rewind: true, skipped_links: Some(0), ..RewindAnswer::default() }.into(),
            json!({"canRewind": true, "skippedLinks": 0}),
        ),
        (
            TaskOutputAnswer { output: String::from("a"), total_bytes: 1, truncated: false }.into(),
            json!({"output": "a", "total_bytes": 1, "truncated": false}),
        ),
        (
            FileAnswer { path: "/a".into(), lossy: Some(false), ..FileAnswer::default() }.into(),
            json!({"absPath": "/a", "contents": "", "lossy": false}),
        ),
    ] {
        assert_eq!(answer, want);
    }
}
