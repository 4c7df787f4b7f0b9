use std::{path::Path, time::Duration};

use haft_search::{RankedAnswer, RefreshStats, SearchStopReason};
use haft_tool::{LineStyle, Rendered, RenderedLine};
use schemars::JsonSchema;
use serde::Serialize;

use crate::search_common::{counted, grouped, seconds, shown};

/// What was found.
#[derive(Clone, Debug, Default, JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Output {
    /// What was asked for.
    query: String,
    /// Where it is defined, best first.
    definitions: Vec<Definition>,
    /// How many definitions fit.
    total_definitions: usize,
    /// Where it is used, nearest to the definition first.
    usages: Vec<Mention>,
    /// How many lines use it.
    total_usages: u64,
    /// In how many files.
    usage_files: usize,
    /// Where comments, texts and documents mention it.
    mentions: Vec<Mention>,
    /// How many there are.
    total_mentions: u64,
    /// How many files were looked at.
    searched_files: usize,
    /// The time ran out.
    #[serde(skip_serializing_if = "Option::is_none")]
    timed_out: Option<bool>,
    /// What the model has to know about the answer.
    #[serde(skip)]
    notes: Vec<String>,
}

/// Something that is defined.
#[derive(Clone, Debug, JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
struct Definition {
    file: String,
    line: u32,
    name: String,
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    container: Option<String>,
    text: String,
}

/// A line.
#[derive(Clone, Debug, JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
struct Mention {
    file: String,
    line: u32,
    text: String,
}

impl Definition {
    fn shown(&self) -> String {
        if self.text.is_empty() {
            return format!("{} ({})", self.file, self.kind);
        }
        let inside = self.container.as_ref().map(|it| format!(" in {it}")).unwrap_or_default();
        format!("{}:{}: {}  ({}{inside})", self.file, self.line, self.text, self.kind)
    }
}

impl Mention {
    fn shown(&self) -> String {
        format!("{}:{}: {}", self.file, self.line, self.text)
    }
}

impl Output {
    /// Returns the files in the answer, as displayed.
    pub(super) fn files(&self) -> Vec<String> {
        let lines = self.usages.iter().chain(&self.mentions).map(|it| &it.file);
        let mut files: Vec<String> =
            self.definitions.iter().map(|it| &it.file).chain(lines).cloned().collect();
        files.sort();
        files.dedup();
        files
    }

    /// Adds a note for the model.
    pub(super) fn note(&mut self, note: Option<String>) {
        self.notes.extend(note);
    }

    /// Formats the result for the model.
    pub(super) fn text(&self) -> String {
        let mut lines = Vec::new();
        for (title, body) in self.sections() {
            lines.push(title);
            lines.extend(body);
        }
        lines.extend(self.notes.iter().cloned());
        lines.join("\n")
    }

    /// Returns the non-empty sections: title and lines.
    fn sections(&self) -> Vec<(String, Vec<String>)> {
        let of = |shown: usize, total: u64| match total {
            total if total <= shown as u64 => grouped(total),
            total => format!("{shown} of {}", grouped(total)),
        };
        let mut sections = Vec::new();
        if !self.definitions.is_empty() {
            let title =
                format!("Definitions ({}):", of(self.definitions.len(), self.total_definitions as u64));
            sections.push((title, self.definitions.iter().map(Definition::shown).collect()));
        }
        if !self.usages.is_empty() {
            let count = of(self.usages.len(), self.total_usages);
            let title =
                format!("Usages ({count}, in {}):", counted(self.usage_files as u64, "file", "files"));
            sections.push((title, self.usages.iter().map(Mention::shown).collect()));
        }
        if !self.mentions.is_empty() {
            let title = format!("Mentions ({}):", of(self.mentions.len(), self.total_mentions));
            sections.push((title, self.mentions.iter().map(Mention::shown).collect()));
        }
        sections
    }

    /// Formats the result for the user.
    pub(super) fn rendered(&self) -> Rendered {
        let mut lines = Vec::new();
        for (title, body) in self.sections() {
            lines.push(RenderedLine::new(LineStyle::Hunk, title));
            lines.extend(
                body.into_iter().map(|text| RenderedLine::new(LineStyle::Plain, format!("  {text}"))),
            );
        }
        let notes = self.notes.iter().map(|note| RenderedLine::new(LineStyle::Dim, note)).collect();
        let headline = format!(
            "{}, {}, {}",
            counted(self.total_definitions as u64, "definition", "definitions"),
            counted(self.total_usages, "usage", "usages"),
            counted(self.total_mentions, "mention", "mentions"),
        );
        Rendered { headline, lines, notes, ..Rendered::default() }
    }
}

/// The result of a lookup, before it is formatted.
pub(super) struct Found<'a> {
    pub(super) answer: RankedAnswer,
    pub(super) refreshed: RefreshStats,
    pub(super) indexed: usize,
    pub(super) cwd: &'a Path,
    pub(super) dir: &'a Path,
    pub(super) limit: Duration,
}

impl Found<'_> {
    pub(super) fn output(self, query: &str) -> Output {
        let answer = &self.answer;
        let mention = |place: &haft_search::RankedLine| Mention {
            file: self.name(&place.rel),
            line: place.line,
            text: place.text.clone(),
        };
        let define = |definition: &haft_search::RankedDefinition| Definition {
            file: self.name(&definition.rel),
            line: definition.line,
            name: definition.name.clone(),
            kind: definition.kind.map_or("file", haft_search::SymbolKind::name),
            container: definition.container.clone(),
            text: definition.text.clone(),
        };
        Output {
            query: query.to_owned(),
            definitions: answer.definitions.iter().map(define).collect(),
            total_definitions: answer.total_definitions,
            usages: answer.usages.iter().map(mention).collect(),
            total_usages: answer.total_usages,
            usage_files: answer.usage_files,
            mentions: answer.passages.iter().map(mention).collect(),
            total_mentions: answer.total_passages,
            searched_files: self.indexed,
            timed_out: (self.stopped() == Some(SearchStopReason::Deadline)).then_some(true),
            notes: self.notes(query),
        }
    }

    fn name(&self, rel: &[u8]) -> String {
        shown(self.cwd, self.dir, rel)
    }

    fn stopped(&self) -> Option<SearchStopReason> {
        self.refreshed.stopped.or(self.answer.stopped)
    }

    fn notes(&self, query: &str) -> Vec<String> {
        let (answer, tally) = (&self.answer, &self.refreshed.tally);
        let mut notes = Vec::new();
        if let Some(instead) = &answer.instead {
            notes.push(format!("[{query} is nowhere; usages and mentions are of {instead}]"));
        }
        let is_empty =
            answer.definitions.is_empty() && answer.usages.is_empty() && answer.passages.is_empty();
        if is_empty {
            let mut text =
                format!("Nothing found for {query} in {}", counted(self.indexed as u64, "file", "files"));
            if 0 < tally.ignored + tally.hidden {
                text.push_str(&format!(
                    "; not searched: {} ignored, {} hidden. Grep with include_ignored and include_hidden looks there",
                    grouped(tally.ignored),
                    grouped(tally.hidden)
                ));
            }
            notes.push(text);
        }
        if let Some((rel, reason)) = tally.unreadable.first.first() {
            let count = grouped(tally.unreadable.count);
            notes.push(format!("[{count} unreadable: {} ({reason})]", self.name(rel)));
        }
        if 0 < self.refreshed.left_out {
            let count = counted(self.refreshed.left_out, "file", "files");
            notes.push(format!(
                "[{count} did not fit into the index: give a path to search part of the tree]"
            ));
        }
        match self.stopped() {
            None => (),
            Some(SearchStopReason::Deadline) => notes.push(format!(
                "[stopped after {} with {}: this is not everything; ask again to go on, or give a path]",
                seconds(self.limit),
                counted(self.indexed as u64, "file", "files")
            )),
            Some(SearchStopReason::Cancelled) => {
                notes.push(String::from("[interrupted: this is not everything]"))
            }
        }
        notes
    }
}
