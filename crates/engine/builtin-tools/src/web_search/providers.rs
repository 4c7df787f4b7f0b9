//! Adapters for search services.

use std::{fmt, time::Duration};

use haft_net::{BodyError, innermost, read_body};
use haft_tool::BoxFuture;
use reqwest::{Client, RequestBuilder, StatusCode, header};
use serde_json::{Value, json};
use url::Url;

use super::provider_port::{SearchError, SearchHit, SearchHits, SearchProvider, SearchQuery};

/// Timeout of a request.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum bytes of a response; a larger one is an error.
const MOST: usize = 4 << 20;

/// The supported search services.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum AdapterKind {
    Brave,
    Tavily,
    Exa,
    Kagi,
    /// A SearXNG server run by the user.
    SearXng,
}

impl AdapterKind {
    /// All services, in the order in which they are tried for a key.
    pub const ALL: [Self; 5] = [Self::Brave, Self::Tavily, Self::Exa, Self::Kagi, Self::SearXng];

    /// Returns the name of the service in settings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Brave => "brave",
            Self::Tavily => "tavily",
            Self::Exa => "exa",
            Self::Kagi => "kagi",
            Self::SearXng => "searxng",
        }
    }

    /// Returns the environment variables that may hold its key or, for SearXNG, its URL.
    pub fn variables(self) -> &'static [&'static str] {
        match self {
            Self::Brave => &["BRAVE_API_KEY", "BRAVE_SEARCH_API_KEY"],
            Self::Tavily => &["TAVILY_API_KEY"],
            Self::Exa => &["EXA_API_KEY"],
            Self::Kagi => &["KAGI_API_KEY", "KAGI_API_TOKEN"],
            Self::SearXng => &["SEARXNG_URL"],
        }
    }

    /// Returns the maximum number of characters of a query, if the service has one.
    fn longest_question(self) -> Option<usize> {
        match self {
            Self::Brave => Some(400),
            _ => None,
        }
    }

    fn base(self) -> &'static str {
        match self {
            Self::Brave => "https://api.search.brave.com",
            Self::Tavily => "https://api.tavily.com",
            Self::Exa => "https://api.exa.ai",
            Self::Kagi => "https://kagi.com",
            Self::SearXng => "",
        }
    }
}

/// Configuration of a search service.
#[derive(Clone)]
pub struct SearchAdapterConfig {
    pub kind: AdapterKind,
    /// The API key; for SearXNG the server's URL.
    pub secret: String,
    /// Overrides the service's base URL.
    pub base: Option<String>,
}

impl fmt::Debug for SearchAdapterConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SearchAdapterConfig").field("kind", &self.kind).finish_non_exhaustive()
    }
}

/// A client of one search service.
pub struct SearchAdapter {
    kind: AdapterKind,
    secret: String,
    base: Url,
    client: Client,
}

impl SearchAdapter {
    /// Creates the client. Fails if the base URL is not a valid http or https URL.
    pub fn new(config: SearchAdapterConfig) -> Result<Self, String> {
        let SearchAdapterConfig { kind, secret, base } = config;
        let base = match kind {
            AdapterKind::SearXng => base.unwrap_or_else(|| secret.clone()),
            _ => base.unwrap_or_else(|| kind.base().to_owned()),
        };
        let mut parsed =
            Url::parse(&base).map_err(|err| format!("{}: {base:?} is no address ({err})", kind.name()))?;
        if !matches!(parsed.scheme(), "http" | "https") || parsed.host().is_none() {
            return Err(format!("{}: {base:?} is no address of the web", kind.name()));
        }
        if !parsed.path().ends_with('/') {
            parsed.set_path(&format!("{}/", parsed.path()));
        }
        let client = Client::builder().redirect(reqwest::redirect::Policy::none()).timeout(TIMEOUT).build();
        let client = client.map_err(|err| innermost(&err))?;
        Ok(Self { kind, secret, base: parsed, client })
    }

    fn url(&self, path: &str) -> Result<Url, SearchError> {
        self.base.join(path).map_err(|err| SearchError::Unavailable(err.to_string()))
    }

    fn request(&self, query: &SearchQuery) -> Result<RequestBuilder, SearchError> {
        let limit = query.limit.to_string();
        let text = with_sites(query, self.kind.longest_question());
        Ok(match self.kind {
            AdapterKind::Brave => {
                let mut url = self.url("res/v1/web/search")?;
                url.query_pairs_mut().append_pair("q", &text).append_pair("count", &limit);
                self.client.get(url).header("X-Subscription-Token", &self.secret)
            }
            AdapterKind::Tavily => {
                self.client.post(self.url("search")?).bearer_auth(&self.secret).json(&json!({
                    "query": query.text, "max_results": query.limit,
                    "include_domains": query.allowed, "exclude_domains": query.blocked,
                }))
            }
            AdapterKind::Exa => {
                let mut body = json!({
                    "query": query.text, "numResults": query.limit,
                    "contents": { "text": { "maxCharacters": 500 } },
                });
                if !query.allowed.is_empty() {
                    body["includeDomains"] = json!(query.allowed);
                }
                if !query.blocked.is_empty() {
                    body["excludeDomains"] = json!(query.blocked);
                }
                self.client.post(self.url("search")?).header("x-api-key", &self.secret).json(&body)
            }
            AdapterKind::Kagi => {
                let mut url = self.url("api/v0/search")?;
                url.query_pairs_mut().append_pair("q", &text).append_pair("limit", &limit);
                self.client.get(url).header(header::AUTHORIZATION, format!("Bot {}", self.secret))
            }
            AdapterKind::SearXng => {
                let mut url = self.url("search")?;
                url.query_pairs_mut().append_pair("q", &text).append_pair("format", "json");
                self.client.get(url)
            }
        })
    }

    async fn ask(&self, query: &SearchQuery) -> Result<SearchHits, SearchError> {
        let request = self.request(query)?.header(header::ACCEPT, "application/json");
        let unavailable = |why: String| SearchError::Unavailable(self.without_secret(&why));
        let response = request.send().await.map_err(|err| unavailable(innermost(&err.without_url())))?;
        let status = response.status();
        let wait = waiting_time(response.headers());
        let body = read_body(response, MOST).await.map_err(|err| match err {
            BodyError::TooLarge => unavailable(String::from("its answer is too long")),
            BodyError::Broken(err) => unavailable(innermost(&err)),
        })?;
        let said = String::from_utf8_lossy(&body);
        let said = self.without_secret(&haft_types::text::one_line(&said, 300));
        match status {
            StatusCode::TOO_MANY_REQUESTS | StatusCode::PAYMENT_REQUIRED => {
                return Err(SearchError::Quota(wait));
            }
            // Tavily's non-standard status codes for an exhausted plan.
            _ if status.as_u16() == 432 || status.as_u16() == 433 => return Err(SearchError::Quota(wait)),
            StatusCode::FORBIDDEN if self.kind == AdapterKind::SearXng => {
                return Err(SearchError::Refused(String::from(
                    "the server gives no JSON; its settings need `search.formats` with json",
                )));
            }
            _ if status.is_client_error() => return Err(SearchError::Refused(format!("{status}: {said}"))),
            _ if !status.is_success() => return Err(unavailable(format!("{status}: {said}"))),
            _ => {}
        }
        let answer: Value =
            serde_json::from_slice(&body).map_err(|_| unavailable(format!("it is no JSON: {said}")))?;
        let hits = self.hits(&answer).map_err(unavailable)?;
        Ok(SearchHits {
            hits: hits.into_iter().take(query.limit).collect(),
            summary: String::new(),
            searches: 1,
        })
    }

    /// Extracts the results from a response. A response of unknown form is an error, not an empty
    /// result.
    fn hits(&self, answer: &Value) -> Result<Vec<SearchHit>, String> {
        let (list, snippet, date): (_, &[&str], &[&str]) = match self.kind {
            AdapterKind::Brave => (&answer["web"]["results"], &["description"], &["page_age", "age"]),
            AdapterKind::Tavily => (&answer["results"], &["content"], &["published_date"]),
            AdapterKind::Exa => (&answer["results"], &["text", "summary"], &["publishedDate"]),
            AdapterKind::Kagi => (&answer["data"], &["snippet"], &["published"]),
            AdapterKind::SearXng => (&answer["results"], &["content"], &["publishedDate"]),
        };
        let text = |hit: &Value, names: &[&str]| {
            names.iter().find_map(|name| hit[*name].as_str()).filter(|it| !it.is_empty()).map(str::to_owned)
        };
        let hit = |hit: &Value| {
            let url =
                text(hit, &["url"]).filter(|it| it.starts_with("http://") || it.starts_with("https://"))?;
            let title = text(hit, &["title"]).unwrap_or_else(|| url.clone());
            Some(SearchHit { title, url, snippet: text(hit, snippet), date: text(hit, date) })
        };
        let found: Option<Vec<SearchHit>> = list.as_array().map(|it| it.iter().filter_map(hit).collect());
        match found {
            Some(found) if found.is_empty() => match silent_engines(answer) {
                Some(silent) => Err(format!("its engines did not answer: {silent}")),
                None => Ok(found),
            },
            Some(found) => Ok(found),
            // Brave omits result types without results.
            None if self.kind == AdapterKind::Brave && answer.is_object() && list.is_null() => Ok(Vec::new()),
            None => {
                let said = haft_types::text::one_line(&answer.to_string(), 300);
                Err(format!("its answer has another form than expected: {said}"))
            }
        }
    }

    fn without_secret(&self, text: &str) -> String {
        if self.kind == AdapterKind::SearXng || self.secret.is_empty() {
            text.to_owned()
        } else {
            text.replace(&self.secret, "…")
        }
    }
}

/// Adds domain filters to the query text, for services without parameters for them. Adds as many as fit;
/// results are filtered again afterwards.
fn with_sites(query: &SearchQuery, most: Option<usize>) -> String {
    let mut text = query.text.clone();
    let fits =
        |text: &str, more: &str| most.is_none_or(|most| text.chars().count() + more.chars().count() <= most);
    for (at, name) in query.allowed.iter().enumerate() {
        let more = format!("{}site:{name}", if at == 0 { " " } else { " OR " });
        if fits(&text, &more) {
            text.push_str(&more);
        }
    }
    for name in &query.blocked {
        let more = format!(" -site:{name}");
        if fits(&text, &more) {
            text.push_str(&more);
        }
    }
    text
}

/// Returns how long the service wants the client to wait, if it says so.
fn waiting_time(headers: &header::HeaderMap) -> Option<String> {
    let text = |name: &str| headers.get(name).and_then(|it| it.to_str().ok()).map(str::trim);
    // Brave sends the seconds until each of its limits resets, the shortest first.
    let reset = || text("x-ratelimit-reset")?.split(',').next().map(str::trim);
    let said = text("retry-after").or_else(reset)?;
    Some(if said.parse::<u64>().is_ok() { format!("{said} s") } else { haft_types::text::one_line(said, 60) })
}

/// Returns the search engines of a SearXNG server that failed, with their reasons.
fn silent_engines(answer: &Value) -> Option<String> {
    let silent = answer["unresponsive_engines"].as_array().filter(|it| !it.is_empty())?;
    let name = |it: &Value| {
        let (engine, why) = (it[0].as_str().or(it.as_str()).unwrap_or("one"), it[1].as_str());
        why.map_or_else(|| engine.to_owned(), |why| format!("{engine} ({why})"))
    };
    Some(haft_types::text::one_line(&silent.iter().map(name).collect::<Vec<_>>().join(", "), 300))
}

impl SearchProvider for SearchAdapter {
    fn name(&self) -> &str {
        self.kind.name()
    }

    fn endpoint(&self) -> &str {
        self.base.as_str()
    }

    fn search<'a>(&'a self, query: &'a SearchQuery) -> BoxFuture<'a, Result<SearchHits, SearchError>> {
        Box::pin(self.ask(query))
    }
}
