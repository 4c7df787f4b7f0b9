//! Runs one fetch: cache, network, conversion.

use std::{
    io::Write as _,
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use haft_media::MediaWork;
use haft_net::{BodyEnd, CrossHostRedirect, FetchOutcome, WebBody, WebPage, WebUrl};
use haft_tool::{ToolContext, ToolError};
use haft_types::text::thousands;
use reqwest::{
    Response, StatusCode,
    header::{self, HeaderMap, HeaderName, HeaderValue},
};

use super::{
    FetchProgress, Input, WebServices,
    cache_control::CacheControl,
    page::{self, PageWork, Shape, StoredPage, shape},
    page_cache::{CachedPage, PageCache, PageKey},
    result_text,
};

/// Maximum characters shown of an error's body.
const EXPLANATION: usize = 2_000;
/// The body of an error is read for at most this fraction of the total time.
const EXPLAINS_WITHIN: u32 = 12;
/// Maximum bytes read of an error's body.
const EXPLAINED: usize = 64 << 10;
/// Bytes of a body that determine its type.
const HEAD: usize = 4_096;

/// The result of a fetch.
pub(super) enum FetchResult {
    /// A page fetched now.
    New(Arc<StoredPage>),
    /// A page from the cache, or one the server confirmed as unchanged.
    Kept {
        page: Arc<StoredPage>,
        age: Duration,
        /// How often the page was shown before.
        shown: u32,
    },
    /// A redirect to another host, which was not followed.
    Elsewhere(CrossHostRedirect),
}

/// One fetch of a page.
pub(super) struct FetchJob<'a> {
    pub(super) services: &'a WebServices,
    pub(super) media: &'a MediaWork,
    pub(super) cache: &'a Arc<PageCache>,
    pub(super) input: &'a Input,
    pub(super) target: &'a WebUrl,
    pub(super) progress: &'a ToolContext<FetchProgress>,
}

impl FetchJob<'_> {
    pub(super) async fn run(&self) -> Result<FetchResult, ToolError> {
        let key = PageKey { url: self.target.without_fragment().to_string(), raw: self.input.raw };
        let kept = self.services.settings.cache.and_then(|_| self.cache.take(&key));
        if let Some(kept) = &kept
            && self.services.settings.cache.is_some_and(|most| kept.is_fresh(most, self.reads_on()))
        {
            return Ok(known(kept));
        }
        self.say("connecting", 0);
        let headers = self.headers(kept.as_ref());
        let answer = self.services.client.get(self.target, &headers).await;
        let answer = answer.map_err(|err| result_text::failure(&err, self.input, self.target))?;
        let page = match answer {
            FetchOutcome::Elsewhere(elsewhere) => return Ok(FetchResult::Elsewhere(elsewhere)),
            FetchOutcome::Page(page) => page,
        };
        let status = page.response.status();
        let keeping = CacheControl::from_headers(page.response.headers());
        if let Some(kept) = kept.filter(|_| status == StatusCode::NOT_MODIFIED) {
            self.cache.refresh(&key, keeping);
            return Ok(known(&CachedPage { fetched: Instant::now(), ..kept }));
        }
        self.cache.forget(&key);
        if !status.is_success() {
            return Err(self.refused(page).await);
        }
        let text = |name: HeaderName| {
            page.response.headers().get(name).and_then(|it| it.to_str().ok()).map(str::to_owned)
        };
        let (etag, modified) = (text(header::ETAG), text(header::LAST_MODIFIED));
        let (made, end) = self.page(page).await?;
        let made = Arc::new(made);
        let is_broken = matches!(end, BodyEnd::Broken(_) | BodyEnd::Damaged(_));
        if self.services.settings.cache.is_some() && keeping != CacheControl::Never && !is_broken {
            let (fetched, page) = (Instant::now(), Arc::clone(&made));
            self.cache.put(CachedPage { key, page, fetched, etag, modified, keeping, shown: 1 });
        }
        Ok(FetchResult::New(made))
    }

    /// Whether the call asks for a later part of the page.
    fn reads_on(&self) -> bool {
        self.input.offset.is_some_and(|it| 0 < it)
    }

    fn say(&self, stage: &'static str, bytes: u64) {
        self.progress.progress(&FetchProgress { stage, bytes });
    }

    /// Returns the request headers: no cookies, no credentials; only validators of the cached page.
    fn headers(&self, kept: Option<&CachedPage>) -> HeaderMap {
        let mut headers = HeaderMap::new();
        let mut add = |name: HeaderName, value: &str| {
            if let Ok(value) = HeaderValue::from_str(value) {
                headers.insert(name, value);
            }
        };
        add(header::ACCEPT, "text/markdown, text/html;q=0.9, */*;q=0.8");
        add(header::USER_AGENT, &self.services.settings.user_agent);
        add(header::ACCEPT_LANGUAGE, "en, *;q=0.5");
        if let Some(etag) = kept.and_then(|it| it.etag.as_deref()) {
            add(header::IF_NONE_MATCH, etag);
        }
        if let Some(modified) = kept.and_then(|it| it.modified.as_deref()) {
            add(header::IF_MODIFIED_SINCE, modified);
        }
        headers
    }

    /// Builds the error for a response with an error status.
    async fn refused(&self, page: WebPage) -> ToolError {
        let WebPage { url, response, .. } = page;
        let status = response.status();
        let content_type = content_type(&response);
        let retry =
            response.headers().get(header::RETRY_AFTER).and_then(|it| it.to_str().ok()).map(str::to_owned);
        let mut body = Vec::new();
        // Part of the explanation is enough; the status is already known.
        let patience = self.services.settings.total / EXPLAINS_WITHIN;
        let mut web_body = WebBody::new(response);
        // A compressed body that cannot be decoded explains nothing.
        if web_body.packed().is_none() {
            tokio::time::timeout(patience, web_body.read(EXPLAINED, &mut body, &|_| {})).await.ok();
            body.truncate(EXPLAINED);
        }
        let said = page::explanation(&body, &content_type, &url, EXPLANATION);
        result_text::status_error(status, &url, &self.services.settings.user_agent, retry.as_deref(), &said)
    }

    /// Reads the body and converts it to a page. Also returns how the body ended.
    async fn page(&self, page: WebPage) -> Result<(StoredPage, BodyEnd), ToolError> {
        let WebPage { url, response, proxy } = page;
        let (code, content_type) = (response.status().as_u16(), content_type(&response));
        let mut notes = Vec::new();
        if let Some(proxy) = proxy {
            notes.push(format!(
                "Fetched through the proxy {}: it chose the address, we checked the name only.",
                proxy.address()
            ));
        }
        if code == StatusCode::PARTIAL_CONTENT.as_u16() {
            notes.push(String::from("The server sent a part of it only (206), which nobody asked for."));
        }
        let mut bytes = Vec::new();
        let settings = &self.services.settings;
        let mut body = WebBody::new(response);
        let told = |bytes: usize| self.say("reading", bytes as u64);
        let mut end = body.read(HEAD, &mut bytes, &told).await;
        let packed = body.packed().map(|it| page::visible(haft_types::text::one_line(it, 40)));
        let shape = match &packed {
            None => shape(&bytes, &content_type),
            Some(_) => Shape::Other("packed"),
        };
        if let Some(packed) = packed {
            notes.push(format!(
                "The server packed its answer ({packed}) although only gzip was asked for, so it cannot be read here."
            ));
        }
        let most = match shape {
            Shape::Html | Shape::Text => settings.page_bytes,
            Shape::Pdf | Shape::Picture | Shape::Other(_) => settings.file_bytes,
        };
        if end == BodyEnd::Cut {
            end = if most < bytes.len() { end } else { body.read(most, &mut bytes, &told).await };
            bytes.truncate(most);
        }
        match &end {
            BodyEnd::Whole => {}
            BodyEnd::Cut => notes.push(format!(
                "The answer is longer than {} bytes; the rest was not fetched and is not converted.",
                thousands(most as u64)
            )),
            BodyEnd::Broken(why) => {
                notes.push(format!("The connection broke, so the end is missing ({why})."))
            }
            BodyEnd::Damaged(why) => {
                notes.push(format!("The answer cannot be unpacked, so the end is missing ({why})."))
            }
        }
        self.say("converting", bytes.len() as u64);
        let saved_to = match shape {
            Shape::Html | Shape::Text => None,
            Shape::Pdf | Shape::Picture | Shape::Other(_) => {
                let name = file_name(&url, &content_type, shape);
                let saved;
                (saved, bytes) = save(&self.services.keep_dir, name, bytes).await?;
                Some(saved)
            }
        };
        let work = PageWork {
            url,
            code,
            content_type,
            bytes,
            shape,
            raw: self.input.raw,
            media: self.media.clone(),
            saved_to,
            notes,
        };
        let cancel = self.progress.cancel.clone();
        let made = tokio::task::spawn_blocking(move || work.run(&|| cancel.is_cancelled())).await;
        let made = made.map_err(|_| {
            ToolError::failed("The page is made in a way that cannot be converted; try raw: true.")
        })?;
        Ok((made, end))
    }
}

fn known(kept: &CachedPage) -> FetchResult {
    FetchResult::Kept { page: Arc::clone(&kept.page), age: kept.age(), shown: kept.shown.saturating_sub(1) }
}

fn content_type(response: &Response) -> String {
    let value = response.headers().get(header::CONTENT_TYPE);
    value.map(|it| page::visible(String::from_utf8_lossy(it.as_bytes()))).unwrap_or_default()
}

/// Returns a safe file name for a saved file, from the end of the URL.
fn file_name(url: &url::Url, content_type: &str, shape: Shape) -> String {
    let last = url.path_segments().and_then(|mut it| it.next_back()).unwrap_or_default();
    let keeps = |it: char| if it.is_ascii_alphanumeric() || matches!(it, '.' | '-' | '_') { it } else { '_' };
    let name: String = last.chars().map(keeps).collect();
    let name = haft_types::text::tail(name.trim_start_matches('.'), 80).to_owned();
    let ending = match shape {
        Shape::Pdf => "pdf",
        _ => content_type.split(';').next().unwrap_or_default().rsplit('/').next().unwrap_or_default(),
    };
    let ending: String = ending.chars().filter(char::is_ascii_alphanumeric).take(8).collect();
    match (name.is_empty(), name.contains('.')) {
        (true, _) if ending.is_empty() => String::from("page.bin"),
        (true, _) => format!("page.{ending}"),
        (false, false) if !ending.is_empty() => format!("{name}.{ending}"),
        _ => name,
    }
}

/// Saves bytes under a new name that ends like `name`. Returns the path and the bytes.
async fn save(dir: &Path, name: String, bytes: Vec<u8>) -> Result<(PathBuf, Vec<u8>), ToolError> {
    let dir = dir.to_owned();
    let saved = tokio::task::spawn_blocking(move || {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&dir)?;
        for number in 1_u32.. {
            let path = dir.join(format!("webfetch-{number}-{name}"));
            match std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
                Ok(mut file) => {
                    file.write_all(&bytes)?;
                    return Ok((path, bytes));
                }
                Err(err) if err.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(err) => return Err(err),
            }
        }
        Err(std::io::Error::other("no name is free"))
    });
    let saved = saved.await.map_err(|err| ToolError::failed(err.to_string()))?;
    saved.map_err(|err| ToolError::failed(format!("The file was fetched but could not be saved: {err}")))
}

/// Saves the text of a page, so that the model can read more than the answer. `None` if that fails.
pub(super) async fn save_text(dir: &Path, page: &StoredPage) -> Option<PathBuf> {
    save(dir, String::from("page.md"), page.text.clone().into_bytes()).await.ok().map(|it| it.0)
}
