use haft_tool::BoxFuture;
use serde::Serialize;

/// Somebody who searches the web.
pub trait SearchProvider: Send + Sync {
    /// Its name, for people.
    fn name(&self) -> &str;

    /// Where questions go.
    fn endpoint(&self) -> &str;

    /// Searches.
    fn search<'a>(&'a self, query: &'a SearchQuery) -> BoxFuture<'a, Result<SearchHits, SearchError>>;
}

/// A question.
#[derive(Clone, Debug, Default)]
pub struct SearchQuery {
    /// What is searched for.
    pub text: String,
    /// Only these domains, if any.
    pub allowed: Vec<String>,
    /// None of these domains.
    pub blocked: Vec<String>,
    /// As many hits at most.
    pub limit: usize,
}

/// What was found.
#[derive(Clone, Debug, Default)]
pub struct SearchHits {
    /// Pages, best first.
    pub hits: Vec<SearchHit>,
    /// What was said besides.
    pub summary: String,
    /// How many searches it took.
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

/// Why nothing was found out.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum SearchError {
    /// The key or the request is not accepted.
    Refused(String),
    /// What is asked is not accepted; another question may be.
    Question(String),
    /// Asked too often; how long to wait, where it says so.
    Quota(Option<String>),
    /// Not reached, or it made no sense.
    Unavailable(String),
}

impl SearchHit {
    /// Without markup, control characters and more than a few lines.
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
