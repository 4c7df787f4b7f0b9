//! Applies several replacements, in one or more files, as one change.

mod edit_plan;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use edit_plan::{EditVerdict, MultiEditJob};
use haft_tool::{
    Access, AccessSet, CallContext, CallEffect, CollapsedLines, Content, Outcome, Rendered, Stage, Tool,
    ToolContext, ToolError, Traits,
};
use haft_workspace::{Hunk, SessionFiles};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::edit_common::{
    blocking, canonical,
    change_report::{self, Sizes, diff_for_model},
    check_path,
    config_check::ConfigCheck,
    edit_observer::{EditObserver, NoEditObserver},
    granted, viewer,
};

/// Makes several replacements as one change: in one file, or in several. They are made in order, so a
/// later one sees the text of an earlier one. Either all of them are made or none is, in any file;
/// the answer says for each one what became of it. Every edit follows the rules of Edit: read the
/// file first, `old_string` must be there exactly once unless `replace_all` is true.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// File of every edit that names none itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_path: Option<PathBuf>,
    /// The edits, in order.
    #[schemars(length(min = 1, max = 500))]
    pub edits: Vec<EditInput>,
    /// Make the edits that can be made even if others cannot.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
}

/// One replacement.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct EditInput {
    /// Path of the file, if it is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_path: Option<PathBuf>,
    /// The text to replace. Empty creates the file.
    pub old_string: String,
    /// The text to put there.
    pub new_string: String,
    /// Replace every occurrence instead of exactly one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub replace_all: bool,
}

impl Input {
    fn path_of<'a>(&'a self, edit: &'a EditInput) -> Option<&'a PathBuf> {
        edit.file_path.as_ref().or(self.file_path.as_ref())
    }

    /// Returns every file once, in the order of the edits.
    fn paths(&self) -> Vec<&PathBuf> {
        let mut paths = Vec::new();
        for path in self.edits.iter().filter_map(|edit| self.path_of(edit)) {
            if !paths.contains(&path) {
                paths.push(path);
            }
        }
        paths
    }
}

/// What a batch did.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Output {
    /// Every file that was changed.
    pub files: Vec<FileOutput>,
    /// What became of each edit.
    pub edits: Vec<EditOutput>,
    /// Names the change for undo.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub undo_id: Option<String>,
    /// What is worth knowing about how it was done.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// A file that was changed.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FileOutput {
    /// The file.
    pub file_path: PathBuf,
    /// The file before; nothing for a new or a very large one.
    pub original_file: Option<String>,
    /// The change, in hunks.
    #[schemars(with = "Vec<serde_json::Map<String, serde_json::Value>>")]
    pub structured_patch: Vec<Hunk>,
    /// Sizes before and after.
    #[schemars(with = "serde_json::Map<String, serde_json::Value>")]
    pub sizes: Sizes,
}

/// What became of one edit.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EditOutput {
    /// Its place in the list, from one.
    pub edit: usize,
    /// The file.
    pub file_path: PathBuf,
    /// `ok`, or in a word why not.
    pub status: String,
    /// How many places were replaced.
    pub replacements: usize,
    /// What is worth knowing, or why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

impl EditOutput {
    fn new(edit: usize, file_path: PathBuf, verdict: &EditVerdict) -> Self {
        let (status, replacements, message) = match verdict {
            EditVerdict::Done { places, notes } => {
                ("ok".to_owned(), *places, (!notes.is_empty()).then(|| notes.join("\n")))
            }
            EditVerdict::Refused { status, message } => (status.clone(), 0, Some(message.clone())),
        };
        Self { edit, file_path, status, replacements, message }
    }

    fn line(&self) -> String {
        let message = self.message.as_ref().map(|it| format!(": {it}")).unwrap_or_default();
        format!("edit {} ({}): {}{message}", self.edit, self.file_path.display(), self.status)
    }
}

pub struct MultiEdit {
    files: Arc<SessionFiles>,
    config: Arc<dyn ConfigCheck>,
    news: Arc<dyn EditObserver>,
}

impl MultiEdit {
    pub fn new(files: Arc<SessionFiles>, config: Arc<dyn ConfigCheck>) -> Self {
        Self { files, config, news: Arc::new(NoEditObserver) }
    }

    /// Adds an observer, whose findings become part of each result.
    pub fn with_news(mut self, news: Arc<dyn EditObserver>) -> Self {
        self.news = news;
        self
    }
}

impl Tool for MultiEdit {
    type Input = Input;
    type Output = Output;
    type Progress = ();
    const NAME: &'static str = "MultiEdit";

    fn output_schema(&self) -> Option<serde_json::Value> {
        Some(haft_tool::schema_of::<Output>())
    }

    fn traits(&self) -> Traits {
        Traits {
            synonyms: &[("path", "file_path"), ("file", "file_path"), ("filename", "file_path")],
            search_hint: "several edits at once batch many files atomic refactor rename",
            max_result_chars: None,
            ..Traits::default()
        }
    }

    fn canonicalize(&self, input: &mut Input, cx: &CallContext) {
        for path in
            input.file_path.iter_mut().chain(input.edits.iter_mut().filter_map(|it| it.file_path.as_mut()))
        {
            canonical(path, cx);
        }
    }

    fn path<'a>(&self, input: &'a Input) -> Option<&'a Path> {
        match input.paths().as_slice() {
            [path] => Some(path),
            _ => None,
        }
    }

    fn reach(&self, input: &Input, _cx: &CallContext) -> AccessSet {
        AccessSet::Declared(input.paths().into_iter().map(|path| Access::Write(path.clone())).collect())
    }

    fn validate(&self, input: &Input, cx: &CallContext) -> Result<(), ToolError> {
        for (at, edit) in input.edits.iter().enumerate() {
            let Some(path) = input.path_of(edit) else {
                return Err(ToolError::invalid(format!(
                    "edits[{at}]: no file; give file_path here or for the whole call."
                )));
            };
            check_path(path, cx)?;
            if edit.old_string == edit.new_string {
                return Err(ToolError::invalid(format!(
                    "edits[{at}]: old_string and new_string are the same; nothing to change."
                )));
            }
        }
        Ok(())
    }

    fn describe(&self, input: &Input) -> String {
        let paths: Vec<String> = input.paths().iter().map(|it| it.display().to_string()).collect();
        format!("{} edits in {}", input.edits.len(), haft_types::text::one_line(&paths.join(", "), 160))
    }

    async fn call(&self, input: Input, cx: &ToolContext<()>) -> Result<Outcome<Output>, ToolError> {
        let mut real = BTreeMap::new();
        for path in input.paths() {
            real.insert(path.clone(), granted(cx, path)?);
        }
        let changed: Vec<PathBuf> = input.paths().into_iter().cloned().collect();
        let touched: Vec<PathBuf> = real.values().cloned().collect();
        let job = MultiEditJob {
            files: Arc::clone(&self.files),
            config: Arc::clone(&self.config),
            viewer: viewer(cx),
            input,
            real,
        };
        let readable = cx.clone();
        let mut output = blocking(move || job.run(&|path| readable.may_read(path))).await?;
        if output.edits.iter().any(|it| it.status == "ok") {
            output.notes.extend(Arc::clone(&self.news).after(&touched, &cx.cwd, &cx.agent_id).await);
        }
        let traces = changed.into_iter().map(CallEffect::FileChanged);
        Ok(traces.fold(Outcome::from(output), Outcome::with_trace))
    }

    fn to_content(&self, output: &Output) -> Content {
        let done = output.edits.iter().filter(|it| it.status == "ok").count();
        let undo = output.undo_id.as_ref().map(|id| format!(" Undo id: {id}.")).unwrap_or_default();
        let mut text = format!("Made {done} of {} edits.{undo}", output.edits.len());
        for edit in output.edits.iter().filter(|it| it.message.is_some()) {
            text.push_str(&format!("\n{}", edit.line()));
        }
        for file in &output.files {
            text.push_str(&format!(
                "\n{} ({}):\n{}",
                file.file_path.display(),
                change_report::sizes(&file.sizes),
                diff_for_model(&file.structured_patch)
            ));
        }
        text.push_str(&change_report::notes(&output.notes));
        Content::text(text)
    }

    fn render(&self, stage: Stage<'_, Input, Output>) -> Rendered {
        match stage {
            Stage::Running(input) => {
                let planned =
                    |edit: &EditInput| change_report::planned_piece(&edit.old_string, &edit.new_string);
                let lines = input.edits.iter().flat_map(planned).collect();
                Rendered { headline: self.describe(input), lines, ..Rendered::default() }
            }
            Stage::Done(output) => {
                let done = output.edits.iter().filter(|it| it.status == "ok").count();
                let mut all = Rendered::headline(format!("{done} of {} edits", output.edits.len()));
                for file in &output.files {
                    let one = change_report::render("Edited", &file.file_path, &file.structured_patch);
                    all.lines.push(haft_tool::RenderedLine::new(haft_tool::LineStyle::Plain, one.headline));
                    all.lines.extend(one.lines);
                    if let CollapsedLines::Lines(rest) = one.rest {
                        all.lines.extend(rest);
                    }
                }
                all.folded_to(change_report::PERSON_LINES)
            }
            Stage::Failed(error) => Rendered::error(&error.message),
        }
    }
}
