//! Settings have their documented effect in requests, on standard error and in results; `haft doctor`
//! lists those without effect.

use std::process::Stdio;

use haft_testkit::{AwsKey, MockModel, ReplyPiece, Script, Turn};
use serde_json::{Value, json};

use crate::common::{Haft, text};

/// Runs with these settings; returns exit code, requests and standard error.
async fn run(settings: &Value, args: &[&str], turns: Vec<Turn>) -> (Option<i32>, Vec<Value>, String) {
    let haft = Haft::new();
    haft.write_home(".haft/settings.json", &settings.to_string());
    let model = MockModel::start(Script::from_turns(turns)).await.unwrap();
    let mut command = haft.async_command();
    command.args(["-p", "go"]).args(args).env("ANTHROPIC_BASE_URL", model.url()).env("IS_SANDBOX", "1");
    let output = command.stdin(Stdio::null()).output().await.unwrap();
    let requests = model.requests().iter().map(|it| it.json()).collect();
    (output.status.code(), requests, String::from_utf8_lossy(&output.stderr).into_owned())
}

#[tokio::test]
async fn nobody_tries_harder_than_the_settings_allow() {
    for (most, asked, want) in [
        (json!({}), &["--effort", "max"][..], json!("max")),
        (json!({"maxEffortLevel": "medium"}), &["--effort", "max"][..], json!("medium")),
        (json!({"maxEffortLevel": "medium"}), &["--effort", "low"][..], json!("low")),
        (json!({"maxEffortLevel": "medium"}), &[][..], json!("medium")),
        (json!({"maxEffortLevel": "max"}), &[][..], json!(null)),
        (json!({"maxEffortLevel": "huge"}), &["--effort", "high"][..], json!("high")),
    ] {
        let args: Vec<&str> =
            ["--model", "claude-opus-4-6"].into_iter().chain(asked.iter().copied()).collect();
        let (code, requests, err) = run(&most, &args, vec![Turn::text("done")]).await;
        assert_eq!(
            (code, &requests[0]["output_config"]["effort"]),
            (Some(0), &want),
            "{most} {asked:?}: {err}"
        );
        assert_eq!(err.contains("`huge` is no effort"), most["maxEffortLevel"] == "huge", "{err}");
    }
}

/// Collects all cache markers of a request.
fn marks(request: &Value, out: &mut Vec<Value>) {
    match request {
        Value::Array(items) => items.iter().for_each(|it| marks(it, out)),
        Value::Object(fields) => {
            out.extend(fields.get("cache_control").cloned());
            fields.values().for_each(|it| marks(it, out));
        }
        _ => (),
    }
}

#[tokio::test]
async fn the_beginning_of_requests_is_kept_as_long_as_the_settings_say() {
    let five = json!({"type": "ephemeral"});
    let hour = json!({"type": "ephemeral", "ttl": "1h"});
    let child = || {
        let input =
            json!({"description": "looks", "prompt": "inspect-the-child", "subagent_type": "Explore"});
        vec![Turn::tool("Agent", input), Turn::text("done").always()]
    };
    for (settings, main, children) in [
        (json!({}), &five, &five),
        (json!({"promptCacheTtl": "5m"}), &five, &five),
        (json!({"promptCacheTtl": "1h"}), &hour, &hour),
        (json!({"promptCacheTtl": "1h", "subagentPromptCacheTtl": "5m"}), &hour, &five),
        (json!({"subagentPromptCacheTtl": "1h"}), &five, &hour),
    ] {
        let (code, requests, err) = run(&settings, &[], child()).await;
        assert_eq!(code, Some(0), "{settings}: {err}");
        let is_child = |it: &Value| it["messages"][0].to_string().contains("inspect-the-child");
        assert!(requests.iter().any(is_child) && 1 < requests.len(), "{settings}: {requests:?}");
        for request in &requests {
            let want = if is_child(request) { children } else { main };
            let mut found = Vec::new();
            marks(request, &mut found);
            assert!(!found.is_empty() && found.iter().all(|it| it == want), "{settings}: {found:?}");
        }
    }
    let (_, _, err) = run(&json!({"promptCacheTtl": "2h"}), &[], vec![Turn::text("done")]).await;
    assert!(err.contains("promptCacheTtl") && err.contains("5m and 1h are"), "{err}");
}

#[tokio::test]
async fn settings_can_be_verbose() {
    let turns = || vec![Turn::tool("Bash", json!({"command": "ls"})), Turn::text("done")];
    let (_, _, quiet) = run(&json!({}), &[], turns()).await;
    let (_, _, flagged) = run(&json!({}), &["--verbose"], turns()).await;
    let (_, _, set) = run(&json!({"verbose": true}), &[], turns()).await;
    assert!(quiet.lines().count() < set.lines().count(), "{quiet}\n---\n{set}");
    assert_eq!(flagged.lines().count(), set.lines().count(), "{flagged}\n---\n{set}");
}

#[test]
fn what_is_shown_of_a_background_task_is_as_long_as_the_settings_say() {
    let shown = |settings: &str| {
        let haft = Haft::new();
        haft.write_home(".haft/settings.json", settings);
        let calls = [
            json!({"name": "Bash", "input": {"command": "seq 1 9000", "run_in_background": true}}),
            json!({"name": "TaskOutput", "input": {"task_id": "bash_1", "block": true, "timeout": 60_000}}),
        ];
        let reports = haft.reports(&["--permission-mode", "bypassPermissions"], &calls);
        assert_eq!(reports[1]["is_error"], json!(false), "{reports:?}");
        text(&reports[1]).chars().count()
    };
    let little = shown(r#"{"taskOutputMaxChars": 2000}"#);
    assert!(little < 4_000, "{little}");
}

#[test]
fn doctor_names_the_settings_that_do_nothing() {
    let haft = Haft::new();
    let settings = json!({
        "respectGitignore": false, "viewMode": "focus", "sandbox": {"ripgrep": {"command": "rg"}, "enabled": false},
        "hosts": {}, "worktree": {"bgIsolation": "none", "symlinkDirectories": []},
    });
    haft.write_home(".claude/settings.json", &settings.to_string());
    let report: Value = serde_json::from_slice(&haft.run(&["doctor", "--json"], "").stdout).unwrap();
    let checks = report["checks"].as_array().unwrap();
    let found = checks.iter().find(|it| it["found"].as_str().unwrap().contains("without effect")).unwrap();
    let words = found["found"].as_str().unwrap();
    assert!(
        words.contains(".claude/settings.json: viewMode, sandbox.ripgrep, worktree.bgIsolation"),
        "{words}"
    );
    for used in ["respectGitignore", "sandbox.enabled", "hosts", "symlinkDirectories"] {
        assert!(!words.contains(used), "{words}");
    }
    assert_eq!(found["health"], "warn");
    // No message for a project without such settings.
    let other = Haft::new();
    other.write_home(".haft/settings.json", r#"{"verbose": false}"#);
    let report = String::from_utf8(other.run(&["doctor", "--json"], "").stdout).unwrap();
    assert!(!report.contains("without effect"), "{report}");
}

#[tokio::test]
async fn keys_of_aws_come_from_a_command_and_are_renewed() {
    let key = AwsKey {
        access_key: "AKIDEXAMPLE".to_owned(),
        secret_key: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY".to_owned(),
        region: "us-east-1".to_owned(),
    };
    let printed = |secret: &str| {
        json!({"Credentials": {"AccessKeyId": key.access_key, "SecretAccessKey": secret}}).to_string()
    };
    for (first, renews, code) in [
        (key.secret_key.as_str(), false, Some(0)),
        // Expired credentials are refreshed and read again.
        ("old", true, Some(0)),
        ("old", false, Some(6)),
    ] {
        let haft = Haft::new();
        haft.write_home("keys.json", &printed(first));
        haft.write_home("new.json", &printed(&key.secret_key));
        let mut settings = json!({"awsCredentialExport": "cat \"$HOME/keys.json\""});
        if renews {
            settings["awsAuthRefresh"] = json!("cp \"$HOME/new.json\" \"$HOME/keys.json\"");
        }
        haft.write_home(".haft/settings.json", &settings.to_string());
        let script = Script { aws: Some(key.clone()), ..Script::from_turns([Turn::text("done").always()]) };
        let model = MockModel::start(script).await.unwrap();
        let mut command = haft.async_command();
        command.args(["-p", "go", "--provider", "bedrock", "--model", "us.anthropic.claude-opus-4-6-v1:0"]);
        command.env("ANTHROPIC_BEDROCK_BASE_URL", model.url()).env("AWS_REGION", "us-east-1");
        let output = command.stdin(Stdio::null()).output().await.unwrap();
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), code, "{first} {renews}: {err}");
        assert!(!err.contains(&key.secret_key), "{err}");
    }
}

/// A fake `gcloud` that prints the contents of a file.
fn fake_gcloud(haft: &Haft) -> String {
    use std::os::unix::fs::PermissionsExt as _;
    haft.write_home("bin/gcloud", "#!/bin/sh\ncat \"$HOME/token\"\n");
    let bin = haft.home().join("bin");
    std::fs::set_permissions(bin.join("gcloud"), std::fs::Permissions::from_mode(0o755)).unwrap();
    format!("{}:{}", bin.display(), std::env::var("PATH").unwrap())
}

#[tokio::test]
async fn a_token_of_google_is_renewed_by_a_command() {
    for (first, settings, code, renewals) in [
        ("good-token", json!({"gcpAuthRefresh": "echo x >> \"$HOME/renewed\""}), Some(0), 0),
        (
            "old-token",
            json!({"gcpAuthRefresh": "echo x >> \"$HOME/renewed\"; cp \"$HOME/new\" \"$HOME/token\""}),
            Some(0),
            1,
        ),
        // A refresh command that does not help runs once.
        ("old-token", json!({"gcpAuthRefresh": "echo x >> \"$HOME/renewed\""}), Some(6), 1),
        ("old-token", json!({}), Some(6), 0),
    ] {
        let haft = Haft::new();
        haft.write_home("token", first);
        haft.write_home("new", "good-token");
        haft.write_home(".haft/settings.json", &settings.to_string());
        let script = Script {
            api_key: Some("good-token".to_owned()),
            ..Script::from_turns([Turn::text("done").always()])
        };
        let model = MockModel::start(script).await.unwrap();
        let mut command = haft.async_command();
        command.args(["-p", "go", "--provider", "vertex", "--model", "claude-opus-4-6@20260101"]);
        command.env("ANTHROPIC_VERTEX_BASE_URL", model.url()).env("ANTHROPIC_VERTEX_PROJECT_ID", "p1");
        command.env("PATH", fake_gcloud(&haft));
        let output = command.stdin(Stdio::null()).output().await.unwrap();
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), code, "{first} {settings}: {err}");
        let renewed = std::fs::read_to_string(haft.home().join("renewed")).unwrap_or_default();
        assert_eq!(renewed.lines().count(), renewals, "{first} {settings}: {err}");
        assert!(!err.contains("token\n") && !err.contains("good-token"), "{err}");
    }
}

#[tokio::test]
async fn a_model_is_called_what_the_settings_say() {
    let arn = "arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/abc";
    for (settings, provider, asked, want) in [
        (json!({}), "anthropic", "claude-opus-4-6", "claude-opus-4-6"),
        (
            json!({"modelOverrides": {"claude-opus-4-6": "our-opus"}}),
            "anthropic",
            "claude-opus-4-6",
            "our-opus",
        ),
        (
            json!({"modelOverrides": {"claude-opus-4-6": "our-opus"}}),
            "anthropic",
            "claude-sonnet-4-6",
            "claude-sonnet-4-6",
        ),
        (json!({"modelOverrides": {"claude-opus-4-6": arn}}), "bedrock", "claude-opus-4-6", arn),
    ] {
        let haft = Haft::new();
        haft.write_home(".haft/settings.json", &settings.to_string());
        let thinks = Turn::from_pieces([
            ReplyPiece::thinking("hm"),
            ReplyPiece::tool("Read", json!({"file_path": "a.txt"})),
        ]);
        haft.write("a.txt", "x\n");
        let model =
            MockModel::start(Script { strict: false, ..Script::from_turns([thinks, Turn::text("done")]) });
        let model = model.await.unwrap();
        let mut command = haft.async_command();
        command.args(["-p", "go", "--provider", provider, "--model", asked]);
        command.env("ANTHROPIC_BASE_URL", model.url()).env("ANTHROPIC_BEDROCK_BASE_URL", model.url());
        command.env("AWS_REGION", "us-east-1").env("AWS_BEARER_TOKEN_BEDROCK", "k");
        let output = command.stdin(Stdio::null()).output().await.unwrap();
        assert!(output.status.success(), "{settings}: {}", String::from_utf8_lossy(&output.stderr));
        for request in model.requests() {
            let named = match request.json()["model"].as_str() {
                Some(name) => name.to_owned(),
                None => request.path.clone(),
            };
            let named = named.replace("%3A", ":").replace("%2F", "/");
            assert!(named.contains(want), "{settings}: {named}");
        }
        // For Haft it is the same model, so its thinking is sent back.
        let second = model.requests()[1].json()["messages"].to_string();
        assert!(second.contains("\"thinking\""), "{settings}: {second}");
    }
}

#[tokio::test]
async fn what_openrouter_says_about_thinking_survives_a_resume() {
    let haft = Haft::new();
    haft.write("a.txt", "x\n");
    let model = MockModel::start(Script::from_turns([
        Turn::from_pieces([
            ReplyPiece::thinking("I look first."),
            ReplyPiece::tool("Read", json!({"file_path": "a.txt"})),
        ]),
        Turn::from_pieces([ReplyPiece::thinking("That is all."), ReplyPiece::text("read")]),
        Turn::text("again").always(),
    ]))
    .await
    .unwrap();
    for args in [vec!["-p", "go"], vec!["-p", "and now", "--continue"]] {
        let mut command = haft.async_command();
        command.args(&args).args([
            "--provider",
            "openrouter",
            "--model",
            "anthropic/claude-opus-4-6",
            "--effort",
            "high",
        ]);
        command.env("OPENROUTER_BASE_URL", format!("{}/v1", model.url())).env("OPENROUTER_API_KEY", "k");
        let output = command.stdin(Stdio::null()).output().await.unwrap();
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    assert_eq!(model.refusals(), Vec::<String>::new());
    let sent = model.requests()[2].json();
    let answers = sent["messages"].as_array().unwrap().iter().filter(|it| it["role"] == "assistant");
    let texts: Vec<&Value> = answers.map(|it| &it["reasoning_details"][0]["text"]).collect();
    assert_eq!(texts, [&json!("I look first."), &json!("That is all.")], "{sent}");
}

/// The proxy authorization comes from a command, which runs again when the proxy refuses it.
#[tokio::test]
async fn a_proxy_is_told_what_a_command_prints() {
    for (helper, refusals, want) in [
        (Some("echo Bearer first"), 0, vec![Some("Bearer first")]),
        (
            Some("echo x >> \"$HOME/asked\"; echo Bearer $(wc -l < \"$HOME/asked\")"),
            1,
            vec![Some("Bearer 1"), Some("Bearer 2")],
        ),
        (None, 0, vec![None]),
    ] {
        let haft = Haft::new();
        haft.write_home(".haft/settings.json", &json!({"proxyAuthHelper": helper}).to_string());
        let refused = std::iter::repeat_n(Turn::error(407, "x", "log in"), refusals);
        let script = refused.chain([Turn::text("done").always()]);
        let proxy = MockModel::start(Script::from_turns(script)).await.unwrap();
        let mut command = haft.async_command();
        command
            .args(["-p", "go"])
            .env("ANTHROPIC_BASE_URL", "http://model.test")
            .env("ANTHROPIC_API_KEY", "key");
        command.env("HTTP_PROXY", proxy.url()).env_remove("NO_PROXY").env_remove("no_proxy");
        let output = command.stdin(Stdio::null()).output().await.unwrap();
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{helper:?}: {err}");
        let requests = proxy.requests();
        let told: Vec<Option<&str>> = requests
            .iter()
            .map(|it| it.headers.iter().find(|(name, _)| name == "proxy-authorization"))
            .map(|it| it.map(|(_, value)| value.as_str()))
            .collect();
        assert_eq!(told, want, "{err}");
    }
}
