//! Changes one cell of a Jupyter notebook.

mod notebook_json;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use haft_tool::{
    CallContext, CallEffect, Content, Exposure, Outcome, Rendered, Stage, Tool, ToolContext, ToolError,
    Traits,
};
use haft_workspace::{
    FileError, FileEvent, Hunk, PlannedWrite, ReadBy, SessionFiles, patch_of_splices,
    text::{Splice, Text},
};
use notebook_json::{Layout, Notebook};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    edit::{ATTEMPTS, ORIGINAL_MAX},
    edit_common::{
        blocking, canonical,
        change_report::{self, diff_for_model},
        check_path,
        error_text::{FileOperation, explain},
        granted, viewer,
    },
};

/// Changes one cell of a Jupyter notebook (.ipynb): replaces its source, inserts a new cell, or
/// deletes one. Cells are named by their id, as Read shows them. Replacing the source of a code cell
/// clears its outputs. Everything else in the file stays byte for byte. Read the notebook first.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Path of the notebook, absolute or relative to the working directory.
    pub notebook_path: PathBuf,
    /// The new source of the cell. Ignored when deleting.
    pub new_source: String,
    /// The cell. When inserting: the one after which the new cell comes; without it, the new cell
    /// comes first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cell_id: Option<String>,
    /// Needed when inserting; when replacing, changes the type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cell_type: Option<CellType>,
    /// What to do; `replace` by default.
    #[serde(default)]
    pub edit_mode: EditMode,
}

/// The type of a cell.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CellType {
    /// Code.
    Code,
    /// Text.
    Markdown,
}

impl CellType {
    fn name(self) -> &'static str {
        match self {
            Self::Code => "code",
            Self::Markdown => "markdown",
        }
    }
}

/// What to do with a cell.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EditMode {
    /// Replace its source.
    #[default]
    Replace,
    /// Put a new cell after it.
    Insert,
    /// Remove it.
    Delete,
}

/// What an edit of a notebook did.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
pub struct Output {
    /// The source that was given.
    pub new_source: String,
    /// The source before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub old_source: Option<String>,
    /// The cell that was changed, inserted or deleted.
    pub cell_id: String,
    /// Its type.
    pub cell_type: String,
    /// The language of the notebook.
    pub language: String,
    /// What was done.
    pub edit_mode: EditMode,
    /// The file.
    pub notebook_path: PathBuf,
    /// The file before; empty when it is very large.
    pub original_file: String,
    /// The file after; empty when it is very large.
    pub updated_file: String,
    /// The change of the file, in hunks.
    #[serde(rename = "structuredPatch")]
    #[schemars(with = "Vec<serde_json::Map<String, serde_json::Value>>")]
    pub structured_patch: Vec<Hunk>,
    /// Names the change for undo.
    #[serde(rename = "undoId", skip_serializing_if = "Option::is_none")]
    pub undo_id: Option<String>,
    /// What is worth knowing about how it was done.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

#[derive(Debug)]
pub struct NotebookEdit {
    files: Arc<SessionFiles>,
}

impl NotebookEdit {
    pub fn new(files: Arc<SessionFiles>) -> Self {
        Self { files }
    }
}

impl Tool for NotebookEdit {
    type Input = Input;
    type Output = Output;
    type Progress = ();
    const NAME: &'static str = "NotebookEdit";

    fn output_schema(&self) -> Option<serde_json::Value> {
        Some(haft_tool::schema_of::<Output>())
    }

    fn traits(&self) -> Traits {
        Traits {
            exposure: Exposure::Deferred,
            synonyms: &[("path", "notebook_path"), ("file_path", "notebook_path"), ("source", "new_source")],
            search_hint: "jupyter notebook ipynb cell insert delete",
            max_result_chars: None,
            ..Traits::default()
        }
    }

    fn canonicalize(&self, input: &mut Input, cx: &CallContext) {
        canonical(&mut input.notebook_path, cx);
    }

    fn path<'a>(&self, input: &'a Input) -> Option<&'a Path> {
        Some(&input.notebook_path)
    }

    fn validate(&self, input: &Input, cx: &CallContext) -> Result<(), ToolError> {
        check_path(&input.notebook_path, cx)?;
        if !input.notebook_path.extension().is_some_and(|it| it.eq_ignore_ascii_case("ipynb")) {
            return Err(ToolError::invalid("notebook_path must end in .ipynb; use Edit for other files."));
        }
        match (input.edit_mode, &input.cell_id, input.cell_type) {
            (EditMode::Replace | EditMode::Delete, None, _) => {
                Err(ToolError::invalid("cell_id is needed to replace or delete a cell; Read shows the ids."))
            }
            (EditMode::Insert, _, None) => {
                Err(ToolError::invalid("cell_type is needed to insert a cell: \"code\" or \"markdown\"."))
            }
            _ => Ok(()),
        }
    }

    fn describe(&self, input: &Input) -> String {
        let verb = match input.edit_mode {
            EditMode::Replace => "Replace a cell of",
            EditMode::Insert => "Insert a cell into",
            EditMode::Delete => "Delete a cell of",
        };
        format!("{verb} {}", input.notebook_path.display())
    }

    async fn call(&self, input: Input, cx: &ToolContext<()>) -> Result<Outcome<Output>, ToolError> {
        let real = granted(cx, &input.notebook_path)?;
        let changed = CallEffect::FileChanged(input.notebook_path.clone());
        let job = NotebookJob { files: Arc::clone(&self.files), viewer: viewer(cx), input, real };
        let readable = cx.clone();
        let output = blocking(move || job.run(&|path| readable.may_read(path))).await?;
        Ok(Outcome::from(output).with_trace(changed))
    }

    fn to_content(&self, output: &Output) -> Content {
        let verb = match output.edit_mode {
            EditMode::Replace => "Replaced the source of",
            EditMode::Insert => "Inserted",
            EditMode::Delete => "Deleted",
        };
        let undo = output.undo_id.as_ref().map(|id| format!(" Undo id: {id}.")).unwrap_or_default();
        Content::text(format!(
            "{verb} the {} cell {} in {}.{undo}\n{}{}",
            output.cell_type,
            output.cell_id,
            output.notebook_path.display(),
            diff_for_model(&output.structured_patch),
            change_report::notes(&output.notes)
        ))
    }

    fn render(&self, stage: Stage<'_, Input, Output>) -> Rendered {
        match stage {
            Stage::Running(input) => Rendered::headline(self.describe(input)),
            Stage::Done(output) => {
                change_report::render("Edited", &output.notebook_path, &output.structured_patch)
            }
            Stage::Failed(error) => Rendered::error(&error.message),
        }
    }
}

struct NotebookJob {
    files: Arc<SessionFiles>,
    viewer: ReadBy,
    input: Input,
    real: PathBuf,
}

/// A planned change of the file, with the cell it affects.
struct Planned {
    splices: Vec<Splice>,
    cell_id: String,
    cell_type: String,
    old_source: Option<String>,
}

impl NotebookJob {
    fn run(&self, may_read: &dyn Fn(&Path) -> bool) -> Result<Output, ToolError> {
        let asked = &self.input.notebook_path;
        let explained = |err: &FileError| explain(err, FileOperation::Changing, asked, may_read);
        let mut attempt = 0;
        loop {
            attempt += 1;
            match self.attempt(&explained)? {
                Ok(output) => return Ok(output),
                Err(err) if err.is_race() && attempt < ATTEMPTS => (),
                Err(err) => return Err(explained(&err)),
            }
        }
    }

    fn refused(&self, why: &str) -> ToolError {
        ToolError::invalid(format!("{} was not changed: {why}", self.input.notebook_path.display()))
    }

    fn attempt(
        &self,
        explained: &dyn Fn(&FileError) -> ToolError,
    ) -> Result<Result<Output, FileError>, ToolError> {
        let locked = self.files.workspace().lock(&[&self.real]).map_err(|err| explained(&err))?;
        let found = locked.read(&self.real).map_err(|err| explained(&err))?;
        let Some((snapshot, bytes)) = found else {
            return Err(explained(&FileError::NotFound { path: self.real.clone() }));
        };
        let text = Text::decode(bytes).map_err(|_| self.refused("it is not a text file."))?;
        let notebook = Notebook::parse(text.view()).map_err(|why| self.refused(&why))?;
        // Only one cell changes and the result does not show the others, so a Read of exactly this
        // version is required, but not of all cells.
        match self.files.reads().seen_version(&self.viewer.agent, &self.real) {
            Some(version) if version == snapshot.hash() => (),
            Some(_) => {
                let who = self.files.reads().writer(&self.viewer.agent, &self.real, snapshot.hash());
                let why = format!("it was changed by {who} since you read it. Read it again.");
                return Err(self.refused(&why));
            }
            None => return Err(self.refused("it has not been read in this session. Read it first.")),
        }
        let planned = self.plan(&notebook)?;
        let content = text.splice(&planned.splices).map_err(|err| self.refused(&format!("{err}.")))?;
        let hunks =
            patch_of_splices(&text, &planned.splices).map_err(|err| self.refused(&err.to_string()))?;
        let updated = text.literal(&content.to_vec());
        let change = PlannedWrite {
            path: self.real.clone(),
            base: Some(&snapshot),
            content: Some(content),
            mode: None,
        };
        let origin = self.files.origin(&self.viewer.call, NotebookEdit::NAME);
        let done = match locked.commit(&[change], &origin) {
            Ok(done) => done,
            Err(err) => return Ok(Err(err.error)),
        };
        if let Some(hash) = done.files.first().and_then(|it| it.hash) {
            let view = updated.trim_start_matches('\u{feff}').replace("\r\n", "\n");
            self.files.reads().wrote(&self.viewer, &self.real, hash, &view);
        }
        let event = FileEvent::Changed { path: self.real.clone(), viewer: self.viewer.clone() };
        self.files.reads().notify(&event);
        let small = |text: &str| if text.len() <= ORIGINAL_MAX { text.to_owned() } else { String::new() };
        Ok(Ok(Output {
            new_source: self.input.new_source.clone(),
            old_source: planned.old_source,
            cell_id: planned.cell_id,
            cell_type: planned.cell_type,
            language: notebook.language(),
            edit_mode: self.input.edit_mode,
            notebook_path: self.input.notebook_path.clone(),
            original_file: small(text.view()),
            updated_file: small(&updated),
            structured_patch: hunks,
            undo_id: done.entry.map(|id| id.to_string()),
            notes: done.notes,
        }))
    }

    fn plan(&self, notebook: &Notebook<'_>) -> Result<Planned, ToolError> {
        let Input { new_source, cell_id, cell_type, edit_mode, .. } = &self.input;
        let find = |id: &str| {
            notebook.find(id).ok_or_else(|| {
                let ids: Vec<&str> = notebook.ids().take(30).collect();
                self.refused(&format!("it has no cell \"{id}\". Its cells are: {}.", ids.join(", ")))
            })
        };
        let layout = Layout::of(notebook);
        match (edit_mode, cell_id) {
            (EditMode::Insert, after) => {
                let at = after.as_deref().map(find).transpose()?.map_or(0, |it| it + 1);
                let kind = cell_type.map_or("code", CellType::name);
                let id = notebook.new_id();
                let splice = notebook.insert(at, &layout, kind, id.as_deref(), new_source);
                let cell_id = id.unwrap_or_else(|| format!("cell-{at}"));
                Ok(Planned { splices: vec![splice], cell_id, cell_type: kind.to_owned(), old_source: None })
            }
            (EditMode::Delete, Some(id)) => {
                let at = find(id)?;
                Ok(Planned {
                    splices: vec![notebook.remove(at)],
                    cell_id: id.clone(),
                    cell_type: notebook.cell_type(at),
                    old_source: Some(notebook.source(at)),
                })
            }
            (EditMode::Replace, Some(id)) => {
                let at = find(id)?;
                let new_type = cell_type.map(CellType::name).filter(|it| *it != notebook.cell_type(at));
                let splices = notebook.replace(at, &layout, new_type, new_source);
                if splices.is_empty() {
                    return Err(self.refused("the cell already has this source."));
                }
                let cell_type = new_type.map_or_else(|| notebook.cell_type(at), str::to_owned);
                let old_source = Some(notebook.source(at));
                Ok(Planned { splices, cell_id: id.clone(), cell_type, old_source })
            }
            (_, None) => Err(self.refused("cell_id is needed.")),
        }
    }
}
