use std::sync::{Arc, Mutex, PoisonError};

use haft_tool::BoxFuture;
use haft_types::text;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::jsonrpc::{Incoming, RpcError};

/// What servers may ask of the host. Every port is optional; what is missing is
/// not offered, and a server that asks all the same is declined at once.
#[derive(Clone, Default)]
pub struct ClientPorts {
    /// Asks the person.
    pub elicit: Option<Arc<dyn ElicitationHandler>>,
    /// Asks the model. Off unless the user wants it.
    pub sample: Option<Arc<dyn SamplingHandler>>,
    /// Says to which trace a call belongs (W3C `traceparent`), where it belongs to
    /// one: the server is told.
    pub trace: Option<Arc<CallTracing>>,
    roots: Arc<Mutex<Vec<ServerRoot>>>,
}

/// The trace of a call, by the agent that calls and the call.
pub type CallTracing = dyn Fn(&haft_types::AgentId, &haft_types::CallId) -> Option<String> + Send + Sync;

/// A directory a server may look at.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct ServerRoot {
    /// A `file:` address.
    pub uri: String,
    /// What to call it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

impl ClientPorts {
    /// The directories servers are told about.
    pub fn roots(&self) -> Vec<ServerRoot> {
        self.roots.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Changes them for all servers; [`crate::McpManager::set_roots`] tells those that
    /// run as well.
    pub fn set_roots(&self, roots: Vec<ServerRoot>) {
        *self.roots.lock().unwrap_or_else(PoisonError::into_inner) = roots;
    }

    /// What we declare to a server.
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

/// A longer word of a server's own is not heard, in bytes.
const MAX_WORD_BYTES: usize = 256 << 10;

/// Asks the person on behalf of a server.
pub trait ElicitationHandler: Send + Sync {
    /// Whether somebody answers at present. Where nobody does, servers are not
    /// told that they may ask, and one that asks all the same is declined.
    fn offers(&self) -> bool {
        true
    }

    /// Shows the question and waits. Dropping the future takes it back.
    fn elicit(&self, request: Elicitation) -> BoxFuture<'static, ElicitAnswer>;
}

/// Asks the model on behalf of a server.
pub trait SamplingHandler: Send + Sync {
    /// Whether this server may ask at all. Others are told that nobody samples
    /// here, and a server that asks all the same is refused.
    fn offers(&self, _server: &str) -> bool {
        true
    }

    /// Whether this server may hand tools of its own to the model. A question
    /// with tools of one that may not is refused before it gets here.
    fn offers_tools(&self, _server: &str) -> bool {
        false
    }

    /// Takes the parameters of `sampling/createMessage` and gives its result,
    /// or says why not.
    fn sample(&self, server: &str, params: Value) -> BoxFuture<'static, Result<Value, SamplingError>>;
}

/// Why a server's question to the model has no answer, in words for the server.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum SamplingError {
    /// A person said no, or nobody was there to say yes.
    Rejected(String),
    /// The question cannot be asked as it is.
    Invalid(String),
    /// The model could not be asked, or did not answer.
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

/// What a server wants to know from the person.
#[derive(Clone, Debug, PartialEq)]
pub struct Elicitation {
    /// Which server asks.
    pub server: String,
    /// Its question.
    pub message: String,
    /// A form to fill in: a flat object of primitive fields. Absent when the
    /// person is to open an address instead.
    pub schema: Option<Value>,
    /// An address to open in a browser.
    pub url: Option<String>,
    /// Ties the answer to a later completion notice of an address.
    pub id: Option<String>,
}

impl Elicitation {
    fn from_params(server: &str, params: &Value) -> Self {
        let field = |name: &str| params[name].as_str().map(str::to_owned);
        let url = field("url").filter(|it| it.starts_with("https://") || it.starts_with("http://"));
        // One or the other: what the server does not say, its question shows.
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

    /// The defaults the form offers, for a person who just says yes.
    pub fn defaults(&self) -> Map<String, Value> {
        let properties = self.schema.as_ref().and_then(|it| it["properties"].as_object());
        let with_default = properties
            .into_iter()
            .flatten()
            .filter_map(|(name, field)| Some((name.clone(), field.get("default")?.clone())));
        with_default.collect()
    }
}

/// What the person said.
#[derive(Clone, Debug, PartialEq)]
pub enum ElicitAnswer {
    /// Yes, with these fields.
    Accept(Map<String, Value>),
    /// No.
    Decline,
    /// Neither: the question was dismissed.
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

/// Something a server said that its supervisor has to act on or show.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Signal {
    /// The list of this method changed: `tools`, `resources` or `prompts`.
    ListChanged(&'static str),
    /// A resource changed.
    ResourceUpdated(String),
    /// Something the protocol does not know: what, and the rest of it.
    Own(String, Value),
    /// A log record: level and text.
    Log(String, String),
    /// Output that is no message.
    Noise(String),
    /// A line of the error output.
    Output(String),
}

/// Our side of one connection: answers the server's requests and passes on
/// what it tells us.
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
            // Not of the protocol: a word of the server's own, which somebody may know.
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
            // Nobody is there, or nothing a person could answer: no, at once.
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
