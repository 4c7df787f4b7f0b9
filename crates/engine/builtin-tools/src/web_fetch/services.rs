use std::{path::PathBuf, sync::Arc, time::Duration};

use haft_net::{PrivateHosts, SystemNetwork, WebClient, WebLimits};
use haft_tool::BoxFuture;

/// A small model that answers questions about a page.
pub trait PageModel: Send + Sync {
    /// Answers `prompt` from `page` alone. An error is a reason for the notes.
    fn answer<'a>(&'a self, page: &'a str, prompt: &'a str) -> BoxFuture<'a, Result<PageAnswer, String>>;
}

#[derive(Clone, Debug)]
pub struct PageAnswer {
    pub text: String,
    /// Name of the model that answered.
    pub model: String,
}

/// What the fetch tool needs.
#[derive(Clone)]
pub struct WebServices {
    /// The HTTP client.
    pub client: WebClient,
    /// Directory for fetched files that are not text.
    pub keep_dir: PathBuf,
    /// The user's settings.
    pub settings: WebSettings,
    /// Answers prompts about pages; `None` if no small model is configured.
    pub reader: Option<Arc<dyn PageModel>>,
}

impl WebServices {
    /// Creates services for descriptions and tests: the system's network, without private hosts and
    /// without a model.
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

/// The user's settings for fetching.
#[derive(Clone, Debug)]
pub struct WebSettings {
    /// User-Agent header.
    pub user_agent: String,
    /// Documentation hosts that are fetched without a prompt.
    pub preapproved: Vec<String>,
    /// Maximum age of a cached page before it is revalidated; `None` disables the cache. Default 15
    /// minutes.
    pub cache: Option<Duration>,
    /// Timeout of one fetch. Default 60 s.
    pub total: Duration,
    /// Maximum decompressed bytes of a text page; the rest is not fetched. Default 10 MiB.
    pub page_bytes: usize,
    /// Maximum bytes fetched of a PDF, image or other file; the rest is cut off. Default 64 MiB.
    pub file_bytes: usize,
    /// Maximum characters of one part of a page. Default 40,000.
    pub part_chars: usize,
    /// Maximum characters of a page that are given to the small model. Default 100,000.
    pub asked_chars: usize,
}

/// Hosts with public documentation only.
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
