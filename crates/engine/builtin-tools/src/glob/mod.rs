//! Finds files by name.

mod glob_search;

use std::path::{Path, PathBuf};

use haft_paths::lexical;
use haft_search::{GlobPlan, VCS_DIRS, WalkFilter};
use haft_tool::{
    Access, AccessSet, CallContext, Content, LineStyle, Outcome, Rendered, RenderedLine, Stage, Tool,
    ToolContext, ToolError, Traits, schema_of,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use self::glob_search::Search;
use crate::search_common::{self, Place, SearchToolSettings, counted};

/// Finds files by name and lists them, the most recently changed first, at most 100. Lists dotfiles and
/// ignored files too, but not the insides of .git and the like. Finds files, not directories (use LS), and
/// does not look into them (use Grep).
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Glob such as `**/*.ts` or `src/**/test_*.{py,pyi}`. Without a slash it matches at any depth; begin
    /// with `./` to stay in one directory. Names before the first wildcard decide where to look, so
    /// `apps/web/**/*.ts` is faster than `**/*.ts`.
    pub pattern: String,
    /// Directory to look in. The working directory if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
}

/// The files that matched.
#[derive(Clone, Debug, Default, JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Output {
    /// How long it took.
    duration_ms: u64,
    /// How many files are listed.
    num_files: usize,
    /// The files, most recently changed first.
    filenames: Vec<String>,
    /// There are more than are listed.
    truncated: bool,
    /// How many match in all.
    #[serde(skip_serializing_if = "Option::is_none")]
    total_matches: Option<u64>,
    /// Whether every place was looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    count_is_complete: Option<bool>,
    /// The time ran out.
    #[serde(skip_serializing_if = "Option::is_none")]
    timed_out: Option<bool>,
    /// What the model has to know about the list.
    #[serde(skip)]
    notes: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Glob {
    settings: SearchToolSettings,
}

impl Glob {
    pub fn new(settings: SearchToolSettings) -> Self {
        Self { settings }
    }

    fn filter(&self, pattern: &str) -> WalkFilter {
        // A pattern that names a version control directory is meant to search it.
        let names_vcs = pattern.split('/').any(|name| VCS_DIRS.contains(&name));
        WalkFilter {
            respect_ignore: !self.settings.glob_ignored,
            skip_hidden: !self.settings.glob_hidden,
            skip_vcs: !names_vcs,
            ..WalkFilter::default()
        }
    }
}

fn plan(input: &Input, cx: &CallContext) -> Result<GlobPlan, ToolError> {
    let base = lexical(input.path.as_deref().unwrap_or(&cx.cwd));
    GlobPlan::parse(&input.pattern, &base, cx.home.as_deref())
        .map_err(|problem| ToolError::invalid(format!("`{}` is no usable pattern: {problem}", input.pattern)))
}

impl Tool for Glob {
    type Input = Input;
    type Output = Output;
    type Progress = ();
    const NAME: &'static str = "Glob";

    fn traits(&self) -> Traits {
        Traits {
            aliases: &["list_files", "find_files"],
            synonyms: &[("glob", "pattern"), ("directory", "path"), ("dir", "path")],
            search_hint: "find files by name pattern",
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
        match plan(input, cx) {
            Ok(plan) => AccessSet::Declared(plan.roots().map(|root| Access::Read(root.to_owned())).collect()),
            Err(_) => AccessSet::Undeclared,
        }
    }

    fn validate(&self, input: &Input, cx: &CallContext) -> Result<(), ToolError> {
        plan(input, cx).map(drop)
    }

    fn describe(&self, input: &Input) -> String {
        match &input.path {
            Some(path) => format!("Find {} in {}", input.pattern, path.display()),
            None => format!("Find {}", input.pattern),
        }
    }

    fn output_schema(&self) -> Option<Value> {
        Some(schema_of::<Output>())
    }

    async fn call(&self, input: Input, cx: &ToolContext<()>) -> Result<Outcome<Output>, ToolError> {
        let plan = plan(&input, cx)?;
        let places: Result<Vec<Place>, ToolError> = plan.roots().map(|root| Place::new(cx, root)).collect();
        let search = Search {
            filter: self.filter(&input.pattern),
            places: places?,
            plan,
            cx: cx.clone(),
            input,
            settings: self.settings,
        };
        let output = search_common::run(cx, self.settings.timeout, move |stop| search.run(stop)).await??;
        Ok(output.into())
    }

    fn to_content(&self, output: &Output) -> Content {
        let mut lines = output.filenames.clone();
        lines.extend(output.notes.iter().cloned());
        Content::text(lines.join("\n"))
    }

    fn render(&self, stage: Stage<'_, Input, Output>) -> Rendered {
        match stage {
            Stage::Running(input) => Rendered::headline(self.describe(input)),
            Stage::Failed(error) => Rendered::error(&error.message),
            Stage::Done(output) => rendered(output),
        }
    }
}

fn rendered(output: &Output) -> Rendered {
    const SHOWN: usize = 20;
    let total = output.total_matches.unwrap_or(0);
    let lines = output.filenames.iter().map(|name| RenderedLine::new(LineStyle::Plain, name)).collect();
    let notes = output.notes.iter().map(|note| RenderedLine::new(LineStyle::Dim, note)).collect();
    let headline = counted(total, "file", "files");
    Rendered { headline, lines, notes, ..Rendered::default() }.folded_to(SHOWN)
}
