//! A new user's first hour: the advice Haft prints works when it is followed literally.

use std::process::Stdio;

use crate::common::{Haft, text};
use haft_testkit::{MockModel, Script, Turn};
use serde_json::{Value, json};

struct Ran {
    code: Option<i32>,
    stdout: String,
    stderr: String,
    requests: Vec<Value>,
}

/// Runs the program with a model that plays these turns.
async fn play(haft: &Haft, turns: Vec<Turn>, args: &[&str], stdin: &str) -> Ran {
    let model = MockModel::start(Script::from_turns(turns)).await.unwrap();
    let mut command = haft.async_command();
    command.args(args).env("ANTHROPIC_BASE_URL", model.url()).env("IS_SANDBOX", "1");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    tokio::io::AsyncWriteExt::write_all(&mut input, stdin.as_bytes()).await.unwrap();
    drop(input);
    let output = child.wait_with_output().await.unwrap();
    let said = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let requests = model.requests().iter().map(|it| it.json()).collect();
    Ran { code: output.status.code(), stdout: said(output.stdout), stderr: said(output.stderr), requests }
}

fn bash(command: &str) -> Vec<Turn> {
    vec![Turn::tool("Bash", json!({"command": command})), Turn::text("over")]
}

/// The text between two markers.
fn between<'a>(text: &'a str, start: &str, end: &str) -> &'a str {
    let from = text.find(start).unwrap_or_else(|| panic!("no {start} in {text}")) + start.len();
    text[from..].split(end).next().unwrap()
}

#[tokio::test]
async fn the_way_out_of_a_denial_works_as_it_stands() {
    for command in ["mkdir -p out/put", "touch new.txt", "cp a.txt 'b c.txt'"] {
        let haft = Haft::new();
        haft.write("a.txt", "x");
        let denied = play(&haft, bash(command), &["-p", "go"], "").await;
        assert_eq!(denied.code, Some(3), "{}", denied.stderr);
        let told = denied.requests[1]["messages"].to_string();
        assert!(told.contains("nobody is there to ask") && !told.contains("allowedTools"), "{told}");
        assert!(!denied.stderr.contains("Go on without it"), "{}", denied.stderr);
        let log = haft.ok(&["permissions", "log"], "");
        assert!(log.contains("nobody was there to ask") && !log.contains("asked: "), "{log}");
        // The advice for this one run: a flag.
        let flag = between(&denied.stderr, "to allow it once: ", "; in this project").to_owned();
        let words = shell_words(&flag);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let once = play(&haft, bash(command), &[&["-p", "go"], &words[..2]].concat(), "").await;
        assert_eq!(once.code, Some(0), "{flag}: {}", once.stderr);
        // The advice for good: a command, which works in an untrusted project.
        let for_good = between(&denied.stderr, "from now on: haft ", "\n").to_owned();
        let words = shell_words(&for_good);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let said = haft.ok(&words, "");
        assert!(said.contains("matches: "), "{said}");
        let after = play(&haft, bash(command), &["-p", "go"], "").await;
        assert_eq!(after.code, Some(0), "{for_good}: {}", after.stderr);
        // The log names the rule that decided, and the rule can be revoked.
        let log = haft.ok(&["permissions", "log"], "");
        assert!(log.contains("allow") && log.contains("rule Bash("), "{log}");
        let rules: Vec<&str> = words[2..].to_vec();
        haft.ok(&[&["permissions", "revoke"], &rules[..]].concat(), "");
        let again = play(&haft, bash(command), &["-p", "go"], "").await;
        assert_eq!(again.code, Some(3), "{}", again.stdout);
    }
}

/// Splits a line like a shell, as pasting it would.
fn shell_words(line: &str) -> Vec<String> {
    let script = format!("for word in {line}; do printf '%s\\n' \"$word\"; done");
    let output = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn rules_that_make_no_sense_are_refused() {
    let haft = Haft::new();
    for (args, want) in [
        (&["permissions", "allow", "Bash("][..], "bracket"),
        (&["permissions", "revoke", "Bash(nothing)"], "permissions list"),
    ] {
        let output = haft.run(args, "");
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains(want), "{output:?}");
    }
}

/// A command with nothing to show, or with an unknown argument, says so and what to do, with the
/// documented exit code.
#[test]
fn nothing_is_answered_with_silence() {
    let haft = Haft::new();
    for (args, code, want) in [
        (&["sessions", "search", "needle"][..], 1, "no session of this directory holds \"needle\""),
        (&["cron", "logs"], 0, "`haft cron list`"),
        (&["cron", "logs", "j1"], 0, "about a run of j1"),
        (&["triggers", "logs", "nope"], 0, "`haft triggers list`"),
        (&["models", "no-such-model", "--no-local"], 0, "no model that is known has \"no-such-model\""),
        (&["plugins", "disable", "nope"], 2, "there is no plugin nope"),
        (&["plugins", "uninstall", "nope"], 2, "there is no plugin nope"),
        (&["permissions", "explain", "Read"], 2, "Read is a tool"),
        (&["permissions", "allow", "Bsah(ls)"], 2, "did you mean Bash(ls)?"),
        (&["permissions", "deny", "NoSuchTool"], 2, "so NoSuchTool matches nothing"),
        (&["mcp", "add", "-t", "http", "web", "not-a-url"], 2, "`not-a-url` is no address"),
        (&["mcp", "add-json", "web", "{\"url\": \"x.test\"}"], 2, "`x.test` is no address"),
        (&["sessoins"], 2, "did you mean `haft sessions`?"),
        (&["fleet", "worker", "--slots", "0"], 2, "--slots"),
    ] {
        let output = haft.run(args, "");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {stderr}");
        assert!(stderr.contains(want), "{args:?}: {stderr}");
    }
    assert!(!haft.home().join(".haft/mcp.json").exists(), "what is refused is not written");
    assert!(!haft.home().join(".haft/settings.json").exists(), "what is refused is not written");
    assert!(!haft.ws().join(".haft/settings.local.json").exists(), "what is refused is not written");
    for rule in ["mcp__later__get", "mcp__later", "Task(explore)", "BashTool(nope)"] {
        haft.ok(&["permissions", "deny", rule], "");
    }
    let rules = r#"{"permissions": {"allow": ["Bsah(ls)", "mcp__later__get"]}}"#;
    haft.write_home(".haft/settings.json", rules);
    let told = haft.run(&["doctor"], "").stdout;
    let told = String::from_utf8_lossy(&told);
    assert!(told.contains("did you mean Bash(ls)?") && !told.contains("mcp__later"), "{told}");
    haft.ok(&["mcp", "add", "-t", "http", "late", "${WEB_ADDRESS}/mcp"], "");
    assert!(!haft.ok(&["permissions", "explain", "ls"], "").is_empty());
}

/// A home that is not a directory, or is relative, is ignored. Unreadable key files are ignored or
/// reported with advice.
#[tokio::test(flavor = "multi_thread")]
async fn a_strange_home_stops_nobody() {
    let model = MockModel::start(Script::from_turns(vec![Turn::text("x").always()])).await.unwrap();
    for home in ["/dev/null", "homely"] {
        let haft = Haft::new();
        let mut command = haft.command();
        command.env("HOME", home).env("ANTHROPIC_API_KEY", "key").env("ANTHROPIC_BASE_URL", model.url());
        let output = command.args(["-p", "go"]).stdin(Stdio::null()).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{home}: {output:?}");
        assert_eq!(std::fs::read_dir(haft.ws()).unwrap().count(), 0, "{home}: nothing is made here");
    }
    let haft = Haft::new();
    std::fs::create_dir_all(haft.home().join(".haft")).unwrap();
    std::fs::write(haft.home().join(".haft/credentials.json"), b"\xff\xfe").unwrap();
    for args in [&["-p", "go"][..], &["login"]] {
        let output = haft.run(args, "key");
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(stderr.contains("move the file away and log in again"), "{args:?}: {stderr}");
    }
    std::fs::remove_file(haft.home().join(".haft/credentials.json")).unwrap();
    let long = haft.run(&["login"], &"k".repeat(70_000));
    assert!(String::from_utf8_lossy(&long.stderr).contains("too long for a key"), "{long:?}");
    assert!(!haft.home().join(".haft/credentials.json").exists());
}

#[tokio::test]
async fn flags_that_cannot_hold_are_refused_or_named() {
    let haft = Haft::new();
    haft.write("broken.json", "{\"permissions\": [}");
    for settings in ["nowhere.json", "broken.json", "{\"model\": "] {
        let ran = play(&haft, vec![Turn::text("x")], &["-p", "go", "--settings", settings], "").await;
        assert_eq!((ran.code, ran.requests.len()), (Some(2), 0), "{settings}: {}", ran.stderr);
        assert!(ran.stderr.contains("--settings"), "{}", ran.stderr);
    }
    haft.write_home(".haft/settings.json", r#"{"permissions": {"deny": ["Raed(secret)", "Bash(rm *)"]}}"#);
    let args = ["-p", "go", "--tools", "Read,Wirte", "--disallowedTools", "Bahs,mcp__x__y,Grep"];
    let ran = play(&haft, vec![Turn::text("x")], &args, "").await;
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    for want in
        ["there is no tool Wirte; did you mean Write?", "Bahs", "did you mean Bash?", "did you mean Read?"]
    {
        assert!(ran.stderr.contains(want), "{want}: {}", ran.stderr);
    }
    assert_eq!(ran.stderr.lines().count(), 3, "{}", ran.stderr);
    let args = ["-p", "go", "--allowedTools", "Bsah(ls)", "--add-dir", "nowhere"];
    let ran = play(&haft, vec![Turn::text("x")], &args, "").await;
    for want in ["allows nothing: there is no tool Bsah; did you mean Bash?", "nowhere is no directory"] {
        assert!(ran.stderr.contains(want), "{want}: {}", ran.stderr);
    }
    for (args, want) in [
        (&["-p", "hello", "world"][..], "goes into quotes: haft \"hello world …\""),
        (&["imprt", "claude"], "did you mean `haft import`?"),
        (&["-p", "hi", "--resume", "nope"], "`haft sessions` lists"),
    ] {
        let ran = play(&haft, vec![], args, "").await;
        assert_eq!(ran.code, Some(2), "{args:?}");
        assert!(ran.stderr.contains(want), "{args:?}: {}", ran.stderr);
    }
    let unknown = play(&haft, vec![Turn::text("x")], &["-p", "/comapct now"], "").await;
    assert_eq!((unknown.code, unknown.requests.len()), (Some(2), 0));
    assert!(unknown.stderr.contains("/compact"), "{}", unknown.stderr);
    for prompt in ["/etc is what?", "/no/such/file: explain"] {
        let ran = play(&haft, vec![Turn::text("x")], &["-p", prompt], "").await;
        assert_eq!((ran.code, ran.requests.len()), (Some(0), 1), "{prompt}: {}", ran.stderr);
    }
}

fn declared(request: &Value) -> Vec<&str> {
    let tools = request["tools"].as_array().into_iter().flatten();
    tools.map(|tool| tool["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn switches_switch() {
    let haft = Haft::new();
    let names = async |args: &[&str]| {
        let ran = play(&haft, vec![Turn::text("x")], &[&["-p", "go"], args].concat(), "").await;
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        ran.requests[0].clone()
    };
    assert_eq!(declared(&names(&["--bare"]).await), ["Bash", "Edit", "Read"]);
    assert_eq!(declared(&names(&["--tools", ""]).await), [""; 0]);
    assert_eq!(declared(&names(&["--tools", "Glob"]).await), ["Glob"]);
    assert!(!declared(&names(&["--disallowedTools", "ToolSearch"]).await).contains(&"ToolSearch"));
    let request = names(&["--settings", r#"{"effortLevel": "high", "alwaysThinkingEnabled": false}"#]).await;
    assert!(request.to_string().contains(r#""effort":"high""#), "{request}");
}

#[tokio::test]
async fn the_first_request_says_where_it_is() {
    let haft = Haft::new();
    let git = |args: &[&str]| {
        let mut command = std::process::Command::new("git");
        command.args(["-c", "user.name=n", "-c", "user.email=e@x"]).args(args).current_dir(haft.ws());
        assert!(command.env("HOME", haft.home()).output().unwrap().status.success(), "{args:?}");
    };
    git(&["init", "-q", "-b", "topic/one"]);
    haft.write("a.txt", "x\n");
    git(&["add", "a.txt"]);
    git(&["commit", "-qm", "Begin with a letter"]);
    haft.write("b.txt", "y\n");
    // A repository configured to run a program when git reads it.
    let trap = haft.dir.path().join("trapped");
    git(&["config", "core.fsmonitor", &format!("touch {}", trap.display())]);
    git(&["config", "filter.evil.clean", &format!("touch {}; cat", trap.display())]);
    haft.write(".git/info/attributes", "* filter=evil\n");
    haft.write("a.txt", "changed\n");
    // Reading the git state has a time limit; on a busy machine a session starts without it, so try
    // again.
    let begin = std::time::Instant::now();
    let ran = loop {
        let ran = play(&haft, vec![Turn::text("x")], &["-p", "what is this?"], "piped words\n").await;
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        let system = ran.requests[0]["system"].to_string();
        let is_told = system.contains("Branch: ") && system.contains("Newest commits");
        if is_told || 120 < begin.elapsed().as_secs() {
            break ran;
        }
    };
    let system = ran.requests[0]["system"].to_string();
    for want in [
        "Branch: topic/one",
        "M a.txt",
        "?? b.txt",
        "Begin with a letter",
        "Permission mode: default. Nobody can answer",
        "Sandbox: ",
        "Shell: bash",
        "Do not commit, push or publish unless you were asked to",
        "Keys, tokens and passwords",
    ] {
        assert!(system.contains(want), "{want}: {system}");
    }
    assert!(!system.contains("McpResource"), "{system}");
    assert!(!trap.exists(), "the repository ran something");
    let said = ran.requests[0]["messages"][0].to_string();
    assert!(said.contains("what is this?\\n\\n<stdin>\\npiped words\\n</stdin>"), "{said}");
    let tools = serde_json::to_string(&ran.requests[0]["tools"]).unwrap();
    assert!(!tools.contains(r"\n/"), "line breaks of the source");
    // Rarely used tools are loaded on demand.
    let names = declared(&ran.requests[0]);
    assert!(["Config", "NotebookEdit", "Sleep"].iter().all(|it| !names.contains(it)), "{names:?}");
}

#[tokio::test]
async fn large_results_can_be_read_back() {
    let haft = Haft::new();
    let print = "for i in $(seq 1 30000); do echo \"row $i of it\"; done";
    let reports = haft.reports(
        &["--permission-mode", "bypassPermissions"],
        &[json!({"name": "Bash", "input": {"command": print}})],
    );
    assert!(text(&reports[0]).contains("row 1 of it"));
    // One session without approver: a background command prints, then its output file is read by the
    // path that was reported.
    let mut child = haft.spawn(&["tool", "run", "--allowedTools", "Bash(for i in *)"]);
    let mut input = child.stdin.take().unwrap();
    let mut lines = std::io::BufReader::new(child.stdout.take().unwrap());
    let mut call = |line: Value| -> Value {
        use std::io::{BufRead as _, Write as _};
        writeln!(input, "{line}").unwrap();
        let mut answer = String::new();
        lines.read_line(&mut answer).unwrap();
        serde_json::from_str(&answer).unwrap()
    };
    let report = call(json!({"name": "Bash", "input": {"command": print}}));
    let path =
        report["data"]["persistedOutputPath"].as_str().unwrap_or_else(|| panic!("{report}")).to_owned();
    let read = call(json!({"name": "Read", "input": {"file_path": path, "offset": 29_999, "limit": 1}}));
    assert!(text(&read).contains("row 29999 of it"), "{read}");
    let found = call(
        json!({"name": "Grep", "input": {"pattern": "row 12345 ", "path": path, "output_mode": "content"}}),
    );
    assert!(text(&found).contains("row 12345 of it"), "{found}");
    // The output of other sessions in the same directory is not readable.
    let beside = haft.home().join(".haft/tasks/another-session/bash_1.out");
    std::fs::create_dir_all(beside.parent().unwrap()).unwrap();
    std::fs::write(&beside, "secret").unwrap();
    let other = call(json!({"name": "Read", "input": {"file_path": beside}}));
    assert_eq!(other["is_error"], true, "{other}");
    drop(input);
    child.wait().unwrap();
}

#[tokio::test]
async fn what_runs_in_the_background_is_never_ended_in_silence() {
    let haft = Haft::new();
    let start = vec![
        Turn::tool("Bash", json!({"command": "echo begun; sleep 600", "run_in_background": true})),
        Turn::text("started"),
    ];
    haft.write_home(".haft/settings.json", r#"{"env": {}}"#);
    let model = MockModel::start(Script::from_turns(start)).await.unwrap();
    let mut command = haft.async_command();
    command.args(["-p", "go", "--permission-mode", "bypassPermissions"]).stdin(Stdio::null());
    command.env("ANTHROPIC_BASE_URL", model.url()).env("IS_SANDBOX", "1");
    command.env("CLAUDE_CODE_PRINT_BG_WAIT_CEILING_MS", "5000");
    let output = command.output().await.unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(stderr.contains("waiting for what runs in the background"), "{stderr}");
    assert!(
        stderr.contains("ended with the session, in the background: bash_1 (echo begun; sleep 600)"),
        "{stderr}"
    );
    // A resumed session is told about the command and can read its output.
    let look =
        vec![Turn::tool("TaskOutput", json!({"task_id": "bash_1", "block": false})), Turn::text("seen")];
    let ran = play(&haft, look, &["-p", "what became of it?", "--continue"], "").await;
    let first = ran.requests[0]["messages"].to_string();
    assert!(first.contains("Background task bash_1 (echo begun; sleep 600) was ended"), "{first}");
    let second = ran.requests[1]["messages"].as_array().unwrap().last().unwrap().to_string();
    assert!(second.contains("begun") && second.contains("does not run any more"), "{second}");
}

#[tokio::test]
async fn sessions_go_on_by_the_names_they_are_shown_under() {
    let haft = Haft::new();
    play(&haft, vec![Turn::text("one")], &["-p", "remember the heron"], "").await;
    play(&haft, vec![Turn::text("two")], &["-p", "remember the otter"], "").await;
    let listed = haft.ok(&["sessions"], "");
    let heron = listed.lines().find(|it| it.contains("heron")).unwrap_or_else(|| panic!("{listed}"));
    let short = heron.split_whitespace().next().unwrap();
    haft.ok(&["sessions", "title", short, "Birds"], "");
    for name in [short, "birds", "Birds"] {
        let ran = play(&haft, vec![Turn::text("x")], &["-p", "go on", "--resume", name], "").await;
        assert_eq!(ran.code, Some(0), "{name}: {}", ran.stderr);
        assert!(ran.requests[0]["messages"].to_string().contains("heron"), "{name}");
    }
    let none = play(&haft, vec![Turn::text("x")], &["-p", "go on", "--resume", "cats"], "").await;
    assert_ne!(none.code, Some(0));
}

#[test]
fn a_diff_is_a_patch() {
    let haft = Haft::new();
    haft.write("crlf.txt", "one\r\ntwo\r\nthree");
    haft.write("gone.txt", "bye\n");
    let lines = [
        json!({"name": "Read", "input": {"file_path": "crlf.txt"}}),
        json!({"name": "Edit", "input": {"file_path": "crlf.txt", "old_string": "two", "new_string": "2"}}),
        json!({"name": "Write", "input": {"file_path": "sub/new file.txt", "content": "fresh\n"}}),
        json!({"name": "Bash", "input": {"command": "rm gone.txt; ln -s crlf.txt link"}}),
    ];
    haft.reports(&["--permission-mode", "bypassPermissions"], &lines);
    let state = || {
        let read = |name: &str| std::fs::read_to_string(haft.ws().join(name)).ok();
        ["crlf.txt", "gone.txt", "sub/new file.txt", "link"].map(read)
    };
    let after = state();
    let history = haft.ok(&["history", "--json"], "");
    let ids: Vec<String> = history
        .lines()
        .map(|it| serde_json::from_str::<Value>(it).unwrap()["id"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(ids.len(), 3, "{history}");
    let patches: Vec<String> = ids.iter().map(|id| haft.ok(&["diff", id], "")).collect();
    for (reverse, patches) in [(true, patches.clone()), (false, patches.into_iter().rev().collect())] {
        for patch in patches {
            std::fs::write(haft.dir.path().join("p"), &patch).unwrap();
            let mut command = std::process::Command::new("git");
            command.arg("apply").args(reverse.then_some("-R")).arg("../p").current_dir(haft.ws());
            let output = command.env("HOME", haft.home()).output().unwrap();
            assert!(output.status.success(), "{patch}\n{}", String::from_utf8_lossy(&output.stderr));
        }
    }
    assert_eq!(state(), after);
    let undone = haft.ok(&["undo", &ids[1]], "");
    assert!(undone.contains("removed ") && !undone.contains("restored"), "{undone}");
}

/// A long call reports progress, and the end of a call is reported at once, in the SDK's frames.
#[tokio::test]
async fn frames_tell_how_far_calls_are() {
    let haft = Haft::new();
    // Prints for long enough to be observed.
    let command = "for i in $(seq 1 25); do echo $i; sleep 0.1; done";
    let args = ["-p", "go", "--output-format", "stream-json", "--permission-mode", "bypassPermissions"];
    let ran = play(&haft, bash(command), &args, "").await;
    let frames: Vec<Value> = ran.stdout.lines().map(|it| serde_json::from_str(it).unwrap()).collect();
    let told: Vec<&Value> = frames.iter().filter(|it| it["type"] == "tool_progress").collect();
    assert!(!told.is_empty(), "{}", ran.stdout);
    assert_eq!(told[0]["tool_name"], "Bash");
    assert!(1.0 <= told[0]["elapsed_time_seconds"].as_f64().unwrap(), "{}", told[0]);
}

#[test]
fn all_that_a_command_prints_is_printed() {
    let haft = Haft::new();
    for (command, lines) in [("seq 1 777", 777), ("seq 1 60000", 60_000)] {
        let input = json!({"command": command}).to_string();
        let printed =
            haft.ok(&["tool", "call", "Bash", &input, "--permission-mode", "bypassPermissions"], "");
        assert_eq!(printed.lines().count(), lines, "{command}");
    }
    let denied = haft.run(&["tool", "call", "Bash", r#"{"command": "mkdir x"}"#], "");
    let said = String::from_utf8(denied.stdout).unwrap();
    assert!(said.contains("haft permissions allow") && !said.contains("Go on without it"), "{said}");
}

#[tokio::test]
async fn a_replay_ends_as_the_run_did() {
    let haft = Haft::new();
    let turns = || (0..3).map(|_| Turn::tool("Bash", json!({"command": "echo again"}))).collect::<Vec<_>>();
    let args = ["-p", "go", "--record", "tape", "--max-turns", "2"];
    let ran = play(&haft, turns(), &args, "").await;
    assert_eq!(ran.code, Some(4), "{}", ran.stderr);
    let denied = play(&haft, bash("mkdir x"), &["-p", "go", "--record", "denied"], "").await;
    assert_eq!(denied.code, Some(3));
    for (tape, code) in [("tape", 4), ("denied", 3)] {
        for format in ["text", "json", "stream-json"] {
            let output = haft.run(&["replay", tape, "--output-format", format], "");
            let (said, problem) = (
                String::from_utf8(output.stdout).unwrap(),
                String::from_utf8_lossy(&output.stderr).into_owned(),
            );
            assert_eq!(output.status.code(), Some(code), "{tape} {format}: {problem}");
            let last: Value = serde_json::from_str(said.lines().last().unwrap()).unwrap();
            if format != "text" {
                assert_eq!(last["type"], "result", "{said}");
            }
            if format == "json" {
                assert_eq!(said.lines().count(), 1, "{said}");
            }
        }
    }
}

#[tokio::test]
async fn the_mock_model_logs_what_it_refuses_and_what_follows() {
    let haft = Haft::new();
    haft.write("script.json", r#"{"turns": [{"times": "always", "reply": [{"text": "x"}]}]}"#);
    let mut server = haft.spawn(&["dev", "mock-model", "script.json", "--requests", "log.jsonl"]);
    let mut first = String::new();
    let mut out = std::io::BufReader::new(server.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut out, &mut first).unwrap();
    let address = first.trim().trim_start_matches("http://").to_owned();
    // Some clients probe first, or request without streaming.
    let ask = |head: &str| {
        use std::io::{Read as _, Write as _};
        let mut stream = std::net::TcpStream::connect(&address).unwrap();
        let request = format!("{head} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        stream.read_to_string(&mut String::new()).ok();
    };
    ask("HEAD /");
    ask("GET /v1/models");
    let send = |body: &str| {
        use std::io::{Read as _, Write as _};
        let mut stream = std::net::TcpStream::connect(&address).unwrap();
        let head = format!(
            "POST /v1/messages HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\nx-api-key: k\r\nanthropic-version: 2023-06-01\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
        stream.read_to_string(&mut String::new()).ok();
    };
    let good = r#"{"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "a"}]}"#;
    let bad = r#"{"model": "m", "max_tokens": 9, "messages": []}"#;
    for body in [good, bad, good] {
        send(body);
    }
    let log = haft.ws().join("log.jsonl");
    let lines = || std::fs::read_to_string(&log).unwrap_or_default().lines().count();
    crate::common::eventually("all requests are logged", || lines() == 5);
    server.kill().unwrap();
    server.wait().unwrap();
    let text = std::fs::read_to_string(&log).unwrap();
    let refused: Vec<bool> =
        text.lines().map(|it| serde_json::from_str::<Value>(it).unwrap()["refusal"].is_string()).collect();
    assert_eq!(refused, [false, false, false, true, false]);
}

/// No line of any help text is wider than the terminal.
#[test]
fn help_fits_narrow_terminals() {
    fn check(haft: &Haft, columns: usize, words: &[String]) -> usize {
        let mut command = haft.command();
        let output = command.args(words).arg("--help").env("COLUMNS", columns.to_string()).output().unwrap();
        assert!(output.status.success(), "{words:?}: {output:?}");
        let help = String::from_utf8(output.stdout).unwrap();
        for line in help.lines() {
            assert!(line.chars().count() <= columns, "{words:?} at {columns}: {line:?}");
        }
        // Collects the subcommands, listed in one list or in groups, and then their own subcommands.
        let mut is_list = false;
        let names = help.lines().filter(|line| {
            if !line.starts_with(' ') {
                is_list = line.to_lowercase().ends_with("commands:");
            }
            is_list && line.starts_with("  ") && !line.starts_with("   ")
        });
        let names = names.filter_map(|it| it.split_whitespace().next()).filter(|it| *it != "help");
        let below = names.map(|name| check(haft, columns, &[words, &[name.to_owned()]].concat()));
        1 + below.sum::<usize>()
    }
    let haft = Haft::new();
    assert!(80 < check(&haft, 40, &[]));
    for columns in [24, 60, 79] {
        check(&haft, columns, &["permissions".to_owned()]);
        check(&haft, columns, &["mcp".to_owned()]);
    }
}
