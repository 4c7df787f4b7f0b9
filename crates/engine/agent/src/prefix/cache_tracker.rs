//! Compares each request with the previous one to detect prompt cache misses.

use std::{
    fmt::Write as _,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use haft_model::{Repair, SentPrefix, SentTool};
use haft_types::Usage;

use super::{CacheMiss, CacheMissCause, LoggedPrefix};
use crate::Compaction;

/// An event that may explain why a request does not continue the previous one.
#[derive(Clone, Debug)]
pub(crate) enum CacheMissReason {
    /// The conversation was compacted.
    Shortened(Compaction),
    /// The request linter changed something.
    Repaired(Repair),
}

/// Tracks the requests of a session.
#[derive(Debug, Default)]
pub(crate) struct CacheTracker {
    last: Option<LastRequest>,
    reasons: Vec<CacheMissReason>,
    /// Number of requests of the session so far.
    requests: u64,
}

/// The previous request.
#[derive(Debug)]
struct LastRequest {
    seen: Seen,
    model: String,
    /// Number of tokens the provider had cached after it.
    cached: u64,
    at: SystemTime,
}

#[derive(Debug)]
enum Seen {
    /// Sent by this process.
    Whole(Arc<SentPrefix>),
    /// Sent by an earlier process, known by its fingerprint.
    Numbers(LoggedPrefix),
}

/// Where two requests differ, and how much of the earlier one is unchanged.
struct PrefixDifference {
    cause: CacheMissCause,
    detail: String,
    kept: u64,
}

/// Minimum number of tokens that providers cache; smaller losses are ignored.
const MIN_CACHED: u64 = 1_024;

/// Usual cache lifetime of providers.
const USUALLY_KEPT: Duration = Duration::from_secs(300);

impl CacheTracker {
    /// Number of requests so far.
    pub(crate) fn requests(&self) -> u64 {
        self.requests
    }

    /// Continues after the requests of an earlier process.
    pub(crate) fn restore(&mut self, requests: u64, last: Option<(String, LoggedPrefix, Usage)>) {
        self.requests = requests;
        self.last = last.map(|(model, sent, usage)| LastRequest {
            model,
            cached: cached(&usage),
            at: UNIX_EPOCH + Duration::from_secs(sent.at),
            seen: Seen::Numbers(sent),
        });
    }

    /// Records an event that may explain a difference.
    pub(crate) fn because(&mut self, reason: CacheMissReason) {
        self.reasons.push(reason);
    }

    /// Counts a request that is not part of the conversation.
    pub(crate) fn aside(&mut self) -> u64 {
        self.requests += 1;
        self.requests
    }

    /// Processes an answered request. Returns its number, its fingerprint for the log, and the cache
    /// miss if there was one. `parts` are the names of the system prompt parts.
    pub(crate) fn answered(
        &mut self,
        sent: &Arc<SentPrefix>,
        usage: &Usage,
        parts: &[String],
    ) -> (u64, LoggedPrefix, Option<CacheMiss>) {
        self.requests += 1;
        let (reasons, now) = (std::mem::take(&mut self.reasons), SystemTime::now());
        let bust = self.last.as_ref().and_then(|last| {
            let changed = last.difference(sent, parts).map(|found| explained(found, &reasons));
            let (found, tokens, estimated) = match changed {
                Some(found) => {
                    let (tokens, estimated) = last.lost(sent, usage, found.kept);
                    (found, tokens, estimated)
                }
                None => {
                    let (found, tokens) = last.forgotten(usage, now)?;
                    (found, tokens, false)
                }
            };
            let PrefixDifference { cause, detail, .. } = found;
            Some(CacheMiss { request: self.requests, cause, detail, tokens, estimated })
        });
        let kept = numbers(sent, now);
        self.last = Some(LastRequest {
            seen: Seen::Whole(Arc::clone(sent)),
            model: sent.model.clone(),
            cached: cached(usage),
            at: now,
        });
        (self.requests, kept, bust)
    }
}

/// Number of tokens the provider has cached after an answer.
fn cached(usage: &Usage) -> u64 {
    usage.cache_creation_input_tokens + usage.cache_read_input_tokens
}

fn numbers(sent: &SentPrefix, now: SystemTime) -> LoggedPrefix {
    LoggedPrefix {
        tools: kept_number(sent.tools_print()),
        system: kept_number(sent.system_print()),
        settings: kept_number(sent.settings),
        blocks: sent.blocks.len(),
        history: kept_number(sent.history_print(sent.blocks.len()).unwrap_or_default()),
        tokens: sent.tokens(),
        at: now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs(),
    }
}

/// Reduces a hash to 53 bits: other programs that process logs read numbers as floating point.
fn kept_number(print: u64) -> u64 {
    print & ((1 << 53) - 1)
}

impl LastRequest {
    fn difference(&self, now: &SentPrefix, parts: &[String]) -> Option<PrefixDifference> {
        if self.model != now.model {
            let detail = format!("{} answers instead of {}", now.model, self.model);
            return Some(PrefixDifference { cause: CacheMissCause::ModelChanged, detail, kept: 0 });
        }
        match &self.seen {
            Seen::Whole(before) => difference(before, now, parts),
            Seen::Numbers(before) => since_restart(before, now),
        }
    }

    /// Number of tokens billed again, and whether that is an estimate.
    fn lost(&self, now: &SentPrefix, usage: &Usage, kept: u64) -> (u64, bool) {
        if 0 < self.cached || 0 < cached(usage) {
            let again = self.cached.saturating_sub(usage.cache_read_input_tokens);
            return (again.min(usage.total_input()), false);
        }
        let before = match &self.seen {
            Seen::Whole(before) => before.tokens(),
            Seen::Numbers(before) => before.tokens,
        };
        (before.min(now.tokens()).saturating_sub(kept), true)
    }

    /// Checks whether the provider dropped an unchanged prefix.
    fn forgotten(&self, usage: &Usage, now: SystemTime) -> Option<(PrefixDifference, u64)> {
        let lost = self.cached.saturating_sub(usage.cache_read_input_tokens);
        if self.cached < MIN_CACHED || lost <= self.cached / 2 || usage.total_input() == 0 {
            return None;
        }
        let idle = now.duration_since(self.at).unwrap_or_default();
        let detail = if USUALLY_KEPT <= idle {
            format!("nothing was asked for {}, and the provider forgot", in_words(idle))
        } else {
            format!("the provider did not find what it had cached {} before", in_words(idle))
        };
        Some((PrefixDifference { cause: CacheMissCause::Expired, detail, kept: 0 }, lost))
    }
}

fn in_words(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7_200 => format!("{} min", seconds / 60),
        seconds => format!("{} h", seconds / 3_600),
    }
}

/// The first difference of two requests to the same model, in the order of the cache.
fn difference(before: &SentPrefix, now: &SentPrefix, parts: &[String]) -> Option<PrefixDifference> {
    if before.tools != now.tools {
        let detail = tools_in_words(&before.tools, &now.tools);
        return Some(PrefixDifference { cause: CacheMissCause::ToolsChanged, detail, kept: 0 });
    }
    if before.system != now.system {
        let at = before.system.iter().zip(&now.system).take_while(|(a, b)| a == b).count();
        let what = parts.get(at).map_or("its end", String::as_str);
        let detail = format!("the system prompt changed: {what}");
        return Some(PrefixDifference { cause: CacheMissCause::SystemChanged, detail, kept: 0 });
    }
    if before.settings != now.settings {
        return Some(settings_changed(now.head_tokens));
    }
    let same = before.blocks.iter().zip(&now.blocks).take_while(|(a, b)| a.print == b.print).count();
    if same == before.blocks.len() {
        return None;
    }
    let kept = now.head_tokens + now.blocks[..same].iter().map(|it| u64::from(it.tokens)).sum::<u64>();
    if same == now.blocks.len() {
        return Some(PrefixDifference { kept, ..rewound() });
    }
    let detail = format!("block {} of {} is not what was sent before", same + 1, before.blocks.len());
    Some(PrefixDifference { cause: CacheMissCause::HistoryChanged, detail, kept })
}

/// Like [`difference`], compared with a fingerprint from the log.
fn since_restart(before: &LoggedPrefix, now: &SentPrefix) -> Option<PrefixDifference> {
    let since = |cause, what: &str| {
        let detail = format!("{what} since the session was last here");
        Some(PrefixDifference { cause, detail, kept: 0 })
    };
    if before.tools != kept_number(now.tools_print()) {
        return since(CacheMissCause::ToolsChanged, "the tools changed");
    }
    if before.system != kept_number(now.system_print()) {
        return since(CacheMissCause::SystemChanged, "the system prompt changed");
    }
    if before.settings != kept_number(now.settings) {
        return Some(settings_changed(now.head_tokens));
    }
    match now.history_print(before.blocks) {
        None => Some(PrefixDifference { kept: now.tokens(), ..rewound() }),
        Some(history) if kept_number(history) == before.history => None,
        Some(_) => Some(PrefixDifference {
            cause: CacheMissCause::Resumed,
            detail: String::from(
                "the conversation in the log is not the one that was sent: secrets are masked there, \
                 or the session went on from an earlier point",
            ),
            kept: now.head_tokens,
        }),
    }
}

fn settings_changed(kept: u64) -> PrefixDifference {
    let detail =
        String::from("how the model thinks, how hard it tries, or whether it must call a tool changed");
    PrefixDifference { cause: CacheMissCause::SettingsChanged, detail, kept }
}

fn rewound() -> PrefixDifference {
    let detail = String::from("the session went on from an earlier point");
    PrefixDifference { cause: CacheMissCause::Rewound, detail, kept: 0 }
}

/// Replaces the position of a difference by the event that explains it, if there is one.
fn explained(found: PrefixDifference, reasons: &[CacheMissReason]) -> PrefixDifference {
    if found.cause == CacheMissCause::ModelChanged {
        return found;
    }
    let shortened = reasons.iter().rev().find_map(|reason| match reason {
        CacheMissReason::Shortened(how) => Some(*how),
        CacheMissReason::Repaired(_) => None,
    });
    let (cause, detail) = match shortened {
        Some(Compaction::Stubs) => {
            (CacheMissCause::ResultsCleared, String::from("old results were shortened to make room"))
        }
        Some(Compaction::Summary) => {
            (CacheMissCause::Compaction, String::from("the conversation was summed up by the model"))
        }
        Some(Compaction::Mechanical) => {
            (CacheMissCause::Compaction, String::from("the conversation was summed up without the model"))
        }
        None if matches!(found.cause, CacheMissCause::HistoryChanged | CacheMissCause::Rewound) => {
            match repairs_in_words(reasons) {
                Some(detail) => (CacheMissCause::Repaired, detail),
                None => return found,
            }
        }
        None => return found,
    };
    PrefixDifference { cause, detail, ..found }
}

/// Maximum number of names listed.
const NAMED: usize = 5;

fn repairs_in_words(reasons: &[CacheMissReason]) -> Option<String> {
    let repairs: Vec<String> = reasons
        .iter()
        .filter_map(|reason| match reason {
            CacheMissReason::Repaired(it) => Some(format!("{}: {}", it.place, it.detail)),
            CacheMissReason::Shortened(_) => None,
        })
        .collect();
    (!repairs.is_empty()).then(|| named(&repairs.iter().map(String::as_str).collect::<Vec<_>>(), "; "))
}

fn tools_in_words(before: &[SentTool], now: &[SentTool]) -> String {
    let find = |list: &[SentTool], name: &str| list.iter().find(|it| it.name == name).map(|it| it.print);
    let without = |list: &[SentTool], other: &[SentTool]| -> Vec<String> {
        let missing = list.iter().filter(|it| find(other, &it.name).is_none());
        missing.map(|it| it.name.clone()).collect()
    };
    let changed = now.iter().filter(|it| find(before, &it.name).is_some_and(|print| print != it.print));
    let kinds = [
        ("added", without(now, before)),
        ("removed", without(before, now)),
        ("changed", changed.map(|it| it.name.clone()).collect()),
    ];
    let mut words = String::from("tools were ");
    let mut any = false;
    for (kind, names) in kinds.iter().filter(|(_, names)| !names.is_empty()) {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let comma = if any { "; " } else { "" };
        // Writing to a string cannot fail.
        let _ = write!(words, "{comma}{kind}: {}", named(&names, ", "));
        any = true;
    }
    if !any {
        words.push_str("put into another order");
    }
    words
}

fn named(names: &[&str], between: &str) -> String {
    let first = names[..names.len().min(NAMED)].join(between);
    match names.len().saturating_sub(NAMED) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

#[cfg(test)]
#[path = "watch_tests.rs"]
mod tests;
