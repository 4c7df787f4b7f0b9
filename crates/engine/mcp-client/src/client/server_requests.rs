use std::sync::{Arc, Mutex, PoisonError};

use haft_tool::BoxFuture;
use haft_types::text;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::jsonrpc::{Incoming, RpcError};

/// Handlers of requests that servers may send. All are optional: a missing one is not advertised, and
/// requests for it are declined at once.
#[derive(Clone, Default)]
pub struct ClientPorts {
    /// Asks the user.
    pub elicit: Option<Arc<dyn ElicitationHandler>>,
    /// Sends requests to the model.
    pub sample: Option<Arc<dyn SamplingHandler>>,
    /// Returns the W3C `traceparent` of a call, which is sent to the server.
    pub trace: Option<Arc<CallTracing>>,
    roots: Arc<Mutex<Vec<ServerRoot>>>,
}

/// Returns the `traceparent` of a call, by agent and call id.
pub type CallTracing = dyn Fn(&haft_types::AgentId, &haft_types::CallId) -> Option<String> + Send + Sync;

/// A directory that a server may access.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct ServerRoot {
    /// A `file:` URI.
    pub uri: String,
    /// Display name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

impl ClientPorts {
    /// Returns the directories reported to servers.
    pub fn roots(&self) -> Vec<ServerRoot> {
        self.roots.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the directories for all servers; [`crate::McpManager::set_roots`] also notifies running
    /// ones.
    pub fn set_roots(&self, roots: Vec<ServerRoot>) {
        *self.roots.lock().unwrap_or_else(PoisonError::into_inner) = roots;
    }

    /// Returns the client capabilities declared to a server.
    pub(crate) fn capabilities(&self, server: &str) -> Value {
        let mut capabilities = json!({"roots": {"listChanged": true}});
        if self.elicit.as_ref().is_some_and(|it| it.offers()) {
            capabilities["elicitation"] = json!({"form": {}, "url": {}});
        }
        if self.sample.as_ref().is_some_and(|it| it.offers(server)) {
            capabilities["sampling"] = json!({});
            if self.sample.as_ref().is_some_and(|it| it.offers_tools(server)) {
                capabilities["sampling"]["tools"] = json!({});
            }
        }
        capabilities
    }
}

/// Maximum bytes of a non-protocol notification; larger ones are dropped.
const MAX_WORD_BYTES: usize = 256 << 10;

/// Asks the user questions of a server.
pub trait ElicitationHandler: Send + Sync {
    /// Whether questions can be answered now. If not, the capability is not advertised and requests are
    /// declined.
    fn offers(&self) -> bool {
        true
    }

    /// Shows a question and waits for the answer. Dropping the future dismisses it.
    fn elicit(&self, request: Elicitation) -> BoxFuture<'static, ElicitAnswer>;
}

/// Sends requests of a server to the model.
pub trait SamplingHandler: Send + Sync {
    /// Whether this server may send requests. If not, the capability is not advertised and requests are
    /// rejected.
    fn offers(&self, _server: &str) -> bool {
        true
    }

    /// Whether this server may pass tools to the model. If not, requests with tools are rejected before
    /// they get here.
    fn offers_tools(&self, _server: &str) -> bool {
        false
    }

    /// Handles `sampling/createMessage`: takes its parameters and returns its result.
    fn sample(&self, server: &str, params: Value) -> BoxFuture<'static, Result<Value, SamplingError>>;
}

/// Why a request to the model failed, worded for the server.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum SamplingError {
    /// The user rejected it, or no approver was available.
    Rejected(String),
    /// The request is invalid.
    Invalid(String),
    /// The model request failed.
    Failed(String),
}

impl From<SamplingError> for RpcError {
    fn from(why: SamplingError) -> Self {
        match why {
            SamplingError::Rejected(reason) => Self::new(Self::USER_REJECTED, reason),
            SamplingError::Invalid(reason) => Self::new(Self::INVALID_PARAMS, reason),
            SamplingError::Failed(reason) => Self::new(Self::INTERNAL, reason),
        }
    }
}

/// A question of a server to the user.
#[derive(Clone, Debug, PartialEq)]
pub struct Elicitation {
    pub server: String,
    pub message: String,
    /// JSON Schema of a form: a flat object of primitive fields. `None` if the user is to open a URL
    /// instead.
    pub schema: Option<Value>,
    /// URL to open in a browser.
    pub url: Option<String>,
    /// Id that a later completion notification for the URL refers to.
    pub id: Option<String>,
}

impl Elicitation {
    fn from_params(server: &str, params: &Value) -> Self {
        let field = |name: &str| params[name].as_str().map(str::to_owned);
        let url = field("url").filter(|it| it.starts_with("https://") || it.starts_with("http://"));
        // If the server does not say which mode it is, decide by its fields.
        let is_form = match params["mode"].as_str() {
            Some(mode) => mode != "url",
            None => url.is_none(),
        };
        Self {
            server: server.to_owned(),
            message: text::head(params["message"].as_str().unwrap_or_default(), 4000).to_owned(),
            schema: params.get("requestedSchema").filter(|it| is_form && it.is_object()).cloned(),
            url: url.filter(|_| !is_form),
            id: field("elicitationId"),
        }
    }

    /// Returns the default values of the form, for a user who accepts without changes.
    pub fn defaults(&self) -> Map<String, Value> {
        let properties = self.schema.as_ref().and_then(|it| it["properties"].as_object());
        let with_default = properties
            .into_iter()
            .flatten()
            .filter_map(|(name, field)| Some((name.clone(), field.get("default")?.clone())));
        with_default.collect()
    }
}

/// The user's answer.
#[derive(Clone, Debug, PartialEq)]
pub enum ElicitAnswer {
    /// Accepted, with these field values.
    Accept(Map<String, Value>),
    /// Declined.
    Decline,
    /// Dismissed without an answer.
    Cancel,
}

impl ElicitAnswer {
    fn into_value(self, is_form: bool) -> Value {
        match self {
            Self::Accept(content) if is_form => json!({"action": "accept", "content": content}),
            Self::Accept(_) => json!({"action": "accept"}),
            Self::Decline => json!({"action": "decline"}),
            Self::Cancel => json!({"action": "cancel"}),
        }
    }
}

/// A message of a server that its supervisor handles or shows.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Signal {
    /// The list of this kind changed: `tools`, `resources` or `prompts`.
    ListChanged(&'static str),
    /// A resource changed (URI).
    ResourceUpdated(String),
    /// A notification outside of the protocol: method and parameters.
    Own(String, Value),
    /// A log message: level and text.
    Log(String, String),
    /// Output that is not a message.
    Noise(String),
    /// A line of the error output.
    Output(String),
}

/// The client's side of one connection: answers the server's requests and forwards its notifications.
pub(crate) struct ClientSide {
    pub(crate) server: String,
    pub(crate) host: ClientPorts,
    pub(crate) signal: Box<dyn Fn(Signal) + Send + Sync>,
}

impl Incoming for ClientSide {
    fn request(&self, method: String, params: Value) -> BoxFuture<'static, Result<Value, RpcError>> {
        match method.as_str() {
            "roots/list" => {
                let roots = self.host.roots();
                Box::pin(async move { Ok(json!({"roots": roots})) })
            }
            "elicitation/create" => self.elicit(&params),
            "sampling/createMessage" => self.sample(params),
            _ => Box::pin(async move {
                Err(RpcError::new(RpcError::METHOD_NOT_FOUND, format!("this client does not know {method}")))
            }),
        }
    }

    fn notification(&self, method: &str, params: Value) {
        let signal = match method {
            "notifications/tools/list_changed" => Signal::ListChanged("tools"),
            "notifications/resources/list_changed" => Signal::ListChanged("resources"),
            "notifications/prompts/list_changed" => Signal::ListChanged("prompts"),
            "notifications/resources/updated" => match params["uri"].as_str() {
                Some(uri) => Signal::ResourceUpdated(uri.to_owned()),
                None => return,
            },
            "notifications/message" => {
                let data = &params["data"];
                let said = data.as_str().map_or_else(|| data.to_string(), str::to_owned);
                let level = params["level"].as_str().unwrap_or("info").to_owned();
                Signal::Log(level, text::head(&said, 2000).to_owned())
            }
            // Not part of the protocol; the embedder may know it.
            other if !other.starts_with("notifications/") && params.to_string().len() <= MAX_WORD_BYTES => {
                Signal::Own(text::head(other, 100).to_owned(), params)
            }
            _ => return,
        };
        (self.signal)(signal);
    }

    fn noise(&self, line: &str) {
        (self.signal)(Signal::Noise(text::head(line, 200).to_owned()));
    }

    fn logged(&self, line: &str) {
        (self.signal)(Signal::Output(line.to_owned()));
    }
}

impl ClientSide {
    fn elicit(&self, params: &Value) -> BoxFuture<'static, Result<Value, RpcError>> {
        let request = Elicitation::from_params(&self.server, params);
        let answerable = request.schema.is_some() || request.url.is_some();
        match &self.host.elicit {
            Some(port) if answerable && port.offers() => {
                let is_form = request.url.is_none();
                let answer = port.elicit(request);
                Box::pin(async move { Ok(answer.await.into_value(is_form)) })
            }
            // No handler, or not a valid question: decline at once.
            _ => Box::pin(async {
                Ok(ElicitAnswer::Decline.into_value(/*is_form*/ true))
            }),
        }
    }

    fn sample(&self, params: Value) -> BoxFuture<'static, Result<Value, RpcError>> {
        let Some(port) = self.host.sample.as_ref().filter(|it| it.offers(&self.server)) else {
            return Box::pin(async {
                Err(RpcError::new(RpcError::METHOD_NOT_FOUND, "sampling is not offered"))
            });
        };
        let has_tools = |name: &str| params.get(name).is_some_and(|it| !it.is_null());
        if (has_tools("tools") || has_tools("toolChoice")) && !port.offers_tools(&self.server) {
            let refusal = "tools are not offered with sampling here (no `sampling.tools` capability)";
            return Box::pin(async move { Err(RpcError::new(RpcError::INVALID_PARAMS, refusal)) });
        }
        let answer = port.sample(&self.server, params);
        Box::pin(async move { answer.await.map_err(RpcError::from) })
    }
}
