//! Result of a gate for all combinations with its error policy.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, reason = "test code")]

use crate::common;

use common::{Rig, command, reason, with};
use haft_hooks::{BlockCause, ErrorEffect, HookDecision, HookFailure, HookRunResult, RefusedRewrite};
use serde_json::{Value, json};

/// Result of the call.
#[derive(Debug, PartialEq)]
enum Fate {
    Runs,
    SaidNo,
    CouldNotRun,
}
use Fate::{CouldNotRun, Runs, SaidNo};

/// Like the pipeline: the tool must accept a rewritten input.
fn accepts(input: &Value) -> Result<(), String> {
    match input.get("command") {
        Some(Value::String(_)) => Ok(()),
        other => Err(format!("command: expected text, got {other:?}")),
    }
}

async fn fate(rig: &Rig, hook: Value) -> (Fate, String) {
    let hooks = rig.gate(hook);
    let outcome = rig.ask(&hooks).await;
    let decision = match &outcome.updated_input {
        Some(rewrite) => match accepts(&rewrite.input) {
            Ok(()) => outcome.decision,
            Err(problem) => match hooks.rewrite_refused(rewrite, &problem) {
                RefusedRewrite::UseOriginal { .. } => HookDecision::NoOpinion,
                RefusedRewrite::Blocked(decision) => decision,
            },
        },
        None => outcome.decision,
    };
    match decision {
        HookDecision::Block { reason, cause: BlockCause::SaidNo } => (SaidNo, reason),
        HookDecision::Block { reason, cause: BlockCause::CouldNotRun } => (CouldNotRun, reason),
        HookDecision::NoOpinion | HookDecision::Allow { .. } => (Runs, String::new()),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn gate_result_matches_table_for_both_error_policies() {
    let rig = Rig::default();
    std::fs::write(rig.path("plain.sh"), "#!/bin/sh\nexit 0\n").unwrap();
    let deny = r#"{"hookSpecificOutput":{"permissionDecision":"deny","permissionDecisionReason":"policy"}}"#;
    let bad_input = r#"{"hookSpecificOutput":{"permissionDecision":"allow","updatedInput":{"command":7}}}"#;
    let exec = |program: &str| json!({"type": "command", "command": program, "args": [], "timeout": 60});
    for (name, hook, closed, open, words) in [
        ("exit 0", command("exit 0", 60.0), Runs, Runs, ""),
        ("exit 2 with stderr", command("echo no way >&2; exit 2", 60.0), SaidNo, SaidNo, "no way"),
        ("exit 2 without stderr", command("exit 2", 60.0), SaidNo, SaidNo, "gave no reason"),
        ("missing script", command("python3 missing.py", 60.0), CouldNotRun, Runs, "missing.py"),
        (
            "missing script, by path",
            command("python3 \"$CLAUDE_PROJECT_DIR\"/no/x.py", 60.0),
            CouldNotRun,
            Runs,
            "no/x.py",
        ),
        ("missing shell script", command("sh ./gone.sh", 60.0), CouldNotRun, Runs, "gone.sh"),
        ("not executable, shell", command("./plain.sh", 60.0), CouldNotRun, Runs, "ermission denied"),
        ("not executable, exec", exec("./plain.sh"), CouldNotRun, Runs, "not executable"),
        ("no such command, shell", command("no-such-command-here", 60.0), CouldNotRun, Runs, "not found"),
        ("no such command, exec", exec("no-such-command-here"), CouldNotRun, Runs, "there is no program"),
        ("shell syntax error", command("if then", 60.0), CouldNotRun, Runs, "syntax error"),
        ("segfault", command("kill -SEGV $$", 60.0), CouldNotRun, Runs, "signal 11"),
        ("exception", command("python3 -c 'raise SystemExit(1)'", 60.0), CouldNotRun, Runs, "status 1"),
        (
            "timeout, child holds the pipe",
            command("sleep 600 & sleep 600", 0.3),
            CouldNotRun,
            Runs,
            "within 0.3 s",
        ),
        ("garbage", command("echo }{ what", 60.0), CouldNotRun, Runs, "cannot be understood"),
        ("garbage like JSON", command("echo '{\"decision\": '", 60.0), CouldNotRun, Runs, "not JSON"),
        ("valid deny, exit 0", command(&format!("echo '{deny}'"), 60.0), SaidNo, SaidNo, "policy"),
        (
            "valid deny, then a crash",
            command(&format!("echo '{deny}'; kill -9 $$"), 60.0),
            SaidNo,
            SaidNo,
            "policy",
        ),
        (
            "input the tool refuses",
            command(&format!("echo '{bad_input}'"), 60.0),
            CouldNotRun,
            Runs,
            "expected text",
        ),
    ] {
        for (policy, want) in [("closed", closed), ("open", open)] {
            let (got, reason) = fate(&rig, with(hook.clone(), "on_error", policy)).await;
            assert_eq!(got, want, "{name} with {policy}: {reason}");
            if got != Runs {
                assert!(reason.contains(words), "{name} with {policy}: {reason}");
            }
            if got == CouldNotRun {
                assert!(reason.contains("Nobody said no"), "{name}: {reason}");
            }
        }
    }
}

#[tokio::test]
async fn on_failure_spelling_sets_the_error_policy() {
    let rig = Rig::default();
    let broken = command("exit 7", 60.0);
    assert_eq!(fate(&rig, with(broken.clone(), "onFailure", "block")).await.0, CouldNotRun);
    assert_eq!(fate(&rig, with(broken, "onFailure", "continue")).await.0, Runs);
    // Without `on_error`, text on standard output is only a note.
    assert_eq!(fate(&rig, command("echo checking", 60.0)).await.0, Runs);
    // A handler without an implementation and an invalid one fail too.
    assert_eq!(fate(&rig, json!({"type": "prompt", "prompt": "?"})).await.0, CouldNotRun);
    assert_eq!(fate(&rig, json!({"type": "comand", "command": "true"})).await.0, CouldNotRun);
}

/// Hooks are written for programs that block only on status 2; the setting is stricter.
#[tokio::test]
async fn failing_commands_block_only_with_status_two_unless_strict() {
    let mut rig = Rig::default();
    std::fs::write(rig.path("plain.sh"), "#!/bin/sh\nexit 0\n").unwrap();
    for strict in [false, true] {
        rig.ports.strict_commands = strict;
        for line in [
            "exit 1",
            "exit 126",
            "exit 127",
            "no-such-command-here",
            "./plain.sh",
            "kill -SEGV $$",
            "echo note >&2; exit 3",
        ] {
            let hook = command(line, 60.0);
            let want = if strict { CouldNotRun } else { Runs };
            assert_eq!(fate(&rig, hook.clone()).await.0, want, "{line}, strict: {strict}");
            // The definition takes precedence over the setting.
            assert_eq!(fate(&rig, with(hook.clone(), "on_error", "open")).await.0, Runs, "{line}");
            assert_eq!(fate(&rig, with(hook, "on_error", "closed")).await.0, CouldNotRun, "{line}");
        }
        for (line, want) in [
            ("exit 0", Runs),
            ("exit 2", SaidNo),
            // Status 2 blocks, also from an interpreter without its script.
            ("python3 missing.py", CouldNotRun),
            // A truncated answer is not an exit status.
            ("echo '{\"decision\": '", CouldNotRun),
        ] {
            assert_eq!(fate(&rig, command(line, 60.0)).await.0, want, "{line}, strict: {strict}");
        }
        assert_eq!(fate(&rig, command("sleep 600", 0.3)).await.0, CouldNotRun);
        // An identical definition that is a declared gate applies to both.
        let twins = json!([command("exit 1", 60.0), with(command("exit 1", 60.0), "on_error", "closed")]);
        let hooks = rig.hooks(&json!({"PreToolUse": [{"hooks": twins}]}));
        assert!(matches!(rig.ask(&hooks).await.decision, HookDecision::Block { .. }));
    }
}

/// Hooks of two plugins with the same command are two hooks, each with its own variables.
#[tokio::test]
async fn identical_commands_keep_their_own_variables() {
    let rig = Rig::default();
    let line = "echo \"$CLAUDE_PLUGIN_ROOT\" >> \"$CLAUDE_PROJECT_DIR/seen\"";
    let hooks = json!({"PreToolUse": [{"hooks": [command(line, 60.0), command(line, 60.0)]}]});
    let mut definitions = rig.definitions(&hooks);
    for (definition, root) in definitions.iter_mut().zip(["/a", "/b"]) {
        definition.env = vec![(String::from("CLAUDE_PLUGIN_ROOT"), root.to_owned())];
    }
    rig.ask(&haft_hooks::Hooks::new(definitions, rig.ports.clone())).await;
    let seen = std::fs::read_to_string(rig.path("seen")).unwrap();
    let mut seen: Vec<&str> = seen.lines().collect();
    seen.sort_unstable();
    assert_eq!(seen, ["/a", "/b"]);
}

#[tokio::test]
async fn hook_with_invalid_matcher_fails_by_its_error_policy() {
    let rig = Rig::default();
    for (policy, blocked) in [("closed", true), ("open", false)] {
        let hook = with(command("exit 0", 60.0), "on_error", policy);
        let hooks = rig.hooks(&json!({"PreToolUse": [{"matcher": "Bash(", "hooks": [hook]}]}));
        let outcome = rig.ask(&hooks).await;
        assert_eq!(
            matches!(outcome.decision, HookDecision::Block { cause: BlockCause::CouldNotRun, .. }),
            blocked
        );
        assert!(matches!(
            &outcome.reports[0].happened,
            HookRunResult::Broke { failure: HookFailure::Unusable(_), .. }
        ));
        assert!(outcome.reports[0].notice().unwrap().contains("not a regular expression"));
    }
}

#[tokio::test]
async fn failing_observer_hook_does_not_block() {
    let rig = Rig::default();
    let hook = command("exit 9", 60.0);
    let hooks = rig.hooks(&json!({"Stop": [{"hooks": [hook]}], "PreCompact": [{"hooks": [hook]}]}));
    let stop = haft_hooks::Stop {
        stop_hook_active: false,
        last_assistant_message: None,
        background_tasks: Vec::new(),
        session_crons: Vec::new(),
    };
    let outcome = hooks.run(&haft_hooks::HookInput::new(rig.base(), stop)).await;
    assert_eq!(outcome.decision, HookDecision::NoOpinion);
    let want = HookRunResult::Broke {
        failure: HookFailure::ExitStatus { status: 9, said: String::new() },
        in_a_row: 1,
        effect: ErrorEffect::Open,
    };
    assert_eq!(outcome.reports[0].happened, want);
}

#[tokio::test]
async fn after_three_crashes_the_message_says_how_to_disable_the_hook() {
    let rig = Rig::default();
    let flag = rig.path("well");
    let line = format!("test -e {} || kill -SEGV $$", flag.display());
    let hooks = rig.gate(with(with(command(&line, 60.0), "id", "my-gate"), "on_error", "closed"));
    let advice = "add \"my-gate\" to \"disabledHooks\" in /home/u/.haft/settings.json";
    for (crash, advised) in [(1, false), (2, false), (3, true), (4, true)] {
        let outcome = rig.ask(&hooks).await;
        assert_eq!(reason(&outcome).contains(advice), advised, "{crash}: {}", reason(&outcome));
    }
    // New settings keep the count; a success resets it.
    let hooks = hooks.reconfigured(hooks.definitions().cloned().collect(), rig.ports.clone());
    assert!(reason(&rig.ask(&hooks).await).contains(advice));
    std::fs::write(&flag, "").unwrap();
    assert_eq!(rig.ask(&hooks).await.decision, HookDecision::NoOpinion);
    std::fs::remove_file(&flag).unwrap();
    assert!(!reason(&rig.ask(&hooks).await).contains(advice));
}

#[tokio::test]
async fn rejected_rewrites_are_counted_as_failures() {
    let rig = Rig::default();
    let answer = r#"{"hookSpecificOutput":{"updatedInput":{"command":7}}}"#;
    let hooks = rig.gate(with(command(&format!("echo '{answer}'"), 60.0), "id", "rewriter"));
    for round in 1..=3 {
        let rewrite = rig.ask(&hooks).await.updated_input.unwrap();
        let RefusedRewrite::Blocked(HookDecision::Block { reason, cause }) =
            hooks.rewrite_refused(&rewrite, "bad")
        else {
            panic!("a gate is closed by default")
        };
        assert_eq!(cause, BlockCause::CouldNotRun);
        assert_eq!(reason.contains("add \"rewriter\" to \"disabledHooks\""), round == 3, "{reason}");
    }
}
