//! Ranked search over the code base.

mod index_cache;
mod result_text;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use haft_search::{AnswerLimits, Finder, GlobFilter, IndexRefreshOptions, RankQuery, SearchStop, WalkFilter};
use haft_tool::{
    AccessSet, CallContext, Content, Outcome, Rendered, Stage, Tool, ToolContext, ToolError, Traits,
    schema_of,
};
use haft_workspace::SessionFiles;
pub use result_text::Output;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use self::{index_cache::Indexes, result_text::Found};
use crate::search_common::{self, OpenedTarget, Place, SearchToolSettings, shown};

/// Finds things in the code base, ranked: where something is defined, then where it is used, then where
/// comments and documents mention it. Use it first for "where is X defined / used" and for questions in a few
/// words ("retry with backoff"). Knows whole words and parts of names, not regular expressions (use Grep), and
/// leaves out ignored and hidden files.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// A name such as `parse_config` or `Config::load`, or a few words.
    #[schemars(length(min = 1, max = 500))]
    pub query: String,
    /// Directory to search. The working directory if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    /// Only files that fit, such as `*.rs` or `src/**`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub glob: Option<String>,
    /// About how many lines to answer with; 40 if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 3, max = 300))]
    pub limit: Option<usize>,
}

#[derive(Clone, Debug, Default)]
pub struct Search {
    settings: SearchToolSettings,
    indexes: Indexes,
    /// The files of the session, to mention those with unsaved changes in an editor.
    files: Option<Arc<SessionFiles>>,
}

/// Default maximum lines of an answer.
const USUAL_LIMIT: usize = 40;

impl Search {
    /// Creates the tool. Clones share their indexes.
    pub fn new(settings: SearchToolSettings) -> Self {
        Self { settings, indexes: Indexes::default(), files: None }
    }

    /// Adds notes about found files with unsaved changes in an editor.
    pub fn beside(self, files: Arc<SessionFiles>) -> Self {
        Self { files: Some(files), ..self }
    }
}

impl Input {
    fn ask(&self) -> Result<RankQuery, ToolError> {
        RankQuery::parse(&self.query).ok_or_else(|| {
            ToolError::invalid(
                "There is no word in the query. Give a name or a few words; for marks use Grep",
            )
        })
    }

    fn globs(&self, cx: &CallContext) -> Result<GlobFilter, ToolError> {
        let mut places = vec![&*cx.cwd];
        places.extend(self.path.as_deref());
        let globs: Vec<String> = self.glob.iter().cloned().collect();
        GlobFilter::new(&globs, &places)
            .map_err(|problem| ToolError::invalid(format!("glob is not valid: {problem}")))
    }

    /// Splits the lines of an answer: 30 % definitions, 20 % passages, the rest usages.
    fn limits(&self) -> AnswerLimits {
        let lines = self.limit.unwrap_or(USUAL_LIMIT);
        let definitions = (lines * 3 / 10).max(1);
        let passages = (lines / 5).max(1);
        AnswerLimits { definitions, usages: lines.saturating_sub(definitions + passages).max(1), passages }
    }
}

impl Tool for Search {
    type Input = Input;
    type Output = Output;
    type Progress = ();
    const NAME: &'static str = "Search";

    fn traits(&self) -> Traits {
        Traits {
            search_hint: "find definitions usages symbols code base ranked",
            timeout: None,
            ..Traits::default()
        }
    }

    fn is_read_only(&self, _input: &Input) -> bool {
        true
    }

    fn is_concurrency_safe(&self, _input: &Input) -> bool {
        true
    }

    fn canonicalize(&self, input: &mut Input, cx: &CallContext) {
        search_common::absolute(&mut input.path, cx);
    }

    fn path<'a>(&self, input: &'a Input) -> Option<&'a Path> {
        input.path.as_deref()
    }

    fn reach(&self, input: &Input, cx: &CallContext) -> AccessSet {
        AccessSet::read(input.path.as_deref().unwrap_or(&cx.cwd))
    }

    fn validate(&self, input: &Input, cx: &CallContext) -> Result<(), ToolError> {
        input.ask().map(drop).and(input.globs(cx).map(drop))
    }

    fn describe(&self, input: &Input) -> String {
        match &input.path {
            Some(path) => format!("Search the code for {} in {}", input.query, path.display()),
            None => format!("Search the code for {}", input.query),
        }
    }

    fn output_schema(&self) -> Option<Value> {
        Some(schema_of::<Output>())
    }

    async fn call(&self, input: Input, cx: &ToolContext<()>) -> Result<Outcome<Output>, ToolError> {
        let lookup = SearchLookup {
            ask: input.ask()?,
            globs: input.globs(cx)?,
            place: Place::new(cx, input.path.as_deref().unwrap_or(&cx.cwd))?,
            cx: cx.clone(),
            indexes: self.indexes.clone(),
            limit: self.settings.timeout,
            input,
        };
        let mut output =
            search_common::run(cx, self.settings.timeout, move |stop| lookup.run(stop)).await??;
        let names = output.files();
        output.note(self.files.as_deref().and_then(|files| search_common::unsaved_note(files, &names)));
        Ok(output.into())
    }

    fn to_content(&self, output: &Output) -> Content {
        Content::text(output.text())
    }

    fn render(&self, stage: Stage<'_, Input, Output>) -> Rendered {
        match stage {
            Stage::Running(input) => Rendered::headline(self.describe(input)),
            Stage::Failed(error) => Rendered::error(&error.message),
            Stage::Done(output) => output.rendered(),
        }
    }
}

/// One call, ready to run on a blocking thread.
struct SearchLookup {
    input: Input,
    ask: RankQuery,
    globs: GlobFilter,
    place: Place,
    cx: ToolContext<()>,
    indexes: Indexes,
    limit: Duration,
}

impl SearchLookup {
    fn run(&self, stop: &SearchStop) -> Result<Output, ToolError> {
        let root = match self.place.open() {
            Ok(OpenedTarget::Dir(root)) => root,
            Ok(OpenedTarget::File(_)) => {
                let path = shown(&self.cx.cwd, &self.place.asked, b"");
                return Err(ToolError::failed(format!("{path} is a file; give a directory, or use Grep")));
            }
            Err(error) => return Err(self.place.failure(&error)),
        };
        let shared = self.indexes.of(root.path());
        let mut index = index_cache::lock(&shared);
        let limits = self.place.limits();
        // A quarter of the time is reserved for the answer.
        let refresh_stop = stop.within(self.limit * 3 / 4);
        let filter = WalkFilter::default();
        let refresh = IndexRefreshOptions {
            cwd: &self.cx.cwd,
            filter: &filter,
            limits,
            guess: search_common::guess,
            stop: &refresh_stop,
        };
        let refreshed = refresh.run(&mut index, &root);
        let may_show =
            |rel: &[u8]| self.place.may_show(&self.cx, rel) && self.globs.take(&self.place.path_of(rel));
        let finder = Finder {
            index: &index,
            root: &root,
            ask: &self.ask,
            limits: self.input.limits(),
            walk: limits,
            may_show: &may_show,
            guess: search_common::guess,
            stop,
        };
        let found = Found {
            answer: finder.run(),
            indexed: index.len(),
            refreshed,
            cwd: &self.cx.cwd,
            dir: &self.place.asked,
            limit: self.limit,
        };
        Ok(found.output(&self.input.query))
    }
}
