use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use haft_tool::{Tool, ToolError};
use haft_workspace::{
    ContentHash, FileError, FileEvent, FileSnapshot, LockedFiles, PlannedWrite, ReadBy, SessionFiles, patch,
    text::{Bytes, Encoding, Splice, Text},
};

use super::{EditInput, EditOutput, FileOutput, Input, MultiEdit, Output};
use crate::{
    edit::{ATTEMPTS, ORIGINAL_MAX},
    edit_common::{
        change_report::Sizes,
        config_check::ConfigCheck,
        error_text::{FileOperation, explain},
        matching::MatchCount,
        replacement::{EditRefusalKind, EditRequest, EditTarget, line_edits},
    },
};

/// The outcome of planning one edit.
#[derive(Clone, Debug)]
pub(super) enum EditVerdict {
    Done { places: usize, notes: Vec<String> },
    Refused { status: String, message: String },
}

impl EditVerdict {
    fn refused(status: &str, message: impl Into<String>) -> Self {
        Self::Refused { status: status.to_owned(), message: message.into() }
    }
}

pub(super) struct MultiEditJob {
    pub(super) files: Arc<SessionFiles>,
    pub(super) config: Arc<dyn ConfigCheck>,
    pub(super) viewer: ReadBy,
    pub(super) input: Input,
    /// Resolved location of each requested path.
    pub(super) real: BTreeMap<PathBuf, PathBuf>,
}

/// A file on which edits are tried in memory.
struct EditSheet {
    /// The path as the first edit named it.
    asked: PathBuf,
    real: PathBuf,
    snapshot: Option<FileSnapshot>,
    /// The text on disk; empty for a file that does not exist.
    on_disk: Text,
    /// The text after the edits so far; `None` before the first.
    edited: Option<Text>,
    /// Index and splices of each edit, relative to the text before it.
    steps: Vec<(usize, Vec<Splice>)>,
}

impl EditSheet {
    fn text(&self) -> &Text {
        self.edited.as_ref().unwrap_or(&self.on_disk)
    }

    fn content(&self) -> Bytes<'_> {
        Bytes::whole(self.text().raw())
    }
}

impl MultiEditJob {
    pub(super) fn run(&self, may_read: &dyn Fn(&Path) -> bool) -> Result<Output, ToolError> {
        let explained = |err: &FileError, path: &Path| explain(err, FileOperation::Changing, path, may_read);
        let paths: Vec<&Path> = self.real.values().map(PathBuf::as_path).collect();
        let mut attempt = 0;
        loop {
            attempt += 1;
            let locked =
                self.files.workspace().lock(&paths).map_err(|err| ToolError::failed(err.to_string()))?;
            let mut sheets = self.sheets(&locked).map_err(|(path, err)| explained(&err, &path))?;
            let verdicts = self.try_out(&mut sheets);
            let outcome = self.judge(&verdicts)?;
            match self.commit(&locked, &sheets, outcome) {
                Ok(output) => return Ok(output),
                Err((_, err)) if err.is_race() && attempt < ATTEMPTS => (),
                Err((path, err)) => {
                    let reason = explained(&err, &path).message;
                    return Err(ToolError::failed(format!("No edit was made, in any file: {reason}")));
                }
            }
        }
    }

    fn sheets(&self, locked: &LockedFiles<'_>) -> Result<Vec<EditSheet>, (PathBuf, FileError)> {
        let mut sheets: Vec<EditSheet> = Vec::new();
        for (asked, real) in &self.real {
            if sheets.iter().any(|sheet| sheet.real == *real) {
                continue;
            }
            let (snapshot, bytes) = match locked.read(real) {
                Ok(Some((snapshot, bytes))) => (Some(snapshot), bytes),
                Ok(None) => (None, Vec::new()),
                Err(err) => return Err((asked.clone(), err)),
            };
            let Ok(on_disk) = Text::decode(bytes) else {
                let source = std::io::Error::other("not a text file; use Bash to change it");
                return Err((asked.clone(), FileError::Io { path: asked.clone(), doing: "edit", source }));
            };
            sheets.push(EditSheet {
                asked: asked.clone(),
                real: real.clone(),
                snapshot,
                on_disk,
                edited: None,
                steps: Vec::new(),
            });
        }
        Ok(sheets)
    }

    /// Applies the edits in memory, in order.
    fn try_out(&self, sheets: &mut [EditSheet]) -> Vec<EditOutput> {
        let mut outputs = Vec::new();
        for (at, edit) in self.input.edits.iter().enumerate() {
            let Some(path) = self.input.path_of(edit) else { continue };
            let real = self.real.get(path);
            let verdict = match sheets.iter_mut().find(|sheet| Some(&sheet.real) == real) {
                Some(sheet) => self.try_one(sheet, at, edit),
                None => EditVerdict::refused("not_found", "the file is not part of this call"),
            };
            outputs.push(EditOutput::new(at + 1, path.clone(), &verdict));
        }
        self.check_configs(sheets, &mut outputs);
        outputs
    }

    fn try_one(&self, sheet: &mut EditSheet, at: usize, edit: &EditInput) -> EditVerdict {
        let fresh = sheet.snapshot.is_none() && sheet.edited.is_none();
        if edit.old_string.is_empty() {
            if !sheet.text().view().trim().is_empty() {
                return EditVerdict::refused("not_found", "old_string is empty but the file is not.");
            }
            sheet.edited = Some(Text::decode_as(edit.new_string.clone().into_bytes(), Encoding::UTF_8));
            sheet.steps.push((at, Vec::new()));
            return EditVerdict::Done { places: 1, notes: Vec::new() };
        }
        if fresh {
            return EditVerdict::refused(
                "not_found",
                "the file does not exist; an empty old_string creates it.",
            );
        }
        let wanted = if edit.replace_all { MatchCount::All } else { MatchCount::One };
        let request = EditRequest { old: &edit.old_string, new: &edit.new_string, wanted, within: None };
        let planned = match &sheet.snapshot {
            Some(snapshot) => EditTarget {
                files: &self.files,
                viewer: &self.viewer,
                snapshot,
                on_disk: &sheet.on_disk,
                text: sheet.text(),
            }
            .plan(&request),
            None => crate::edit_common::replacement::plan_in(sheet.text(), &request),
        };
        let planned = match planned {
            Ok(planned) => planned,
            Err(refusal) => {
                let consumed = (refusal.kind == EditRefusalKind::NotFound)
                    .then(|| self.consumed_by(sheet, at, edit))
                    .flatten();
                return match consumed {
                    Some(by) => EditVerdict::refused(
                        &format!("consumed by edit {}", by + 1),
                        format!(
                            "edit {} already replaced this text; state this edit in terms of its new text.",
                            by + 1
                        ),
                    ),
                    None => EditVerdict::Refused {
                        status: refusal.kind.name().to_owned(),
                        message: refusal.message,
                    },
                };
            }
        };
        let text = sheet.text();
        let raw = match text.splice(&planned.splices) {
            Ok(bytes) => bytes.to_vec(),
            Err(err) => return EditVerdict::refused("unencodable", err.to_string()),
        };
        let edited = Text::decode_as(raw, text.encoding());
        sheet.edited = Some(edited);
        sheet.steps.push((at, planned.splices));
        EditVerdict::Done { places: planned.places, notes: planned.notes }
    }

    /// Returns the earlier edit that removed this text.
    fn consumed_by(&self, sheet: &EditSheet, at: usize, edit: &EditInput) -> Option<usize> {
        let mut text = sheet.on_disk.clone();
        let found = |text: &Text| text.view().contains(&edit.old_string);
        if !found(&text) {
            return None;
        }
        for (step, splices) in sheet.steps.iter().filter(|it| it.0 < at) {
            let raw = text.splice(splices).ok()?.to_vec();
            text = Text::decode_as(raw, text.encoding());
            if !found(&text) {
                return Some(*step);
            }
        }
        None
    }

    /// Configuration files must be valid after all edits.
    fn check_configs(&self, sheets: &[EditSheet], outputs: &mut [EditOutput]) {
        for sheet in sheets.iter().filter(|sheet| sheet.edited.is_some()) {
            let Some(problem) = self.config.problem(&sheet.real, sheet.text().view()) else { continue };
            let mine = |it: &&mut EditOutput| self.real.get(&it.file_path) == Some(&sheet.real);
            for output in outputs.iter_mut().filter(mine).filter(|it| it.status == "ok") {
                output.status = "invalid_settings".to_owned();
                output.message = Some(format!("{problem}. This file holds settings, which must stay valid."));
            }
        }
    }

    /// Returns the edits if all of them apply, else the error.
    fn judge<'a>(&self, edits: &'a [EditOutput]) -> Result<&'a [EditOutput], ToolError> {
        let failed = edits.iter().filter(|it| it.status != "ok").count();
        let invalid = edits.iter().any(|it| it.status == "invalid_settings");
        if failed == 0 || (self.input.partial && failed < edits.len() && !invalid) {
            return Ok(edits);
        }
        let lines: Vec<String> = edits.iter().map(EditOutput::line).collect();
        Err(ToolError::invalid(format!(
            "No edit was made, in any file: {failed} of {} cannot be made.\n{}",
            edits.len(),
            lines.join("\n")
        )))
    }

    fn commit(
        &self,
        locked: &LockedFiles<'_>,
        sheets: &[EditSheet],
        edits: &[EditOutput],
    ) -> Result<Output, (PathBuf, FileError)> {
        let changed: Vec<&EditSheet> = sheets.iter().filter(|sheet| sheet.edited.is_some()).collect();
        let changes: Vec<PlannedWrite<'_>> = changed
            .iter()
            .map(|sheet| PlannedWrite {
                path: sheet.real.clone(),
                base: sheet.snapshot.as_ref(),
                content: Some(sheet.content()),
                mode: None,
            })
            .collect();
        let origin = self.files.origin(&self.viewer.call, MultiEdit::NAME);
        let done =
            locked.commit(&changes, &origin).map_err(|err| (changed[err.index].asked.clone(), err.error))?;
        let mut files = Vec::new();
        for (sheet, result) in changed.iter().zip(&done.files) {
            if let Some(hash) = result.hash {
                self.remember(sheet, hash);
            }
            files.push(file_output(sheet));
        }
        Ok(Output {
            files,
            edits: edits.to_vec(),
            undo_id: done.entry.map(|id| id.to_string()),
            notes: done.notes,
        })
    }

    fn remember(&self, sheet: &EditSheet, hash: ContentHash) {
        let reads = self.files.reads();
        match sheet.snapshot {
            None => reads.wrote(&self.viewer, &sheet.real, hash, sheet.text().view()),
            Some(_) => {
                // Steps are applied in order, because each counts lines in the text before it.
                let mut text = sheet.on_disk.clone();
                for (_, splices) in &sheet.steps {
                    let mut middle = String::new();
                    let edits = line_edits(text.view(), splices, &mut middle);
                    reads.edited(&self.viewer, &sheet.real, hash, &edits);
                    let Ok(raw) = text.splice(splices).map(|it| it.to_vec()) else { break };
                    text = Text::decode_as(raw, text.encoding());
                }
                if sheet.steps.iter().any(|(_, splices)| splices.is_empty()) {
                    reads.wrote(&self.viewer, &sheet.real, hash, sheet.text().view());
                }
            }
        }
        reads.notify(&FileEvent::Changed { path: sheet.real.clone(), viewer: self.viewer.clone() });
    }
}

fn file_output(sheet: &EditSheet) -> FileOutput {
    let (old, new) = (&sheet.on_disk, sheet.text());
    let literal = |text: &Text| text.literal(&text.raw()[text.encoding().bom_bytes().len()..]);
    FileOutput {
        file_path: sheet.asked.clone(),
        original_file: (sheet.snapshot.is_some() && old.view().len() <= ORIGINAL_MAX)
            .then(|| old.view().to_owned()),
        structured_patch: patch(&literal(old), &literal(new)),
        sizes: Sizes {
            old_lines: haft_workspace::count_lines(old.view()),
            new_lines: haft_workspace::count_lines(new.view()),
            old_bytes: old.raw().len() as u64,
            new_bytes: new.raw().len() as u64,
        },
    }
}
