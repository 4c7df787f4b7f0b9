use std::{sync::Arc, time::Duration};

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::{HookEvent, HookRunResult, HookSource};

fn says(id: &str, answer: &Value) -> Contribution {
    let output = HookOutput::parse(answer, HookEvent::PreToolUse).unwrap();
    let verdict = verdict_of(&output, None);
    let report = HookReport {
        id: HookId::new(id),
        event: HookEvent::PreToolUse,
        label: String::new(),
        source: Arc::new(HookSource::Named(String::new())),
        duration: Duration::ZERO,
        happened: HookRunResult::Ran,
        status: None,
        stdout: String::new(),
        stderr: String::new(),
    };
    Contribution { report, verdict, output, on_error: ErrorEffect::Open }
}

fn decision(kind: &str, reason: &str) -> Value {
    json!({"hookSpecificOutput": {"permissionDecision": kind, "permissionDecisionReason": reason}})
}

fn rewrites(input: &Value) -> Value {
    json!({"hookSpecificOutput": {"updatedInput": input}})
}

#[test]
fn merged_decision_is_strictest_with_joined_reasons() {
    let allow = |reason: &str| HookDecision::Allow { reason: reason.into() };
    let block = |reason: &str| HookDecision::Block { reason: reason.into(), cause: BlockCause::SaidNo };
    for (kinds, want) in [
        (&[][..], HookDecision::NoOpinion),
        (&["allow", "allow"][..], allow("0\n1")),
        (&["allow", "ask"][..], HookDecision::Ask { reason: "1".into() }),
        (&["ask", "defer", "allow"][..], HookDecision::Defer { reason: "1".into() }),
        (&["deny", "defer", "ask", "deny"][..], block("0\n3")),
    ] {
        let answer = |(index, kind): (usize, &&str)| says("h", &decision(kind, &index.to_string()));
        let outcome = merge(kinds.iter().enumerate().map(answer).collect(), None);
        assert_eq!(outcome.decision, want, "{kinds:?}");
    }
    let legacy = merge(vec![says("h", &json!({"decision": "block", "reason": "r"}))], None);
    assert_eq!(legacy.decision, block("r"));
}

#[test]
fn rewritten_inputs_are_merged_field_by_field() {
    let original = json!({"command": "rm x", "timeout": 1, "extra": true});
    let check = |answers: &[Value], want: Option<Value>, by: &[&str]| {
        let contributions = answers.iter().enumerate().map(|(i, it)| says(&i.to_string(), &rewrites(it)));
        let rewrite = merge(contributions.collect(), Some(&original)).updated_input;
        assert_eq!(rewrite.as_ref().map(|it| it.input.clone()), want, "{answers:?}");
        let names: Vec<String> = rewrite.iter().flat_map(|it| &it.by).map(ToString::to_string).collect();
        assert_eq!(names, by, "{answers:?}");
    };
    check(std::slice::from_ref(&original), None, &[]);
    check(
        &[
            json!({"command": "trash x", "timeout": 1, "extra": true}),
            json!({"command": "rm x", "timeout": 9, "extra": true}),
        ],
        Some(json!({"command": "trash x", "timeout": 9, "extra": true})),
        &["0", "1"],
    );
    check(
        &[
            json!({"command": "a", "timeout": 1}),
            json!({"command": "b", "timeout": 1, "extra": true, "new": 0}),
        ],
        Some(json!({"command": "b", "timeout": 1, "new": 0})),
        &["0", "1"],
    );
}

#[test]
fn denial_discards_rewritten_input() {
    let outcome =
        merge(vec![says("a", &rewrites(&json!({"x": 1}))), says("b", &decision("deny", "r"))], None);
    assert_eq!(outcome.updated_input, None);
}

proptest! {
    /// The outcome is at least as strict as every single answer and depends only on the configuration
    /// order.
    #[test]
    fn merged_outcome_is_never_looser_than_any_answer(kinds in prop::collection::vec(0_usize..5, 0..6)) {
        let words = ["allow", "ask", "defer", "deny", "none"];
        let strictness = |decision: &HookDecision| match decision {
            HookDecision::NoOpinion => 4,
            HookDecision::Allow { .. } => 0,
            HookDecision::Ask { .. } => 1,
            HookDecision::Defer { .. } => 2,
            HookDecision::Block { .. } => 3,
        };
        let answer = |kind: &usize| match words[*kind] {
            "none" => says("h", &json!({})),
            word => says("h", &decision(word, "r")),
        };
        let outcome = merge(kinds.iter().map(answer).collect(), None);
        let strictest = kinds.iter().copied().filter(|kind| *kind < 4).max();
        prop_assert_eq!(strictness(&outcome.decision), strictest.unwrap_or(4));
    }
}
