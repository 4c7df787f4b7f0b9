use std::{pin::Pin, sync::Arc};

use crate::{
    Catalog, EventStream, FeatureBetas, KeySource, MediaPort, ModelError, ModelInfo, Patience, Request,
    RetryPolicy,
    endpoint::{Auth, Target, fixed_headers},
    engine::{Engine, Form},
    http::LazyClient,
    lint::Linter,
    stream::generate,
    wire::{messages::Host, openai::ChatOptions},
};

/// A boxed future that can move between threads.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Somebody who answers requests. The only port of this crate: agents know
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

    /// Asks.
    fn stream(&self, request: Request) -> EventStream;

    /// How many tokens a request has, counted by the provider.
    fn count_tokens(&self, request: Request) -> BoxFuture<'_, Result<u64, ModelError>>;

    /// How many tokens a request has, about, without asking anybody.
    fn estimate_tokens(&self, request: &Request) -> u64;

    /// Does early what the first request would have to wait for.
    fn warm_up(&self) {}
}

/// What every provider over HTTP has in common.
pub struct Common {
    /// Headers of every request, as the settings say.
    pub headers: Vec<(String, String)>,
    /// When to send again.
    pub retry: RetryPolicy,
    /// How long to wait.
    pub patience: Patience,
    /// What is known about models.
    pub catalog: Arc<Catalog>,
    /// Makes pictures smaller; without it they become words.
    pub media: Option<Arc<dyn MediaPort>>,
    /// Names of beta features.
    pub betas: FeatureBetas,
}

impl Default for Common {
    fn default() -> Self {
        Self {
            headers: Vec::new(),
            retry: RetryPolicy::default(),
            patience: Patience::default(),
            catalog: Catalog::built_in(),
            media: None,
            betas: FeatureBetas::default(),
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
        form: Form,
        target: Target,
        auth: Auth,
        common: Common,
    ) -> Result<Self, ModelError> {
        let engine = Engine {
            headers: fixed_headers(&common.headers)?,
            client: LazyClient::new(target.base(), common.patience),
            form,
            target,
            auth,
            retry: common.retry,
            patience: common.patience,
            linter: common.media.map_or_else(Linter::new, Linter::with_media),
            catalog: common.catalog,
            betas: common.betas,
            cache: Default::default(),
            meter: Default::default(),
        };
        Ok(Self { name, engine: Arc::new(engine) })
    }

    /// Anthropic, or anything that speaks its form at `base_url`.
    pub fn anthropic(base_url: &str, login: AnthropicLogin, common: Common) -> Result<Self, ModelError> {
        let auth = match login {
            AnthropicLogin::ApiKey(key) => Auth::Header { name: "x-api-key", key },
            AnthropicLogin::Bearer(token) => Auth::Bearer(token),
            AnthropicLogin::None => Auth::None,
        };
        let target = Target::Messages { base: base_url.to_owned() };
        Self::new("anthropic", Form::Messages(Host::Direct), target, auth, common)
    }

    /// Any server that speaks OpenAI's Chat Completions at `base_url` (which
    /// ends in `/v1` as a rule): OpenAI, gateways, servers of local models.
    pub fn openai_chat(
        base_url: &str,
        key: Option<KeySource>,
        options: ChatOptions,
        common: Common,
    ) -> Result<Self, ModelError> {
        let target = Target::Chat { base: base_url.to_owned() };
        Self::new("openai", Form::Chat(options), target, bearer(key), common)
    }

    /// Any server that speaks OpenAI's Responses at `base_url`.
    pub fn openai_responses(
        base_url: &str,
        key: Option<KeySource>,
        common: Common,
    ) -> Result<Self, ModelError> {
        let target = Target::Responses { base: base_url.to_owned() };
        Self::new("openai", Form::Responses, target, bearer(key), common)
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

impl Provider for HttpProvider {
    fn name(&self) -> &str {
        self.name
    }

    fn info(&self, model: &str) -> ModelInfo {
        self.engine.info(model)
    }

    fn stream(&self, request: Request) -> EventStream {
        let engine = Arc::clone(&self.engine);
        generate(move |emitter| engine.answer(request, emitter))
    }

    fn count_tokens(&self, request: Request) -> BoxFuture<'_, Result<u64, ModelError>> {
        Box::pin(Arc::clone(&self.engine).count(request))
    }

    fn estimate_tokens(&self, request: &Request) -> u64 {
        self.engine.estimate(request)
    }

    fn warm_up(&self) {
        // An error shows when somebody asks.
        let _ = self.engine.client.get();
    }
}
