use std::{path::PathBuf, sync::Arc, time::Duration};

use haft_net::{PrivateHosts, SystemNetwork, WebClient, WebLimits};
use haft_tool::BoxFuture;

/// Answers a question about a page: a small model, where one is configured.
pub trait PageModel: Send + Sync {
    /// Answers `prompt` from `page` alone.
    fn answer<'a>(&'a self, page: &'a str, prompt: &'a str) -> BoxFuture<'a, Result<PageAnswer, String>>;
}

/// What a model said about a page.
#[derive(Clone, Debug)]
pub struct PageAnswer {
    /// The answer.
    pub text: String,
    /// Who answered.
    pub model: String,
}

/// What fetching needs from above.
#[derive(Clone)]
pub struct WebServices {
    /// Asks for pages.
    pub client: WebClient,
    /// What is not text is saved here.
    pub keep_dir: PathBuf,
    /// What a person decided.
    pub settings: WebSettings,
    /// Answers prompts, where somebody does.
    pub reader: Option<Arc<dyn PageModel>>,
}

impl WebServices {
    /// For descriptions and tests: the network of the system, nobody nearby.
    pub fn plain(keep_dir: impl Into<PathBuf>) -> Self {
        let network = SystemNetwork::new(|_| None);
        Self {
            client: WebClient::new(network, PrivateHosts::default(), WebLimits::default()),
            keep_dir: keep_dir.into(),
            settings: WebSettings::default(),
            reader: None,
        }
    }
}

/// What a person decided about fetching.
#[derive(Clone, Debug)]
pub struct WebSettings {
    /// What we call ourselves.
    pub user_agent: String,
    /// Hosts of documentation that need no question.
    pub preapproved: Vec<String>,
    /// How long a page is kept before the server is asked whether it changed;
    /// nothing keeps none.
    pub cache: Option<Duration>,
    /// How long one fetch may take.
    pub total: Duration,
    /// Unpacked bytes of a page.
    pub page_bytes: usize,
    /// Bytes of a file that is saved.
    pub file_bytes: usize,
    /// Characters of one part of a page.
    pub part_chars: usize,
    /// Characters of one part that a model answers from.
    pub asked_chars: usize,
}

/// Hosts with nothing but documentation for everybody.
const DOCUMENTATION: &[&str] = &[
    "developer.mozilla.org",
    "doc.rust-lang.org",
    "docs.python.org",
    "kubernetes.io",
    "learn.microsoft.com",
    "modelcontextprotocol.io",
    "nodejs.org",
    "react.dev",
    "www.typescriptlang.org",
];

impl Default for WebSettings {
    fn default() -> Self {
        Self {
            user_agent: format!("haft/{} (a person's coding agent)", env!("CARGO_PKG_VERSION")),
            preapproved: DOCUMENTATION.iter().map(|it| String::from(*it)).collect(),
            cache: Some(Duration::from_secs(15 * 60)),
            total: Duration::from_secs(60),
            page_bytes: 10 << 20,
            file_bytes: 64 << 20,
            part_chars: 40_000,
            asked_chars: 100_000,
        }
    }
}
