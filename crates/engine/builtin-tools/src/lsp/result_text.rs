//! Formats answers: relative paths, source lines, bounded lists, and no content of files that rules
//! deny.

use std::{
    collections::{BTreeMap, HashMap},
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use haft_lsp::{
    CallItem, CallLink, CodeAction, CodeLocation, CodeSymbol, ColumnEncoding, Diagnostic, DiagnosticSeverity,
    FileEdits, WorkspaceChange, character_of, kind_name, line_at,
};
use haft_tool::ToolContext;
use haft_types::text;

use super::{LspProgress, Operation, diagnostic_changes::problem, document_text::read_text};

/// Maximum number of locations, symbols and problems shown at once.
const MOST: usize = 100;
/// Maximum characters shown of a source line.
const LINE: usize = 160;
/// Maximum characters of a hover text.
const HOVER: usize = 12_000;
/// Maximum number of changes shown of a refactoring.
const CHANGES: usize = 60;
/// Maximum number of code actions shown, and of those shown with their changes.
const ACTIONS: usize = 30;
const SHOWN_ACTIONS: usize = 5;

/// A formatted answer.
#[derive(Debug, Default)]
pub(super) struct Page {
    pub(super) text: String,
    pub(super) count: Option<usize>,
    pub(super) files: Option<usize>,
    pub(super) notes: Vec<String>,
}

impl Page {
    pub(super) fn of(text: String) -> Self {
        Self { text, ..Self::default() }
    }
}

/// Formats the answers of one call.
pub(super) struct AnswerFormatter<'a> {
    cx: &'a ToolContext<LspProgress>,
    encoding: ColumnEncoding,
    texts: Mutex<HashMap<PathBuf, Option<std::sync::Arc<str>>>>,
}

impl<'a> AnswerFormatter<'a> {
    pub(super) fn new(cx: &'a ToolContext<LspProgress>, encoding: ColumnEncoding) -> Self {
        Self { cx, encoding, texts: Mutex::default() }
    }

    /// Returns the path as it is displayed.
    pub(super) fn name(&self, path: &Path) -> String {
        path.strip_prefix(&*self.cx.cwd).unwrap_or(path).display().to_string()
    }

    /// Returns the text of a file, if the rules allow this call to read it.
    async fn text(&self, path: &Path) -> Option<std::sync::Arc<str>> {
        let cached =
            |it: &Self| it.texts.lock().unwrap_or_else(std::sync::PoisonError::into_inner).get(path).cloned();
        if let Some(known) = cached(self) {
            return known;
        }
        let file = path.to_owned();
        let read = if self.cx.may_read(path) {
            tokio::task::spawn_blocking(move || read_text(&file).ok()).await.ok().flatten()
        } else {
            None
        };
        let read: Option<std::sync::Arc<str>> = read.map(Into::into);
        let mut texts = self.texts.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        texts.insert(path.to_owned(), read.clone());
        read
    }

    pub(super) fn hover(&self, found: Option<String>, name: &str, note: Option<String>) -> Page {
        let text = match found {
            Some(found) if HOVER < found.chars().count() => {
                format!("{}\n… (cut)", text::head(&found, HOVER))
            }
            Some(found) => found,
            None => format!("The server says nothing about `{name}`."),
        };
        Page { notes: note.into_iter().collect(), ..Page::of(text) }
    }

    pub(super) async fn spots(
        &self,
        operation: Operation,
        (found, elsewhere): (Vec<CodeLocation>, usize),
        name: &str,
        offset: usize,
        note: Option<String>,
    ) -> Page {
        let (one, many) = match operation {
            Operation::FindReferences => ("reference", "references"),
            Operation::GoToImplementation => ("implementation", "implementations"),
            Operation::GoToTypeDefinition => ("definition of the type", "definitions of the type"),
            _ => ("definition", "definitions"),
        };
        let mut notes: Vec<String> = note.into_iter().collect();
        if 0 < elsewhere {
            notes.push(format!("{elsewhere} more in places that are no files"));
        }
        let total = found.len();
        let (found, denied) = self.readable(found, |it| &it.path);
        if 0 < denied {
            notes.push(format!("{denied} more in files the rules deny"));
        }
        if found.is_empty() {
            let count = Some(total);
            return Page {
                notes,
                count,
                files: Some(0),
                ..Page::of(format!("No {many} of `{name}` found."))
            };
        }
        let mut by_file: BTreeMap<PathBuf, Vec<CodeLocation>> = BTreeMap::new();
        let shown: Vec<CodeLocation> = found.iter().skip(offset).take(MOST).cloned().collect();
        notes.extend(rest(found.len(), offset, shown.len()));
        let files = found.iter().map(|it| &it.path).collect::<std::collections::BTreeSet<_>>().len();
        shown.into_iter().for_each(|it| by_file.entry(it.path.clone()).or_default().push(it));
        let what = if found.len() == 1 { one } else { many };
        let mut lines = vec![format!("{} {what} of `{name}` in {}", found.len(), files_word(files))];
        for (path, spots) in by_file {
            lines.push(self.name(&path));
            let text = self.text(&path).await.unwrap_or_default();
            for it in spots {
                let content = line_at(&text, it.line as usize).unwrap_or_default();
                let place =
                    format!("{}:{}", it.line + 1, character_of(content, it.column as usize, self.encoding));
                lines.push(format!("  {place:<8} {}", text::one_line(content, LINE)).trim_end().to_owned());
            }
        }
        Page { text: lines.join("\n"), count: Some(found.len()), files: Some(files), notes }
    }

    /// Drops items in files that the rules deny. Returns the rest and the number dropped.
    fn readable<T>(&self, all: Vec<T>, path: impl Fn(&T) -> &PathBuf) -> (Vec<T>, usize) {
        let total = all.len();
        let mut verdicts: HashMap<PathBuf, bool> = HashMap::new();
        let seen: Vec<T> = all
            .into_iter()
            .filter(|it| {
                let path = path(it);
                *verdicts.entry(path.clone()).or_insert_with(|| self.cx.may_read(path))
            })
            .collect();
        let denied = total - seen.len();
        (seen, denied)
    }

    pub(super) fn document_symbols(&self, found: &[CodeSymbol], path: &Path, offset: usize) -> Page {
        let shown = self.name(path);
        if found.is_empty() {
            return Page { count: Some(0), ..Page::of(format!("{shown} has no names the server knows.")) };
        }
        let most = MOST * 4;
        let mut lines = vec![format!("{} names in {shown}", found.len())];
        let line = |it: &CodeSymbol| {
            let place = if it.line == it.end_line {
                format!("{}", it.line + 1)
            } else {
                format!("{}-{}", it.line + 1, it.end_line + 1)
            };
            let detail = if it.detail.is_empty() { String::new() } else { format!("  {}", it.detail) };
            let indent = "  ".repeat(it.depth.min(12));
            format!("{place:<10} {indent}{} {}{detail}", kind_name(it.kind), it.name)
        };
        lines.extend(found.iter().skip(offset).take(most).map(line));
        let notes =
            rest(found.len(), offset, found.len().saturating_sub(offset).min(most)).into_iter().collect();
        Page { text: lines.join("\n"), count: Some(found.len()), files: Some(1), notes }
    }

    pub(super) fn workspace_symbols(
        &self,
        found: &[CodeSymbol],
        query: &str,
        offset: usize,
        note: Option<String>,
    ) -> Page {
        let placed: Vec<&CodeSymbol> = found.iter().filter(|it| it.spot.is_some()).collect();
        let (placed, denied) = self.readable_symbols(placed);
        let mut notes: Vec<String> = note.into_iter().collect();
        if 0 < denied {
            notes.push(format!("{denied} more in files the rules deny"));
        }
        if placed.is_empty() {
            return Page { count: Some(0), notes, ..Page::of(format!("No names like `{query}` found.")) };
        }
        let mut lines = vec![format!("{} names like `{query}`", placed.len())];
        let line = |it: &&CodeSymbol| {
            let path = it.spot.as_ref().map(|it| self.name(&it.path)).unwrap_or_default();
            let inside =
                if it.container.is_empty() { String::new() } else { format!("  in {}", it.container) };
            format!("{path}:{}  {} {}{inside}", it.line + 1, kind_name(it.kind), it.name)
        };
        lines.extend(placed.iter().skip(offset).take(MOST).map(line));
        notes.extend(rest(placed.len(), offset, placed.len().saturating_sub(offset).min(MOST)));
        Page { text: lines.join("\n"), count: Some(placed.len()), files: None, notes }
    }

    fn readable_symbols<'b>(&self, all: Vec<&'b CodeSymbol>) -> (Vec<&'b CodeSymbol>, usize) {
        let total = all.len();
        let seen: Vec<&CodeSymbol> = all
            .into_iter()
            .filter(|it| it.spot.as_ref().is_some_and(|it| self.cx.may_read(&it.path)))
            .collect();
        let denied = total - seen.len();
        (seen, denied)
    }

    fn item(&self, it: &CallItem) -> String {
        let detail = if it.detail.is_empty() { String::new() } else { format!("  {}", it.detail) };
        format!(
            "{}:{}  {} {}{detail}",
            self.name(&it.spot.path),
            it.spot.line + 1,
            kind_name(it.kind),
            it.name
        )
    }

    pub(super) fn call_items(&self, found: &[CallItem], name: &str, note: Option<String>) -> Page {
        let seen: Vec<&CallItem> = found.iter().filter(|it| self.cx.may_read(&it.spot.path)).collect();
        let text = if seen.is_empty() {
            format!("`{name}` is nothing that calls or is called.")
        } else {
            seen.iter().map(|it| self.item(it)).collect::<Vec<_>>().join("\n")
        };
        Page { count: Some(seen.len()), notes: note.into_iter().collect(), ..Page::of(text) }
    }

    pub(super) fn calls(
        &self,
        operation: Operation,
        links: &[CallLink],
        name: &str,
        offset: usize,
        note: Option<String>,
    ) -> Page {
        let mut notes: Vec<String> = note.into_iter().collect();
        let seen: Vec<&CallLink> = links.iter().filter(|it| self.cx.may_read(&it.item.spot.path)).collect();
        if seen.len() < links.len() {
            notes.push(format!("{} more in files the rules deny", links.len() - seen.len()));
        }
        let incoming = operation == Operation::IncomingCalls;
        if seen.is_empty() {
            let text = if incoming {
                format!("Nothing calls `{name}`.")
            } else {
                format!("`{name}` calls nothing the server knows.")
            };
            return Page { count: Some(0), notes, ..Page::of(text) };
        }
        let head = if incoming {
            format!("{} callers of `{name}`", seen.len())
        } else {
            format!("`{name}` calls {}", seen.len())
        };
        let line = |it: &&CallLink| {
            let at: Vec<String> = it.lines.iter().take(20).map(|it| (it + 1).to_string()).collect();
            let lines = if it.lines.len() == 1 { "line" } else { "lines" };
            format!("{} (called on {lines} {})", self.item(&it.item), at.join(", "))
        };
        let shown = seen.iter().skip(offset).take(MOST).map(line);
        let text = std::iter::once(head).chain(shown).collect::<Vec<_>>().join("\n");
        notes.extend(rest(seen.len(), offset, seen.len().saturating_sub(offset).min(MOST)));
        Page { text, count: Some(seen.len()), files: None, notes }
    }

    pub(super) fn problems(
        &self,
        path: &Path,
        text: &str,
        items: Vec<Diagnostic>,
        offset: usize,
        note: Option<String>,
    ) -> Page {
        let mut notes: Vec<String> = note.into_iter().collect();
        let name = self.name(path);
        let (mut told, hints): (Vec<_>, Vec<_>) =
            items.into_iter().partition(|it| it.severity != DiagnosticSeverity::Hint);
        if !hints.is_empty() {
            notes.push(format!("{} hints are left out", hints.len()));
        }
        told.sort_by_key(|it| (it.severity, it.line, it.column));
        if told.is_empty() {
            return Page { count: Some(0), notes, ..Page::of(format!("No problems in {name}.")) };
        }
        let mut lines = vec![format!("{name}: {}", tally(&told))];
        lines.extend(told.iter().skip(offset).take(MOST).map(|it| problem(it, text, self.encoding)));
        notes.extend(rest(told.len(), offset, told.len().saturating_sub(offset).min(MOST)));
        Page { text: lines.join("\n"), count: Some(told.len()), files: Some(1), notes }
    }

    /// Formats all problems of a project, without those in ignored files, which are generated. `asked`
    /// says whether the server was asked about the whole project.
    pub(super) async fn all_problems(
        &self,
        all: Vec<(PathBuf, Vec<Diagnostic>)>,
        asked: bool,
        offset: usize,
    ) -> Page {
        let (mut seen, denied) = self.readable(all, |it| &it.0);
        let (top, paths) = (Arc::clone(&self.cx.cwd), seen.iter().map(|it| it.0.clone()).collect::<Vec<_>>());
        let ignored = tokio::task::spawn_blocking(move || haft_search::left_out(&top, &paths)).await;
        let ignored = ignored.unwrap_or_default();
        seen.retain(|it| !ignored.contains(&it.0));
        let mut files: Vec<(PathBuf, Vec<Diagnostic>)> = seen
            .into_iter()
            .map(|(path, items)| {
                (
                    path,
                    items
                        .into_iter()
                        .filter(|it| it.severity <= DiagnosticSeverity::Warning)
                        .collect::<Vec<_>>(),
                )
            })
            .filter(|it| !it.1.is_empty())
            .collect();
        files.sort_by_key(|it| it.1.iter().map(|it| it.severity).min());
        let total: usize = files.iter().map(|it| it.1.len()).sum();
        let mut notes = Vec::new();
        if !asked {
            notes.push(String::from(
                "only files the server has looked at by itself; give filePath for a certain one",
            ));
        }
        if !ignored.is_empty() {
            notes.push(format!("{} that ignore files name are left out", files_word(ignored.len())));
        }
        if 0 < denied {
            notes.push(format!("{denied} files the rules deny are left out"));
        }
        if total == 0 {
            return Page {
                count: Some(0),
                notes,
                ..Page::of(String::from("No errors or warnings are known."))
            };
        }
        let mut lines = Vec::new();
        let (mut passed, mut left) = (offset, MOST);
        for (path, items) in &files {
            let skipped = passed.min(items.len());
            passed -= skipped;
            if left == 0 || skipped == items.len() {
                continue;
            }
            let text = self.text(path).await.unwrap_or_default();
            lines.push(format!("{}: {}", self.name(path), tally(items)));
            let shown = items.iter().skip(skipped).take(left);
            lines.extend(shown.map(|it| problem(it, &text, self.encoding)));
            left -= (items.len() - skipped).min(left);
        }
        notes.extend(rest(total, offset, total.saturating_sub(offset).min(MOST)));
        Page { text: lines.join("\n"), count: Some(total), files: Some(files.len()), notes }
    }

    pub(super) async fn rename(
        &self,
        change: &WorkspaceChange,
        name: &str,
        new: &str,
        note: Option<String>,
    ) -> Page {
        let mut notes: Vec<String> = note.into_iter().collect();
        let count: usize = change.files.iter().map(|it| it.changes.len()).sum();
        if count == 0 && change.moves.is_empty() {
            return Page { count: Some(0), notes, ..Page::of(format!("`{name}` cannot be renamed there.")) };
        }
        let files = change.files.len();
        let head =
            format!("Renaming `{name}` to `{new}` would change {count} places in {}", files_word(files));
        let mut lines = vec![head];
        lines.extend(self.preview(change, CHANGES).await);
        notes.push(String::from("a proposal: nothing was changed; make the changes with MultiEdit"));
        Page { text: lines.join("\n"), count: Some(count), files: Some(files), notes }
    }

    /// Formats the changes of a refactoring line by line.
    async fn preview(&self, change: &WorkspaceChange, most: usize) -> Vec<String> {
        let mut lines: Vec<String> = change.moves.iter().map(|it| format!("would {it}")).collect();
        let (mut left, mut denied) = (most, 0);
        for FileEdits { path, changes } in &change.files {
            let Some(text) = self.text(path).await else {
                denied += 1;
                continue;
            };
            lines.push(format!("{} ({})", self.name(path), changes.len()));
            let edited = edited_lines(&text, changes, self.encoding);
            let hidden = edited.len().saturating_sub(left);
            for (number, old, new) in edited.into_iter().take(left) {
                lines.extend(old.lines().take(20).map(|it| format!("  -{number}: {}", text::head(it, LINE))));
                lines.extend(new.lines().take(20).map(|it| format!("  +{number}: {}", text::head(it, LINE))));
            }
            if 0 < hidden {
                lines.push(format!("  … and {hidden} more lines"));
            }
            left = left.saturating_sub(changes.len());
        }
        if 0 < denied {
            lines.push(format!("{denied} more files, which cannot be read"));
        }
        lines
    }

    pub(super) async fn actions(&self, found: &[CodeAction], note: Option<String>) -> Page {
        let mut notes: Vec<String> = note.into_iter().collect();
        if found.is_empty() {
            return Page {
                count: Some(0),
                notes,
                ..Page::of(String::from("The server proposes nothing here."))
            };
        }
        let mut order: Vec<&CodeAction> = found.iter().collect();
        order.sort_by_key(|it| (!it.preferred, it.kind != "quickfix"));
        let mut lines = Vec::new();
        let mut shown = 0;
        for (number, it) in order.iter().take(ACTIONS).enumerate() {
            let kind = if it.kind.is_empty() { String::new() } else { format!(" ({})", it.kind) };
            let only =
                if it.runs_command && it.change.is_none() { "; only the server could do it" } else { "" };
            lines.push(format!("{}. {}{kind}{only}", number + 1, it.title));
            if let Some(change) = it.change.as_ref().filter(|_| shown < SHOWN_ACTIONS) {
                shown += 1;
                lines.extend(self.preview(change, 12).await.into_iter().map(|it| format!("   {it}")));
            }
        }
        if ACTIONS < found.len() {
            notes.push(format!("{} more are left out", found.len() - ACTIONS));
        }
        notes.push(String::from("proposals: nothing was changed; make the changes with Edit or MultiEdit"));
        Page { text: lines.join("\n"), count: Some(found.len()), files: None, notes }
    }
}

/// Returns the changed lines as (number, before, after). Skips invalid changes.
fn edited_lines(
    text: &str,
    changes: &[haft_lsp::TextChange],
    encoding: ColumnEncoding,
) -> Vec<(usize, String, String)> {
    let lines: Vec<&str> = text.lines().collect();
    let line = |at: u32| lines.get(at as usize).copied().unwrap_or_default();
    let mut found: Vec<(usize, String, String)> = Vec::new();
    let mut at = 0;
    while at < changes.len() {
        // Changes on the same lines are shown together.
        let first = changes[at].start.0;
        let mut last = changes[at].end.0;
        let mut until = at + 1;
        while until < changes.len() && changes[until].start.0 <= last {
            last = last.max(changes[until].end.0);
            until += 1;
        }
        let old: Vec<&str> = (first..=last.min(first.saturating_add(200))).map(line).collect();
        let mut new = String::new();
        let (mut row, mut byte) = (first, 0);
        for change in &changes[at..until] {
            copy(
                &mut new,
                &line,
                (row, byte),
                (change.start.0, encoding.byte(line(change.start.0), change.start.1 as usize)),
            );
            new.push_str(&change.new_text);
            (row, byte) = (change.end.0, encoding.byte(line(change.end.0), change.end.1 as usize));
        }
        copy(&mut new, &line, (row, byte), (last, line(last).len()));
        found.push((first as usize + 1, old.join("\n"), new));
        at = until;
    }
    found
}

/// Appends the text between two positions.
fn copy<'a>(to: &mut String, line: &impl Fn(u32) -> &'a str, from: (u32, usize), until: (u32, usize)) {
    if until < from {
        return;
    }
    for row in from.0..=until.0.min(from.0.saturating_add(2_000)) {
        let content = line(row);
        let start = if row == from.0 { from.1.min(content.len()) } else { 0 };
        let end = if row == until.0 { until.1.min(content.len()) } else { content.len() };
        to.push_str(content.get(start..end).unwrap_or_default());
        if row != until.0 {
            to.push('\n');
        }
    }
}

fn files_word(count: usize) -> String {
    if count == 1 { String::from("1 file") } else { format!("{count} files") }
}

/// Returns a note about omitted items and how to see them.
fn rest(total: usize, offset: usize, shown: usize) -> Option<String> {
    let next = offset + shown;
    match () {
        () if next < total => Some(format!("{} more: call again with offset {next}", total - next)),
        () if total <= offset && 0 < offset => Some(format!("there are only {total}")),
        () => None,
    }
}

fn tally(items: &[Diagnostic]) -> String {
    let words = [
        (DiagnosticSeverity::Error, "errors"),
        (DiagnosticSeverity::Warning, "warnings"),
        (DiagnosticSeverity::Information, "remarks"),
    ];
    let counted = words.into_iter().filter_map(|(severity, word)| {
        let count = items.iter().filter(|it| it.severity == severity).count();
        let word = if count == 1 { word.trim_end_matches('s') } else { word };
        (0 < count).then(|| format!("{count} {word}"))
    });
    counted.collect::<Vec<_>>().join(", ")
}
