//! MCP sampling: requests of servers to the model. Only for servers that the user allows, within limits,
//! and with an approval for each request unless the user has waived it.

mod question;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use haft_agent::Budget;
use haft_mcp_client::{
    ElicitAnswer, Elicitation, ElicitationHandler, SamplingConfirm, SamplingError, SamplingHandler,
    SamplingRules, ServerConfig,
};
use haft_model::{ModelAnswer, Provider, Request, Speed};
use haft_tool::BoxFuture;
use haft_types::text;
use serde_json::{Value, json};

/// Maximum characters of a request shown to the user.
const SHOWN_CHARS: usize = 1500;

/// Maximum time for the model's answer.
const TIMEOUT: Duration = Duration::from_secs(300);

/// Sends sampling requests to the session's model. Clones share the state.
#[derive(Clone, Default)]
pub(crate) struct Sampler(Arc<SamplingInner>);

#[derive(Default)]
struct SamplingInner {
    state: Mutex<SamplingState>,
    /// Allows one request at a time, so that servers cannot flood the provider.
    busy: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct SamplingState {
    model: Option<(Arc<dyn Provider>, String)>,
    ledger: Budget,
    person: Option<Arc<dyn ElicitationHandler>>,
    rules: BTreeMap<String, SamplingRules>,
    asked: BTreeMap<String, u32>,
}

impl Sampler {
    fn state(&self) -> MutexGuard<'_, SamplingState> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets which servers may use sampling.
    pub(crate) fn allow(&self, servers: &[ServerConfig]) {
        let rules = servers.iter().filter_map(|it| Some((it.name.clone(), it.sampling.clone()?)));
        self.state().rules = rules.collect();
    }

    /// Whether any server may use sampling.
    pub(crate) fn is_wanted(&self) -> bool {
        !self.state().rules.is_empty()
    }

    /// Whether a model is available.
    pub(crate) fn has_model(&self) -> bool {
        self.state().model.is_some()
    }

    /// Sets the provider and the default model.
    pub(crate) fn answer_with(&self, provider: Arc<dyn Provider>, model: &str) {
        self.state().model = Some((provider, model.to_owned()));
    }

    /// Sets the budget that sampling requests are charged to.
    pub(crate) fn charge_to(&self, ledger: &Budget) {
        self.state().ledger = ledger.clone();
    }

    /// Sets who approves requests.
    pub(crate) fn confirmed_by(&self, person: Option<Arc<dyn ElicitationHandler>>) {
        self.state().person = person;
    }

    /// Counts a request, if the server has not reached its limit.
    fn admit(&self, server: &str) -> Result<Admitted, SamplingError> {
        let rejected = |why: &str| SamplingError::Rejected(why.to_owned());
        let mut state = self.state();
        let rules = state.rules.get(server).cloned();
        let rules = rules.ok_or_else(|| rejected("the user lets nobody ask the model here"))?;
        let model = state.model.clone();
        let (provider, usual) =
            model.ok_or_else(|| SamplingError::Failed("there is no model to ask".into()))?;
        if !state.ledger.has_money() {
            return Err(rejected("the budget of this session is used up"));
        }
        let (person, ledger) = (state.person.clone(), state.ledger.clone());
        let asked = state.asked.entry(server.to_owned()).or_default();
        if rules.max_requests <= *asked {
            let why = format!("this server has asked {asked} times, which is all it may in a session");
            return Err(SamplingError::Rejected(why));
        }
        *asked += 1;
        let model = rules.model.clone().unwrap_or(usual);
        Ok(Admitted { rules, provider, model, person, ledger })
    }
}

struct Admitted {
    rules: SamplingRules,
    provider: Arc<dyn Provider>,
    model: String,
    person: Option<Arc<dyn ElicitationHandler>>,
    ledger: Budget,
}

impl SamplingHandler for Sampler {
    fn offers(&self, server: &str) -> bool {
        let state = self.state();
        state.model.is_some() && state.rules.contains_key(server)
    }

    /// Whether the server offers tools with its request; it runs them itself, so they do not get
    /// additional requests.
    fn offers_tools(&self, server: &str) -> bool {
        self.offers(server)
    }

    fn sample(&self, server: &str, params: Value) -> BoxFuture<'static, Result<Value, SamplingError>> {
        let (me, server) = (self.clone(), server.to_owned());
        Box::pin(async move {
            let _one_at_a_time = me.0.busy.lock().await;
            let admitted = me.admit(&server)?;
            let request = question::request(&admitted, &params).map_err(SamplingError::Invalid)?;
            if admitted.rules.confirm == SamplingConfirm::EachRequest {
                confirm(&admitted, &server, &request).await?;
            }
            admitted.ask(request).await.map_err(SamplingError::Failed)
        })
    }
}

impl Admitted {
    /// Sends a request and charges its cost.
    async fn ask(&self, request: Request) -> Result<Value, String> {
        let answer = ModelAnswer::collect(self.provider.stream(request));
        let answer = match tokio::time::timeout(TIMEOUT, answer).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(err)) => return Err(format!("the model could not be asked: {err}")),
            Err(_) => return Err(format!("the model did not answer within {} s", TIMEOUT.as_secs())),
        };
        let price = self.provider.info(&self.model).price;
        let usd = price.map_or(0.0, |it| it.of(&answer.usage, Speed::Normal));
        self.ledger.add(&self.model, answer.usage, usd);
        question::result(&answer, &self.model)
    }
}

/// Asks the user for approval. Without an approver the request is denied.
async fn confirm(admitted: &Admitted, server: &str, request: &Request) -> Result<(), SamplingError> {
    let Some(person) = &admitted.person else {
        let why = "nobody is there to agree to a question to the model";
        return Err(SamplingError::Rejected(why.to_owned()));
    };
    let said = request.messages.iter().flat_map(|it| it.content.iter().map(question::shown));
    let system = request.system.iter().map(|it| it.text.clone());
    let all = system.chain(said).collect::<Vec<_>>().join("\n");
    let cut = if text::head(&all, SHOWN_CHARS).len() < all.len() { " […]" } else { "" };
    let tools: Vec<&str> = request.tools.definitions().iter().map(|it| it.name.as_str()).collect();
    let tools = if tools.is_empty() {
        String::new()
    } else {
        format!(", with its own tools {}", text::one_line(&tools.join(", "), 300))
    };
    let question = Elicitation {
        server: server.to_owned(),
        message: format!(
            "It wants to ask your model ({}, up to {} tokens{tools}):\n{}{cut}",
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
        _ => Err(SamplingError::Rejected(String::from("the user did not agree to ask the model"))),
    }
}
