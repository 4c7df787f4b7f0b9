//! Fetches a web page.

mod cache_control;
mod fetch;
mod input;
mod page;
mod page_cache;
mod result_text;
mod services;

use std::{sync::Arc, time::Instant};

use haft_media::MediaWork;
use haft_net::WebUrl;
use haft_tool::{
    Access, AccessSet, CallContext, Content, LineStyle, Outcome, Rendered, RenderedLine, Stage, Tool,
    ToolContext, ToolError, Traits, Verdict,
};
use url::Url;

pub use input::{FetchProgress, Input, Output};
pub use services::{PageAnswer, PageModel, WebServices, WebSettings};

use self::{
    fetch::{FetchJob, FetchResult},
    page::{StoredPage, part},
    page_cache::PageCache,
};

/// Maximum bytes of the query and of the path of a URL on a preapproved documentation host. A longer URL
/// asks, because it could leak data to the server.
const FREE_QUERY: usize = 64;
const FREE_PATH: usize = 256;

/// Number of times a page that needs JavaScript is fetched before further calls are rejected.
const SHELL_FETCHES: u32 = 2;

pub struct WebFetch {
    services: WebServices,
    media: MediaWork,
    cache: Arc<PageCache>,
}

impl WebFetch {
    pub fn new(services: WebServices) -> Self {
        Self { services, media: MediaWork::default(), cache: Arc::default() }
    }

    /// Sets where images and PDFs are decoded.
    pub fn with_media(mut self, media: MediaWork) -> Self {
        self.media = media;
        self
    }

    fn target(&self, input: &Input) -> Result<WebUrl, ToolError> {
        let near = self.services.client.near();
        let target = WebUrl::parse(&input.url, near).map_err(|it| result_text::bad_address(input, &it))?;
        Ok(target.encrypted(near))
    }

    /// Returns the page: from the cache, revalidated, or fetched now.
    async fn page(
        &self,
        input: &Input,
        target: &WebUrl,
        cx: &ToolContext<FetchProgress>,
    ) -> Result<FetchResult, ToolError> {
        let fetching = FetchJob {
            services: &self.services,
            media: &self.media,
            cache: &self.cache,
            input,
            target,
            progress: cx,
        };
        let total = self.services.settings.total;
        tokio::select! {
            fetched = tokio::time::timeout(total, fetching.run()) => fetched.unwrap_or_else(|_| {
                Err(ToolError::failed(format!(
                    "{} took longer than {} s and was given up.",
                    target.url(),
                    total.as_secs()
                )))
            }),
            () = cx.cancel.cancelled() => Err(ToolError::failed("Interrupted while fetching")),
        }
    }

    /// Returns the requested part of a page.
    fn shown(&self, page: &StoredPage, input: &Input, most: usize) -> Output {
        let start = input.offset.map_or(0, |it| usize::try_from(it).unwrap_or(usize::MAX));
        let (piece, next) = part(&page.text, start, most);
        Output {
            bytes: page.bytes,
            code: page.code,
            code_text: reqwest::StatusCode::from_u16(page.code).map(result_text::reason).unwrap_or_default(),
            result: piece.to_owned(),
            url: page.url.clone(),
            content_type: page.content_type.clone(),
            title: page.title.clone(),
            total_chars: page.text.chars().count() as u64,
            offset: start as u64,
            next_offset: next.map(|it| it as u64),
            saved_to: page.saved_to.clone(),
            notes: page.notes.clone(),
            images: if start == 0 { page.images.clone() } else { Vec::new() },
            ..Output::default()
        }
    }

    /// Lets a small model answer the call's prompt; `None` if there is no prompt or no model.
    async fn answered(
        &self,
        page: &StoredPage,
        input: &Input,
        cx: &ToolContext<FetchProgress>,
    ) -> Option<Output> {
        let prompt = input.prompt.as_deref().map(str::trim).filter(|it| !it.is_empty())?;
        let reader = self.services.reader.as_ref().filter(|_| !input.raw && !page.text.is_empty())?;
        let mut output = self.shown(page, input, self.services.settings.asked_chars);
        cx.progress(&FetchProgress { stage: "asking", bytes: page.bytes });
        let answer = tokio::select! {
            answer = reader.answer(&output.result, prompt) => answer,
            () = cx.cancel.cancelled() => return None,
        };
        match answer {
            Ok(answer) => {
                output.saved_to = fetch::save_text(&self.services.keep_dir, page).await.or(output.saved_to);
                output.result = answer.text;
                output.summary_by = Some(answer.model);
                Some(output)
            }
            Err(why) => {
                let mut output = self.shown(page, input, self.services.settings.part_chars);
                output.notes.push(format!("The small model did not answer ({why}), so this is the page."));
                Some(output)
            }
        }
    }
}

impl Tool for WebFetch {
    type Input = Input;
    type Output = Output;
    type Progress = FetchProgress;
    const NAME: &'static str = "WebFetch";

    fn output_schema(&self) -> Option<serde_json::Value> {
        Some(haft_tool::schema_of::<Output>())
    }

    fn traits(&self) -> Traits {
        Traits {
            aliases: &["web_fetch"],
            synonyms: &[("uri", "url"), ("link", "url")],
            search_hint: "web page url http download documentation internet",
            // The tool itself limits its results to parts of a page.
            max_result_chars: None,
            timeout: None,
            feature: Some("webFetch"),
            ..Traits::default()
        }
    }

    fn is_read_only(&self, _input: &Input) -> bool {
        true
    }

    fn is_concurrency_safe(&self, _input: &Input) -> bool {
        true
    }

    fn reach(&self, input: &Input, _cx: &CallContext) -> AccessSet {
        AccessSet::Declared(vec![Access::Fetch(input.url.clone())])
    }

    fn validate(&self, input: &Input, _cx: &CallContext) -> Result<(), ToolError> {
        self.target(input).map(drop)
    }

    fn check_permissions(&self, input: &Input, _cx: &CallContext) -> Verdict {
        let Ok(target) = self.target(input) else { return Verdict::Passthrough };
        let (host, url) = (target.host(), target.url());
        let known = self.services.settings.preapproved.contains(&host);
        let carries_little =
            url.query().is_none_or(|it| it.len() <= FREE_QUERY) && url.path().len() <= FREE_PATH;
        if known && carries_little && url.scheme() == "https" && url.port().is_none() {
            Verdict::Allow
        } else {
            Verdict::Passthrough
        }
    }

    fn describe(&self, input: &Input) -> String {
        format!("Fetch {}", page::visible(&input.url))
    }

    async fn call(
        &self,
        input: Input,
        cx: &ToolContext<FetchProgress>,
    ) -> Result<Outcome<Output>, ToolError> {
        let began = Instant::now();
        let target = self.target(&input)?;
        let fetched = self.page(&input, &target, cx).await?;
        let duration_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let (page, cached) = match fetched {
            FetchResult::Elsewhere(elsewhere) => {
                return Ok(result_text::redirected(&elsewhere, duration_ms).into());
            }
            FetchResult::New(page) => (page, None),
            FetchResult::Kept { page, age, shown } => {
                if page.needs_script && SHELL_FETCHES <= shown {
                    return Err(ToolError::failed(format!(
                        "{} was fetched {shown} times already and shows nothing without JavaScript. \
                         Another fetch will not help; look for an API, a feed, a raw file or another page.",
                        page.url
                    )));
                }
                (page, Some(age.as_secs()))
            }
        };
        let mut output = match self.answered(&page, &input, cx).await {
            Some(output) => output,
            None => self.shown(&page, &input, self.services.settings.part_chars),
        };
        output.cached_seconds = cached;
        output.duration_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        Ok(output.into())
    }

    fn to_content(&self, output: &Output) -> Content {
        result_text::text_for_model(output)
    }

    fn render(&self, stage: Stage<'_, Input, Output>) -> Rendered {
        match stage {
            Stage::Running(input) => Rendered::headline(self.describe(input)),
            Stage::Failed(error) => Rendered::error(&error.message),
            Stage::Done(output) => {
                let size = haft_types::text::thousands(output.bytes);
                let host = Url::parse(&output.url).ok().and_then(|it| it.host_str().map(str::to_owned));
                let headline = format!(
                    "{} {} · {size} bytes · {}",
                    output.code,
                    output.code_text,
                    output.title.clone().or(host).unwrap_or_default()
                );
                let mut shown = Rendered::preview(&output.result);
                let notes = output.notes.iter().map(|it| RenderedLine::new(LineStyle::Dim, it.clone()));
                shown.lines.extend(notes);
                if let Some(to) = &output.redirect_to {
                    shown.lines.push(RenderedLine::new(LineStyle::Plain, format!("sends on to {to}")));
                }
                Rendered { headline, ..shown }
            }
        }
    }

    fn classifier_input(&self, input: &Input) -> String {
        self.describe(input)
    }
}
