//! Creates a file or replaces all of it.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use haft_tool::{
    CallContext, CallEffect, Content, Outcome, Rendered, Stage, Tool, ToolContext, ToolError, Traits,
};
use haft_workspace::{
    FileError, FileEvent, FileSnapshot, Hunk, LockedFiles, PlannedWrite, ReadBy, SessionFiles, WholeFileSeen,
    patch, patch_of_splices,
    text::{Bytes, Splice, Text, encode_whole},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use similar::{Algorithm, DiffTag, capture_diff_slices_deadline};

use crate::{
    edit::{ATTEMPTS, ORIGINAL_MAX},
    edit_common::{
        blocking, canonical,
        change_report::{self, Sizes, diff_for_model},
        check_path,
        config_check::{ConfigCheck, stub_in},
        edit_observer::{EditObserver, NoEditObserver},
        error_text::{FileOperation, explain},
        granted, viewer,
    },
};

/// Writes a whole file: creates it, with the directories it needs, or replaces everything in it. An
/// existing file must have been read completely before. `content` is written as it is, every line of
/// it: never abbreviate, and do not copy line numbers or notices from a listing. To change a part of
/// a file use Edit, which is shorter and safer.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Path of the file, absolute or relative to the working directory.
    pub file_path: PathBuf,
    /// Everything the file is to hold.
    pub content: String,
}

/// What a write did.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Output {
    /// `create` or `update`.
    #[serde(rename = "type")]
    pub kind: Kind,
    /// The file.
    pub file_path: PathBuf,
    /// What was asked to be written.
    pub content: String,
    /// The change, in hunks; empty for a new file.
    #[schemars(with = "Vec<serde_json::Map<String, serde_json::Value>>")]
    pub structured_patch: Vec<Hunk>,
    /// The file before; nothing for a new or a very large one.
    pub original_file: Option<String>,
    /// Whether the person changed the content before it was written.
    pub user_modified: bool,
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

/// Whether the file was there before.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// It was not.
    Create,
    /// It was.
    Update,
}

pub struct Write {
    files: Arc<SessionFiles>,
    config: Arc<dyn ConfigCheck>,
    news: Arc<dyn EditObserver>,
}

impl Write {
    pub fn new(files: Arc<SessionFiles>, config: Arc<dyn ConfigCheck>) -> Self {
        Self { files, config, news: Arc::new(NoEditObserver) }
    }

    /// Adds an observer, whose findings become part of each result.
    pub fn with_news(mut self, news: Arc<dyn EditObserver>) -> Self {
        self.news = news;
        self
    }
}

impl Tool for Write {
    type Input = Input;
    type Output = Output;
    type Progress = ();
    const NAME: &'static str = "Write";

    fn output_schema(&self) -> Option<serde_json::Value> {
        Some(haft_tool::schema_of::<Output>())
    }

    fn traits(&self) -> Traits {
        Traits {
            aliases: &["write_file", "FileWrite"],
            synonyms: &[
                ("path", "file_path"),
                ("file", "file_path"),
                ("filename", "file_path"),
                ("contents", "content"),
                ("text", "content"),
                ("file_text", "content"),
            ],
            search_hint: "create new file overwrite save",
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
        check_path(&input.file_path, cx)
    }

    async fn call(&self, input: Input, cx: &ToolContext<()>) -> Result<Outcome<Output>, ToolError> {
        let real = granted(cx, &input.file_path)?;
        let touched = [real.clone()];
        let changed = CallEffect::FileChanged(input.file_path.clone());
        let job = WriteJob {
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
        let path = output.file_path.display();
        let undo = output.undo_id.as_ref().map(|id| format!(" Undo id: {id}.")).unwrap_or_default();
        let notes = change_report::notes(&output.notes);
        Content::text(match output.kind {
            Kind::Create => format!(
                "Created {path} ({} lines, {} bytes).{undo}{notes}",
                output.sizes.new_lines, output.sizes.new_bytes
            ),
            Kind::Update => format!(
                "Replaced the content of {path} ({}).{undo}\n{}{notes}",
                change_report::sizes(&output.sizes),
                diff_for_model(&output.structured_patch)
            ),
        })
    }

    fn render(&self, stage: Stage<'_, Input, Output>) -> Rendered {
        match stage {
            Stage::Running(input) => {
                let lines = change_report::planned("", &input.content);
                Rendered { headline: self.describe(input), lines, ..Rendered::default() }
            }
            Stage::Done(output) => match output.kind {
                Kind::Create => {
                    change_report::render("Created", &output.file_path, &patch("", &output.content))
                }
                Kind::Update => change_report::render("Wrote", &output.file_path, &output.structured_patch),
            },
            Stage::Failed(error) => Rendered::error(&error.message),
        }
    }
}

struct WriteJob {
    files: Arc<SessionFiles>,
    config: Arc<dyn ConfigCheck>,
    viewer: ReadBy,
    input: Input,
    real: PathBuf,
}

impl WriteJob {
    fn run(&self, may_read: &dyn Fn(&Path) -> bool) -> Result<Output, ToolError> {
        let asked = &self.input.file_path;
        let explained = |err: &FileError| explain(err, FileOperation::Changing, asked, may_read);
        if let Some(problem) = self.config.problem(&self.real, &self.input.content) {
            return Err(self.refused(&format!("{problem}. This file holds settings, which must stay valid")));
        }
        let mut attempt = 0;
        loop {
            attempt += 1;
            let locked = self.files.workspace().lock(&[&self.real]).map_err(|err| explained(&err))?;
            let found = locked.read(&self.real).map_err(|err| explained(&err))?;
            let result = match found {
                Some((snapshot, bytes)) => self.replace(&locked, &snapshot, bytes)?,
                None => self.create(&locked),
            };
            match result {
                Ok(output) => return Ok(output),
                Err(err) if err.is_race() && attempt < ATTEMPTS => (),
                Err(err) => return Err(explained(&err)),
            }
        }
    }

    fn refused(&self, why: &str) -> ToolError {
        ToolError::invalid(format!("{} was not written: {why}.", self.input.file_path.display()))
    }

    fn create(&self, locked: &LockedFiles<'_>) -> Result<Output, FileError> {
        let content = &self.input.content;
        let new = New { bytes: Bytes::whole(content.as_bytes()), hunks: Vec::new(), notes: Vec::new() };
        self.commit(locked, None, new, content, Sizes::default(), None)
    }

    /// Replaces the file. The inner error is worth another attempt, the outer one is final.
    fn replace(
        &self,
        locked: &LockedFiles<'_>,
        snapshot: &FileSnapshot,
        bytes: Vec<u8>,
    ) -> Result<Result<Output, FileError>, ToolError> {
        let content = &self.input.content;
        let old_bytes = bytes.len() as u64;
        let text = match Text::decode(bytes) {
            Ok(text) => text,
            // A binary file has no lines that could be known; it needs a Read that described it.
            Err(bytes) => Text::decode_as(bytes, haft_workspace::text::Encoding::UTF_8),
        };
        self.check_seen(snapshot, &text)?;
        self.check_stub(&text)?;
        let new = new_content(&text, content).map_err(|err| {
            self.refused(&format!(
                "{err}. Use characters the encoding has, or convert the file first (iconv)"
            ))
        })?;
        let sizes =
            Sizes { old_lines: haft_workspace::count_lines(text.view()), old_bytes, ..Sizes::default() };
        let original = (text.view().len() <= ORIGINAL_MAX).then(|| text.view().to_owned());
        Ok(self.commit(locked, Some(snapshot), new, content, sizes, original))
    }

    fn check_seen(&self, snapshot: &FileSnapshot, text: &Text) -> Result<(), ToolError> {
        if text.raw().is_empty() {
            return Ok(());
        }
        let current = SessionFiles::current(snapshot, text);
        let seen = self.files.reads().whole_seen(&self.viewer.agent, &self.real, &current);
        let why = match seen {
            WholeFileSeen::Yes => return Ok(()),
            WholeFileSeen::Never => {
                "it exists and has not been read in this session. Read it first, or use Edit to \
                change a part of it"
                    .to_owned()
            }
            WholeFileSeen::Partly { seen, total } => format!(
                "only {seen} of its {total} lines have been read, so the rest would be lost. Use Edit to change a \
                 part, or Read the remaining lines first"
            ),
            WholeFileSeen::Changed => {
                let shown = self.changes_since(snapshot, text);
                let who = self.files.reads().writer(&self.viewer.agent, &self.real, snapshot.hash());
                format!("it was changed by {who} since you read it. Read it again{shown}")
            }
        };
        Err(self.refused(&why))
    }

    /// Returns a diff from the version the agent has seen, or the last stored version, to the current
    /// text.
    fn changes_since(&self, snapshot: &FileSnapshot, text: &Text) -> String {
        if let Some(seen) = self.files.reads().seen_text(&self.viewer.agent, &self.real) {
            // The text seen is stored without the final line end.
            let now = text.view().strip_suffix('\n').unwrap_or(text.view());
            let then = seen.strip_suffix('\n').unwrap_or(&seen);
            let hunks = patch(&format!("{then}\n"), &format!("{now}\n"));
            return format!("; since you read it:\n{}\n", diff_for_model(&hunks));
        }
        let Ok(journal) = self.files.workspace().journal() else { return String::new() };
        let entries = journal.entries().unwrap_or_default();
        let last = entries.iter().rev().flat_map(|entry| &entry.changes).find(|it| it.path == self.real);
        let Some(old) = last.and_then(|it| it.after.hash()).and_then(|hash| journal.content(&hash).ok())
        else {
            return String::new();
        };
        let Ok(new) = snapshot.file().read_all(1024 * 1024) else { return String::new() };
        let hunks = patch(&String::from_utf8_lossy(&old), &String::from_utf8_lossy(&new));
        format!("; since it was last written here:\n{}\n", diff_for_model(&hunks))
    }

    fn check_stub(&self, text: &Text) -> Result<(), ToolError> {
        let content = &self.input.content;
        if content.trim().is_empty() && !text.view().trim().is_empty() {
            return Err(self.refused(
                "the content is empty, which would erase the file. To remove a file use Bash (rm); to remove text use \
                 Edit",
            ));
        }
        match stub_in(content, text.view()) {
            None => Ok(()),
            Some(problem) => Err(self.refused(&format!(
                "{problem}. Send the whole content, or use Edit to change only the lines that change"
            ))),
        }
    }

    fn commit(
        &self,
        locked: &LockedFiles<'_>,
        base: Option<&FileSnapshot>,
        new: New<'_>,
        content: &str,
        sizes: Sizes,
        original: Option<String>,
    ) -> Result<Output, FileError> {
        let New { bytes, hunks, mut notes } = new;
        let new_bytes = bytes.len() as u64;
        let change = PlannedWrite { path: self.real.clone(), base, content: Some(bytes), mode: None };
        let origin = self.files.origin(&self.viewer.call, Write::NAME);
        let done = locked.commit(&[change], &origin).map_err(|err| err.error)?;
        if let Some(hash) = done.files.first().and_then(|it| it.hash) {
            let view = content.replace("\r\n", "\n");
            self.files.reads().wrote(&self.viewer, &self.real, hash, &view);
        }
        let event = FileEvent::Changed { path: self.real.clone(), viewer: self.viewer.clone() };
        self.files.reads().notify(&event);
        notes.extend(done.notes);
        Ok(Output {
            kind: if base.is_some() { Kind::Update } else { Kind::Create },
            file_path: self.input.file_path.clone(),
            content: content.to_owned(),
            structured_patch: hunks,
            original_file: original,
            user_modified: false,
            sizes: Sizes { new_lines: content.lines().count() as u64, new_bytes, ..sizes },
            undo_id: done.entry.map(|id| id.to_string()),
            notes,
        })
    }
}

struct New<'a> {
    bytes: Bytes<'a>,
    hunks: Vec<Hunk>,
    notes: Vec<String>,
}

/// Maximum bytes of texts that are compared line by line.
const COMPARABLE: usize = 4 * 1024 * 1024;

/// Builds the new content. Keeps the encoding; unchanged lines keep their bytes, and new ones take the
/// line endings around them, unless `content` itself contains carriage returns.
fn new_content<'a>(text: &'a Text, content: &'a str) -> Result<New<'a>, String> {
    let mut notes = Vec::new();
    let encoding = text.encoding();
    let breaks = text.line_breaks();
    let plain = encoding == haft_workspace::text::Encoding::UTF_8
        && text.strays() == 0
        && breaks.crlf + breaks.cr == 0;
    if !plain {
        notes.push(format!("the file's encoding and line endings are kept ({encoding}, {breaks})."));
    }
    let small = text.view().len().max(content.len()) <= COMPARABLE;
    if !plain && small && !content.contains('\r') {
        let content = content.strip_prefix('\u{feff}').unwrap_or(content);
        let splices = line_splices(text.view(), content);
        let bytes = text.splice(&splices).map_err(|err| err.to_string())?;
        let hunks = patch_of_splices(text, &splices).map_err(|err| err.to_string())?;
        return Ok(New { bytes, hunks, notes });
    }
    let bytes = if plain {
        Bytes::whole(content.as_bytes())
    } else {
        Bytes::whole(encode_whole(content, encoding).map_err(|err| err.to_string())?)
    };
    let hunks = if small {
        patch(&text.literal(&text.raw()[encoding.bom_bytes().len()..]), content)
    } else {
        Vec::new()
    };
    Ok(New { bytes, hunks, notes })
}

/// Returns the changed lines as replacements in the old text.
fn line_splices(old: &str, new: &str) -> Vec<Splice> {
    let old_lines: Vec<&str> = old.split_inclusive('\n').collect();
    let new_lines: Vec<&str> = new.split_inclusive('\n').collect();
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(2);
    let ops = capture_diff_slices_deadline(Algorithm::Myers, &old_lines, &new_lines, Some(deadline));
    let mut starts = vec![0];
    for line in &old_lines {
        starts.push(starts.last().copied().unwrap_or(0) + line.len());
    }
    ops.into_iter()
        .filter(|op| op.tag() != DiffTag::Equal)
        .map(|op| Splice {
            range: starts[op.old_range().start]..starts[op.old_range().end],
            text: new_lines[op.new_range()].concat(),
        })
        .collect()
}
