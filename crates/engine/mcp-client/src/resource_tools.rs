//! Tools about servers: their resources, and their lists of tools.

use std::sync::Arc;

use haft_tool::{
    AccessSet, CallContext, Content, DynTool, Exposure, Outcome, Tool, ToolContext, ToolError, Traits, erase,
};
use haft_types::text;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    client::{ResourceDef, ResourceTemplate},
    manager::McpManager,
};

/// The tools a model uses to look at what servers offer beside tools.
pub fn resource_tools(manager: &McpManager) -> Vec<Arc<dyn DynTool>> {
    vec![
        erase(ListMcpResources(manager.clone())),
        erase(ReadMcpResource(manager.clone())),
        erase(RefreshMcpTools(manager.clone())),
    ]
}

/// Lists the resources that MCP servers offer: documents, records and other data you can read with
/// ReadMcpResource.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListInput {
    /// Only those of this server.
    #[serde(default)]
    server: Option<String>,
}

struct ListMcpResources(McpManager);

/// What the servers offer.
#[derive(Debug, Serialize)]
pub(crate) struct ListOutput {
    resources: Vec<Listed<ResourceDef>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    templates: Vec<Listed<ResourceTemplate>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    problems: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Listed<T> {
    server: String,
    #[serde(flatten)]
    item: T,
}

/// More lines than this say nothing to a model.
const MAX_SHOWN: usize = 500;

impl Tool for ListMcpResources {
    type Input = ListInput;
    type Output = ListOutput;
    type Progress = ();
    const NAME: &'static str = "ListMcpResources";

    async fn call(&self, input: ListInput, _cx: &ToolContext<()>) -> Result<Outcome<ListOutput>, ToolError> {
        let servers = match input.server {
            Some(server) => vec![server],
            None => self.0.names(),
        };
        let mut output = ListOutput { resources: Vec::new(), templates: Vec::new(), problems: Vec::new() };
        let asked = servers.iter().map(|server| async move {
            (server, self.0.resources(server).await, self.0.resource_templates(server).await)
        });
        for (server, resources, templates) in futures_util::future::join_all(asked).await {
            match resources {
                Ok(found) => {
                    let listed = |item| Listed { server: server.clone(), item };
                    output.resources.extend(found.into_iter().map(listed));
                }
                Err(err) => output.problems.push(format!("{server}: {err}")),
            }
            let listed = |item| Listed { server: server.clone(), item };
            output.templates.extend(templates.unwrap_or_default().into_iter().map(listed));
        }
        if servers.len() == 1 && output.resources.is_empty() && !output.problems.is_empty() {
            return Err(ToolError::failed(output.problems.remove(0)));
        }
        Ok(output.into())
    }

    fn traits(&self) -> Traits {
        traits(&["ListMcpResourcesTool"], "mcp server resources documents data list")
    }

    fn is_read_only(&self, _input: &ListInput) -> bool {
        true
    }

    fn is_concurrency_safe(&self, _input: &ListInput) -> bool {
        true
    }

    fn reach(&self, _input: &ListInput, _cx: &CallContext) -> AccessSet {
        AccessSet::nothing()
    }

    fn to_content(&self, output: &ListOutput) -> Content {
        let mut lines: Vec<String> = Vec::new();
        for Listed { server, item } in output.resources.iter().take(MAX_SHOWN) {
            lines.push(line(
                server,
                &item.uri,
                &item.name,
                item.mime_type.as_deref(),
                item.description.as_deref(),
            ));
        }
        for Listed { server, item } in output.templates.iter().take(MAX_SHOWN) {
            let (kind, about) = (item.mime_type.as_deref(), item.description.as_deref());
            lines.push(line(server, &item.uri_template, &item.name, kind, about));
        }
        let total = output.resources.len() + output.templates.len();
        if lines.len() < total {
            lines.push(format!("… and {} more; name a server to see fewer", total - lines.len()));
        }
        lines.extend(output.problems.iter().map(|it| format!("(not listed) {it}")));
        Content::text(if lines.is_empty() {
            String::from("No server offers resources.")
        } else {
            lines.join("\n")
        })
    }
}

fn line(server: &str, uri: &str, name: &str, kind: Option<&str>, about: Option<&str>) -> String {
    let mut line = format!("{server}: {uri}");
    if name != uri {
        line.push_str(&format!(" {name}"));
    }
    if let Some(kind) = kind {
        line.push_str(&format!(" [{kind}]"));
    }
    if let Some(about) = about.filter(|it| !it.is_empty()) {
        line.push_str(&format!(": {}", text::one_line(about, 200)));
    }
    line
}

/// Reads a resource of an MCP server. ListMcpResources shows what there is.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReadInput {
    /// The server that offers it.
    server: String,
    /// The address of the resource.
    uri: String,
}

struct ReadMcpResource(McpManager);

/// A resource.
#[derive(Debug, Serialize)]
pub(crate) struct ReadOutput {
    contents: Vec<Value>,
    #[serde(skip)]
    content: Content,
}

impl Tool for ReadMcpResource {
    type Input = ReadInput;
    type Output = ReadOutput;
    type Progress = ();
    const NAME: &'static str = "ReadMcpResource";

    async fn call(&self, input: ReadInput, cx: &ToolContext<()>) -> Result<Outcome<ReadOutput>, ToolError> {
        let read = self.0.read_resource(&input.server, &input.uri, &cx.cancel).await;
        let (content, result) = read.map_err(|err| ToolError::failed(err.to_string()))?;
        let contents = result["contents"].as_array().into_iter().flatten().map(without_blob).collect();
        Ok(ReadOutput { contents, content }.into())
    }

    fn traits(&self) -> Traits {
        traits(&["ReadMcpResourceTool"], "mcp server resource document read fetch")
    }

    fn is_read_only(&self, _input: &ReadInput) -> bool {
        true
    }

    fn is_concurrency_safe(&self, _input: &ReadInput) -> bool {
        true
    }

    fn reach(&self, _input: &ReadInput, _cx: &CallContext) -> AccessSet {
        AccessSet::nothing()
    }

    fn describe(&self, input: &ReadInput) -> String {
        format!("read {} of the MCP server {}", input.uri, input.server)
    }

    fn to_content(&self, output: &ReadOutput) -> Content {
        output.content.clone()
    }
}

/// Bytes are in a file; programs need not carry them around again.
fn without_blob(content: &Value) -> Value {
    let mut content = content.clone();
    if let Some(blob) = content.get_mut("blob") {
        *blob = json!(format!("({} characters of base64)", blob.as_str().unwrap_or_default().len()));
    }
    content
}

/// Asks MCP servers again which tools they have, and reconnects those that are not connected.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RefreshInput {
    /// Only this server.
    #[serde(default)]
    server: Option<String>,
}

struct RefreshMcpTools(McpManager);

/// What became of one server.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Refreshed {
    server: String,
    status: &'static str,
    tool_count: usize,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    added: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    removed: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl Tool for RefreshMcpTools {
    type Input = RefreshInput;
    type Output = Vec<Refreshed>;
    type Progress = ();
    const NAME: &'static str = "RefreshMcpTools";

    async fn call(
        &self,
        input: RefreshInput,
        _cx: &ToolContext<()>,
    ) -> Result<Outcome<Vec<Refreshed>>, ToolError> {
        let servers = match input.server {
            Some(server) => vec![server],
            None => self.0.names(),
        };
        let refreshing = servers.iter().map(|server| self.refresh(server));
        Ok(futures_util::future::join_all(refreshing).await.into())
    }

    fn traits(&self) -> Traits {
        traits(&[], "mcp server reconnect reload tools")
    }

    fn is_read_only(&self, _input: &RefreshInput) -> bool {
        true
    }

    fn reach(&self, _input: &RefreshInput, _cx: &CallContext) -> AccessSet {
        AccessSet::nothing()
    }
}

impl RefreshMcpTools {
    async fn refresh(&self, server: &str) -> Refreshed {
        let names =
            || -> Vec<String> { self.0.definitions(server).iter().map(|def| def.name.clone()).collect() };
        let before = names();
        let outcome = self.0.refresh(server).await;
        let after = names();
        let missing_in =
            |a: &[String], b: &[String]| b.iter().filter(|it| !a.contains(it)).cloned().collect();
        Refreshed {
            server: server.to_owned(),
            status: if outcome.is_ok() { "refreshed" } else { "error" },
            tool_count: after.len(),
            added: missing_in(&before, &after),
            removed: missing_in(&after, &before),
            error: outcome.err().map(|err| err.to_string()),
        }
    }
}

fn traits(aliases: &'static [&'static str], search_hint: &'static str) -> Traits {
    Traits { aliases, search_hint, exposure: Exposure::Deferred, ..Traits::default() }
}
