//! Stored prompts: `haft cron`.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, reason = "test code")]

use crate::common;

use common::Haft;
use haft_testkit::{MockModel, Script, Turn};
use serde_json::{Value, json};

fn stored(haft: &Haft, change: impl FnOnce(&mut Value)) {
    let mut job = json!({
        "id": "0a1b2c3d", "cron": "* * * * *", "zone": "UTC", "prompt": "Say what is here", "dir": haft.ws(),
        "recurring": true, "created": "2026-01-01T00:00:00Z", "createdBy": "s1", "maxTurns": 3, "maxMinutes": 2,
    });
    change(&mut job);
    haft.write_home(".haft/cron/jobs/0a1b2c3d.json", &job.to_string());
}

fn runs(haft: &Haft) -> Vec<Value> {
    haft.ok(&["cron", "logs", "--json"], "").lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn stored_by_the_tool_listed_and_removed() {
    let haft = Haft::new();
    let input = json!({"cron": "15 4 * * 1", "prompt": "Tidy up", "durable": true});
    let call = json!({"id": "c1", "name": "CronCreate", "input": input});
    let asked = haft.reports(&[], std::slice::from_ref(&call));
    assert_eq!(asked[0]["is_error"], true, "{}", asked[0]);
    let made = haft.reports(&["--permission-mode", "bypassPermissions"], &[call]);
    assert!(made[0].to_string().contains("Stored."), "{}", made[0]);
    let listed = haft.ok(&["cron", "list"], "");
    assert!(listed.contains("15 4 * * 1") && listed.contains("Tidy up"), "{listed}");
    let id = listed.split(' ').next().unwrap();
    assert!(haft.ok(&["cron", "remove", id], "").contains("removed"));
    assert!(!haft.run(&["cron", "remove", id], "").status.success());
    assert!(haft.ok(&["cron", "list"], "").contains("nothing is stored"));
    let shown = haft.ok(&["cron", "install", "--print"], "");
    assert!(shown.contains("cron run-due"), "{shown}");
}

#[test]
fn what_is_due_runs_once_unattended_and_is_written_down() {
    let haft = Haft::new();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let model = runtime.block_on(MockModel::start(Script::from_turns([Turn::text("All is well.")]))).unwrap();
    // A yearly slot in the past: one run makes up for it.
    stored(&haft, |job| job["cron"] = json!("0 0 2 1 *"));
    let due = || {
        let mut command = haft.command();
        command
            .args(["cron", "run-due"])
            .env("ANTHROPIC_BASE_URL", model.url())
            .env("ANTHROPIC_API_KEY", "k");
        command.output().unwrap()
    };
    let first = due();
    assert!(first.status.success(), "{}", String::from_utf8_lossy(&first.stderr));
    assert!(due().status.success());
    let runs = runs(&haft);
    assert_eq!(runs.len(), 1, "{runs:?}");
    assert_eq!(
        (runs[0]["why"].as_str(), runs[0]["outcome"]["is"].as_str()),
        (Some("catch_up"), Some("done")),
        "{runs:?}"
    );
    let said = std::fs::read_to_string(runs[0]["output"].as_str().unwrap()).unwrap();
    assert!(said.contains("All is well."), "{said}");
}

#[test]
fn what_cannot_run_is_said_and_runs_no_second_time() {
    let haft = Haft::new();
    stored(&haft, |job| {
        job["dir"] = json!("/nowhere/at/all");
        job["recurring"] = json!(false);
    });
    haft.write_home(".haft/cron/jobs/ffffffff.json", "{");
    let ran = haft.run(&["cron", "run-due"], "");
    assert!(String::from_utf8_lossy(&ran.stderr).contains("ffffffff.json"));
    haft.run(&["cron", "run-due"], "");
    let runs = runs(&haft);
    assert_eq!(runs.len(), 1, "{runs:?}");
    assert_eq!(runs[0]["outcome"]["is"], "not_started");
    assert!(runs[0]["outcome"]["reason"].as_str().unwrap().contains("/nowhere/at/all"));
    // Prompts in a project's file are not run.
    haft.write(
        ".claude/scheduled_tasks.json",
        r#"{"tasks":[{"id":"x","cron":"* * * * *","prompt":"evil"}]}"#,
    );
    haft.run(&["cron", "run-due"], "");
    assert_eq!(self::runs(&haft).len(), 1);
}

/// A job edits files only if it was stored with that mode and the current settings are not stricter.
#[test]
fn a_job_runs_in_its_mode_or_in_less() {
    for (mode, today, edits) in
        [("default", None, false), ("acceptEdits", None, true), ("acceptEdits", Some("plan"), false)]
    {
        let haft = Haft::new();
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let write = Turn::tool("Write", json!({"file_path": "made.txt", "content": "by the job"}));
        let model =
            runtime.block_on(MockModel::start(Script::from_turns([write, Turn::text("Done.")]))).unwrap();
        stored(&haft, |job| (job["cron"], job["mode"]) = (json!("0 0 2 1 *"), json!(mode)));
        if let Some(today) = today {
            haft.write_home(
                ".haft/settings.json",
                &json!({"permissions": {"defaultMode": today}}).to_string(),
            );
        }
        let mut command = haft.command();
        command
            .args(["cron", "run-due"])
            .env("ANTHROPIC_BASE_URL", model.url())
            .env("ANTHROPIC_API_KEY", "k");
        command.output().unwrap();
        let runs = runs(&haft);
        assert_eq!(runs.len(), 1, "{mode} {today:?} {runs:?}");
        assert_eq!(haft.ws().join("made.txt").exists(), edits, "{mode} {today:?}");
        if mode == "acceptEdits" {
            assert!(haft.ok(&["cron", "list"], "").contains("mode acceptEdits"));
        }
    }
}

/// The disk fills up between claiming the slot and the run: a run that cannot be recorded does not
/// start, and its slot is not lost.
#[test]
fn what_cannot_be_written_down_is_not_begun_and_runs_later() {
    let haft = Haft::new();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let model = runtime.block_on(MockModel::start(Script::from_turns([Turn::text("All is well.")]))).unwrap();
    stored(&haft, |job| (job["cron"], job["recurring"]) = (json!("0 0 2 1 *"), json!(false)));
    let list = haft.home().join(".haft/cron/runs.jsonl");
    std::fs::create_dir_all(&list).unwrap();
    let due = || {
        let mut command = haft.command();
        command
            .args(["cron", "run-due"])
            .env("ANTHROPIC_BASE_URL", model.url())
            .env("ANTHROPIC_API_KEY", "k");
        command.output().unwrap()
    };
    for _ in 0..2 {
        let got = due();
        let said = String::from_utf8_lossy(&got.stderr).into_owned();
        assert!(!got.status.success() && said.contains("cannot be written down"), "{said}");
        assert!(haft.ok(&["cron", "list"], "").contains("0a1b2c3d"), "it is still stored");
    }
    assert!(model.requests().is_empty());
    std::fs::remove_dir(&list).unwrap();
    assert!(due().status.success());
    assert!(due().status.success());
    assert_eq!((runs(&haft).len(), model.requests().len()), (1, 1));
    assert!(haft.ok(&["cron", "list"], "").contains("nothing is stored"));
    // A run without a recorded end is still reported.
    let line = r#"{"job":"0a1b2c3d","slot":"2026-02-02T00:00:00Z","why":"scheduled","began":"2026-02-02T00:00:00Z","ended":"2026-02-02T00:00:00Z","outcome":{"is":"began"}}"#;
    let before = std::fs::read_to_string(&list).unwrap();
    std::fs::write(&list, format!("{before}{line}\n")).unwrap();
    assert!(haft.ok(&["cron", "logs"], "").contains("nothing says yet how it ended"));
}
