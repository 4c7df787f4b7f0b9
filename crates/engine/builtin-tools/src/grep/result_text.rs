use std::{path::Path, time::Duration};

use haft_search::{FileHits, GrepLine, GrepResult, LeftOut, LineKind, SearchStopReason, display_text};
use schemars::JsonSchema;
use serde::Serialize;

use super::{Input, OutputMode};
use crate::search_common::{counted, grouped, seconds, shown};

/// What was found.
#[derive(Clone, Debug, Default, JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Output {
    /// What the answer holds.
    mode: OutputMode,
    /// How many files are in the answer.
    num_files: usize,
    /// Their paths.
    filenames: Vec<String>,
    /// The lines, or the counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<String>,
    /// How many lines are in the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    num_lines: Option<usize>,
    /// How many lines match in all files.
    #[serde(skip_serializing_if = "Option::is_none")]
    num_matches: Option<u64>,
    /// How many files match in all.
    total_files: u64,
    /// How many lines there are in all.
    #[serde(skip_serializing_if = "Option::is_none")]
    total_lines: Option<u64>,
    /// The limit that cut the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    applied_limit: Option<usize>,
    /// Where the answer begins.
    #[serde(skip_serializing_if = "Option::is_none")]
    applied_offset: Option<usize>,
    /// The time ran out.
    #[serde(skip_serializing_if = "Option::is_none")]
    timed_out: Option<bool>,
    /// How many files were searched.
    searched_files: u64,
    /// What was not searched.
    skipped: Skipped,
    /// The lines by file, for people.
    #[serde(skip)]
    pub(super) groups: Vec<(String, Vec<GrepLine>)>,
    /// What the model has to know about the answer.
    #[serde(skip)]
    pub(super) notes: Vec<String>,
}

/// What was not searched. Directories count as one unless they were looked at
/// afterwards.
#[derive(Clone, Copy, Debug, Default, JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Skipped {
    ignored: u64,
    hidden: u64,
    binary: u64,
    unreadable: u64,
    /// How many of them would have matched, where that was looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    matching: Option<u64>,
}

impl Output {
    /// Formats the result for the model.
    pub(super) fn text(&self) -> String {
        let body = match self.mode {
            OutputMode::FilesWithMatches => self.filenames.join("\n"),
            OutputMode::Content | OutputMode::Count => self.content.clone().unwrap_or_default(),
        };
        let mut parts = Vec::new();
        if !body.is_empty() {
            parts.push(body);
        }
        parts.extend(self.notes.iter().cloned());
        parts.join("\n")
    }

    /// Returns the files with matches, as named in the answer.
    pub(super) fn files(&self) -> &[String] {
        &self.filenames
    }

    /// Returns one line for the user.
    pub(super) fn headline(&self) -> String {
        let files = counted(self.total_files, "file", "files");
        match self.num_matches {
            Some(matches) => format!("{} in {files}", counted(matches, "match", "matches")),
            None => files,
        }
    }
}

/// The result of a search, before it is formatted.
pub(super) struct GrepAnswer<'a> {
    pub(super) input: &'a Input,
    pub(super) cwd: &'a Path,
    /// The directory that was searched; `None` if it was a single file.
    pub(super) dir: Option<&'a Path>,
    pub(super) limit: Duration,
    pub(super) grepped: GrepResult,
}

impl GrepAnswer<'_> {
    pub(super) fn output(self) -> Output {
        let (page, totals, mode) = (self.input.page(), &self.grepped.totals, self.input.mode());
        let names: Vec<String> = totals.files.iter().map(|file| self.name(file)).collect();
        let content = match mode {
            OutputMode::FilesWithMatches => None,
            OutputMode::Count => Some(self.counts(&names)),
            OutputMode::Content => Some(self.lines(&names)),
        };
        let listed = match mode {
            OutputMode::Content => totals.files.iter().map(|file| file.lines.len()).sum(),
            OutputMode::FilesWithMatches | OutputMode::Count => totals.files.len(),
        };
        let is_cut = ((page.offset + listed) as u64) < totals.total_entries;
        let is_content = mode == OutputMode::Content;
        let groups = names.iter().cloned().zip(totals.files.iter().map(|file| file.lines.clone())).collect();
        Output {
            mode,
            num_files: names.len(),
            content,
            num_lines: is_content.then_some(listed),
            num_matches: (mode != OutputMode::FilesWithMatches).then_some(totals.total_count),
            total_files: totals.total_files,
            total_lines: is_content.then_some(totals.total_entries),
            applied_limit: is_cut.then_some(listed),
            applied_offset: (0 < page.offset).then_some(page.offset),
            timed_out: (self.grepped.stopped == Some(SearchStopReason::Deadline)).then_some(true),
            searched_files: self.grepped.searched,
            skipped: self.skipped(),
            notes: self.notes(listed, is_cut),
            groups,
            filenames: names,
        }
    }

    fn name(&self, file: &FileHits) -> String {
        match self.dir {
            Some(dir) => shown(self.cwd, dir, &file.rel),
            None => shown(self.cwd, Path::new("/"), &file.rel),
        }
    }

    fn counts(&self, names: &[String]) -> String {
        let files = names.iter().zip(&self.grepped.totals.files);
        files.map(|(name, file)| format!("{name}:{}", file.count)).collect::<Vec<_>>().join("\n")
    }

    /// Formats lines like `rg`: `path:12:text`, dashes for context, `--` between groups. A single file
    /// needs no path.
    fn lines(&self, names: &[String]) -> String {
        let mut out: Vec<String> = Vec::new();
        let query = self.input;
        let has_context =
            [query.before, query.after, query.around, query.context].iter().any(|it| 0 < it.unwrap_or(0));
        for (name, file) in names.iter().zip(&self.grepped.totals.files) {
            for (index, line) in file.lines.iter().enumerate() {
                let new_file = index == 0 && !out.is_empty();
                if has_context && (line.after_gap || new_file) && !out.is_empty() {
                    out.push(String::from("--"));
                }
                let mark = if line.kind == LineKind::Match { ':' } else { '-' };
                let path = if self.dir.is_some() { format!("{name}{mark}") } else { String::new() };
                let number =
                    if query.shows_numbers() { format!("{}{mark}", line.number) } else { String::new() };
                out.push(format!("{path}{number}{}", line.text));
            }
        }
        out.join("\n")
    }

    fn skipped(&self) -> Skipped {
        let (grepped, left_out) = (&self.grepped, self.grepped.left_out.as_ref());
        let files = |wanted: fn(&haft_search::FileRequirement) -> bool| {
            left_out
                .map(|it| it.by_need.iter().filter(|(needs, _)| wanted(needs)).map(|(_, sum)| sum.0).sum())
        };
        Skipped {
            ignored: files(|needs| needs.ignored).unwrap_or(grepped.tally.ignored),
            hidden: files(|needs| needs.hidden && !needs.ignored).unwrap_or(grepped.tally.hidden),
            binary: grepped.binary,
            unreadable: grepped.tally.unreadable.count,
            matching: left_out.map(|it| it.by_need.values().map(|sum| sum.1).sum()),
        }
    }

    fn notes(&self, listed: usize, is_cut: bool) -> Vec<String> {
        let (page, totals) = (self.input.page(), &self.grepped.totals);
        let mut notes = Vec::new();
        let entries = match self.input.mode() {
            OutputMode::Content => "lines",
            OutputMode::FilesWithMatches | OutputMode::Count => "files",
        };
        match () {
            () if totals.total_files == 0 => notes.push(self.nothing()),
            () if listed == 0 => notes.push(format!(
                "No entries at this offset: there are {} {entries}",
                grouped(totals.total_entries)
            )),
            () if is_cut => notes.push(format!(
                "[{entries} {}-{} of {}; next page: offset {}]",
                grouped(page.offset as u64 + 1),
                grouped((page.offset + listed) as u64),
                grouped(totals.total_entries),
                page.offset + listed
            )),
            () => (),
        }
        if self.input.mode() == OutputMode::Count && 0 < totals.total_files {
            let files = counted(totals.total_files, "file", "files");
            notes.push(format!("[{} in {files}]", counted(totals.total_count, "match", "matches")));
        }
        notes.extend(self.stopped());
        notes.extend(self.about_files());
        if 0 < totals.total_files {
            notes.extend(self.unreadable().map(|it| format!("[{it}]")));
            notes.extend(self.matches_left_out());
        }
        notes
    }

    /// If there are few matches, returns a note about ignored files that match.
    fn matches_left_out(&self) -> Option<String> {
        let mut left_out = self.grepped.left_out.clone()?;
        left_out.by_need.retain(|needs, sum| 0 < sum.1 && needs.ignored && !needs.binary);
        left_out.by_need.values_mut().for_each(|sum| *sum = (sum.1, 0));
        if left_out.by_need.is_empty() {
            return None;
        }
        let (mut parts, mut flags) = (Vec::new(), Vec::new());
        self.left_out(&left_out, &mut parts, &mut flags);
        let flags = if flags.is_empty() { String::new() } else { format!(" — {}", flags.join(", ")) };
        Some(format!("[left out, but matching: {}{flags}]", parts.join(", ")))
    }

    fn stopped(&self) -> Option<String> {
        let searched = counted(self.grepped.searched, "file", "files");
        match self.grepped.stopped? {
            SearchStopReason::Deadline => Some(format!(
                "[stopped after {} and {searched}: this is not everything; narrow path, glob or type]",
                seconds(self.limit)
            )),
            SearchStopReason::Cancelled => {
                Some(format!("[interrupted after {searched}: this is not everything]"))
            }
        }
    }

    /// Returns notes about encodings and binary content of the first few files.
    fn about_files(&self) -> Vec<String> {
        const NAMED: usize = 3;
        let files = &self.grepped.totals.files;
        let mut notes: Vec<String> = files
            .iter()
            .filter_map(|file| {
                let name = self.name(file);
                match (file.binary_at, file.encoding) {
                    (Some(at), _) if 0 < file.beyond_binary => Some(format!(
                        "[{name} is binary: {} behind its first NUL byte (offset {at}) not shown]",
                        counted(file.beyond_binary, "matching line", "matching lines")
                    )),
                    (Some(at), _) => {
                        Some(format!("[{name} is binary from offset {at} on; not searched further]"))
                    }
                    (None, Some(encoding)) => Some(format!("[{name} was read as {encoding}]")),
                    (None, None) => None,
                }
            })
            .collect();
        notes.truncate(NAMED);
        notes
    }

    /// Explains an answer without matches.
    fn nothing(&self) -> String {
        let grepped = &self.grepped;
        let mut text = format!("0 matches in {}", counted(grepped.searched, "file", "files"));
        let mut skipped = Vec::new();
        let mut flags: Vec<&str> = Vec::new();
        if let Some(left_out) = &grepped.left_out {
            self.left_out(left_out, &mut skipped, &mut flags);
        }
        skipped.extend(self.unreadable());
        let (links, mounts) = (grepped.tally.links, grepped.tally.mounts);
        if 0 < links {
            skipped.push(format!("{} (give one as path)", counted(links, "symbolic link", "symbolic links")));
        }
        if 0 < mounts {
            skipped.push(format!("{} on other file systems", counted(mounts, "directory", "directories")));
        }
        if !skipped.is_empty() {
            text.push_str(&format!("; skipped: {}", skipped.join(", ")));
        }
        if !flags.is_empty() {
            text.push_str(&format!(" — {}", flags.join(", ")));
        }
        if grepped.searched == 0 && (self.input.glob.is_some() || self.input.file_type.is_some()) {
            text.push_str("; no file fits the glob and type");
        }
        text
    }

    fn left_out(&self, left_out: &LeftOut, skipped: &mut Vec<String>, flags: &mut Vec<&'static str>) {
        let mut kinds: Vec<_> = left_out
            .by_need
            .iter()
            .map(|(needs, sum)| {
                let (rank, what) = match (needs.ignored, needs.hidden, needs.binary) {
                    (true, false, false) => (0, "gitignored"),
                    (false, _, false) => (1, "hidden"),
                    (true, true, false) => (2, "gitignored and hidden"),
                    (_, _, true) => (3, "binary"),
                };
                (rank, what, needs, sum)
            })
            .collect();
        kinds.sort_by_key(|(rank, ..)| *rank);
        for (_, what, needs, (files, matching)) in kinds {
            let more = if left_out.incomplete { "+" } else { "" };
            let mut part = format!("{}{more} {what}", grouped(*files));
            match matching {
                0 => (),
                matching => part.push_str(&format!(" ({}{more} of them match)", grouped(*matching))),
            }
            skipped.push(part);
            let mut flag = |on: bool, name| {
                if on && !flags.contains(&name) {
                    flags.push(name);
                }
            };
            flag(needs.ignored, "include_ignored: true");
            flag(needs.hidden, "include_hidden: true");
        }
    }

    fn unreadable(&self) -> Option<String> {
        let unreadable = &self.grepped.tally.unreadable;
        let (rel, reason) = unreadable.first.first()?;
        let name = match self.dir {
            Some(dir) => shown(self.cwd, dir, rel),
            None => display_text::path_text(rel),
        };
        let others = if 1 < unreadable.count { " and others" } else { "" };
        Some(format!("{} unreadable ({name}{others}: {reason})", grouped(unreadable.count)))
    }
}
