//! Summary of a log, cached on disk.

use std::{
    collections::BTreeMap,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use haft_model::Catalog;
use haft_paths::{Durability, ModeOnReplace, replace_file};
use serde::{Deserialize, Serialize};

use crate::{
    log_index::LogIndex,
    log_locations::LogLocation,
    row::IndexedCall,
    row_content::{RowContent, telling},
    timestamps::day,
};

/// Version of the cached summary format. Increment it when a field is added or changes meaning; cached
/// summaries of another version are recomputed.
const FORM: u32 = 1;

/// Number of slowest calls stored.
const SLOWEST: usize = 10;

/// Maximum number of denial reasons stored.
const MAX_DENIALS: usize = 50;

/// Totals of a log.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub(crate) struct LogSummary {
    pub(crate) title: String,
    pub(crate) cwd: String,
    pub(crate) last: Option<i64>,
    pub(crate) requests: u64,
    pub(crate) calls: u64,
    pub(crate) denied: u64,
    pub(crate) usd: f64,
    pub(crate) days: BTreeMap<String, f64>,
    pub(crate) models: BTreeMap<String, f64>,
    pub(crate) tools: BTreeMap<String, ToolTotals>,
    pub(crate) denials: Vec<DenialTotals>,
    pub(crate) slowest: Vec<SlowCall>,
}

/// Totals of a tool.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(crate) struct ToolTotals {
    pub(crate) calls: u64,
    pub(crate) failed: u64,
    pub(crate) micros: u64,
}

/// Calls denied for the same reason.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(crate) struct DenialTotals {
    pub(crate) tool: String,
    pub(crate) why: String,
    pub(crate) help: String,
    pub(crate) count: u64,
}

/// A slow call.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(crate) struct SlowCall {
    pub(crate) tool: String,
    pub(crate) what: String,
    pub(crate) micros: u64,
    pub(crate) row: usize,
}

/// A cached summary, with the state of the log it was made from.
#[derive(Debug, Deserialize, Serialize)]
struct SavedSummary {
    form: u32,
    size: u64,
    inode: u64,
    summary: LogSummary,
}

impl LogSummary {
    /// Returns the summary of a log, from the cache or recomputed. `kept` is the cache directory.
    pub(crate) fn load(place: &LogLocation, kept: Option<&Path>, catalog: &Arc<Catalog>) -> Option<Self> {
        let about = place.path.metadata().ok()?;
        let (size, inode) = (about.len(), about.ino());
        let file: Option<PathBuf> = kept.map(|dir| dir.join(format!("{}.json", place.key)));
        let known = file.as_ref().and_then(|it| std::fs::read(it).ok());
        let known: Option<SavedSummary> = known.and_then(|it| serde_json::from_slice(&it).ok());
        if let Some(known) = known.filter(|it| (it.form, it.size, it.inode) == (FORM, size, inode)) {
            return Some(known.summary);
        }
        let mut index = LogIndex::open(&place.path, Arc::clone(catalog), kept).ok()?;
        index.read_cut_line().ok();
        let summary = Self::of_index(&index);
        if let Some(file) = file
            && let Ok(bytes) =
                serde_json::to_vec(&SavedSummary { form: FORM, size, inode, summary: summary.clone() })
        {
            replace_file(&file, &bytes, ModeOnReplace::KeptOr(0o600), Durability::Whenever).ok();
        }
        Some(summary)
    }

    pub(crate) fn of_index(index: &LogIndex) -> Self {
        let mut sum = Self {
            title: index.name(),
            cwd: index.cwd.clone(),
            last: index.last,
            requests: index.requests.len() as u64,
            calls: index.calls.len() as u64,
            usd: index.usd(),
            ..Self::default()
        };
        for request in &index.requests {
            let usd = request.usd.unwrap_or(0.0);
            *sum.models.entry(request.model.clone()).or_default() += usd;
            if let Some(time) = request.time {
                *sum.days.entry(day(time)).or_default() += usd;
            }
        }
        for call in &index.calls {
            let tool = sum.tools.entry(call.tool.clone()).or_default();
            tool.calls += 1;
            tool.failed += u64::from(call.failed);
            tool.micros = tool.micros.saturating_add(call.micros().unwrap_or(0));
            if call.denied_by().is_some() {
                sum.denied += 1;
                sum.deny(call);
            }
        }
        let mut slow: Vec<&IndexedCall> = index.calls.iter().filter(|it| it.micros().is_some()).collect();
        slow.sort_by_key(|it| std::cmp::Reverse(it.micros()));
        sum.slowest = slow.into_iter().take(SLOWEST).map(|it| slow_call(index, it)).collect();
        sum
    }

    fn deny(&mut self, call: &IndexedCall) {
        let Some(line) = &call.line else { return };
        let by = call.denied_by().unwrap_or_default().to_owned();
        let (why, help) = match &line.decision {
            None => (by, String::new()),
            Some(it) => {
                let rule = it.rule.as_ref().map(|rule| format!(" {rule}")).unwrap_or_default();
                let why = if it.reason.is_empty() { String::new() } else { format!(": {}", it.reason) };
                (format!("{by}{rule}{why}"), it.way_out.clone().unwrap_or_default())
            }
        };
        let (tool, has_room) = (&call.tool, self.denials.len() < MAX_DENIALS);
        match self.denials.iter_mut().find(|it| it.tool == *tool && it.why == why && it.help == help) {
            Some(known) => known.count += 1,
            None if has_room => {
                self.denials.push(DenialTotals { tool: tool.clone(), why, help, count: 1 });
            }
            None => (),
        }
    }
}

fn slow_call(index: &LogIndex, call: &IndexedCall) -> SlowCall {
    let what = match index.content(call.row) {
        RowContent::Call(input) => telling(&input),
        _ => String::new(),
    };
    SlowCall { tool: call.tool.clone(), what, micros: call.micros().unwrap_or(0), row: call.row }
}
