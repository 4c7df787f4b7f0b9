//! The tools the suite calls.

use std::{sync::Arc, time::Duration};

use haft_mcp_server::{CallClient, ClientInput, Clients, InputKind};
use haft_tool::{
    BoxFuture, DynTool, ErrorKind, Exposure, Output, RawTool, Rendering, ToolContext, ToolError, ToolHints,
    ToolSpec,
};
use serde_json::{Value, json};
use tokio::sync::broadcast;

use crate::Change;

/// A PNG with one red pixel.
pub(crate) const PNG: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==";

/// A silent WAV file.
const WAV: &str = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQAAAAA=";

type Ended = Result<Output, ToolError>;
type Running = BoxFuture<'static, Ended>;
type Context = ToolContext<Value>;

pub(crate) fn all(clients: &Clients, changes: &broadcast::Sender<Change>) -> Vec<Arc<dyn DynTool>> {
    let mut tools = contents();
    tools.extend(conversations(clients));
    tools.extend(rounds(clients));
    tools.extend(tasks(clients));
    tools.extend(triggers(changes));
    tools
}

fn make(
    name: &str,
    properties: Value,
    run: impl Fn(Value, Context) -> Running + Send + Sync + 'static,
) -> Arc<dyn DynTool> {
    let required: Vec<&String> = properties.as_object().map(|it| it.keys().collect()).unwrap_or_default();
    let schema = json!({"type": "object", "properties": properties, "required": required});
    with_schema(name, schema, run)
}

fn with_schema(
    name: &str,
    input_schema: Value,
    run: impl Fn(Value, Context) -> Running + Send + Sync + 'static,
) -> Arc<dyn DynTool> {
    let spec = ToolSpec {
        name: name.to_owned(),
        description: format!("Conformance fixture {name}."),
        input_schema: Arc::new(input_schema),
        search_hint: String::new(),
        exposure: Exposure::Direct,
        max_result_chars: None,
        timeout: None,
    };
    let claims = ToolHints { read_only: true, concurrency_safe: true, destructive: false };
    Arc::new(RawTool::new(spec, run).trust(claims))
}

fn text(text: impl Into<String>) -> Output {
    Output::from_content(text.into().into())
}

/// A result with MCP-only content, passed through unchanged.
fn mcp(content: Value) -> Output {
    let result = json!({"content": content});
    Output {
        content: "(content for MCP clients)".into(),
        data: result,
        new_messages: Vec::new(),
        changes: Vec::new(),
        meta: Some(json!({"structuredContent": null})),
        rendering: Rendering::preview_of(String::new()),
    }
}

fn fixed(name: &str, output: impl Fn() -> Ended + Send + Sync + 'static) -> Arc<dyn DynTool> {
    make(name, json!({}), move |_, _| {
        let output = output();
        Box::pin(async move { output })
    })
}

fn contents() -> Vec<Arc<dyn DynTool>> {
    let image = || json!({"type": "image", "data": PNG, "mimeType": "image/png"});
    let resource = |uri: &str, kind: &str, text: &str| json!({"type": "resource", "resource": {"uri": uri, "mimeType": kind, "text": text}});
    let words = |text: &str| json!({"type": "text", "text": text});
    vec![
        fixed("test_simple_text", || Ok(text("This is a simple text response for testing."))),
        fixed("test_image_content", move || Ok(mcp(json!([image()])))),
        fixed("test_audio_content", || {
            Ok(mcp(json!([{"type": "audio", "data": WAV, "mimeType": "audio/wav"}])))
        }),
        fixed("test_embedded_resource", move || {
            let text = "This is an embedded resource content.";
            Ok(mcp(json!([resource("test://embedded-resource", "text/plain", text)])))
        }),
        fixed("test_multiple_content_types", move || {
            let data = r#"{"test":"data","value":123}"#;
            let embedded = resource("test://mixed-content-resource", "application/json", data);
            Ok(mcp(json!([words("Multiple content types test:"), image(), embedded])))
        }),
        fixed("test_error_handling", || {
            Err(ToolError::failed("This tool intentionally returns an error for testing"))
        }),
        fixed("test_missing_capability", || Ok(text("the client has the capability"))),
        fixed("test_reconnection", || Ok(text("Reconnection test completed successfully"))),
        fixed("json_schema_2020_12_tool", || Ok(text("ok"))),
        make("test_tool_with_progress", json!({}), |_, cx| {
            Box::pin(async move {
                for progress in [0, 50, 100] {
                    cx.progress(&json!({"progress": progress, "total": 100, "message": "working"}));
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                Ok(text("Progress test completed"))
            })
        }),
        with_schema(
            "test_x_mcp_header",
            json!({"type": "object", "properties": {
                "region": {"type": "string", "x-mcp-header": "Region"},
                "priority": {"type": "integer", "x-mcp-header": "Priority"},
                "verbose": {"type": "boolean", "x-mcp-header": "Verbose"},
            }}),
            |input, _| Box::pin(async move { Ok(text(input.to_string())) }),
        ),
    ]
}

/// A tool that communicates with its client.
fn talking(
    clients: &Clients,
    name: &str,
    properties: Value,
    talk: impl Fn(CallClient, Value, Context) -> Running + Send + Sync + 'static,
) -> Arc<dyn DynTool> {
    let clients = clients.clone();
    make(name, properties, move |input, cx| match clients.of(&cx.call_id) {
        Some(client) => talk(client, input, cx),
        None => Box::pin(async { Err(ToolError::failed("this call has no client")) }),
    })
}

async fn ask(client: &CallClient, key: &str, kind: InputKind, params: Value) -> Result<Value, ToolError> {
    let answer = client.ask_one(ClientInput::new(key, kind, params)).await;
    answer.map_err(|err| ToolError::failed(err.to_string()))
}

fn form(message: &str, properties: Value) -> Value {
    let required: Vec<&String> = properties.as_object().map(|it| it.keys().collect()).unwrap_or_default();
    json!({
        "message": message,
        "requestedSchema": {"type": "object", "properties": properties, "required": required},
    })
}

fn prompt(text: &str, max_tokens: u32) -> Value {
    json!({
        "messages": [{"role": "user", "content": {"type": "text", "text": text}}],
        "maxTokens": max_tokens,
    })
}

fn conversations(clients: &Clients) -> Vec<Arc<dyn DynTool>> {
    let eliciting = |name: &'static str, properties: Value| {
        talking(clients, name, json!({}), move |client, _, _| {
            let mut params = form("Please review and update the form", properties.clone());
            params["requestedSchema"]["required"] = json!([]);
            Box::pin(async move {
                let answer = ask(&client, "form", InputKind::Elicit, params).await?;
                let (action, content) = (&answer["action"], &answer["content"]);
                let action = action.as_str().unwrap_or_default();
                Ok(text(format!("Elicitation completed: action={action}, content={content}")))
            })
        })
    };
    let logging = |name: &'static str| {
        talking(clients, name, json!({}), |client, _, _| {
            Box::pin(async move {
                for message in ["Tool execution started", "Tool processing data", "Tool execution completed"]
                {
                    client.log("info", json!(message));
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                Ok(text("Tool with logging executed successfully"))
            })
        })
    };
    vec![
        logging("test_tool_with_logging"),
        logging("test_logging_tool"),
        talking(clients, "test_sampling", json!({"prompt": {"type": "string"}}), |client, input, _| {
            Box::pin(async move {
                let params = prompt(input["prompt"].as_str().unwrap_or_default(), 100);
                let answer = ask(&client, "sampling", InputKind::Sample, params).await?;
                let said = answer["content"]["text"].as_str().unwrap_or_default();
                Ok(text(format!("LLM response: {said}")))
            })
        }),
        talking(clients, "test_elicitation", json!({"message": {"type": "string"}}), |client, input, _| {
            Box::pin(async move {
                let fields = json!({
                    "username": {"type": "string", "description": "User's response"},
                    "email": {"type": "string", "description": "User's email address"},
                });
                let params = form(input["message"].as_str().unwrap_or_default(), fields);
                let answer = ask(&client, "user", InputKind::Elicit, params).await?;
                Ok(text(format!("User response: {answer}")))
            })
        }),
        talking(clients, "test_streaming_elicitation", json!({}), |client, _, _| {
            Box::pin(async move {
                let params = form("Go on?", json!({"ok": {"type": "boolean"}}));
                let answer = ask(&client, "go_on", InputKind::Elicit, params).await?;
                Ok(text(answer.to_string()))
            })
        }),
        eliciting("test_elicitation_sep1034_defaults", defaults()),
        eliciting("test_elicitation_sep1330_enums", enums()),
    ]
}

fn defaults() -> Value {
    json!({
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": true},
    })
}

fn enums() -> Value {
    let plain = json!(["option1", "option2", "option3"]);
    json!({
        "untitledSingle": {"type": "string", "enum": plain},
        "titledSingle": {"type": "string", "oneOf": [
            {"const": "value1", "title": "First Option"},
            {"const": "value2", "title": "Second Option"},
            {"const": "value3", "title": "Third Option"},
        ]},
        "legacyEnum": {
            "type": "string", "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": plain}},
        "titledMulti": {"type": "array", "items": {"anyOf": [
            {"const": "value1", "title": "First Choice"},
            {"const": "value2", "title": "Second Choice"},
            {"const": "value3", "title": "Third Choice"},
        ]}},
    })
}

fn name_form() -> Value {
    form("What is your name?", json!({"name": {"type": "string"}}))
}

/// Tools that need several rounds in the modern protocol.
fn rounds(clients: &Clients) -> Vec<Arc<dyn DynTool>> {
    let one = |tool: &str, key: &'static str, kind: InputKind, params: Value, done: fn(&Value) -> String| {
        talking(clients, &format!("test_input_required_result_{tool}"), json!({}), move |client, _, _| {
            let params = params.clone();
            Box::pin(async move { Ok(text(done(&ask(&client, key, kind, params).await?))) })
        })
    };
    let confirm = || form("Please confirm", json!({"ok": {"type": "boolean"}}));
    vec![
        one("elicitation", "user_name", InputKind::Elicit, name_form(), |answer| {
            format!("Hello, {}!", answer["content"]["name"].as_str().unwrap_or_default())
        }),
        one(
            "sampling",
            "capital_question",
            InputKind::Sample,
            prompt("What is the capital of France?", 100),
            |answer| answer["content"]["text"].as_str().unwrap_or_default().to_owned(),
        ),
        one("list_roots", "client_roots", InputKind::Roots, json!({}), |answer| answer["roots"].to_string()),
        one("request_state", "confirm", InputKind::Elicit, confirm(), |_| String::from("state-ok")),
        one("tampered_state", "confirm", InputKind::Elicit, confirm(), |_| String::from("state-ok")),
        talking(clients, "test_input_required_result_multiple_inputs", json!({}), |client, _, _| {
            let inputs = vec![
                ClientInput::new("user_name", InputKind::Elicit, name_form()),
                ClientInput::new("greeting", InputKind::Sample, prompt("Generate a greeting", 50)),
                ClientInput::new("client_roots", InputKind::Roots, json!({})),
            ];
            Box::pin(async move {
                let answers = client.ask(inputs).await.map_err(|err| ToolError::failed(err.to_string()))?;
                Ok(text(json!(answers).to_string()))
            })
        }),
        talking(clients, "test_input_required_result_multi_round", json!({}), |client, _, _| {
            Box::pin(async move {
                let first = form("Step 1: What is your name?", json!({"name": {"type": "string"}}));
                let name = ask(&client, "step1", InputKind::Elicit, first).await?;
                let second =
                    form("Step 2: What is your favorite color?", json!({"color": {"type": "string"}}));
                let color = ask(&client, "step2", InputKind::Elicit, second).await?;
                Ok(text(format!("{} {}", name["content"]["name"], color["content"]["color"])))
            })
        }),
        talking(clients, "test_input_required_result_capabilities", json!({}), |client, _, _| {
            let wanted = [
                ClientInput::new("user_name", InputKind::Elicit, name_form()),
                ClientInput::new("greeting", InputKind::Sample, prompt("Generate a greeting", 50)),
                ClientInput::new("client_roots", InputKind::Roots, json!({})),
            ];
            let possible: Vec<ClientInput> =
                wanted.into_iter().filter(|it| client.answers(it.kind)).collect();
            Box::pin(async move {
                let answers = client.ask(possible).await.map_err(|err| ToolError::failed(err.to_string()))?;
                Ok(text(json!(answers).to_string()))
            })
        }),
    ]
}

/// Sleeps; ends early if the call is cancelled.
async fn work(cx: &Context, duration: Duration) -> Result<(), ToolError> {
    tokio::select! {
        () = tokio::time::sleep(duration) => Ok(()),
        () = cx.cancel.cancelled() => Err(ToolError::new(ErrorKind::Interrupted, "cancelled")),
    }
}

/// Longer than the time after which a call becomes a task.
const A_WHILE: Duration = Duration::from_millis(500);

fn tasks(clients: &Clients) -> Vec<Arc<dyn DynTool>> {
    vec![
        make("greet", json!({"name": {"type": "string"}}), |input, _| {
            Box::pin(
                async move { Ok(text(format!("Hello, {}!", input["name"].as_str().unwrap_or_default()))) },
            )
        }),
        make("slow_compute", json!({"seconds": {"type": "number"}}), |input, cx| {
            Box::pin(async move {
                work(&cx, Duration::from_secs_f64(input["seconds"].as_f64().unwrap_or(0.0))).await?;
                Ok(text("computed"))
            })
        }),
        make("failing_job", json!({}), |_, cx| {
            Box::pin(async move {
                work(&cx, Duration::from_secs(1)).await?;
                Err(ToolError::failed("the job failed"))
            })
        }),
        make("protocol_error_job", json!({}), |_, cx| {
            Box::pin(async move {
                work(&cx, A_WHILE).await?;
                Err(ToolError::new(ErrorKind::Internal, "the job broke"))
            })
        }),
        talking(clients, "confirm_delete", json!({"filename": {"type": "string"}}), |client, input, cx| {
            Box::pin(async move {
                work(&cx, A_WHILE).await?;
                let message = format!("Delete {}?", input["filename"]);
                let params = form(&message, json!({"confirm": {"type": "boolean"}}));
                let answer = ask(&client, "confirm", InputKind::Elicit, params).await?;
                Ok(text(format!("deleted: {}", answer["content"]["confirm"])))
            })
        }),
        talking(clients, "multi_input", json!({}), |client, _, cx| {
            Box::pin(async move {
                work(&cx, A_WHILE).await?;
                let question = |key: &str| {
                    ClientInput::new(key, InputKind::Elicit, form(key, json!({"value": {"type": "string"}})))
                };
                let answers = client.ask(vec![question("first"), question("second")]).await;
                let answers = answers.map_err(|err| ToolError::failed(err.to_string()))?;
                Ok(text(json!(answers).to_string()))
            })
        }),
        talking(clients, "test_tool_with_task", json!({}), |client, _, cx| {
            Box::pin(async move {
                let answer = ask(&client, "user_name", InputKind::Elicit, name_form()).await?;
                work(&cx, A_WHILE).await?;
                Ok(text(format!("Hello, {}!", answer["content"]["name"].as_str().unwrap_or_default())))
            })
        }),
    ]
}

fn triggers(changes: &broadcast::Sender<Change>) -> Vec<Arc<dyn DynTool>> {
    let trigger = |name: &str, change: Change| {
        let changes = changes.clone();
        fixed(name, move || {
            let _ = changes.send(change);
            Ok(text("triggered"))
        })
    };
    vec![
        trigger("test_trigger_tool_change", Change::Tools),
        trigger("test_trigger_prompt_change", Change::Prompts),
    ]
}
