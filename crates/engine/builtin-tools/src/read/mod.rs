//! Shows the content of a file.

mod line_page;
mod media;
mod notebook;
mod output;
mod result_text;
mod text_lines;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use haft_media::{Format, MediaWork};
use haft_tool::{
    CallContext, Content, ErrorKind, Outcome, Rendered, Stage, Tool, ToolContext, ToolError, Traits,
};
use haft_workspace::{
    FileError, FileEvent, LinesView, OpenFile, ReadBy, SessionFiles, hash_file, text::Text,
};
pub use line_page::ReadLimits;
pub use media::parts_dir;
pub(crate) use notebook::{joined, language_of};
pub use output::{
    BinaryFile, Cell, CellOutput, Dimensions, ImageFile, NotebookFile, Output, Parts, PdfFile, TextFile,
    Unchanged,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use text_lines::{LineNumbering, Range, TextJob, TextReadResult};

use crate::edit_common::{
    blocking, canonical, check_path,
    error_text::{FileOperation, explain},
    granted, viewer,
};

/// Reads a file. Text comes with line numbers (`number`, tab, line): all of it, or as much as fits
/// (at most 2000 lines) and how to read on; use `offset` and `limit` only for files that are too long. Reads
/// pictures (PNG, JPEG, GIF, WebP), PDFs (`pages` is needed above 10 pages, 20 at most per call) and
/// Jupyter notebooks with their outputs. Reads no directories: use LS or Glob. A file must be read
/// before Edit or Write may change it.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Path of the file, absolute or relative to the working directory.
    pub file_path: PathBuf,
    /// First line to show, from 1. Negative counts from the end: -50 shows the last 50 lines. In a
    /// notebook, the first cell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<i64>,
    /// How many lines to show.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub limit: Option<u64>,
    /// Pages of a PDF: "3", "1-5" or "2,7-9".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pages: Option<String>,
    /// First character of the first line, from 1; for lines too long to be shown whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub column: Option<u64>,
    /// Show marks (`12:4fk0a`) instead of plain line numbers, to name lines in Edit.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub marks: bool,
    /// Show more than usual at once. Only when the parts are useless by themselves.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub allow_large: bool,
}

#[derive(Debug)]
pub struct Read {
    files: Arc<SessionFiles>,
    limits: ReadLimits,
    media: MediaWork,
}

impl Read {
    pub fn new(files: Arc<SessionFiles>, limits: ReadLimits) -> Self {
        Self { files, limits, media: MediaWork::Thread }
    }

    /// Sets where images and PDFs are decoded.
    pub fn with_media(mut self, media: MediaWork) -> Self {
        self.media = media;
        self
    }
}

impl Tool for Read {
    type Input = Input;
    type Output = Output;
    type Progress = ();
    const NAME: &'static str = "Read";

    fn output_schema(&self) -> Option<serde_json::Value> {
        Some(haft_tool::schema_of::<Output>())
    }

    fn traits(&self) -> Traits {
        Traits {
            aliases: &["read_file", "FileRead", "view_file", "open_file"],
            synonyms: &[("path", "file_path"), ("file", "file_path"), ("filename", "file_path")],
            search_hint: "open show view file contents text image pdf notebook",
            max_result_chars: None,
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
        canonical(&mut input.file_path, cx);
        input.pages = input.pages.take().filter(|pages| !pages.trim().is_empty());
    }

    fn path<'a>(&self, input: &'a Input) -> Option<&'a Path> {
        Some(&input.file_path)
    }

    fn validate(&self, input: &Input, cx: &CallContext) -> Result<(), ToolError> {
        check_path(&input.file_path, cx)?;
        match input.pages.as_deref().map(parse_pages) {
            Some(Err(problem)) => Err(ToolError::invalid(problem)),
            Some(Ok(_)) | None => Ok(()),
        }
    }

    async fn call(&self, input: Input, cx: &ToolContext<()>) -> Result<Outcome<Output>, ToolError> {
        let real = granted(cx, &input.file_path)?;
        let limits = if input.allow_large { self.limits.large() } else { self.limits };
        let (files, media) = (Arc::clone(&self.files), self.media.clone());
        let job = ReadJob { files, viewer: viewer(cx), input, real, limits, media };
        if let Some(reading) = job.at_hand() {
            return Ok(outcome(reading));
        }
        let context = cx.clone();
        let reading =
            blocking(move || job.run(&|path| context.may_read(path), &|| context.cancel.is_cancelled()));
        tokio::select! {
            reading = reading => Ok(outcome(reading?)),
            () = cx.cancel.cancelled() => {
                Err(ToolError::new(ErrorKind::Interrupted, "the read was interrupted."))
            }
        }
    }

    fn to_content(&self, output: &Output) -> Content {
        result_text::text_for_model(output)
    }

    fn reworded(&self, data: &serde_json::Value) -> Option<Content> {
        let file = &data["file"];
        let text = file["content"].as_str().filter(|_| data["type"] == "text")?;
        let first = file["startLine"].as_u64().unwrap_or(1);
        let lines = text.lines().zip(first..).map(|(line, number)| format!("{number}\t{line}"));
        Some(Content::text(lines.collect::<Vec<_>>().join("\n")))
    }

    fn render(&self, stage: Stage<'_, Input, Output>) -> Rendered {
        match stage {
            Stage::Running(input) => Rendered::headline(self.describe(input)),
            Stage::Done(output) => result_text::render_for_user(output),
            Stage::Failed(error) => Rendered::error(&error.message),
        }
    }
}

fn outcome(reading: TextReadResult) -> Outcome<Output> {
    let mut outcome = Outcome::from(reading.output);
    // When a session is resumed, the log restores from this what the agent has seen.
    outcome.meta = reading
        .record
        .and_then(|record| serde_json::to_value(record).ok())
        .map(|record| serde_json::json!({ "haft/seen": record }));
    outcome
}

/// Parses page ranges, counted from 1.
fn parse_pages(text: &str) -> Result<Vec<std::ops::RangeInclusive<usize>>, String> {
    let problem = |what: &str| format!("pages: {what}; give \"3\", \"1-5\" or \"2,7-9\" (got \"{text}\").");
    let mut ranges = Vec::new();
    for part in text.split(',').map(str::trim) {
        let number = |text: &str| text.trim().parse::<usize>().ok().filter(|it| 0 < *it);
        let range = match part.split_once('-') {
            None => number(part).map(|page| page..=page),
            Some((first, last)) => number(first).zip(number(last)).map(|(first, last)| first..=last),
        };
        match range {
            Some(range) if range.is_empty() => return Err(problem("the range is reversed")),
            Some(range) => ranges.push(range),
            None => return Err(problem("not a page range")),
        }
    }
    Ok(ranges)
}

struct ReadJob {
    files: Arc<SessionFiles>,
    viewer: ReadBy,
    input: Input,
    real: PathBuf,
    limits: ReadLimits,
    media: MediaWork,
}

/// Maximum bytes of a file that is read on the async thread if it is in the page cache.
const SMALL: usize = 128 * 1024;

impl ReadJob {
    /// Fast path for the common case: a small text file in the page cache, read without a blocking
    /// thread. `None` means: use the normal path.
    fn at_hand(&self) -> Option<TextReadResult> {
        if self.input.pages.is_some()
            || self.is_notebook()
            || self.files.workspace().needs_editor_lookup(&self.real)
        {
            return None;
        }
        let (file, bytes) = haft_workspace::read_at_hand(&self.real, SMALL)?;
        // Other formats need the normal path.
        if haft_media::format(&bytes) != Format::Other {
            return None;
        }
        let text = Text::decode_plain(bytes)?;
        let snapshot = self.files.reads().snapshot(file, text.raw());
        let reading = self.text_job(&|| false).whole(&snapshot, &text);
        self.notify();
        Some(reading)
    }

    fn is_notebook(&self) -> bool {
        self.real.extension().is_some_and(|it| it.eq_ignore_ascii_case("ipynb"))
    }

    fn notify(&self) {
        let event = FileEvent::Read { path: self.real.clone(), viewer: self.viewer.clone() };
        self.files.reads().notify(&event);
    }

    fn text_job<'a>(&'a self, cancelled: &'a dyn Fn() -> bool) -> TextJob<'a> {
        let range = Range {
            offset: self.input.offset.unwrap_or(1),
            limit: self.input.limit,
            column: self.input.column.filter(|it| 1 < *it),
        };
        TextJob {
            files: &self.files,
            viewer: &self.viewer,
            asked: &self.input.file_path,
            range,
            limits: self.limits,
            numbers: if self.input.marks { LineNumbering::Marks } else { LineNumbering::Plain },
            cancelled,
        }
    }

    fn run(
        &self,
        may_read: &dyn Fn(&Path) -> bool,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<TextReadResult, ToolError> {
        let reading = self.read(cancelled).map_err(|failure| match failure {
            Failure::File(err) => explain(&err, FileOperation::Reading, &self.input.file_path, may_read),
            Failure::Tool(err) => err,
        })?;
        self.notify();
        Ok(reading)
    }

    fn read(&self, cancelled: &dyn Fn() -> bool) -> Result<TextReadResult, Failure> {
        let file = OpenFile::open(&self.real)?;
        let head = file.head(4096)?;
        match haft_media::format(&head) {
            Format::Image(format) => return self.image(&file, format, cancelled),
            Format::Pdf => return self.pdf(&file, cancelled),
            Format::Other if self.is_notebook() => {
                if let Some(reading) = self.notebook(&file, cancelled)? {
                    return Ok(reading);
                }
            }
            Format::Other => (),
        }
        if self.input.pages.is_some() {
            return Err(Failure::Tool(ToolError::invalid(format!(
                "pages: {} is not a PDF; use offset and limit.",
                self.input.file_path.display()
            ))));
        }
        let len = file.stamp().len;
        match self.text_job(cancelled).run(file)? {
            Some(reading) => Ok(reading),
            None => self.binary(len, &head, Vec::new()),
        }
    }

    /// Describes a file that cannot be shown. The agent may then replace the file.
    fn binary(&self, len: u64, head: &[u8], notices: Vec<String>) -> Result<TextReadResult, Failure> {
        if len <= haft_workspace::MAX_EDITABLE {
            let version = Some(hash_file(&self.real)?);
            let view = LinesView {
                path: &self.real,
                version,
                first: 1,
                lines: Vec::new(),
                total: 0,
                clipped: false,
                text: None,
            };
            self.files.reads().knows(&self.viewer, &view);
        }
        let output = Output::Binary(BinaryFile {
            file_path: self.input.file_path.clone(),
            original_size: len,
            sniffed: haft_media::describe(head).to_owned(),
            first_bytes: haft_media::hex(head),
            notices,
        });
        Ok(TextReadResult { output, record: None })
    }

    fn notebook(
        &self,
        file: &OpenFile,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<Option<TextReadResult>, Failure> {
        let bytes = file.read_all(notebook::MAX_BYTES).map_err(|err| match err {
            FileError::TooLarge { len, .. } => Failure::Tool(ToolError::failed(format!(
                "{} is a notebook of {len} bytes, more than can be shown. Use Bash (jq) to take out the part you need.",
                self.input.file_path.display()
            ))),
            err => Failure::File(err),
        })?;
        let version = haft_workspace::ContentHash::hash(&bytes);
        let Ok(text) = haft_workspace::text::Text::decode(bytes) else { return Ok(None) };
        let ask = notebook::CellRange {
            first: usize::try_from(self.input.offset.unwrap_or(1)).unwrap_or(1).max(1),
            count: self.input.limit.and_then(|it| usize::try_from(it).ok()),
            max_tokens: self.limits.max_tokens,
        };
        // A file that is not a valid notebook is shown as text, whatever its name.
        let Some(mut shown) = notebook::show(&self.input.file_path, text.view(), &ask) else {
            return Ok(None);
        };
        self.fit_pictures(&mut shown.file, cancelled);
        let all: Vec<&str> = text.view().lines().collect();
        let total = all.len() as u64;
        // For a notebook, all lines count as seen only if all cells were shown in full.
        let lines = if shown.complete { all } else { Vec::new() };
        let view = LinesView {
            path: &self.real,
            version: Some(version),
            first: 1,
            lines,
            total,
            clipped: false,
            text: Some(text.view()),
        };
        self.files.reads().knows(&self.viewer, &view);
        Ok(Some(TextReadResult { output: Output::Notebook(shown.file), record: None }))
    }
}

enum Failure {
    File(FileError),
    Tool(ToolError),
}

impl From<FileError> for Failure {
    fn from(err: FileError) -> Self {
        Self::File(err)
    }
}

impl From<ToolError> for Failure {
    fn from(err: ToolError) -> Self {
        Self::Tool(err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_ranges_are_parsed() {
        assert_eq!(parse_pages("3"), Ok(vec![3..=3]));
        assert_eq!(parse_pages(" 2, 7 - 9 "), Ok(vec![2..=2, 7..=9]));
        for bad in ["abc", "5-3", "", "0", "1-", "-2", "1,,2", "1-2-3"] {
            assert!(parse_pages(bad).is_err(), "{bad}");
        }
    }
}
