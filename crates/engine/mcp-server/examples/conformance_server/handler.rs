//! The production server plus prompts, resources and completion, which the suite requires and a pool of
//! tools does not have.

#![expect(deprecated, reason = "clients of the older protocol still use what the newer one calls deprecated")]

use std::sync::Arc;

use haft_mcp_server::ToolServer;
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::*,
    service::{NotificationContext, RequestContext, SubscriptionContext},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::broadcast::{self, error::RecvError};

use crate::{Change, tools::PNG};

#[derive(Clone)]
pub(crate) struct Fixtures {
    tools: ToolServer,
    changes: broadcast::Sender<Change>,
}

impl Fixtures {
    pub(crate) fn new(tools: ToolServer, changes: broadcast::Sender<Change>) -> Self {
        Self { tools, changes }
    }

    pub(crate) fn session(&self) -> Self {
        Self { tools: self.tools.session(), changes: self.changes.clone() }
    }
}

fn parse<T: DeserializeOwned>(value: Value) -> Result<T, ErrorData> {
    serde_json::from_value(value).map_err(|err| ErrorData::internal_error(err.to_string(), None))
}

/// A schema whose keywords must reach the client unchanged.
fn schema_2020_12() -> JsonObject {
    let schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {"address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }},
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"},
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": false,
    });
    schema.as_object().cloned().unwrap_or_default()
}

/// Returns the client capabilities a call requires.
fn missing(name: &str, has: &ClientCapabilities) -> Option<ClientCapabilities> {
    match name {
        "test_missing_capability" if has.sampling.is_none() => {
            Some(ClientCapabilities::builder().enable_sampling().build())
        }
        "failing_job" if !has.supports_tasks() => Some(ClientCapabilities::builder().enable_tasks().build()),
        _ => None,
    }
}

impl ServerHandler for Fixtures {
    fn get_info(&self) -> ServerConfig {
        let mut info = self.tools.get_info();
        info.capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_resources()
            .enable_resources_subscribe()
            .enable_prompts()
            .enable_prompts_list_changed()
            .enable_completions()
            .enable_logging()
            .enable_tasks()
            .build();
        info
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let mut listed = self.tools.list_tools(request, context).await?;
        for tool in listed.tools.iter_mut().filter(|tool| tool.name == "json_schema_2020_12_tool") {
            tool.input_schema = Arc::new(schema_2020_12());
        }
        Ok(listed)
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.tools.get_tool(name)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let has = context.client_capabilities().unwrap_or_default();
        if let Some(needed) = missing(&request.name, &has) {
            return Err(ErrorData::missing_required_client_capability(needed));
        }
        self.tools.call_tool(request, context).await
    }

    async fn list_resources(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        parse(json!({"resultType": "complete", "resources": [
            {"uri": "test://static-text", "name": "Static text", "description": "A text", "mimeType": "text/plain"},
            {"uri": "test://static-binary", "name": "Static binary", "description": "A picture", "mimeType": "image/png"},
            {"uri": "test://watched-resource", "name": "Watched", "description": "A text", "mimeType": "text/plain"},
        ]}))
    }

    async fn list_resource_templates(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        parse(json!({"resultType": "complete", "resourceTemplates": [{
            "uriTemplate": "test://template/{id}/data", "name": "Template", "description": "Data by id",
            "mimeType": "application/json",
        }]}))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let uri = request.uri.as_str();
        let content = match uri {
            "test://static-text" => {
                json!({"mimeType": "text/plain", "text": "This is the content of the static text resource."})
            }
            "test://watched-resource" => json!({"mimeType": "text/plain", "text": "Watched."}),
            "test://static-binary" => json!({"mimeType": "image/png", "blob": PNG}),
            _ => match uri.strip_prefix("test://template/").and_then(|it| it.strip_suffix("/data")) {
                Some(id) => {
                    let text = json!({"id": id, "templateTest": true, "data": format!("Data for ID: {id}")});
                    json!({"mimeType": "application/json", "text": text.to_string()})
                }
                None => return self.tools.read_resource(request, context).await,
            },
        };
        let mut content = content;
        content["uri"] = json!(uri);
        let read: ReadResourceResult = parse(json!({"contents": [content]}))?;
        Ok(ReadResourceResult::new(read.contents).into())
    }

    async fn subscribe(
        &self,
        _request: SubscribeRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn unsubscribe(
        &self,
        _request: UnsubscribeRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn list_prompts(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let prompt = |name: &str, arguments: &[&str]| {
            let arguments: Vec<Value> = arguments
                .iter()
                .map(|name| json!({"name": name, "description": "An argument", "required": true}))
                .collect();
            json!({"name": name, "description": format!("The prompt {name}"), "arguments": arguments})
        };
        parse(json!({"resultType": "complete", "prompts": [
            prompt("test_simple_prompt", &[]),
            prompt("test_prompt_with_arguments", &["arg1", "arg2"]),
            prompt("test_prompt_with_embedded_resource", &["resourceUri"]),
            prompt("test_prompt_with_image", &[]),
            prompt("test_input_required_result_prompt", &[]),
        ]}))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let user = |content: Value| json!({"role": "user", "content": content});
        let words = |text: &str| json!({"type": "text", "text": text});
        let argument = |name: &str| {
            let arguments = request.arguments.as_ref();
            arguments.and_then(|it| it.get(name)).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let messages = match request.name.as_str() {
            "test_simple_prompt" => vec![user(words("This is a simple prompt for testing."))],
            "test_prompt_with_arguments" => {
                let (arg1, arg2) = (argument("arg1"), argument("arg2"));
                vec![user(words(&format!("Prompt with arguments: arg1='{arg1}', arg2='{arg2}'")))]
            }
            "test_prompt_with_embedded_resource" => {
                let resource = json!({
                    "uri": argument("resourceUri"),
                    "mimeType": "text/plain",
                    "text": "Embedded resource content for testing.",
                });
                vec![
                    user(json!({"type": "resource", "resource": resource})),
                    user(words("Please process the embedded resource above.")),
                ]
            }
            "test_prompt_with_image" => vec![
                user(json!({"type": "image", "data": PNG, "mimeType": "image/png"})),
                user(words("Please analyze the image above.")),
            ],
            "test_input_required_result_prompt" => {
                match request.input_responses.as_ref().and_then(|it| it.get("user_context")) {
                    Some(answer) => vec![user(words(&answer["content"]["context"].to_string()))],
                    None => return parse::<InputRequiredResult>(context_request()).map(Into::into),
                }
            }
            other => return Err(ErrorData::invalid_params(format!("no prompt {other}"), None)),
        };
        let result: GetPromptResult = parse(json!({"resultType": "complete", "messages": messages}))?;
        Ok(result.into())
    }

    async fn complete(
        &self,
        _request: CompleteRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        parse(json!({
            "resultType": "complete",
            "completion": {"values": ["paris", "park", "party"], "total": 3, "hasMore": false},
        }))
    }

    async fn set_level(
        &self,
        _request: SetLevelRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        self.tools.on_initialized(context).await;
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(requested.clone())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let mut changes = self.changes.subscribe();
        loop {
            let change = tokio::select! {
                () = context.cancelled() => return Ok(()),
                change = changes.recv() => change,
            };
            let note: ServerNotification = match change {
                Ok(Change::Tools) => ToolListChangedNotification::default().into(),
                Ok(Change::Prompts) => PromptListChangedNotification::default().into(),
                Err(RecvError::Lagged(_)) => continue,
                Err(RecvError::Closed) => return Ok(()),
            };
            // The sink drops what the client did not request.
            let _ = context.sink().send(note).await;
        }
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        self.tools.get_task(request, context).await
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.tools.update_task(request, context).await
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.tools.cancel_task(request, context).await
    }
}

fn context_request() -> Value {
    json!({
        "resultType": "input_required",
        "inputRequests": {"user_context": {
            "method": "elicitation/create",
            "params": {
                "message": "What context should the prompt use?",
                "requestedSchema": {
                    "type": "object",
                    "properties": {"context": {"type": "string"}},
                    "required": ["context"],
                },
            },
        }},
    })
}
