//! Servers that ask the model: only those the user lets, within limits, and
//! with a person's word for each question unless the user does without.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use haft_mcp::{Confirm, Elicit, ElicitAnswer, Elicitation, Sample, SamplingRules, ServerConfig};
use haft_model::{Answer, Provider, Request, StopReason};
use haft_tool::BoxFuture;
use haft_types::{MediaSource, Message, MessageBlock, Role, text};
use serde_json::{Value, json};

/// Longer questions are no questions.
const MAX_CHARS: usize = 200_000;

/// How much of a question a person is shown.
const SHOWN_CHARS: usize = 1500;

/// How long the model may take.
const PATIENCE: Duration = Duration::from_secs(300);

/// Asks the session's model on behalf of servers. Clones are the same.
#[derive(Clone, Default)]
pub(crate) struct Sampler(Arc<Inner>);

#[derive(Default)]
struct Inner {
    state: Mutex<State>,
    /// One question at a time: a server cannot flood the provider.
    busy: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct State {
    model: Option<(Arc<dyn Provider>, String)>,
    person: Option<Arc<dyn Elicit>>,
    rules: BTreeMap<String, SamplingRules>,
    asked: BTreeMap<String, u32>,
}

impl Sampler {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Which servers may ask, from now on.
    pub(crate) fn allow(&self, servers: &[ServerConfig]) {
        let rules = servers.iter().filter_map(|it| Some((it.name.clone(), it.sampling.clone()?)));
        self.state().rules = rules.collect();
    }

    /// Whether some server may ask.
    pub(crate) fn is_wanted(&self) -> bool {
        !self.state().rules.is_empty()
    }

    /// Whether there is a model to ask.
    pub(crate) fn has_model(&self) -> bool {
        self.state().model.is_some()
    }

    /// Whom to ask, and with which model unless a server's rules name another.
    pub(crate) fn answer_with(&self, provider: Arc<dyn Provider>, model: &str) {
        self.state().model = Some((provider, model.to_owned()));
    }

    /// Who agrees.
    pub(crate) fn confirmed_by(&self, person: Option<Arc<dyn Elicit>>) {
        self.state().person = person;
    }

    /// Counts the question, if the server may still ask one.
    fn admit(&self, server: &str) -> Result<Admitted, String> {
        let mut state = self.state();
        let rules = state.rules.get(server).cloned().ok_or("the user lets nobody ask the model here")?;
        let (provider, usual) = state.model.clone().ok_or("there is no model to ask")?;
        let person = state.person.clone();
        let asked = state.asked.entry(server.to_owned()).or_default();
        if rules.max_requests <= *asked {
            return Err(format!("this server has asked {asked} times, which is all it may in a session"));
        }
        *asked += 1;
        let model = rules.model.clone().unwrap_or(usual);
        Ok(Admitted { rules, provider, model, person })
    }
}

struct Admitted {
    rules: SamplingRules,
    provider: Arc<dyn Provider>,
    model: String,
    person: Option<Arc<dyn Elicit>>,
}

impl Sample for Sampler {
    fn offers(&self, server: &str) -> bool {
        let state = self.state();
        state.model.is_some() && state.rules.contains_key(server)
    }

    fn sample(&self, server: &str, params: Value) -> BoxFuture<'static, Result<Value, String>> {
        let (me, server) = (self.clone(), server.to_owned());
        Box::pin(async move {
            let admitted = me.admit(&server)?;
            let _one_at_a_time = me.0.busy.lock().await;
            let request = request(&admitted, &params)?;
            if admitted.rules.confirm == Confirm::EachRequest {
                confirm(&admitted, &server, &request).await?;
            }
            let answer = Answer::collect(admitted.provider.stream(request));
            match tokio::time::timeout(PATIENCE, answer).await {
                Ok(Ok(answer)) => Ok(result(&answer, &admitted.model)),
                Ok(Err(err)) => Err(format!("the model could not be asked: {err}")),
                Err(_) => Err(format!("the model did not answer within {} s", PATIENCE.as_secs())),
            }
        })
    }
}

/// The question as our model takes it. What it cannot take is refused, not
/// left out.
fn request(admitted: &Admitted, params: &Value) -> Result<Request, String> {
    if params.get("tools").is_some_and(|it| it.as_array().is_none_or(|it| !it.is_empty())) {
        return Err(String::from("tools are not offered with sampling here"));
    }
    let messages = params["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let messages = messages.iter().map(message).collect::<Result<Vec<_>, _>>()?;
    if messages.is_empty() {
        return Err(String::from("there is nothing to answer: `messages` is empty"));
    }
    let system = params["systemPrompt"].as_str().unwrap_or_default();
    let said = |it: &Message| it.content.iter().map(shown).map(|it| it.len()).sum::<usize>();
    if MAX_CHARS < system.len() + messages.iter().map(said).sum::<usize>() {
        return Err(format!("the question is longer than {MAX_CHARS} characters"));
    }
    let mut request = Request::new(admitted.model.as_str(), messages);
    if !system.is_empty() {
        request.system = vec![system.into()];
    }
    let wanted = params["maxTokens"].as_u64().and_then(|it| u32::try_from(it).ok());
    let most = admitted.rules.max_tokens;
    request.max_tokens = wanted.filter(|it| 0 < *it).unwrap_or(most).min(most);
    #[expect(clippy::cast_possible_truncation, reason = "a temperature has two digits")]
    let temperature = params["temperature"].as_f64().map(|it| it.clamp(0.0, 1.0) as f32);
    request.temperature = temperature;
    let stops = params["stopSequences"].as_array().into_iter().flatten();
    request.stop_sequences = stops.filter_map(Value::as_str).take(4).map(str::to_owned).collect();
    Ok(request)
}

fn message(message: &Value) -> Result<Message, String> {
    let role = match message["role"].as_str() {
        Some("user") => Role::User,
        Some("assistant") => Role::Assistant,
        other => return Err(format!("`{}` is no role", other.unwrap_or_default())),
    };
    let content = match &message["content"] {
        Value::Array(blocks) => blocks.iter().map(block).collect::<Result<_, _>>()?,
        single => vec![block(single)?],
    };
    Ok(Message { role, content })
}

fn block(block: &Value) -> Result<MessageBlock, String> {
    let field = |name: &str| block[name].as_str().unwrap_or_default().to_owned();
    match block["type"].as_str() {
        Some("text") => Ok(MessageBlock::Text { text: field("text") }),
        Some("image") => Ok(MessageBlock::Image {
            source: MediaSource::Base64 { media_type: field("mimeType"), data: field("data") },
        }),
        other => Err(format!("content of the type `{}` cannot be sampled", other.unwrap_or_default())),
    }
}

fn shown(block: &MessageBlock) -> &str {
    match block {
        MessageBlock::Text { text } => text,
        _ => "[picture]",
    }
}

/// Lets the person decide. Nobody there means no.
async fn confirm(admitted: &Admitted, server: &str, request: &Request) -> Result<(), String> {
    let Some(person) = &admitted.person else {
        return Err(String::from("nobody is there to agree to a question to the model"));
    };
    let said: Vec<&str> = request.messages.iter().flat_map(|it| it.content.iter().map(shown)).collect();
    let system = request.system.iter().map(|it| it.text.as_str());
    let all = system.chain(said).collect::<Vec<_>>().join("\n");
    let cut = if text::head(&all, SHOWN_CHARS).len() < all.len() { " […]" } else { "" };
    let question = Elicitation {
        server: server.to_owned(),
        message: format!(
            "It wants to ask your model ({}, up to {} tokens):\n{}{cut}",
            admitted.model,
            request.max_tokens,
            text::head(&all, SHOWN_CHARS),
        ),
        schema: Some(json!({
            "type": "object",
            "properties": {"decision": {"type": "string", "enum": ["allow", "deny"], "default": "deny"}},
            "required": ["decision"],
        })),
        url: None,
        id: None,
    };
    match person.elicit(question).await {
        ElicitAnswer::Accept(fields) if fields.get("decision") == Some(&json!("allow")) => Ok(()),
        _ => Err(String::from("the user did not agree to ask the model")),
    }
}

fn result(answer: &Answer, model: &str) -> Value {
    let reason = match &answer.stop {
        Some(StopReason::MaxTokens | StopReason::ContextFull) => "maxTokens",
        Some(StopReason::StopSequence) => "stopSequence",
        _ => "endTurn",
    };
    json!({
        "role": "assistant",
        "content": {"type": "text", "text": answer.text()},
        "model": model,
        "stopReason": reason,
    })
}
