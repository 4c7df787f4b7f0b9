//! Servers that ask the model: only those the user lets, within limits, and
//! with a person's word for each question unless the user does without.

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

/// How much of a question a person is shown.
const SHOWN_CHARS: usize = 1500;

/// How long the model may take.
const TIMEOUT: Duration = Duration::from_secs(300);

/// Asks the session's model on behalf of servers. Clones are the same.
#[derive(Clone, Default)]
pub(crate) struct Sampler(Arc<SamplingInner>);

#[derive(Default)]
struct SamplingInner {
    state: Mutex<SamplingState>,
    /// One question at a time: a server cannot flood the provider.
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

    /// Who pays.
    pub(crate) fn charge_to(&self, ledger: &Budget) {
        self.state().ledger = ledger.clone();
    }

    /// Who agrees.
    pub(crate) fn confirmed_by(&self, person: Option<Arc<dyn ElicitationHandler>>) {
        self.state().person = person;
    }

    /// Counts the question, if the server may still ask one.
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

    /// The server runs them, so they are worth no more questions than the
    /// others.
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
    /// Asks, and has the session pay for the answer.
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

/// Lets the person decide. Nobody there means no.
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
