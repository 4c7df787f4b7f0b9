use std::{
    collections::HashSet,
    ffi::OsStr,
    io,
    os::unix::ffi::OsStrExt,
    path::PathBuf,
    sync::{Mutex, PoisonError},
    time::Instant,
};

use haft_paths::lexical;
use haft_search::{
    DiskKind, GlobMatch, GlobPlan, GlobRun, SearchRoot, SearchStop, SearchStopReason, WalkFilter, WalkStats,
    display_text,
};
use haft_tool::{ToolContext, ToolError};

use super::{Input, Output};
use crate::search_common::{OpenedTarget, Place, SearchToolSettings, counted, grouped, seconds, shown};

/// Maximum number of files listed.
const LISTED: usize = 100;

/// One call, ready to run on a blocking thread.
pub(super) struct Search {
    pub(super) plan: GlobPlan,
    pub(super) places: Vec<Place>,
    pub(super) filter: WalkFilter,
    pub(super) cx: ToolContext<()>,
    pub(super) input: Input,
    pub(super) settings: SearchToolSettings,
}

#[derive(Default)]
struct Found {
    hits: Vec<(GlobMatch, usize)>,
    total: u64,
    tally: WalkStats,
    missing: Vec<String>,
    unreadable: Vec<String>,
}

impl Search {
    pub(super) fn run(&self, stop: &SearchStop) -> Result<Output, ToolError> {
        let started = Instant::now();
        let mut found = Found::default();
        // Nested places find the same files, which must be listed once.
        let seen = (1 < self.places.len()).then(|| Mutex::new(HashSet::new()));
        for (index, place) in self.places.iter().enumerate() {
            self.place(index, place, seen.as_ref(), stop, &mut found)?;
        }
        found.hits.sort_by(|(a, at), (b, bt)| a.cmp(b).then(at.cmp(bt)));
        found.hits.truncate(LISTED);
        let mut output = Output {
            duration_ms: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
            num_files: found.hits.len(),
            truncated: (found.hits.len() as u64) < found.total,
            total_matches: Some(found.total),
            count_is_complete: Some(stop.reason().is_none() && found.tally.unreadable.count == 0),
            timed_out: (stop.reason() == Some(SearchStopReason::Deadline)).then_some(true),
            ..Output::default()
        };
        let show =
            |(hit, place): &(GlobMatch, usize)| shown(&self.cx.cwd, &self.places[*place].asked, &hit.rel);
        output.filenames = found.hits.iter().map(show).collect();
        output.notes = self.notes(&output, &found, stop);
        Ok(output)
    }

    fn place(
        &self,
        index: usize,
        place: &Place,
        seen: Option<&Mutex<HashSet<PathBuf>>>,
        stop: &SearchStop,
        found: &mut Found,
    ) -> Result<(), ToolError> {
        let Some(root) = self.open(place, found)? else { return Ok(()) };
        let may_show = |rel: &[u8], kind: DiskKind| {
            let allowed = place.may_show(&self.cx, rel)
                && (kind != DiskKind::Link
                    || place.link_target(rel).is_some_and(|target| self.cx.may_read(&target)));
            allowed
                && seen.is_none_or(|seen| {
                    let path = place.asked.join(OsStr::from_bytes(rel));
                    seen.lock().unwrap_or_else(PoisonError::into_inner).insert(path)
                })
        };
        let run = GlobRun {
            cwd: &self.cx.cwd,
            filter: &self.filter,
            limits: place.limits(),
            keep: LISTED,
            may_show: &may_show,
            stop,
        };
        let globbed = run.run(&self.plan, &place.asked, &root);
        found.hits.extend(globbed.hits.into_iter().map(|hit| (hit, index)));
        found.total += globbed.total;
        found.tally.add(globbed.tally);
        Ok(())
    }

    /// Opens a place. A missing directory is an error only if the call named it, not if it comes from
    /// the pattern.
    fn open(&self, place: &Place, found: &mut Found) -> Result<Option<SearchRoot>, ToolError> {
        let name = || shown(&self.cx.cwd, &place.asked, b"");
        match place.open() {
            Ok(OpenedTarget::Dir(root)) => return Ok(Some(root)),
            Ok(OpenedTarget::File(_)) if self.is_base(place) => {
                return Err(ToolError::failed(format!("{} is a file; give a directory, or Read it", name())));
            }
            Err(error) if self.is_base(place) => return Err(place.failure(&error)),
            Ok(OpenedTarget::File(_)) => found.missing.push(name()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => found.missing.push(name()),
            Err(error) => found.unreadable.push(place.failure(&error).message),
        }
        Ok(None)
    }

    /// Whether this is the directory the call named, rather than one from the pattern.
    fn is_base(&self, place: &Place) -> bool {
        lexical(self.input.path.as_deref().unwrap_or(&self.cx.cwd)) == place.asked
    }

    fn notes(&self, output: &Output, found: &Found, stop: &SearchStop) -> Vec<String> {
        let mut notes = Vec::new();
        if output.filenames.is_empty() {
            notes.push(self.nothing(found));
        } else if output.truncated {
            notes.push(format!(
                "[{} of {}, most recently changed first; narrow the pattern or the path to see others]",
                grouped(output.num_files as u64),
                counted(found.total, "file", "files"),
            ));
        }
        match stop.reason() {
            None => (),
            Some(SearchStopReason::Deadline) => notes.push(format!(
                "[stopped after {}: there may be more; begin the pattern with directory names]",
                seconds(self.settings.timeout)
            )),
            Some(SearchStopReason::Cancelled) => notes.push(String::from("[interrupted: there may be more]")),
        }
        notes.extend(found.unreadable.iter().map(|it| format!("[{it}]")));
        let unreadable = &found.tally.unreadable;
        if let Some((rel, reason)) = unreadable.first.first() {
            let count = counted(unreadable.count, "directory", "directories");
            notes.push(format!("[{count} could not be listed: {} ({reason})]", display_text::path_text(rel)));
        }
        if 0 < found.tally.mounts {
            let count = counted(found.tally.mounts, "directory", "directories");
            notes.push(format!("[{count} on other file systems not entered; give one as path]"));
        }
        notes
    }

    fn nothing(&self, found: &Found) -> String {
        let mut text = format!("No files match {}", self.input.pattern);
        if let Some(missing) = found.missing.first() {
            text.push_str(&format!(": there is no directory {missing}"));
        }
        let base = self.input.path.as_deref().unwrap_or(&self.cx.cwd).join(&self.input.pattern);
        if base.is_dir() {
            text.push_str(&format!(
                ". It is a directory: use LS, or {}/**",
                self.input.pattern.trim_end_matches('/')
            ));
        }
        let tally = &found.tally;
        let mut skipped = Vec::new();
        for (count, what) in
            [(tally.ignored, "ignored"), (tally.hidden, "hidden"), (tally.vcs, "version control")]
        {
            if 0 < count {
                skipped.push(format!("{} {what}", grouped(count)));
            }
        }
        if !skipped.is_empty() {
            text.push_str(&format!("; not entered: {}", skipped.join(", ")));
        }
        text
    }
}
