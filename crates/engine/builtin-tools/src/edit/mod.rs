//! Replaces text in a file.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use haft_tool::{
    CallContext, CallEffect, Content, Outcome, Rendered, Stage, Tool, ToolContext, ToolError, Traits,
};
use haft_workspace::{
    FileError, FileEvent, FileSnapshot, Hunk, LockedFiles, PlannedWrite, ReadBy, SessionFiles, patch,
    patch_of_splices,
    text::{Bytes, Text},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::edit_common::{
    blocking, canonical,
    change_report::{self, Sizes, diff_for_model},
    check_path,
    config_check::ConfigCheck,
    edit_observer::{EditObserver, NoEditObserver},
    error_text::{FileOperation, explain},
    granted,
    line_anchors::LineAnchors,
    matching::MatchCount,
    replacement::{EditRefusal, EditRequest, EditTarget, Planned, line_edits},
    viewer,
};

/// Replaces text in a file. `old_string` must be in the file exactly once, unless `replace_all` is
/// true: copy it from what Read shows, without the line number and the tab after it, and take enough
/// surrounding lines to make it unique. Read the file first. Encoding, line endings and everything
/// outside of the replaced text stay as they are. To create a file use Write; for several
/// replacements at once use MultiEdit. Instead of copying text, `lines` may name whole lines by the
/// marks that Read shows with `marks: true`; `old_string` is then empty.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Path of the file, absolute or relative to the working directory.
    pub file_path: PathBuf,
    /// The text to replace.
    pub old_string: String,
    /// The text to put there; must differ from `old_string`.
    pub new_string: String,
    /// Replace every occurrence instead of exactly one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub replace_all: bool,
    /// Marks of the lines to replace, such as "12:4fk0a" or "12:4fk0a-15:9m2qr". A non-empty
    /// `old_string` is looked for only in these lines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lines: Option<String>,
}

/// What an edit did.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Output {
    /// The file.
    pub file_path: PathBuf,
    /// What was replaced.
    pub old_string: String,
    /// What is there now.
    pub new_string: String,
    /// The file before; nothing for a new or a very large one.
    pub original_file: Option<String>,
    /// The change, in hunks.
    #[schemars(with = "Vec<serde_json::Map<String, serde_json::Value>>")]
    pub structured_patch: Vec<Hunk>,
    /// Whether the person changed the edit before it was made.
    pub user_modified: bool,
    /// Whether every occurrence was meant.
    pub replace_all: bool,
    /// How many places were replaced.
    pub replacements: usize,
    /// Sizes before and after.
    #[schemars(with = "serde_json::Map<String, serde_json::Value>")]
    pub sizes: Sizes,
    /// Names the change for undo.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub undo_id: Option<String>,
    /// What is worth knowing about how it was done.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

pub struct Edit {
    files: Arc<SessionFiles>,
    config: Arc<dyn ConfigCheck>,
    news: Arc<dyn EditObserver>,
}

impl Edit {
    pub fn new(files: Arc<SessionFiles>, config: Arc<dyn ConfigCheck>) -> Self {
        Self { files, config, news: Arc::new(NoEditObserver) }
    }

    /// Adds an observer, whose findings become part of each result.
    pub fn with_news(mut self, news: Arc<dyn EditObserver>) -> Self {
        self.news = news;
        self
    }
}

/// Bytes above which the original file is not repeated in the result.
pub(crate) const ORIGINAL_MAX: usize = 256 * 1024;

/// Maximum attempts when other programs write to the file at the same time.
pub(crate) const ATTEMPTS: usize = 4;

impl Tool for Edit {
    type Input = Input;
    type Output = Output;
    type Progress = ();
    const NAME: &'static str = "Edit";

    fn output_schema(&self) -> Option<serde_json::Value> {
        Some(haft_tool::schema_of::<Output>())
    }

    fn traits(&self) -> Traits {
        Traits {
            aliases: &["edit_file", "replace", "FileEdit"],
            synonyms: &[
                ("path", "file_path"),
                ("file", "file_path"),
                ("filename", "file_path"),
                ("old_str", "old_string"),
                ("old_text", "old_string"),
                ("new_str", "new_string"),
                ("new_text", "new_string"),
            ],
            search_hint: "change modify replace text string in file",
            max_result_chars: None,
            ..Traits::default()
        }
    }

    fn canonicalize(&self, input: &mut Input, cx: &CallContext) {
        canonical(&mut input.file_path, cx);
    }

    fn path<'a>(&self, input: &'a Input) -> Option<&'a Path> {
        Some(&input.file_path)
    }

    fn validate(&self, input: &Input, cx: &CallContext) -> Result<(), ToolError> {
        check_path(&input.file_path, cx)?;
        let marks = input.lines.as_deref().map(LineAnchors::parse);
        if let Some(Err(problem)) = &marks {
            return Err(ToolError::invalid(problem.clone()));
        }
        let removes_lines = marks.is_some() && input.old_string.is_empty();
        if input.old_string == input.new_string && !removes_lines {
            return Err(ToolError::invalid("old_string and new_string are the same; nothing to change."));
        }
        Ok(())
    }

    async fn call(&self, input: Input, cx: &ToolContext<()>) -> Result<Outcome<Output>, ToolError> {
        let real = granted(cx, &input.file_path)?;
        let touched = [real.clone()];
        let changed = CallEffect::FileChanged(input.file_path.clone());
        let job = EditJob {
            files: Arc::clone(&self.files),
            config: Arc::clone(&self.config),
            viewer: viewer(cx),
            input,
            real,
        };
        let readable = cx.clone();
        let mut output = blocking(move || job.run(&|path| readable.may_read(path))).await?;
        output.notes.extend(Arc::clone(&self.news).after(&touched, &cx.cwd, &cx.agent_id).await);
        Ok(Outcome::from(output).with_trace(changed))
    }

    fn to_content(&self, output: &Output) -> Content {
        let what = match output.replacements {
            1 => "Edited".to_owned(),
            count => format!("Replaced {count} places in"),
        };
        let undo = output.undo_id.as_ref().map(|id| format!(" Undo id: {id}.")).unwrap_or_default();
        Content::text(format!(
            "{what} {} ({}).{undo}\n{}{}",
            output.file_path.display(),
            change_report::sizes(&output.sizes),
            diff_for_model(&output.structured_patch),
            change_report::notes(&output.notes)
        ))
    }

    fn render(&self, stage: Stage<'_, Input, Output>) -> Rendered {
        match stage {
            Stage::Running(input) => Rendered {
                headline: self.describe(input),
                lines: change_report::planned_piece(&input.old_string, &input.new_string),
                ..Rendered::default()
            },
            Stage::Done(output) => {
                change_report::render("Edited", &output.file_path, &output.structured_patch)
            }
            Stage::Failed(error) => Rendered::error(&error.message),
        }
    }
}

struct EditJob {
    files: Arc<SessionFiles>,
    config: Arc<dyn ConfigCheck>,
    viewer: ReadBy,
    input: Input,
    real: PathBuf,
}

impl EditJob {
    fn run(&self, may_read: &dyn Fn(&Path) -> bool) -> Result<Output, ToolError> {
        let asked = &self.input.file_path;
        let explained = |err: &FileError| explain(err, FileOperation::Changing, asked, may_read);
        let mut attempt = 0;
        loop {
            attempt += 1;
            let locked = self.files.workspace().lock(&[&self.real]).map_err(|err| explained(&err))?;
            let found = locked.read(&self.real).map_err(|err| explained(&err))?;
            let result = match found {
                Some((snapshot, bytes)) => self.edit(&locked, &snapshot, bytes),
                None if self.input.old_string.is_empty() => self.create(&locked),
                None => Err(Failure::File(FileError::NotFound { path: self.real.clone() })),
            };
            match result {
                Ok(output) => return Ok(output),
                // The file was changed meanwhile: read it and plan again.
                Err(Failure::File(err)) if err.is_race() && attempt < ATTEMPTS => (),
                Err(Failure::File(err)) => return Err(explained(&err)),
                Err(Failure::Tool(err)) => return Err(err),
            }
        }
    }

    fn edit(
        &self,
        locked: &LockedFiles<'_>,
        snapshot: &FileSnapshot,
        bytes: Vec<u8>,
    ) -> Result<Output, Failure> {
        let Input { file_path, old_string, new_string, replace_all, lines } = &self.input;
        let old_bytes = bytes.len() as u64;
        let text = Text::decode(bytes).map_err(|_| {
            ToolError::invalid(format!("{} is not a text file; use Bash to change it.", file_path.display()))
        })?;
        if old_string.is_empty() && lines.is_none() {
            return self.fill_empty(locked, snapshot, &text);
        }
        let target =
            EditTarget { files: &self.files, viewer: &self.viewer, snapshot, on_disk: &text, text: &text };
        let planned = self
            .plan(&target)
            .map_err(|refusal| ToolError::invalid(format!("{}: {}", file_path.display(), refusal.message)))?;
        let content = text.splice(&planned.splices).map_err(|err| ToolError::failed(err.to_string()))?;
        self.check_config(&content, &text)?;
        let hunks =
            patch_of_splices(&text, &planned.splices).map_err(|err| ToolError::failed(err.to_string()))?;
        let new_bytes = content.len() as u64;
        let change = PlannedWrite {
            path: self.real.clone(),
            base: Some(snapshot),
            content: Some(content),
            mode: None,
        };
        let origin = self.files.origin(&self.viewer.call, Edit::NAME);
        let done = locked.commit(&[change], &origin).map_err(|err| Failure::File(err.error))?;
        if let Some(hash) = done.files.first().and_then(|it| it.hash) {
            let mut middle = String::new();
            let edits = line_edits(text.view(), &planned.splices, &mut middle);
            self.files.reads().edited(&self.viewer, &self.real, hash, &edits);
        }
        self.notify();
        let old_lines = text.line_count();
        let (added, removed) = haft_workspace::counts(&hunks);
        let Planned { places, mut notes, .. } = planned;
        notes.extend(done.notes);
        Ok(Output {
            file_path: file_path.clone(),
            old_string: old_string.clone(),
            new_string: new_string.clone(),
            original_file: (text.view().len() <= ORIGINAL_MAX).then(|| text.view().to_owned()),
            structured_patch: hunks,
            user_modified: false,
            replace_all: *replace_all,
            replacements: places,
            sizes: Sizes {
                old_lines,
                new_lines: (old_lines + added as u64).saturating_sub(removed as u64),
                old_bytes,
                new_bytes,
            },
            undo_id: done.entry.map(|id| id.to_string()),
            notes,
        })
    }

    fn plan(&self, target: &EditTarget<'_>) -> Result<Planned, EditRefusal> {
        let wanted = if self.input.replace_all { MatchCount::All } else { MatchCount::One };
        // Invalid marks were rejected during validation.
        let marks = self.input.lines.as_deref().and_then(|it| LineAnchors::parse(it).ok());
        let within = marks.map(|marks| target.marked(&marks)).transpose()?;
        target.plan(&EditRequest { old: &self.input.old_string, new: &self.input.new_string, wanted, within })
    }

    fn check_config(&self, content: &Bytes<'_>, text: &Text) -> Result<(), ToolError> {
        let future = || text.literal(&content.to_vec());
        let name = self.real.extension().and_then(|it| it.to_str());
        // Only settings files (`.json`) are checked; do not build the new content for others.
        if !name.is_some_and(|it| it.eq_ignore_ascii_case("json")) {
            return Ok(());
        }
        match self.config.problem(&self.real, &future()) {
            None => Ok(()),
            Some(problem) => Err(ToolError::invalid(format!(
                "{} was not changed: {problem}. This file holds settings; fix the edit so that they stay valid.",
                self.input.file_path.display()
            ))),
        }
    }

    /// An empty `old_string` in an empty file inserts the new text.
    fn fill_empty(
        &self,
        locked: &LockedFiles<'_>,
        snapshot: &FileSnapshot,
        text: &Text,
    ) -> Result<Output, Failure> {
        if !text.view().trim().is_empty() {
            return Err(Failure::Tool(ToolError::invalid(format!(
                "{}: old_string is empty but the file is not. Give the text to replace; to insert, take a line next to \
                 the place and repeat it in new_string; to replace the whole file use Write.",
                self.input.file_path.display()
            ))));
        }
        self.put_whole(locked, Some(snapshot), text.raw())
    }

    fn create(&self, locked: &LockedFiles<'_>) -> Result<Output, Failure> {
        self.put_whole(locked, None, b"")
    }

    fn put_whole(
        &self,
        locked: &LockedFiles<'_>,
        base: Option<&FileSnapshot>,
        old: &[u8],
    ) -> Result<Output, Failure> {
        let Input { file_path, old_string, new_string, replace_all, .. } = &self.input;
        if let Some(problem) = self.config.problem(&self.real, new_string) {
            return Err(Failure::Tool(ToolError::invalid(format!(
                "{} was not written: {problem}.",
                file_path.display()
            ))));
        }
        let content = Bytes::whole(new_string.as_bytes());
        let change = PlannedWrite { path: self.real.clone(), base, content: Some(content), mode: None };
        let origin = self.files.origin(&self.viewer.call, Edit::NAME);
        let done = locked.commit(&[change], &origin).map_err(|err| Failure::File(err.error))?;
        if let Some(hash) = done.files.first().and_then(|it| it.hash) {
            self.files.reads().wrote(&self.viewer, &self.real, hash, new_string);
        }
        self.notify();
        Ok(Output {
            file_path: file_path.clone(),
            old_string: old_string.clone(),
            new_string: new_string.clone(),
            original_file: base.map(|_| String::from_utf8_lossy(old).into_owned()),
            structured_patch: patch(&String::from_utf8_lossy(old), new_string),
            user_modified: false,
            replace_all: *replace_all,
            replacements: 1,
            sizes: Sizes {
                old_lines: 0,
                new_lines: new_string.lines().count() as u64,
                old_bytes: old.len() as u64,
                new_bytes: new_string.len() as u64,
            },
            undo_id: done.entry.map(|id| id.to_string()),
            notes: done.notes,
        })
    }

    fn notify(&self) {
        let event = FileEvent::Changed { path: self.real.clone(), viewer: self.viewer.clone() };
        self.files.reads().notify(&event);
    }
}

enum Failure {
    File(FileError),
    Tool(ToolError),
}

impl From<ToolError> for Failure {
    fn from(err: ToolError) -> Self {
        Self::Tool(err)
    }
}
