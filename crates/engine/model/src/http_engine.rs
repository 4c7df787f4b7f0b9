//! Sends one request over HTTP: lint, encode, send, decode, and retry where that is safe.
//!
//! **Invariant:** once a tool call was emitted, the request is not sent again. A stream that breaks
//! later ends as [`StopReason::Interrupted`](crate::StopReason), and the results of those calls go into
//! the next request.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use bytes::Bytes;
use futures_util::StreamExt as _;
use haft_types::Usage;
use reqwest::{Response, header::HeaderMap};
use serde_json::Value;

use crate::{
    Catalog, LoginRenewal, ModelError, ModelEvent, ModelInfo, Repair, RepairKind, Request, Retry,
    RetryPolicy, StreamTimeouts, ToolCalls,
    body_end::finish_body,
    catalog::CatalogCache,
    endpoint::{Auth, RequestTarget, ResponsesRoute},
    event_stream::Emitter,
    http_client::{LazyClient, body_head, drain},
    http_error,
    lint::{
        LintRules, Linted, Linter, RefusalFix, ThinkingRule, diagnose, moved_to_responses, wants_responses,
    },
    reported_limits::ReportedLimits,
    retry::RetryAfter,
    sent_prefix::sent_prefix,
    served::ServedModels,
    wire::{
        Decoder, EncodedBody, EstimateCalibration, MessageCache, TokenEstimator, chat,
        chat_events::{ChatDecoder, TextCallPolicy},
        event_framing::Framing,
        gemini,
        gemini_events::GeminiDecoder,
        messages::{self, BodyPurpose, FeatureBetas, MessagesHost},
        messages_events::MessagesDecoder,
        openai::ChatOptions,
        responses,
        responses_events::ResponsesDecoder,
    },
};

/// Maximum number of times one request is changed and sent again after the provider rejected it as
/// invalid.
const MAX_CURES: u32 = 3;
/// Smallest plausible context window in tokens; smaller numbers in error messages are ignored.
const MIN_WINDOW: u64 = 512;
/// Maximum bytes of a response body.
const MAX_BODY: usize = 512 * 1024 * 1024;

/// The API a request is encoded for.
#[derive(Clone, Debug)]
pub(crate) enum WireForm {
    Messages(MessagesHost),
    Chat(ChatOptions),
    Responses,
    Gemini,
}

/// State and settings shared by all requests of a provider.
pub(crate) struct Engine {
    pub(crate) form: WireForm,
    pub(crate) target: RequestTarget,
    pub(crate) auth: Auth,
    pub(crate) headers: HeaderMap,
    pub(crate) client: LazyClient,
    pub(crate) retry: RetryPolicy,
    pub(crate) patience: StreamTimeouts,
    pub(crate) linter: Linter,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) betas: FeatureBetas,
    pub(crate) renewal: Option<LoginRenewal>,
    pub(crate) names: BTreeMap<String, String>,
    pub(crate) cache: MessageCache,
    pub(crate) meter: TokenEstimator,
    pub(crate) calibration: EstimateCalibration,
    pub(crate) told: ReportedLimits,
    pub(crate) responses: Option<ResponsesRoute>,
    pub(crate) listed: CatalogCache,
    pub(crate) served: ServedModels,
}

/// Error of an attempt that did not complete the answer, with the provider's retry hints.
struct FailedAttempt {
    error: ModelError,
    hint: RetryAfter,
}

impl From<ModelError> for FailedAttempt {
    fn from(error: ModelError) -> Self {
        Self { error, hint: RetryAfter::default() }
    }
}

/// Outcome of an attempt.
enum Attempt {
    /// The answer is complete, or was interrupted after tool calls were emitted.
    Done(Option<Usage>),
    Failed(FailedAttempt),
}

impl Engine {
    /// Returns the properties of a model at this provider: the catalog entry, corrected by what the
    /// provider reported.
    pub(crate) fn info(&self, model: &str) -> ModelInfo {
        let mut info = self.listed.get(&self.catalog, model);
        if model.ends_with("[1m]") {
            // The name asked for the 1M-token window explicitly.
            info.window = info.window.max(1_000_000);
        }
        self.served.apply(self.wire_name(model), &mut info, self.catalog.is_of_user(model));
        if let Some(window) = self.told.get(model).window {
            info.window = info.window.min(window);
        }
        match *self.form(model) {
            // Only Claude models are served over the Messages API, whatever their name.
            WireForm::Messages(_) if info.id.is_empty() => {
                let claude = self.catalog.get("claude");
                ModelInfo { window: self.told.get(model).window.unwrap_or(claude.window), ..claude }
            }
            WireForm::Messages(_) => info,
            WireForm::Chat(_) if self.told.get(model).no_calls => {
                ModelInfo { tool_calls: ToolCalls::Prompted, tool_references: false, ..info }
            }
            // These APIs have no `tool_reference` blocks, whatever the model supports.
            WireForm::Chat(_) | WireForm::Responses | WireForm::Gemini => {
                ModelInfo { tool_references: false, ..info }
            }
        }
    }

    /// Asks a local model server for the properties of a model, once per model.
    pub(crate) async fn prepare(&self, model: &str) {
        self.served.ask(&self.client, &self.headers, self.target.base(), self.wire_name(model)).await;
    }

    /// The Responses route, once the server has said that it takes tools for this model
    /// only there.
    fn switched(&self, model: &str) -> Option<&ResponsesRoute> {
        self.responses.as_ref().filter(|_| self.told.get(model).only_responses)
    }

    /// The form of requests to a model.
    fn form(&self, model: &str) -> &WireForm {
        self.switched(model).map_or(&self.form, |_| &WireForm::Responses)
    }

    /// The encoded messages of that form.
    fn cache(&self, model: &str) -> &MessageCache {
        self.switched(model).map_or(&self.cache, |route| &route.cache)
    }

    fn rules(&self, model: &str) -> LintRules {
        match *self.form(model) {
            WireForm::Messages(_) => LintRules::messages(),
            WireForm::Chat(ref options) if options.send_reasoning => {
                LintRules { thinking: ThinkingRule::All, ..LintRules::chat() }
            }
            WireForm::Chat(ref options) if options.reasoning_object => {
                LintRules { thinking: ThinkingRule::Signed, ..LintRules::chat() }
            }
            WireForm::Chat(_) => LintRules::chat(),
            WireForm::Responses => LintRules::responses(),
            WireForm::Gemini => LintRules::gemini(),
        }
    }

    /// Returns the provider's name for `model` from the configured overrides; `model` itself if there is
    /// none.
    fn wire_name<'a>(&'a self, model: &'a str) -> &'a str {
        let plain = model.strip_suffix("[1m]").unwrap_or(model);
        self.names.get(model).or_else(|| self.names.get(plain)).map_or(model, String::as_str)
    }

    fn encode(&self, linted: &Linted, info: &ModelInfo, purpose: BodyPurpose) -> EncodedBody {
        let model = &linted.request.model;
        let name = self.wire_name(model);
        if name == model {
            return self.encode_named(model, linted, info, purpose);
        }
        let mut renamed = linted.clone();
        name.clone_into(&mut renamed.request.model);
        self.encode_named(model, &renamed, info, purpose)
    }

    fn encode_named(
        &self,
        model: &str,
        linted: &Linted,
        info: &ModelInfo,
        purpose: BodyPurpose,
    ) -> EncodedBody {
        // The name of the request may be the provider's; what was learnt is kept by the model's.
        let (cache, meter) = (self.cache(model), &self.meter);
        match self.form(model) {
            WireForm::Messages(host) => {
                let betas = &self.betas;
                messages::Encoder { host: *host, info, betas, cache, meter }.encode(linted, purpose)
            }
            WireForm::Chat(options) => chat::Encoder { options, info, cache, meter }.encode(linted),
            WireForm::Responses => responses::Encoder { info, cache, meter }.encode(linted),
            WireForm::Gemini => gemini::Encoder { info, cache, meter }.encode(linted, purpose),
        }
    }

    fn decoder(&self, request: &Request) -> Decoder {
        let (model, tools) = (request.model.as_str(), Arc::clone(&request.tools));
        match *self.form(model) {
            WireForm::Messages(_) => Decoder::Messages(MessagesDecoder::new(model, tools)),
            WireForm::Chat(_) => {
                let info = self.info(model);
                let written = info.dialects || info.tool_calls == ToolCalls::Prompted;
                let dialects = if written { TextCallPolicy::Looked } else { TextCallPolicy::Ignored };
                Decoder::Chat(ChatDecoder::new(model, tools, dialects))
            }
            WireForm::Responses => Decoder::Responses(ResponsesDecoder::new(model, tools)),
            WireForm::Gemini => Decoder::Gemini(GeminiDecoder::new(model, tools)),
        }
    }

    /// Lints a request. Runs on a blocking thread when the request contains media.
    async fn lint(self: &Arc<Self>, request: &Request, info: &ModelInfo) -> (Linted, Vec<Repair>) {
        if !request.has_media() {
            return self.linter.lint(request, info, &self.rules(&request.model));
        }
        let (engine, asked, known) = (Arc::clone(self), request.clone(), info.clone());
        let lint = move || engine.linter.lint(&asked, &known, &engine.rules(&asked.model));
        let aside = tokio::task::spawn_blocking(lint);
        match aside.await {
            Ok(linted) => linted,
            Err(_) => self.linter.lint(request, info, &self.rules(&request.model)),
        }
    }

    /// Sends a request, with retries, and emits the events of the answer.
    pub(crate) async fn answer(
        self: Arc<Self>,
        request: Request,
        emitter: Emitter,
    ) -> Result<(), ModelError> {
        let (mut retries, mut cures, mut asked_again) = (0, 0, false);
        let mut max_tokens = self.told.get(&request.model).answer;
        'lint: loop {
            let info = self.info(&request.model);
            let (mut linted, repairs) = self.lint(&request, &info).await;
            self.linter
                .news(repairs)
                .into_iter()
                .for_each(|repair| emitter.emit(ModelEvent::Repaired(repair)));
            linted.max_tokens = max_tokens;
            let encoded = self.encode(&linted, &info, BodyPurpose::Answer);
            if let Some(slot) = &request.sent {
                slot.fill(sent_prefix(&linted, self.cache(&request.model)));
            }
            loop {
                let failed = match self.attempt(&linted.request, &encoded, &emitter).await {
                    Attempt::Done(usage) => {
                        self.learn(&request, &encoded, usage);
                        return Ok(());
                    }
                    Attempt::Failed(failed) => failed,
                };
                self.learn_from(&failed.error, &request, &encoded);
                if cures < MAX_CURES
                    && let Some(cure) = self.cure(&linted, &encoded, &failed.error, &emitter)
                {
                    cures += 1;
                    if let RefusalFix::MaxTokens(limit) | RefusalFix::Room { answer: limit, .. } = cure {
                        max_tokens = Some(limit);
                        self.told.learn(&request.model, &cure);
                    }
                    if matches!(cure, RefusalFix::PromptTools | RefusalFix::Responses) {
                        self.told.learn(&request.model, &cure);
                    }
                    continue 'lint;
                }
                let is_auth = matches!(failed.error, ModelError::Auth { .. });
                if is_auth && !asked_again && self.may_ask_again().await {
                    asked_again = true;
                    continue;
                }
                retries += 1;
                self.wait(retries, failed, &emitter).await?;
            }
        }
    }

    /// Renews the login and drops cached credentials after a 401. Returns whether a retry may succeed.
    async fn may_ask_again(&self) -> bool {
        let renewed = match &self.renewal {
            Some(renewal) => renewal.renew().await,
            None => false,
        };
        self.auth.forget().await || renewed
    }

    /// Learns the context window and the real token count from a "too long" error.
    fn learn_from(&self, error: &ModelError, request: &Request, encoded: &EncodedBody) {
        let ModelError::TooLong { tokens, window, .. } = error else { return };
        if let Some(window) = window.filter(|window| MIN_WINDOW <= *window) {
            self.told.learn(&request.model, &RefusalFix::Room { answer: 0, window });
        }
        if let Some(tokens) = *tokens {
            self.meter.learn(&request.model, encoded.size, tokens);
            self.calibration.learn(request, tokens);
        }
    }

    /// Finds out how to change a request that was rejected as invalid, stores the change for later
    /// requests and emits it as a repair. `None` if the error names nothing that can be changed.
    fn cure(
        &self,
        linted: &Linted,
        encoded: &EncodedBody,
        error: &ModelError,
        emitter: &Emitter,
    ) -> Option<RefusalFix> {
        let model = &linted.request.model;
        if self.responses.is_some() && self.switched(model).is_none() && wants_responses(error) {
            emitter.emit(ModelEvent::Repaired(moved_to_responses(model)));
            return Some(RefusalFix::Responses);
        }
        let ModelError::Invalid { message } = error else { return None };
        let cure = diagnose(message)?.at_origin(&encoded.origins)?;
        let repair = match cure {
            RefusalFix::MaxTokens(limit) | RefusalFix::Room { answer: limit, .. }
                if linted.max_tokens.is_some_and(|before| before <= limit) =>
            {
                return None;
            }
            RefusalFix::MaxTokens(limit) | RefusalFix::Room { answer: limit, .. } => Repair {
                kind: RepairKind::MaxTokens,
                place: "max_tokens".to_owned(),
                detail: format!("the provider takes at most {limit}"),
            },
            RefusalFix::PromptTools if self.told.get(model).no_calls => return None,
            RefusalFix::PromptTools if !matches!(self.form(model), WireForm::Chat(_)) => return None,
            RefusalFix::PromptTools => Repair {
                kind: RepairKind::Setting,
                place: format!("tools for {model}"),
                detail: "described in words: the server knows no calls for this model".to_owned(),
            },
            _ => self.linter.refuse(linted, &cure, message)?,
        };
        emitter.emit(ModelEvent::Repaired(repair));
        Some(cure)
    }

    /// Sleeps before retry `attempt`, or returns the error if it is permanent or the retry limits are
    /// exhausted. Emits [`ModelEvent::Retrying`] first.
    async fn wait(&self, attempt: u32, failed: FailedAttempt, emitter: &Emitter) -> Result<(), ModelError> {
        let FailedAttempt { error, hint } = failed;
        let worth_it = hint.should.unwrap_or_else(|| error.is_transient());
        let error = match error {
            ModelError::RateLimited { message, .. } => {
                ModelError::RateLimited { message, retry_after: hint.after }
            }
            other => other,
        };
        let wait = if worth_it { self.retry.wait(attempt, hint.after) } else { None };
        let Some(wait) = wait else { return Err(error) };
        emitter.emit(ModelEvent::Retrying(Retry {
            attempt,
            most: self.retry.most,
            wait,
            reason: error.to_string(),
        }));
        tracing::warn!(attempt, wait_ms = millis(wait), %error, "waits before the request is sent again");
        tokio::time::sleep(wait).await;
        Ok(())
    }

    async fn attempt(&self, request: &Request, encoded: &EncodedBody, emitter: &Emitter) -> Attempt {
        let response = match self.send(request, encoded, BodyPurpose::Answer).await {
            Ok(response) => response,
            Err(failed) => return Attempt::Failed(failed),
        };
        let mut decoder = self.decoder(request);
        let began = Instant::now();
        let read = self.read(self.form(&request.model), response, &mut decoder, emitter).await;
        match &read {
            Ok(_) => tracing::debug!(took_ms = millis(began.elapsed()), "the answer is complete"),
            Err(error) => tracing::warn!(took_ms = millis(began.elapsed()), %error, "the answer broke off"),
        }
        match read {
            Ok(last) => {
                let usage = last.iter().rev().find_map(|event| match event {
                    ModelEvent::Usage(usage) => Some(*usage),
                    _ => None,
                });
                last.into_iter().for_each(|event| emitter.emit(event));
                Attempt::Done(usage)
            }
            Err(_) if decoder.assembler().handed_out() > 0 => {
                decoder.assembler().interrupt();
                decoder.assembler().drain().into_iter().for_each(|event| emitter.emit(event));
                Attempt::Done(None)
            }
            Err(error) => Attempt::Failed(error.into()),
        }
    }

    fn learn(&self, request: &Request, encoded: &EncodedBody, usage: Option<Usage>) {
        if let Some(usage) = usage {
            self.meter.learn(&request.model, encoded.size, usage.total_input());
            self.calibration.learn(request, usage.total_input());
        }
    }

    /// Sends a request and waits for the response head. Retries once with new proxy
    /// credentials after status 407.
    async fn send(
        &self,
        request: &Request,
        encoded: &EncodedBody,
        purpose: BodyPurpose,
    ) -> Result<Response, FailedAttempt> {
        let target = self.switched(&request.model).map_or(&self.target, |route| &route.target);
        let url = target.url(self.wire_name(&request.model), purpose);
        let mut headers = self.headers.clone();
        headers.insert("content-type", reqwest::header::HeaderValue::from_static("application/json"));
        if let WireForm::Messages(host) = self.form
            && !host.has_betas_in_body()
        {
            headers.insert("anthropic-version", reqwest::header::HeaderValue::from_static("2023-06-01"));
            if !encoded.betas.is_empty()
                && let Ok(value) = encoded.betas.join(",").parse()
            {
                headers.insert("anthropic-beta", value);
            }
        }
        self.auth.sign(&url, &encoded.body, &mut headers).await?;
        let limit = self.patience.first_byte;
        let (began, bytes) = (Instant::now(), encoded.body.len());
        tracing::debug!(
            model = request.model,
            bytes,
            limit_ms = millis(limit),
            "waits for the head of an answer"
        );
        let again = self.client.has_proxy_login().then(|| headers.clone());
        let mut response = self.post(&url, headers, encoded).await?;
        if let Some(headers) = again
            && response.status() == reqwest::StatusCode::PROXY_AUTHENTICATION_REQUIRED
            && self.client.forget_proxy_login().await
        {
            response = self.post(&url, headers, encoded).await?;
        }
        let status = response.status().as_u16();
        tracing::debug!(status, took_ms = millis(began.elapsed()), "the head of an answer is there");
        if response.status().is_success() {
            return Ok(response);
        }
        let mut hint =
            RetryAfter::parse(|name| response.headers().get(name)?.to_str().ok(), SystemTime::now());
        let body = tokio::time::timeout(limit, body_head(response)).await.unwrap_or_default();
        hint.after = hint.after.or_else(|| http_error::retry_delay(&body, SystemTime::now()));
        Err(FailedAttempt { error: http_error::of_status(status, &body), hint })
    }

    /// Sends a body once.
    async fn post(
        &self,
        url: &str,
        headers: HeaderMap,
        encoded: &EncodedBody,
    ) -> Result<Response, ModelError> {
        let client = self.client.current().await?;
        let sending = client.post(url).headers(headers).body(encoded.body.clone()).send();
        let limit = self.patience.first_byte;
        match tokio::time::timeout(limit, sending).await {
            Err(_) => Err(ModelError::Stalled { after: limit }),
            Ok(Err(err)) => {
                // A proxy that rejects the tunnel shows up as a connect error.
                if err.is_connect() {
                    self.client.forget_proxy_login().await;
                }
                Err(http_error::of_transport(err))
            }
            Ok(Ok(response)) => Ok(response),
        }
    }

    /// Decodes a response and emits its events. The final events, from the stop reason on, are returned
    /// and not emitted.
    async fn read(
        &self,
        form: &WireForm,
        response: Response,
        decoder: &mut Decoder,
        emitter: &Emitter,
    ) -> Result<Vec<ModelEvent>, ModelError> {
        let framing = Framing::for_form(form, response.headers());
        if framing.is_whole() {
            let body = tokio::time::timeout(self.patience.first_byte, response.bytes())
                .await
                .map_err(|_| ModelError::Stalled { after: self.patience.first_byte })?
                .map_err(http_error::of_transport)?;
            let body: Value = serde_json::from_slice(&body)
                .map_err(|err| ModelError::protocol(format!("the answer is no JSON: {err}")))?;
            return decoder.whole(&body);
        }
        let mut frames = framing;
        let mut body = response.bytes_stream();
        let mut seen = 0;
        // Some servers label a plain JSON answer or error as an event stream. Its first byte tells: no
        // event starts like that.
        let mut unframed: Option<Vec<u8>> = None;
        loop {
            // Only the Messages API marks the end of a text block.
            let in_text = matches!(form, WireForm::Messages(_)) && decoder.assembler().is_writing_text();
            let limit = if in_text { self.patience.idle_text } else { self.patience.idle };
            let piece = match tokio::time::timeout(limit, body.next()).await {
                Err(_) => return Err(ModelError::Stalled { after: limit }),
                Ok(None) => return finish_body(&mut frames, decoder, unframed.as_deref(), emitter),
                Ok(Some(Err(err))) => return Err(http_error::of_transport(err)),
                Ok(Some(Ok(piece))) => piece,
            };
            if seen == 0 && piece.first() == Some(&b'{') {
                unframed = Some(Vec::new());
            }
            if let Some(unframed) = &mut unframed {
                unframed.extend_from_slice(&piece);
            }
            seen += piece.len();
            tracing::trace!(bytes = piece.len(), seen, "a piece of an answer");
            if seen > MAX_BODY {
                return Err(ModelError::protocol("the answer has no end"));
            }
            let mut data = Vec::new();
            let framed = frames.feed(&piece, &mut data);
            for data in data {
                let events = decoder.feed(&data)?;
                if decoder.assembler().is_stopped() {
                    drain(&mut body).await;
                    return Ok(events);
                }
                events.into_iter().for_each(|event| emitter.emit(event));
            }
            framed?;
        }
    }

    /// Counts the tokens of a request at the provider; returns an estimate if the provider has no such
    /// endpoint.
    pub(crate) async fn count(self: Arc<Self>, request: Request) -> Result<u64, ModelError> {
        if !matches!(self.form, WireForm::Messages(_) | WireForm::Gemini) {
            return Ok(request.estimate_tokens());
        }
        let info = self.info(&request.model);
        let (linted, _) = self.lint(&request, &info).await;
        let encoded = self.count_body(&linted, &info);
        let response =
            self.send(&linted.request, &encoded, BodyPurpose::Count).await.map_err(|failed| failed.error)?;
        let body: Bytes = response.bytes().await.map_err(http_error::of_transport)?;
        let body: Value =
            serde_json::from_slice(&body).map_err(|err| ModelError::protocol(err.to_string()))?;
        let count =
            ["input_tokens", "inputTokens", "totalTokens"].iter().find_map(|name| body[*name].as_u64());
        count.ok_or_else(|| ModelError::protocol("the count has no number"))
    }

    fn count_body(&self, linted: &Linted, info: &ModelInfo) -> EncodedBody {
        #[cfg(feature = "bedrock")]
        if let WireForm::Messages(MessagesHost::Bedrock) = self.form {
            use base64::{Engine as _, engine::general_purpose::STANDARD};
            let encoded = self.encode(linted, info, BodyPurpose::Answer);
            let inner = STANDARD.encode(&encoded.body);
            let body = serde_json::json!({"input": {"invokeModel": {"body": inner}}}).to_string();
            return EncodedBody { body: Bytes::from(body), ..encoded };
        }
        self.encode(linted, info, BodyPurpose::Count)
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
