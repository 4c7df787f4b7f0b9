//! Lists the content of a directory.

mod layout;

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use haft_search::{GlobFilter, ListedTree, SearchStop, SearchStopReason, TreeRun, WalkFilter};
use haft_tool::{
    AccessSet, CallContext, Content, LineStyle, Outcome, Rendered, RenderedLine, Stage, Tool, ToolContext,
    ToolError, Traits, schema_of,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use self::layout::Layout;
use crate::search_common::{self, OpenedTarget, Place, SearchToolSettings, counted, grouped, seconds, shown};

/// Shows a directory as a tree with sizes, about 200 lines of it, and says what it left out. Leaves out ignored
/// and hidden entries unless asked. To find files by name use Glob.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The directory. The working directory if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    /// How many levels to show: 1 is the directory alone, 3 if left out. What is below is summed up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 20))]
    pub depth: Option<usize>,
    /// Globs of what to leave out, such as `*.test.ts` or `fixtures/`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub ignore: Vec<String>,
    /// Also show what .gitignore and the like leave out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub include_ignored: Option<bool>,
    /// Also show names that begin with a dot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub include_hidden: Option<bool>,
}

/// A directory.
#[derive(Clone, Debug, Default, JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Output {
    /// The directory that is shown.
    path: String,
    /// The tree, a line an entry.
    tree: Vec<String>,
    /// Files in it and below.
    num_files: u64,
    /// Their size.
    num_bytes: u64,
    /// Directories in it and below.
    num_dirs: u64,
    /// Not every entry down to the depth is shown.
    truncated: bool,
    /// The numbers are not complete: the time ran out.
    #[serde(skip_serializing_if = "Option::is_none")]
    timed_out: Option<bool>,
    /// What the model has to know about the tree.
    #[serde(skip)]
    notes: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Ls {
    settings: SearchToolSettings,
}

/// Default depth of the tree.
const USUAL_DEPTH: usize = 3;

/// Maximum time to sum up sizes; totals are incomplete beyond it.
const TIMEOUT: Duration = Duration::from_secs(4);

impl Ls {
    pub fn new(settings: SearchToolSettings) -> Self {
        Self { settings }
    }
}

impl Input {
    fn filter(&self, cx: &CallContext) -> Result<WalkFilter, ToolError> {
        let globs: Vec<String> =
            self.ignore.iter().map(|glob| format!("!{}", glob.trim_start_matches('!'))).collect();
        let mut places = vec![&*cx.cwd];
        places.extend(self.path.as_deref());
        let globs = GlobFilter::new(&globs, &places).map_err(|problem| {
            ToolError::invalid(format!("ignore holds a glob that is not valid: {problem}"))
        })?;
        Ok(WalkFilter {
            respect_ignore: !self.include_ignored.unwrap_or(false),
            skip_hidden: !self.include_hidden.unwrap_or(false),
            globs,
            ..WalkFilter::default()
        })
    }
}

impl Tool for Ls {
    type Input = Input;
    type Output = Output;
    type Progress = ();
    const NAME: &'static str = "LS";

    fn traits(&self) -> Traits {
        Traits {
            aliases: &["list_directory", "list_dir"],
            synonyms: &[("directory", "path"), ("dir", "path"), ("file_path", "path")],
            search_hint: "list directory tree sizes",
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
        input.filter(cx).map(drop)
    }

    fn describe(&self, input: &Input) -> String {
        match &input.path {
            Some(path) => format!("List {}", path.display()),
            None => String::from("List the working directory"),
        }
    }

    fn output_schema(&self) -> Option<Value> {
        Some(schema_of::<Output>())
    }

    async fn call(&self, input: Input, cx: &ToolContext<()>) -> Result<Outcome<Output>, ToolError> {
        let limit = self.settings.timeout.min(TIMEOUT);
        let listing = LsListing {
            filter: input.filter(cx)?,
            place: Place::new(cx, input.path.as_deref().unwrap_or(&cx.cwd))?,
            depth: input.depth.unwrap_or(USUAL_DEPTH).max(1),
            cx: cx.clone(),
            limit,
        };
        Ok(search_common::run(cx, limit, move |stop| listing.run(stop)).await??.into())
    }

    fn to_content(&self, output: &Output) -> Content {
        let mut lines = vec![output.path.clone()];
        lines.extend(output.tree.iter().map(|line| format!("  {line}")));
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

/// One call, ready to run on a blocking thread.
struct LsListing {
    filter: WalkFilter,
    place: Place,
    depth: usize,
    cx: ToolContext<()>,
    limit: Duration,
}

impl LsListing {
    fn run(&self, stop: &SearchStop) -> Result<Output, ToolError> {
        let root = match self.place.open() {
            Ok(OpenedTarget::Dir(root)) => root,
            Ok(OpenedTarget::File(_)) => {
                let path = shown(&self.cx.cwd, &self.place.asked, b"");
                return Err(ToolError::failed(format!("{path} is a file, not a directory; use Read")));
            }
            Err(error) => return Err(self.place.failure(&error)),
        };
        let run = TreeRun {
            cwd: &self.cx.cwd,
            filter: &self.filter,
            limits: self.place.limits(),
            // One level deeper than shown, for the totals of the last level.
            depth: self.depth,
            keep: layout::MAX_LINES,
            may_show: &|rel| self.place.may_show(&self.cx, rel),
            stop,
        };
        let tree = run.run(&root);
        let layout = Layout::new(&tree, self.depth);
        let top = tree.dirs.get(&b""[..]);
        let name = shown(&self.cx.cwd, &self.place.asked, b"");
        Ok(Output {
            path: format!("{}/", name.trim_end_matches('/')),
            truncated: layout.truncated,
            num_files: top.map_or(0, |dir| dir.files),
            num_bytes: top.map_or(0, |dir| dir.bytes),
            num_dirs: tree.tally.dirs.saturating_sub(1),
            timed_out: (tree.stopped == Some(SearchStopReason::Deadline)).then_some(true),
            notes: self.notes(&tree),
            tree: layout.lines,
        })
    }

    fn notes(&self, tree: &ListedTree) -> Vec<String> {
        let top = tree.dirs.get(&b""[..]);
        let more = if tree.stopped.is_some() { "+" } else { "" };
        let mut notes = vec![format!(
            "[{}{more} in {}{more}, {}{more}]",
            counted(top.map_or(0, |dir| dir.files), "file", "files"),
            counted(tree.tally.dirs.saturating_sub(1), "directory", "directories"),
            layout::size(top.map_or(0, |dir| dir.bytes)),
        )];
        notes.extend(layout::left_out(tree));
        let tally = &tree.tally;
        if let Some((rel, reason)) = tally.unreadable.first.first() {
            let name = haft_search::display_text::path_text(rel);
            notes.push(format!("[{} unreadable: {name} ({reason})]", grouped(tally.unreadable.count)));
        }
        if 0 < tally.special {
            notes.push(format!(
                "[{} not shown]",
                counted(tally.special, "pipe, socket or device", "pipes, sockets and devices")
            ));
        }
        if 0 < tally.mounts {
            notes.push(format!(
                "[{} on other file systems not entered]",
                counted(tally.mounts, "directory", "directories")
            ));
        }
        match tree.stopped {
            None => (),
            Some(SearchStopReason::Deadline) => {
                notes.push(format!("[stopped after {}: the sums are not complete]", seconds(self.limit)));
            }
            Some(SearchStopReason::Cancelled) => {
                notes.push(String::from("[interrupted: this is not everything]"))
            }
        }
        notes
    }
}

fn rendered(output: &Output) -> Rendered {
    const SHOWN: usize = 40;
    let lines = output.tree.iter().map(|line| RenderedLine::new(LineStyle::Plain, line)).collect();
    let notes = output.notes.iter().map(|note| RenderedLine::new(LineStyle::Dim, note)).collect();
    Rendered { headline: output.path.clone(), lines, notes, ..Rendered::default() }.folded_to(SHOWN)
}
