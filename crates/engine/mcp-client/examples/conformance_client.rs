//! Client for the official conformance suite: the production manager, configured by the suite's
//! environment variables. The last argument is the server's URL.

use std::{error::Error, path::Path, sync::Arc, time::Duration};

use haft_mcp_client::{
    AuthOptions, ElicitAnswer, Elicitation, ElicitationHandler, HttpEndpoint, ManagerOptions, McpManager,
    ProtocolRevision, ServerConfig, ServerEndpoint, ServerState,
};
use haft_permission::Policy;
use haft_tool::{BoxFuture, CallContext, ErrorKind, example};
use haft_tool_runtime::{
    Approver, Gate, ParsedCall, PermissionAnswer, PermissionQuestion, Pipeline, Pool, ResultStore,
    StoreLimits,
};
use haft_types::ToolUse;
use serde_json::{Value, json};

const TIMEOUT: Duration = Duration::from_secs(20);
const MAX_LOGINS: usize = 3;

/// A user who accepts everything.
struct Agreeable;

impl ElicitationHandler for Agreeable {
    fn elicit(&self, request: Elicitation) -> BoxFuture<'static, ElicitAnswer> {
        let mut content = request.defaults();
        if let Some(Value::Object(minimal)) = request.schema.as_ref().map(example) {
            for (name, value) in minimal {
                content.entry(name).or_insert(value);
            }
        }
        Box::pin(async { ElicitAnswer::Accept(content) })
    }
}

impl Approver for Agreeable {
    fn ask(&self, _question: Arc<PermissionQuestion>) -> BoxFuture<'static, PermissionAnswer> {
        Box::pin(async { PermissionAnswer::allow() })
    }
}

struct Client {
    manager: McpManager,
    pipeline: Pipeline,
    logins: usize,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().next_back().ok_or("no address")?;
    let scenario = std::env::var("MCP_CONFORMANCE_SCENARIO").unwrap_or_default();
    let context: Value = std::env::var("MCP_CONFORMANCE_CONTEXT")
        .ok()
        .and_then(|text| serde_json::from_str(&text).ok())
        .unwrap_or_default();
    let mut client = Client::new(&url, &scenario, &context)?;
    client.connect().await?;
    let calls = client.calls(&scenario, &context);
    for (name, input) in calls {
        client.call(&name, input).await?;
    }
    client.manager.shutdown().await;
    Ok(())
}

/// Returns the `oauth` entry a user would write for a scenario.
fn oauth(scenario: &str, context: &Value) -> Value {
    let grant = match scenario {
        "auth/client-credentials-jwt" | "auth/client-credentials-basic" => "client_credentials",
        "auth/wif-jwt-bearer" => "jwt_bearer",
        "auth/enterprise-managed-authorization" => "enterprise",
        _ => "authorization_code",
    };
    let mut entry = json!({
        "grant": grant,
        "clientId": context["client_id"],
        "clientSecret": context["client_secret"],
        "privateKey": context["private_key_pem"],
        "assertion": context["valid_jwt"],
    });
    if grant == "enterprise" {
        entry["identityProvider"] = json!({
            "tokenUrl": context["idp_token_endpoint"],
            "clientId": context["idp_client_id"],
            "idToken": context["idp_id_token"],
        });
    }
    entry
}

impl Client {
    fn new(url: &str, scenario: &str, context: &Value) -> Result<Self, Box<dyn Error>> {
        let mut options = ManagerOptions::detached();
        options.host.elicit = Some(Arc::new(Agreeable));
        options.auth = AuthOptions {
            directory: None,
            client_metadata_url: Some(String::from("https://conformance-test.local/client-metadata.json")),
        };
        let manager = McpManager::new(options);
        let oauth = serde_json::from_value(oauth(scenario, context))?;
        let endpoint = HttpEndpoint { url: url.to_owned(), oauth, ..HttpEndpoint::default() };
        let mut config = ServerConfig::new("suite", ServerEndpoint::Http(endpoint));
        config.era = match std::env::var("MCP_CONFORMANCE_PROTOCOL_VERSION").as_deref() {
            Ok("2026-07-28") => Some(ProtocolRevision::Modern),
            Ok(_) => Some(ProtocolRevision::Legacy),
            Err(_) => None,
        };
        manager.set_servers(vec![config]);
        let results = std::env::temp_dir().join("haft-mcp-conformance");
        let gate = Gate::new(Policy::default()).with_approver(Arc::new(Agreeable));
        let pipeline = Pipeline::new(gate, ResultStore::new(results, StoreLimits::default()));
        Ok(Self { manager, pipeline, logins: 0 })
    }

    async fn connect(&mut self) -> Result<(), Box<dyn Error>> {
        loop {
            self.manager.settled(TIMEOUT).await;
            let status = self.manager.status().remove(0);
            match status.state {
                ServerState::Ready => return Ok(()),
                ServerState::NeedsAuth => self.login().await?,
                _ => return Err(status.last_error.unwrap_or_default().into()),
            }
        }
    }

    /// Plays the browser: follows the login URL.
    async fn login(&mut self) -> Result<(), Box<dyn Error>> {
        if MAX_LOGINS <= self.logins {
            return Err("too many logins".into());
        }
        self.logins += 1;
        let flow = self.manager.login("suite", "http://localhost:3000/callback").await?;
        let browser = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build()?;
        let answer = browser.get(flow.authorization_url()).send().await?;
        let location = answer.headers().get("location").ok_or("the login did not redirect")?;
        flow.finish(location.to_str()?).await?;
        // An error shows in the status and may be a reason for another login.
        let _ = self.manager.reconnect("suite").await;
        Ok(())
    }

    /// Returns what to call: the suite's list, else every tool.
    fn calls(&self, scenario: &str, context: &Value) -> Vec<(String, Value)> {
        if let Some(calls) = context["tool_calls"].as_array().or_else(|| context["toolCalls"].as_array()) {
            let name = |call: &Value| format!("mcp__suite__{}", call["name"].as_str().unwrap_or_default());
            return calls.iter().map(|call| (name(call), call["arguments"].clone())).collect();
        }
        let defs = self.manager.definitions("suite");
        if let Some(schema) = defs.iter().find(|def| {
            scenario.contains("json-schema-2020-12-preservation") && def.name != "json_schema_echo"
        }) {
            let input = json!({"schema": schema.input_schema});
            return vec![(String::from("mcp__suite__json_schema_echo"), input)];
        }
        let tools = self.manager.tools();
        let every = tools.iter().map(|tool| (tool.name().to_owned(), example(&tool.spec().input_schema)));
        // Some scenarios only fail in the second call.
        let again = if scenario.starts_with("auth/") { 2 } else { 1 };
        std::iter::repeat_n(every.collect::<Vec<_>>(), again).flatten().collect()
    }

    async fn call(&mut self, name: &str, input: Value) -> Result<(), Box<dyn Error>> {
        loop {
            let pool = Pool::assemble(Vec::new(), self.manager.tools());
            let tool_use = ToolUse { id: "call-1".into(), name: name.to_owned(), input: input.clone() };
            let cx = CallContext::detached("call-1", Path::new("/"));
            let report = self.pipeline.run(ParsedCall::parse(&pool, tool_use, &cx), cx).await;
            let needs_auth = self.manager.status()[0].state == ServerState::NeedsAuth;
            match report.error {
                Some(_) if needs_auth => self.login().await?,
                Some(ErrorKind::InvalidInput | ErrorKind::UnknownTool) => {
                    return Err(report.content.to_text().into());
                }
                _ => return Ok(()),
            }
        }
    }
}
