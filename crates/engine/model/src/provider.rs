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

/// A boxed `Send` future.
pub type ProviderFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A service that answers requests. The only interface of this crate that agents use.
///
/// A request is sent when its stream is first polled and cancelled when the stream is dropped. Retries
/// and repairs are reported as events of the stream.
pub trait Provider: Send + Sync {
    /// Returns the display name.
    fn name(&self) -> &str;

    /// Returns the properties of a model at this provider.
    fn info(&self, model: &str) -> ModelInfo;

    /// Sends a request. The stream ends after the answer or with one error; dropping it cancels the
    /// request.
    fn stream(&self, request: Request) -> ModelStream;

    /// Counts the tokens of a request at the provider; returns an estimate
    /// ([`Request::estimate_tokens`]) if the provider cannot count.
    fn count_tokens(&self, request: Request) -> ProviderFuture<'_, Result<u64, ModelError>>;

    /// Estimates the tokens of a request without network access. Calibrated by the usage of earlier
    /// answers.
    fn estimate_tokens(&self, request: &Request) -> u64 {
        request.estimate_tokens()
    }

    /// Prepares what the first request would otherwise wait for, such as the HTTP client.
    fn warm_up(&self) {}

    /// Loads what [`info`](Self::info) needs to know about a model. Call it before the model's first
    /// request. Only local model servers are asked, once per model, with a timeout of two seconds.
    fn prepare<'a>(&'a self, _model: &'a str) -> ProviderFuture<'a, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// Options common to all HTTP providers.
pub struct ProviderOptions {
    /// Extra headers for every request.
    pub headers: Vec<(String, String)>,
    /// When requests are retried.
    pub retry: RetryPolicy,
    /// Timeouts.
    pub patience: StreamTimeouts,
    /// Properties of models.
    pub catalog: Arc<Catalog>,
    /// Scales images down. Without it, images that are too large are replaced by text.
    pub media: Option<Arc<dyn ImageShrinker>>,
    /// Values of the `anthropic-beta` header for each feature.
    pub betas: FeatureBetas,
    /// Command that renews rejected credentials.
    pub renewal: Option<LoginRenewal>,
    /// The provider's own model names, by Haft's names.
    pub names: BTreeMap<String, String>,
    /// Source of the `Proxy-Authorization` value, for a proxy that needs one.
    pub proxy_login: Option<KeySource>,
    /// Kind of local model server; it is asked for the context window of its models.
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

/// A provider over HTTP, for one of the supported APIs.
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

    /// Anthropic, or any server with the Messages API at `base_url`.
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

    /// Claude on Microsoft Foundry; `base_url` ends in `/anthropic`.
    pub fn foundry(base_url: &str, login: FoundryLogin, common: ProviderOptions) -> Result<Self, ModelError> {
        let auth = match login {
            FoundryLogin::ApiKey(key) => Auth::Header { name: "api-key", key },
            FoundryLogin::Bearer(token) => Auth::Bearer(token),
        };
        let target = RequestTarget::Messages { base: base_url.to_owned() };
        Self::new("foundry", WireForm::Messages(MessagesHost::Direct), target, auth, common)
    }

    /// Claude on Google Vertex AI.
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

    /// Claude on AWS Bedrock. `base_url` defaults to the region's endpoint.
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

    /// Any server with OpenAI's Chat Completions API at `base_url` (usually ends in `/v1`): OpenAI,
    /// gateways, local model servers.
    pub fn openai_chat(
        base_url: &str,
        key: Option<KeySource>,
        options: ChatOptions,
        common: ProviderOptions,
    ) -> Result<Self, ModelError> {
        let target = RequestTarget::Chat { base: base_url.to_owned() };
        Self::new("openai", WireForm::Chat(options), target, bearer(key), common)
    }

    /// Any server with OpenAI's Responses API at `base_url`.
    pub fn openai_responses(
        base_url: &str,
        key: Option<KeySource>,
        common: ProviderOptions,
    ) -> Result<Self, ModelError> {
        let target = RequestTarget::Responses { base: base_url.to_owned() };
        Self::new("openai", WireForm::Responses, target, bearer(key), common)
    }

    /// Google's Gemini API, or any server with this API at `base_url`.
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

/// Authentication at Anthropic or a gateway.
#[derive(Debug)]
pub enum AnthropicLogin {
    /// `x-api-key`.
    ApiKey(KeySource),
    /// `authorization: Bearer`, for gateways.
    Bearer(KeySource),
    /// None, for gateways that add credentials themselves.
    None,
}

/// Authentication at Foundry.
#[derive(Debug)]
pub enum FoundryLogin {
    /// `api-key`.
    ApiKey(KeySource),
    /// A Microsoft Entra ID token.
    Bearer(KeySource),
}

/// Project and region on Vertex AI.
#[derive(Clone, Debug)]
pub struct VertexLocation {
    /// The Google Cloud project that is billed.
    pub project: String,
    /// The region, or `global`.
    pub region: String,
    /// URL that replaces the region's endpoint, for gateways.
    pub base_url: Option<String>,
}

/// Authentication at Vertex AI.
#[derive(Debug)]
pub enum VertexLogin {
    /// An access token; a helper command can print one.
    Token(KeySource),
    /// Google's application default credentials.
    #[cfg(feature = "vertex")]
    Default,
    /// None, for gateways that add credentials themselves.
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
        // An error is reported by the first request.
        let _ = self.engine.client.get();
    }
}
