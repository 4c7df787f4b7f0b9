//! Chooses the web search: a search service with an API key, or the model provider.

use std::{
    collections::HashSet,
    sync::{Arc, OnceLock},
    time::Duration,
};

use haft_agent::Budget;
use haft_builtin_tools::web_search::{
    AdapterKind, SearchAdapter, SearchAdapterConfig, SearchError, SearchHit, SearchHits, SearchProvider,
    SearchQuery, SearchServices,
};
use haft_model::{ModelAnswer, Provider, Request, Speed, StopReason};
use haft_tool::BoxFuture;
use haft_types::{Message, MessageBlock};
use serde_json::{Value, json};

use crate::{build::ChosenProvider, environment::SessionEnvironment};

/// The search service that the settings name, else the first one with an API key, else the model
/// provider if it offers search.
pub(super) fn search_services(
    premises: &SessionEnvironment,
    model: Option<&Arc<ModelSearch>>,
) -> SearchServices {
    let most = premises.variable("CLAUDE_CODE_MAX_WEB_SEARCHES_PER_SESSION").and_then(|it| it.parse().ok());
    SearchServices { provider: provider(premises, model), most }
}

fn provider(
    premises: &SessionEnvironment,
    model: Option<&Arc<ModelSearch>>,
) -> Option<Arc<dyn SearchProvider>> {
    let named = premises.string_setting("web.searchProvider");
    let model = || model.map(|it| Arc::clone(it) as Arc<dyn SearchProvider>);
    let adapter = |kind: AdapterKind| {
        let value = kind.variables().iter().find_map(|name| premises.variable(name));
        let secret = value.filter(|it| !it.trim().is_empty());
        let base = premises.string_setting("web.searchUrl");
        let secret = secret.or_else(|| base.clone().filter(|_| kind == AdapterKind::SearXng))?;
        match SearchAdapter::new(SearchAdapterConfig { kind, secret, base }) {
            Ok(adapter) => Some(Arc::new(adapter) as Arc<dyn SearchProvider>),
            Err(why) => {
                premises.events.notice(format!("searching the web: {why}"));
                None
            }
        }
    };
    match named.as_deref() {
        Some("none") => None,
        Some("model") => model(),
        Some(name) => AdapterKind::ALL.into_iter().find(|it| it.name() == name).and_then(adapter),
        None => AdapterKind::ALL.into_iter().find_map(adapter).or_else(model),
    }
}

/// Maximum time for a search of the provider.
const TIMEOUT: Duration = Duration::from_secs(120);
/// Maximum number of requests for one search: the provider may pause its answer.
const MAX_PARTS: usize = 6;
/// Maximum output tokens of a search request.
const ANSWER_TOKENS: u32 = 4096;

/// Searches with the provider's search tool, in a request of its own.
pub(crate) struct ModelSearch {
    provider: Arc<dyn Provider>,
    endpoint: String,
    payer: OnceLock<(Budget, String)>,
}

impl ModelSearch {
    /// Uses the session's provider; `None` if it offers no search.
    pub(super) fn new(_premises: &SessionEnvironment, chosen: Option<&ChosenProvider>) -> Option<Arc<Self>> {
        let chosen = chosen?;
        let endpoint = chosen.searches_at.clone()?;
        Some(Arc::new(Self { provider: Arc::clone(&chosen.provider), endpoint, payer: OnceLock::new() }))
    }

    /// Sets the budget that the requests are charged to, and the model.
    pub(super) fn charge_to(&self, ledger: &Budget, model: &str) {
        self.payer.set((ledger.clone(), model.to_owned())).ok();
    }

    async fn ask(&self, query: &SearchQuery) -> Result<SearchHits, SearchError> {
        let unavailable = |why: String| SearchError::Unavailable(why);
        let (ledger, model) =
            self.payer.get().ok_or_else(|| unavailable(String::from("there is no model to ask")))?;
        if !ledger.has_money() {
            return Err(SearchError::Refused(String::from("the budget of this session is used up")));
        }
        let mut tool = json!({ "type": "web_search_20250305", "name": "web_search", "max_uses": 8 });
        if !query.allowed.is_empty() {
            tool["allowed_domains"] = json!(query.allowed);
        }
        if !query.blocked.is_empty() {
            tool["blocked_domains"] = json!(query.blocked);
        }
        let question = format!("Search the web for: {}", query.text);
        let mut request = Request::new(model.as_str(), [Message::user(question)]);
        request.system = vec![
            "Search the web once for what the user names, then say in a few sentences what was found.".into(),
        ];
        request.max_tokens = ANSWER_TOKENS;
        request.extra.insert(String::from("tools"), json!([tool]));
        let (mut content, mut citations) = (Vec::new(), Vec::new());
        let price = self.provider.info(model).price;
        let began = tokio::time::Instant::now();
        for _ in 0..MAX_PARTS {
            let left = TIMEOUT.saturating_sub(began.elapsed());
            let answer =
                tokio::time::timeout(left, ModelAnswer::collect(self.provider.stream(request.clone()))).await;
            let answer =
                answer.map_err(|_| unavailable(format!("no answer within {} s", TIMEOUT.as_secs())))?;
            let answer = answer.map_err(|err| unavailable(err.to_string()))?;
            ledger.add(model, answer.usage, price.map_or(0.0, |it| it.of(&answer.usage, Speed::Normal)));
            let paused = answer.stop == Some(StopReason::Pause) && !answer.content.is_empty();
            content.extend(answer.content);
            citations.extend(answer.citations);
            if !paused || !ledger.has_money() {
                break;
            }
            // The partial answer is sent back unchanged, including its encrypted parts.
            request.messages.truncate(1);
            request.messages.push(Arc::new(Message::assistant(content.clone())));
            request.paused = true;
        }
        let mut hits = found(&content)?;
        quote(&mut hits.hits, &citations);
        Ok(hits)
    }
}

/// Extracts the search hits from an answer.
fn found(content: &[MessageBlock]) -> Result<SearchHits, SearchError> {
    let mut hits = SearchHits::default();
    let (mut problem, mut seen) = (None, HashSet::new());
    for block in content {
        match block {
            MessageBlock::Text { text } => hits.summary.push_str(text),
            MessageBlock::Other(value) if value["type"] == "server_tool_use" => hits.searches += 1,
            MessageBlock::Other(value) if value["type"] == "web_search_tool_result" => {
                match &value["content"] {
                    Value::Array(list) => {
                        hits.hits
                            .extend(list.iter().filter_map(hit).filter(|it| seen.insert(it.url.clone())));
                    }
                    error => problem = Some(error["error_code"].as_str().unwrap_or("unknown").to_owned()),
                }
            }
            _ => {}
        }
    }
    match (problem.as_deref(), hits.searches) {
        (Some("too_many_requests" | "max_uses_exceeded"), _) if hits.hits.is_empty() => {
            Err(SearchError::Quota(None))
        }
        (Some("unavailable"), _) if hits.hits.is_empty() => {
            Err(SearchError::Unavailable(String::from("its search is not available now")))
        }
        (Some("query_too_long" | "request_too_large" | "invalid_tool_input"), _) if hits.hits.is_empty() => {
            Err(SearchError::Question(String::from("it is too long or not in a form it takes")))
        }
        (Some(code), _) if hits.hits.is_empty() => Err(SearchError::Refused(code.to_owned())),
        (None, 0) => Err(SearchError::Unavailable(String::from(
            "the model's provider did not search; set a key of a search service",
        ))),
        _ => Ok(hits),
    }
}

/// Adds the passages that the answer quotes to the hits.
fn quote(hits: &mut [SearchHit], citations: &[Value]) {
    for citation in citations {
        let (url, words) = (citation["url"].as_str(), citation["cited_text"].as_str());
        let Some(hit) = hits.iter_mut().find(|it| Some(it.url.as_str()) == url) else { continue };
        if let (None, Some(words)) = (&hit.snippet, words) {
            hit.snippet = Some(words.to_owned());
        }
    }
}

fn hit(value: &Value) -> Option<SearchHit> {
    let text = |name: &str| value[name].as_str().map(str::to_owned);
    Some(SearchHit {
        title: text("title").unwrap_or_default(),
        url: text("url")?,
        snippet: None,
        date: text("page_age"),
    })
}

impl SearchProvider for ModelSearch {
    fn name(&self) -> &str {
        "the model's provider"
    }

    fn endpoint(&self) -> &str {
        &self.endpoint
    }

    fn search<'a>(&'a self, query: &'a SearchQuery) -> BoxFuture<'a, Result<SearchHits, SearchError>> {
        Box::pin(self.ask(query))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_of_the_provider_are_told_apart() {
        let other = |value: Value| MessageBlock::Other(value);
        let used = || {
            other(
                json!({"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "x"}}),
            )
        };
        let result = |content: Value| {
            other(json!({"type": "web_search_tool_result", "tool_use_id": "s", "content": content}))
        };
        let hits = json!([{"type": "web_search_result", "url": "https://a.test/", "title": "A", "page_age": "1 May"}]);
        let all = found(&[used(), result(hits), MessageBlock::Text { text: "It says.".into() }]).unwrap();
        assert_eq!((all.hits.len(), all.searches, all.summary.as_str()), (1, 1, "It says."));
        let error = |code: &str| result(json!({"type": "web_search_tool_result_error", "error_code": code}));
        assert_eq!(found(&[used(), error("too_many_requests")]).unwrap_err(), SearchError::Quota(None));
        assert!(matches!(found(&[used(), error("unavailable")]).unwrap_err(), SearchError::Unavailable(_)));
        assert!(matches!(found(&[used(), error("query_too_long")]).unwrap_err(), SearchError::Question(_)));
        assert!(matches!(found(&[used(), error("next_year")]).unwrap_err(), SearchError::Refused(_)));
        assert!(matches!(
            found(&[MessageBlock::Text { text: "no".into() }]).unwrap_err(),
            SearchError::Unavailable(_)
        ));
    }
}
