//! Freshness depends on content.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::single_range_in_vec_init,
    missing_docs,
    reason = "test code"
)]

use std::{
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use haft_types::{AgentId, CallId};
use haft_workspace::{
    ContentHash, ContextView, CurrentFile, EmptyContextView, Freshness, LineEdit, LinesView, ReadBy,
    ReadState, WholeFileSeen,
};

const PATH: &str = "/ws/f";

fn viewer(call: &str) -> ReadBy {
    ReadBy { agent: AgentId::Main, call: CallId::from(call) }
}

fn view<'a>(content: &'a str, first: u64, last: u64) -> LinesView<'a> {
    let all: Vec<&str> = content.lines().collect();
    LinesView {
        path: Path::new(PATH),
        version: Some(ContentHash::hash(content.as_bytes())),
        first,
        lines: all[first as usize - 1..(last as usize).min(all.len())].to_vec(),
        total: all.len() as u64,
        clipped: false,
        text: Some(content),
    }
}

fn current(content: &str) -> CurrentFile<'_> {
    CurrentFile { version: ContentHash::hash(content.as_bytes()), view: content }
}

fn freshness(state: &ReadState, content: &str, first: u64, last: u64) -> Freshness {
    state.freshness(&AgentId::Main, Path::new(PATH), &current(content), &(first..last + 1))
}

#[test]
fn freshness_compares_lines_with_what_was_seen() {
    let content = "one\ntwo\nthree\nfour\nfive\n";
    let state = ReadState::new(EmptyContextView);
    assert_eq!(freshness(&state, content, 1, 1), Freshness::NeverRead);
    state.saw(&viewer("r"), &view(content, 1, 5));
    for (now, lines, want) in [
        (content, (1, 5), Freshness::Fresh),
        ("one\ntwo\nthree\nfour\nFIVE\n", (1, 2), Freshness::ChangedElsewhere(vec![5..6])),
        ("one\ntwo\nthree\nfour\nFIVE\n", (5, 5), Freshness::Stale),
        ("new\none\ntwo\nthree\nfour\nfive\n", (3, 4), Freshness::ChangedElsewhere(vec![1..2])),
        ("one\n\ttwo\nthree  \nfour\nfive\n", (2, 3), Freshness::ChangedElsewhere(vec![])),
        ("one\ntwo\nfour\nfive\n", (2, 3), Freshness::Stale),
        ("one\ntwo\nfour\nfive\n", (3, 4), Freshness::ChangedElsewhere(vec![3..3])),
    ] {
        assert_eq!(freshness(&state, now, lines.0, lines.1), want, "{now:?} {lines:?}");
    }
}

#[test]
fn partially_read_file_is_known_in_parts() {
    let content: String = (1..=100).map(|n| format!("line {n}\n")).collect();
    let state = ReadState::new(EmptyContextView);
    let agent = AgentId::Main;
    let whole = |content: &str| state.whole_seen(&agent, Path::new(PATH), &current(content));
    assert_eq!(whole(&content), WholeFileSeen::Never);
    state.saw(&viewer("r"), &view(&content, 1, 20));
    assert_eq!(freshness(&state, &content, 10, 12), Freshness::Fresh);
    assert_eq!(freshness(&state, &content, 50, 50), Freshness::Unseen);
    assert_eq!(whole(&content), WholeFileSeen::Partly { seen: 20, total: 100 });
    let changed = content.replace("line 5\n", "LINE 5\n");
    assert_eq!(freshness(&state, &changed, 5, 5), Freshness::Stale);
    assert_eq!(freshness(&state, &changed, 10, 10), Freshness::ChangedElsewhere(vec![5..6]));
    assert_eq!(freshness(&state, &changed, 50, 50), Freshness::Unseen);
    // Pages add up if their content is the same.
    for first in (21..=100).step_by(20) {
        state.saw(&viewer("r"), &view(&content, first, first + 19));
    }
    assert_eq!(whole(&content), WholeFileSeen::Yes);
    assert_eq!(whole(&changed), WholeFileSeen::Changed);
    state.saw(&viewer("r"), &view(&changed, 1, 20));
    assert_eq!(whole(&changed), WholeFileSeen::Yes);
    // A line that changed and was not shown again is neither known nor forgotten.
    let again = changed.replace("line 60\n", "LINE 60\n");
    state.saw(&viewer("r"), &view(&again, 1, 20));
    assert_eq!(whole(&again), WholeFileSeen::Partly { seen: 99, total: 100 });
    assert_eq!(freshness(&state, &again, 50, 50), Freshness::Fresh);
    assert_eq!(freshness(&state, &again, 60, 60), Freshness::Stale);
}

#[test]
fn clipped_lines_are_not_known() {
    let state = ReadState::new(EmptyContextView);
    state.saw(&viewer("r"), &LinesView { clipped: true, ..view("long\n", 1, 1) });
    assert_eq!(
        state.whole_seen(&AgentId::Main, Path::new(PATH), &current("long\n")),
        WholeFileSeen::Partly { seen: 0, total: 1 }
    );
}

#[test]
fn lines_of_own_edits_are_known() {
    let content: String = (1..=100).map(|n| format!("line {n}\n")).collect();
    let state = ReadState::new(EmptyContextView);
    state.saw(&viewer("r"), &view(&content, 1, 100));
    let mut lines: Vec<&str> = content.lines().collect();
    lines.splice(9..10, ["ten", "ten and a half"]);
    lines.splice(60..62, []);
    let edited = lines.join("\n") + "\n";
    let edits =
        [LineEdit { old: 10..11, new: vec!["ten", "ten and a half"] }, LineEdit { old: 60..62, new: vec![] }];
    state.edited(&viewer("e"), Path::new(PATH), ContentHash::hash(edited.as_bytes()), &edits);
    assert_eq!(freshness(&state, &edited, 1, 99), Freshness::Fresh);
    assert_eq!(state.whole_seen(&AgentId::Main, Path::new(PATH), &current(&edited)), WholeFileSeen::Yes);
    let formatted = edited.replace("line 90", "line   90;");
    assert_eq!(freshness(&state, &formatted, 10, 11), Freshness::ChangedElsewhere(vec![89..90]));
    state.wrote(&viewer("w"), Path::new(PATH), ContentHash::hash(b"a\nb\n"), "a\nb\n");
    assert_eq!(freshness(&state, "a\nb\n", 1, 2), Freshness::Fresh);
    assert_eq!(freshness(&state, "a\nc\n", 2, 2), Freshness::Stale);
}

#[test]
fn read_state_is_per_agent_and_restored_from_log() {
    let content = "one\ntwo\n";
    let state = ReadState::new(EmptyContextView);
    let record = state.saw(&viewer("r"), &view(content, 1, 2));
    let other = AgentId::from("child");
    assert_eq!(state.freshness(&other, Path::new(PATH), &current(content), &(1..2)), Freshness::NeverRead);
    let text = serde_json::to_string(&record).unwrap();
    let later = ReadState::new(EmptyContextView);
    later.restore(&viewer("r"), &serde_json::from_str(&text).unwrap());
    assert_eq!(freshness(&later, content, 1, 2), Freshness::Fresh);
    assert_eq!(freshness(&later, "one\nTWO\n", 2, 2), Freshness::Unseen);
}

struct Switch(Arc<AtomicBool>);

impl ContextView for Switch {
    fn holds(&self, _agent: &AgentId, _call: &CallId) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

#[test]
fn still_shown_requires_earlier_read_in_context() {
    let content: String = (1..=100).map(|n| format!("line {n}\n")).collect();
    let in_context = Arc::new(AtomicBool::new(true));
    let state = ReadState::new(Switch(Arc::clone(&in_context)));
    let main = AgentId::Main;
    state.saw(&viewer("r1"), &view(&content, 1, 50));
    assert_eq!(state.still_shown(&main, &view(&content, 1, 50)), Some("r1".into()));
    assert_eq!(state.still_shown(&main, &view(&content, 10, 20)), Some("r1".into()));
    assert_eq!(state.still_shown(&main, &view(&content, 30, 80)), None);
    assert_eq!(state.still_shown(&AgentId::from("child"), &view(&content, 1, 50)), None);
    let changed = content.replace("line 99", "LINE 99");
    assert_eq!(state.still_shown(&main, &view(&changed, 1, 50)), None);
    in_context.store(false, Ordering::Relaxed);
    assert_eq!(state.still_shown(&main, &view(&content, 1, 50)), None);
    // Without hashes, the same lines with the same text count.
    in_context.store(true, Ordering::Relaxed);
    let huge = |first, last| LinesView { version: None, ..view(&content, first, last) };
    state.saw(&viewer("r2"), &huge(60, 70));
    assert_eq!(state.still_shown(&main, &huge(60, 70)), Some("r2".into()));
    assert_eq!(state.still_shown(&main, &huge(61, 70)), None);
}

#[test]
fn read_state_notifies_listeners() {
    let state = ReadState::new(EmptyContextView);
    let heard = Arc::new(Mutex::new(Vec::new()));
    let ears = Arc::clone(&heard);
    state.listen(move |event| ears.lock().unwrap().push(event.clone()));
    let event = haft_workspace::FileEvent::Read { path: PATH.into(), viewer: viewer("r") };
    state.notify(&event);
    assert_eq!(*heard.lock().unwrap(), [event]);
}
