use std::{collections::BTreeMap, pin::Pin, sync::Arc};

use crate::{
    Catalog, FeatureBetas, ImageShrinker, KeySource, LocalServer, LoginRenewal, ModelError, ModelInfo,
    ModelStream, Request, RetryPolicy, StreamTimeouts,
    endpoint::{Auth, RequestTarget, ResponsesRoute, fixed_headers},
    event_stream::generate,
    http_client::LazyClient,
    http_engine::{Engine, WireForm},
    lint::Linter,
    served::ServedModels,
    wire::{MessageCache, messages::MessagesHost, openai::ChatOptions},
};

/// A boxed future that can move between threads.
pub type ProviderFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A service that answers requests. The only port of this crate: agents know
/// nothing else.
///
/// Nothing happens before the stream is polled, and everything ends when it is
/// dropped. Retries, repairs and what they mean for the consumer are events of
/// the stream.
pub trait Provider: Send + Sync {
    /// Its name, for people.
    fn name(&self) -> &str;

    /// What is known about a model here.
    fn info(&self, model: &str) -> ModelInfo;

    /// Sends a request. The stream ends after the answer or with one error; dropping the stream
    /// gives the request up.
    fn stream(&self, request: Request) -> ModelStream;

    /// How many tokens a request has, counted by the provider; an estimate
    /// where it does not count ([`Request::estimate_tokens`]).
    fn count_tokens(&self, request: Request) -> ProviderFuture<'_, Result<u64, ModelError>>;

    /// How many tokens a request has, about, without asking anybody: better the
    /// more answers there were before.
    fn estimate_tokens(&self, request: &Request) -> u64 {
        request.estimate_tokens()
    }

    /// Does early what the first request would have to wait for.
    fn warm_up(&self) {}

    /// Finds out what [`info`](Self::info) has to know about a model, before its first
    /// request: only servers of local models are asked, once, for at most two seconds.
    fn prepare<'a>(&'a self, _model: &'a str) -> ProviderFuture<'a, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// What every provider over HTTP has in common.
pub struct ProviderOptions {
    /// Headers of every request, as the settings say.
    pub headers: Vec<(String, String)>,
    /// When to send again.
    pub retry: RetryPolicy,
    /// How long to wait.
    pub patience: StreamTimeouts,
    /// What is known about models.
    pub catalog: Arc<Catalog>,
    /// Makes pictures smaller; without it they become words.
    pub media: Option<Arc<dyn ImageShrinker>>,
    /// Names of beta features.
    pub betas: FeatureBetas,
    /// Renews credentials that are refused.
    pub renewal: Option<LoginRenewal>,
    /// What models are called at this provider, by their usual names.
    pub names: BTreeMap<String, String>,
    /// What a proxy on the way wants to be told, if it wants anything.
    pub proxy_login: Option<KeySource>,
    /// The kind of server, where it serves local models: it is asked for their windows.
    pub local: Option<LocalServer>,
}

impl Default for ProviderOptions {
    fn default() -> Self {
        Self {
            headers: Vec::new(),
            retry: RetryPolicy::default(),
            patience: StreamTimeouts::default(),
            catalog: Catalog::built_in(),
            media: None,
            betas: FeatureBetas::default(),
            renewal: None,
            names: BTreeMap::new(),
            proxy_login: None,
            local: None,
        }
    }
}

/// A provider over HTTP, in one of the forms.
pub struct HttpProvider {
    name: &'static str,
    engine: Arc<Engine>,
}

impl HttpProvider {
    fn new(
        name: &'static str,
        form: WireForm,
        target: RequestTarget,
        auth: Auth,
        common: ProviderOptions,
    ) -> Result<Self, ModelError> {
        let responses = match (&form, &target) {
            (WireForm::Chat(options), RequestTarget::Chat { base }) if options.switch_to_responses => {
                let target = RequestTarget::Responses { base: base.clone() };
                Some(ResponsesRoute { target, cache: MessageCache::default() })
            }
            _ => None,
        };
        let engine = Engine {
            headers: fixed_headers(&common.headers)?,
            client: LazyClient::new(target.base(), common.patience).with_proxy_login(common.proxy_login),
            form,
            target,
            auth,
            retry: common.retry,
            patience: common.patience,
            linter: common.media.map_or_else(Linter::new, Linter::with_media),
            catalog: common.catalog,
            betas: common.betas,
            renewal: common.renewal,
            names: common.names,
            cache: Default::default(),
            meter: Default::default(),
            calibration: Default::default(),
            told: Default::default(),
            responses,
            listed: Default::default(),
            served: ServedModels::of(common.local),
        };
        Ok(Self { name, engine: Arc::new(engine) })
    }

    /// Anthropic, or anything that speaks its form at `base_url`.
    pub fn anthropic(
        base_url: &str,
        login: AnthropicLogin,
        common: ProviderOptions,
    ) -> Result<Self, ModelError> {
        let auth = match login {
            AnthropicLogin::ApiKey(key) => Auth::Header { name: "x-api-key", key },
            AnthropicLogin::Bearer(token) => Auth::Bearer(token),
            AnthropicLogin::None => Auth::None,
        };
        let target = RequestTarget::Messages { base: base_url.to_owned() };
        Self::new("anthropic", WireForm::Messages(MessagesHost::Direct), target, auth, common)
    }

    /// Claude in Microsoft Foundry; `base_url` ends in `/anthropic`.
    pub fn foundry(base_url: &str, login: FoundryLogin, common: ProviderOptions) -> Result<Self, ModelError> {
        let auth = match login {
            FoundryLogin::ApiKey(key) => Auth::Header { name: "api-key", key },
            FoundryLogin::Bearer(token) => Auth::Bearer(token),
        };
        let target = RequestTarget::Messages { base: base_url.to_owned() };
        Self::new("foundry", WireForm::Messages(MessagesHost::Direct), target, auth, common)
    }

    /// Claude on Google Vertex.
    pub fn vertex(
        place: VertexLocation,
        login: VertexLogin,
        mut common: ProviderOptions,
    ) -> Result<Self, ModelError> {
        let base = place.base_url.unwrap_or_else(|| vertex_base(&place.region));
        let auth = match login {
            VertexLogin::Token(token) => Auth::Bearer(token),
            VertexLogin::None => Auth::None,
            #[cfg(feature = "vertex")]
            VertexLogin::Default => Auth::Google(Default::default()),
        };
        common.betas = common.betas.for_cloud();
        let target = RequestTarget::Vertex { base, project: place.project, region: place.region };
        Self::new("vertex", WireForm::Messages(MessagesHost::Vertex), target, auth, common)
    }

    /// Claude on AWS Bedrock. Without a `base_url`, the region's own address.
    #[cfg(feature = "bedrock")]
    pub fn bedrock(
        region: &str,
        base_url: Option<&str>,
        login: crate::AwsLogin,
        mut common: ProviderOptions,
    ) -> Result<Self, ModelError> {
        use crate::{
            AwsLogin,
            cloud::aws::{AwsKeys, AwsSigner},
        };
        let base =
            base_url.map_or_else(|| format!("https://bedrock-runtime.{region}.amazonaws.com"), str::to_owned);
        let auth = match login {
            AwsLogin::Default { profile } => Auth::Aws(AwsSigner::new(region, AwsKeys::Chain { profile })),
            AwsLogin::Keys { access_key, secret_key, session_token } => {
                let keys = AwsKeys::Static { access_key, secret_key, session_token };
                Auth::Aws(AwsSigner::new(region, keys))
            }
            AwsLogin::Export(helper) => Auth::Aws(AwsSigner::new(region, AwsKeys::Export(helper))),
            AwsLogin::Bearer(token) => Auth::Bearer(token),
            AwsLogin::None => Auth::None,
        };
        common.betas = common.betas.for_cloud();
        Self::new(
            "bedrock",
            WireForm::Messages(MessagesHost::Bedrock),
            RequestTarget::Bedrock { base },
            auth,
            common,
        )
    }

    /// Any server that speaks OpenAI's Chat Completions at `base_url` (which
    /// ends in `/v1` as a rule): OpenAI, gateways, servers of local models.
    pub fn openai_chat(
        base_url: &str,
        key: Option<KeySource>,
        options: ChatOptions,
        common: ProviderOptions,
    ) -> Result<Self, ModelError> {
        let target = RequestTarget::Chat { base: base_url.to_owned() };
        Self::new("openai", WireForm::Chat(options), target, bearer(key), common)
    }

    /// Any server that speaks OpenAI's Responses at `base_url`.
    pub fn openai_responses(
        base_url: &str,
        key: Option<KeySource>,
        common: ProviderOptions,
    ) -> Result<Self, ModelError> {
        let target = RequestTarget::Responses { base: base_url.to_owned() };
        Self::new("openai", WireForm::Responses, target, bearer(key), common)
    }

    /// Google's Gemini API, or anything that speaks its form at `base_url`.
    pub fn gemini(
        base_url: &str,
        key: Option<KeySource>,
        common: ProviderOptions,
    ) -> Result<Self, ModelError> {
        let auth = key.map_or(Auth::None, |key| Auth::Header { name: "x-goog-api-key", key });
        let target = RequestTarget::Gemini { base: base_url.to_owned() };
        Self::new("gemini", WireForm::Gemini, target, auth, common)
    }
}

fn bearer(key: Option<KeySource>) -> Auth {
    key.map_or(Auth::None, Auth::Bearer)
}

/// How Anthropic knows who asks.
#[derive(Debug)]
pub enum AnthropicLogin {
    /// `x-api-key`.
    ApiKey(KeySource),
    /// `authorization: Bearer`, for gateways.
    Bearer(KeySource),
    /// Not at all, for gateways that add it.
    None,
}

/// How Foundry knows who asks.
#[derive(Debug)]
pub enum FoundryLogin {
    /// `api-key`.
    ApiKey(KeySource),
    /// A token of Entra ID.
    Bearer(KeySource),
}

/// Where on Vertex.
#[derive(Clone, Debug)]
pub struct VertexLocation {
    /// The Google Cloud project that pays.
    pub project: String,
    /// The region, or `global`.
    pub region: String,
    /// Another address than the region's, for gateways.
    pub base_url: Option<String>,
}

/// How Vertex knows who asks.
#[derive(Debug)]
pub enum VertexLogin {
    /// An access token; a helper command can print one.
    Token(KeySource),
    /// What Google's own tools would use.
    #[cfg(feature = "vertex")]
    Default,
    /// Nobody, for gateways that add it.
    None,
}

fn vertex_base(region: &str) -> String {
    match region {
        "global" => "https://aiplatform.googleapis.com".to_owned(),
        "us" | "eu" => format!("https://aiplatform.{region}.rep.googleapis.com"),
        region => format!("https://{region}-aiplatform.googleapis.com"),
    }
}

impl Provider for HttpProvider {
    fn name(&self) -> &str {
        self.name
    }

    fn info(&self, model: &str) -> ModelInfo {
        self.engine.info(model)
    }

    fn stream(&self, request: Request) -> ModelStream {
        let engine = Arc::clone(&self.engine);
        generate(move |emitter| engine.answer(request, emitter))
    }

    fn count_tokens(&self, request: Request) -> ProviderFuture<'_, Result<u64, ModelError>> {
        Box::pin(Arc::clone(&self.engine).count(request))
    }

    fn estimate_tokens(&self, request: &Request) -> u64 {
        self.engine.calibration.estimate(request)
    }

    fn prepare<'a>(&'a self, model: &'a str) -> ProviderFuture<'a, ()> {
        Box::pin(self.engine.prepare(model))
    }

    fn warm_up(&self) {
        // An error shows with the first request.
        let _ = self.engine.client.get();
    }
}
