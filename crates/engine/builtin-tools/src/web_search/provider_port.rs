use haft_tool::BoxFuture;
use serde::Serialize;

/// A web search service.
pub trait SearchProvider: Send + Sync {
    /// Display name of the provider.
    fn name(&self) -> &str;

    /// URL that queries are sent to. Permission rules apply to it.
    fn endpoint(&self) -> &str;

    /// Runs one query. Waits for the network.
    fn search<'a>(&'a self, query: &'a SearchQuery) -> BoxFuture<'a, Result<SearchHits, SearchError>>;
}

#[derive(Clone, Debug, Default)]
pub struct SearchQuery {
    /// The search terms.
    pub text: String,
    /// If not empty, return results from these domains only.
    pub allowed: Vec<String>,
    /// Return no results from these domains.
    pub blocked: Vec<String>,
    /// Maximum number of results.
    pub limit: usize,
}

/// The results of a query.
#[derive(Clone, Debug, Default)]
pub struct SearchHits {
    /// Pages, best first.
    pub hits: Vec<SearchHit>,
    /// Additional text from the provider, such as an answer.
    pub summary: String,
    /// Number of searches the provider made, for accounting.
    pub searches: u32,
}

/// A page that was found.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, schemars::JsonSchema)]
pub struct SearchHit {
    /// Its title.
    pub title: String,
    /// Its address.
    pub url: String,
    /// A quote.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snippet: Option<String>,
    /// When it was written, as the provider says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub date: Option<String>,
}

/// Why a search failed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum SearchError {
    /// The provider rejected the key or the request; the text gives its reason.
    Refused(String),
    /// The provider rejected this query; a different query may succeed.
    Question(String),
    /// Rate limit or quota exceeded; the text says how long to wait, if the provider does.
    Quota(Option<String>),
    /// The provider cannot be reached or its response is invalid.
    Unavailable(String),
}

impl SearchHit {
    /// Removes markup and control characters, and limits the number of lines.
    pub(crate) fn plain(self) -> Self {
        let words = |text: &str, most: usize| {
            let mut plain = String::new();
            let mut in_tag = false;
            for it in text.chars() {
                match it {
                    '<' => in_tag = true,
                    '>' if in_tag => in_tag = false,
                    _ if in_tag => {}
                    it if it.is_control()
                        || matches!(it, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}') =>
                    {
                        plain.push(' ')
                    }
                    it => plain.push(it),
                }
            }
            let plain = plain
                .replace("&amp;", "&")
                .replace("&lt;", "<")
                .replace("&gt;", ">")
                .replace("&quot;", "\"")
                .replace("&#x27;", "'")
                .replace("&#39;", "'");
            haft_types::text::one_line(plain.trim(), most)
        };
        Self {
            title: words(&self.title, 200),
            url: haft_types::text::one_line(&self.url, 500),
            snippet: self.snippet.map(|it| words(&it, 500)).filter(|it| !it.is_empty()),
            date: self.date.map(|it| words(&it, 40)).filter(|it| !it.is_empty()),
        }
    }
}
