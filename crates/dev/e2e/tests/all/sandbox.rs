//! The sandbox through the real binary: settings, deny rules, plan mode, escapes, and messages on
//! machines with fewer features.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr, missing_docs, reason = "test code")]

use crate::common;
use haft_testkit::haft_binary;

use std::{os::unix::fs::symlink, path::Path, process::Command};

use common::{Haft, text};
use serde_json::{Value, json};

const CANARY: &str = "canary-4f1c9e";

/// Whether this machine supports the whole sandbox; prints a message if not.
fn machine_can(haft: &Haft) -> bool {
    let told: Value = serde_json::from_str(&haft.ok(&["sandbox", "check", "--json"], "")).unwrap_or_default();
    let complete = told["complete"] == true && told["backend"] == "namespaces";
    if !complete {
        eprintln!("SKIPPED: this machine does not enforce everything: {told}");
    }
    complete
}

fn settings(haft: &Haft, value: &Value) {
    haft.write_home(".haft/settings.json", &value.to_string());
}

fn bash(haft: &Haft, args: &[&str], command: &str) -> Value {
    haft.reports(args, &[json!({"id": "c", "name": "Bash", "input": {"command": command}})]).remove(0)
}

#[test]
fn check_says_what_is_enforced_and_how_it_was_found_out() {
    let haft = Haft::new();
    let shown = haft.ok(&["sandbox", "check"], "");
    assert!(shown.contains("The sandbox is off") && shown.contains("Found out just now"), "{shown}");
    settings(&haft, &json!({"sandbox": {"enabled": true}}));
    let without = |what: &str| {
        let mut command = Command::new(haft_binary());
        command.args(["sandbox", "check", "--json"]).current_dir(haft.ws()).env("HOME", haft.home());
        let done = command.env("HAFT_SANDBOX_WITHOUT", what).output().unwrap();
        serde_json::from_slice::<Value>(&done.stdout).unwrap()
    };
    let nothing = without("namespaces,landlock,bubblewrap");
    assert_eq!((&nothing["backend"], &nothing["complete"]), (&Value::Null, &json!(false)), "{nothing}");
    let landlock = without("namespaces,bubblewrap");
    if landlock["backend"] == "landlock" {
        let gaps = landlock["notEnforced"].to_string();
        assert!(gaps.contains("protected paths inside writable directories"), "{landlock}");
    }
}

#[test]
fn a_machine_that_cannot_confine_fails_closed_unless_told_otherwise() {
    let haft = Haft::new();
    let call = |value: Value| {
        settings(&haft, &json!({ "sandbox": value }));
        let mut command = Command::new(haft_binary());
        command.args(["tool", "call", "Bash", r#"{"command":"echo ran"}"#, "--json"]);
        command.current_dir(haft.ws()).env("HOME", haft.home());
        let done = command.env("HAFT_SANDBOX_WITHOUT", "namespaces,landlock,bubblewrap").output().unwrap();
        let report: Value = serde_json::from_slice(&done.stdout).unwrap();
        (report, String::from_utf8(done.stderr).unwrap())
    };
    for value in [json!({"enabled": true}), json!({"enabled": true, "failIfUnavailable": true})] {
        let (report, _) = call(value);
        assert_eq!(report["is_error"], true, "{report}");
        assert!(text(&report).contains("cannot be confined here"), "{report}");
    }
    let (report, said) = call(json!({"enabled": true, "failIfUnavailable": false}));
    assert_eq!(report["is_error"], false, "{report}");
    assert!(said.contains("commands run without a sandbox"), "{said}");
}

/// A command that runs without a prompt because it is read-only is confined to that. A command allowed
/// by a rule or a mode is not.
#[test]
fn what_only_reads_is_held_to_it() {
    let haft = Haft::new();
    haft.write("a", "alpha\n");
    let told: Value = serde_json::from_str(&haft.ok(&["sandbox", "check", "--json"], "")).unwrap();
    if told["readingHeld"] != true {
        eprintln!("SKIPPED: this machine does not hold what only reads: {told}");
        return;
    }
    let held = "haft-scratch-";
    let report = bash(&haft, &[], "printenv TMPDIR; cat a; git --version");
    assert!(text(&report).contains(held) && text(&report).contains("alpha"), "{report}");
    let report = bash(&haft, &["--permission-mode", "plan"], "printenv TMPDIR");
    assert!(text(&report).contains(held), "{report}");
    for args in [["--permission-mode", "bypassPermissions"], ["--allowedTools", "Bash(printenv *)"]] {
        let report = bash(&haft, &args, "printenv TMPDIR || echo none");
        assert!(!text(&report).contains(held), "{report}");
    }
    let without = |command: &str| {
        let mut haft_bash_analysis = Command::new(haft_binary());
        haft_bash_analysis.args(["tool", "call", "Bash", &json!({"command": command}).to_string(), "--json"]);
        haft_bash_analysis
            .current_dir(haft.ws())
            .env("HOME", haft.home())
            .env("HAFT_SANDBOX_WITHOUT", "landlock");
        serde_json::from_slice::<Value>(&haft_bash_analysis.output().unwrap().stdout).unwrap()
    };
    assert_eq!(without("cat a")["is_error"], false);
    assert_eq!(without("awk '{print}' a")["is_error"], true, "a weak belief asks where nothing holds it");
    assert_eq!(bash(&haft, &[], "awk '{print}' a")["is_error"], false);
}

#[test]
fn a_denied_path_stays_unread_whatever_reaches_for_it() {
    let haft = Haft::new();
    haft.write(".env", CANARY);
    haft.write("sub/.env", CANARY);
    haft.write("script.py", "import sys\nprint(open(sys.argv[1]).read())\n");
    std::fs::hard_link(haft.ws().join(".env"), haft.ws().join("hard")).unwrap();
    symlink(".env", haft.ws().join("soft")).unwrap();
    settings(&haft, &json!({"sandbox": {"enabled": true}, "permissions": {"deny": ["Read(**/.env)"]}}));
    if !machine_can(&haft) {
        return;
    }
    for command in [
        "cat .env",
        "f=.env; cat \"$f\"",
        "cat .e*",
        "cat soft hard",
        "grep -r canary .",
        "rg -uu '' .",
        "python3 script.py .env",
        "python3 -c \"print(open('.e'+'nv').read())\"",
        "python3 script.py sub/.env",
        "python3 script.py hard",
        "tar c . | strings",
        "cp .env copy; cat copy",
        "python3 -c \"import shutil; shutil.copy('.env','copy')\"; cat copy",
        "mv .env moved; cat moved",
        "ln .env again; cat again",
        "python3 -c \"import os; os.rename('sub','elsewhere')\"; cat elsewhere/.env",
        "cat /proc/self/root$PWD/.env",
        "cat /proc/1/root$PWD/.env",
        "unshare -Ur cat .env",
        "unshare -Urm sh -c 'umount .env; cat .env'",
        "find . -type f -exec cat {} +",
        "head -c 100 /dev/fd/3 3< .env",
        "dd if=.env",
    ] {
        let report = bash(&haft, &["--permission-mode", "bypassPermissions"], command);
        assert!(!report.to_string().contains(CANARY), "{command}: {report}");
    }
    assert_eq!(std::fs::read_to_string(haft.ws().join(".env")).unwrap(), CANARY);
    let told = bash(&haft, &["--permission-mode", "bypassPermissions"], "python3 script.py '.e'nv");
    let said = bash(&haft, &["--permission-mode", "bypassPermissions"], "python3 -c \"open('.e'+'nv')\"");
    assert!(
        text(&said).contains("blocked by sandbox: read") && text(&said).contains("Read(**/.env)"),
        "{said} {told}"
    );
    // The program's own error is not reported as a denial by the sandbox.
    let own = bash(&haft, &["--permission-mode", "bypassPermissions"], "cat nothing.txt");
    assert!(!text(&own).contains("blocked by sandbox"), "{own}");
}

#[test]
fn protected_paths_stay_as_they_are_also_when_absent() {
    let haft = Haft::new();
    let git = |args: &[&str]| {
        assert!(Command::new("git").args(args).current_dir(haft.ws()).status().unwrap().success())
    };
    git(&["init", "-q"]);
    haft.write("f", "x");
    settings(&haft, &json!({"sandbox": {"enabled": true}}));
    if !machine_can(&haft) {
        return;
    }
    let outside = haft.home().join("outside");
    std::fs::write(&outside, "mine").unwrap();
    symlink(&outside, haft.ws().join("out")).unwrap();
    for command in [
        "python3 -c \"open('.git/hooks/pre-commit','w').write('#!/bin/sh')\"",
        "python3 -c \"open('.git/config','a').write('[core]')\"",
        "python3 -c \"import os; os.makedirs('.claude',exist_ok=True); open('.claude/settings.json','w').write('{}')\"",
        "python3 -c \"open('.mcp.json','w').write('{}')\"",
        "python3 -c \"import os; os.mkdir('.haft'); open('.haft/settings.json','w').write('{}')\"",
        "python3 -c \"open('.npmrc','w').write('x')\"",
        "python3 -c \"open('.envrc','w').write('x')\"",
        "python3 -c \"import os; os.rename('.git','moved')\"",
        "python3 -c \"import os; os.symlink('/tmp','.vscode')\"",
    ] {
        bash(&haft, &["--permission-mode", "bypassPermissions"], command);
        for name in [
            ".git/hooks/pre-commit",
            ".claude/settings.json",
            ".mcp.json",
            ".haft",
            ".npmrc",
            ".envrc",
            ".vscode",
        ] {
            assert!(haft.ws().join(name).symlink_metadata().is_err(), "{name} after {command}");
        }
        assert!(
            !std::fs::read_to_string(haft.ws().join(".git/config")).unwrap().ends_with("[core]"),
            "{command}"
        );
    }
    // Normal work still succeeds.
    let commit = "git add f && git -c user.name=t -c user.email=t@t commit -qm x && git log --format=%s";
    assert!(text(&bash(&haft, &[], commit)).contains('x'), "{}", bash(&haft, &[], commit));
}

#[test]
fn plan_mode_is_enforced_and_inspection_works() {
    let haft = Haft::new();
    haft.write("f", "one\n");
    let git = |args: &[&str]| {
        assert!(Command::new("git").args(args).current_dir(haft.ws()).status().unwrap().success())
    };
    git(&["init", "-q"]);
    git(&["add", "f"]);
    git(&["-c", "user.name=t", "-c", "user.email=t@t", "commit", "-qm", "first"]);
    let before = listing(&haft.ws());
    for command in [
        "cat > f",
        "python3 -c \"open('f','w')\"",
        "git commit --amend -m x",
        "sed -i s/one/two/ f",
        "tee f < /dev/null",
        "touch g",
    ] {
        let report = bash(&haft, &["--permission-mode", "plan"], command);
        assert_eq!(report["is_error"], true, "{command}: {report}");
        assert!(text(&report).contains("plan"), "{command}: {report}");
    }
    for (command, want) in
        [("git log --format=%s | head", "first"), ("cat f", "one"), ("ls", "f"), ("grep -n one f", "1:one")]
    {
        let report = bash(&haft, &["--permission-mode", "plan"], command);
        assert!(report["is_error"] == false && text(&report).contains(want), "{command}: {report}");
    }
    assert_eq!(listing(&haft.ws()), before);
    if machine_can(&haft) {
        // The kernel blocks writes even for a command that was allowed by mistake.
        let tried = haft.run(
            &["sandbox", "run", "--permission-mode", "plan", "--", "sh", "-c", "echo x > f; echo y > new"],
            "",
        );
        assert!(!tried.status.success() && listing(&haft.ws()) == before, "{tried:?}");
        let scratch = haft.run(
            &[
                "sandbox",
                "run",
                "--permission-mode",
                "plan",
                "--",
                "sh",
                "-c",
                "echo ok > $TMPDIR/t && cat $TMPDIR/t",
            ],
            "",
        );
        assert_eq!(String::from_utf8_lossy(&scratch.stdout), "ok\n");
    }
}

#[test]
fn a_run_by_name_has_no_network_though_the_settings_want_no_sandbox() {
    let haft = Haft::new();
    if !machine_can(&haft) {
        return;
    }
    let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let reach = format!("exec 3<>/dev/tcp/127.0.0.1/{}", server.local_addr().unwrap().port());
    let tried = haft.run(&["sandbox", "run", "--", "bash", "-c", &reach], "");
    assert!(!tried.status.success(), "{tried:?}");
    assert!(haft.ok(&["sandbox", "check"], "").contains("no network"));
    settings(&haft, &json!({"sandbox": {"network": {"allowedDomains": ["*"]}}}));
    let open = haft.run(&["sandbox", "run", "--", "bash", "-c", &reach], "");
    assert!(open.status.success(), "{open:?}");
}

/// If managed settings allow only their own hosts, the user's allowed hosts do not count.
#[test]
fn only_hosts_of_the_organisation_are_reached_where_it_says_so() {
    let haft = Haft::new();
    if !machine_can(&haft) {
        return;
    }
    let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let reach = format!("exec 3<>/dev/tcp/127.0.0.1/{}", server.local_addr().unwrap().port());
    settings(&haft, &json!({"sandbox": {"network": {"allowedDomains": ["*"]}}}));
    for (managed, reached) in [
        (json!({}), true),
        (json!({"sandbox": {"network": {"allowManagedDomainsOnly": false}}}), true),
        (json!({"sandbox": {"network": {"allowManagedDomainsOnly": true}}}), false),
        (json!({"sandbox": {"network": {"allowManagedDomainsOnly": true, "allowedDomains": ["*"]}}}), true),
    ] {
        let managed = managed.to_string();
        let tried =
            haft.run(&["sandbox", "run", "--managed-settings", &managed, "--", "bash", "-c", &reach], "");
        assert_eq!(tried.status.success(), reached, "{managed}: {tried:?}");
    }
}

fn listing(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = std::fs::read_dir(dir).unwrap().flatten().filter(|it| it.path().is_file());
    let mut found: Vec<_> = entries
        .map(|it| (it.file_name().to_string_lossy().into_owned(), std::fs::read(it.path()).unwrap()))
        .collect();
    found.sort();
    found
}

#[test]
fn confined_commands_run_without_a_question_and_stay_inside() {
    let haft = Haft::new();
    settings(
        &haft,
        &json!({"sandbox": {"enabled": true, "excludedCommands": ["./outside.sh *"]},
        "permissions": {"deny": ["Bash(make *)"], "ask": ["Bash(git push *)"]}}),
    );
    if !machine_can(&haft) {
        return;
    }
    let elsewhere = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("elsewhere-{}", std::process::id()));
    std::fs::create_dir_all(&elsewhere).unwrap();
    let write = format!("python3 -c \"open('{}/f','w')\"", elsewhere.display());
    for (command, allowed) in [
        ("python3 -c \"open('made','w').write('x')\"", true),
        ("sh -c 'echo x > made2'", true),
        ("make all", false),
        ("git push origin main", false),
        ("./outside.sh x", false),
        ("cat ~/.ssh/id_rsa", false),
        ("rm -rf ~", false),
    ] {
        let report = bash(&haft, &[], command);
        assert_eq!(report["is_error"] == false, allowed, "{command}: {report}");
    }
    let report = bash(&haft, &[], &write);
    assert!(!elsewhere.join("f").exists() && text(&report).contains("blocked by sandbox: write"), "{report}");
    let asks = haft.reports(&[], &[json!({"id": "c", "name": "Bash", "input": {"command": "true", "dangerouslyDisableSandbox": true}})]);
    assert_eq!(asks[0]["is_error"], true, "{asks:?}");
    // A server started by one command can be reached by the next one, but not from outside.
    let serve = "python3 -c \"\nimport http.server,socketserver\ns=socketserver.TCPServer(('127.0.0.1',0),http.server.SimpleHTTPRequestHandler)\nopen('port','w').write(str(s.server_address[1]))\ns.serve_forever()\n\" > /dev/null 2>&1 &\nwhile [ ! -s port ]; do sleep 0.05; done";
    let fetch = "python3 -c \"import urllib.request; print(urllib.request.urlopen('http://127.0.0.1:'+open('port').read()).status)\"";
    let lines = [serve, fetch].map(|it| json!({"id": "c", "name": "Bash", "input": {"command": it}}));
    let reports = haft.reports(&[], &lines);
    assert!(text(&reports[1]).contains("200"), "{reports:?}");
    std::fs::remove_dir_all(elsewhere).ok();
}

#[test]
fn our_keys_never_reach_a_command() {
    let haft = Haft::new();
    settings(
        &haft,
        &json!({"env": {"MINE": "seen", "ANTHROPIC_AUTH_TOKEN": CANARY, "HAFT_ENV_HIDE": "SECRET_*"}}),
    );
    let mut command = Command::new(haft_binary());
    let script =
        "env; cat /proc/$PPID/environ | tr '\\0' '\\n'; cat /proc/self/environ | tr '\\0' '\\n'; true";
    let input = json!({ "command": script }).to_string();
    command.args(["tool", "call", "Bash", &input, "--json", "--permission-mode", "bypassPermissions"]);
    command.current_dir(haft.ws()).env("HOME", haft.home());
    for name in [
        "ANTHROPIC_API_KEY",
        "HAFT_GATEWAY_TOKEN",
        "CLAUDE_CODE_OAUTH_TOKEN",
        "OPENAI_API_KEY",
        "SECRET_THING",
    ] {
        command.env(name, CANARY);
    }
    let done = command.output().unwrap();
    let shown = String::from_utf8_lossy(&done.stdout);
    assert!(shown.contains("MINE=seen"), "{shown}");
    let leaks: Vec<&str> = shown.split("\\n").filter(|line| line.contains(CANARY)).collect();
    // A variable hidden by the user's setting is not one of Haft's keys, and stays in Haft's own
    // environment.
    assert!(leaks.iter().all(|line| line.starts_with("SECRET_THING")), "{leaks:?}");
}

#[test]
fn paths_of_the_settings_hold_also_as_patterns_and_with_exceptions() {
    let haft = Haft::new();
    for (name, content) in [
        ("keys/one.pem", CANARY),
        ("deep/er/two.pem", CANARY),
        ("secrets/private/x", CANARY),
        ("secrets/y", CANARY),
        ("secrets/public/z", "readable"),
        ("locked/f", "stays"),
        ("a.lock", "stays"),
    ] {
        haft.write(name, content);
    }
    let extra = haft.home().join("extra");
    std::fs::create_dir_all(&extra).unwrap();
    let ws = haft.ws().canonicalize().unwrap().display().to_string();
    let filesystem = json!({
        "denyRead": [format!("/{ws}/**/*.pem"), format!("/{ws}/secrets")],
        "allowRead": [format!("/{ws}/secrets/public")],
        "denyWrite": [format!("/{ws}/locked/**"), format!("/{ws}/*.lock")],
        "allowWrite": ["~/extra"],
    });
    settings(&haft, &json!({"sandbox": {"enabled": true, "filesystem": filesystem}}));
    if !machine_can(&haft) {
        return;
    }
    let run =
        |command: &str| text(&bash(&haft, &["--permission-mode", "bypassPermissions"], command)).to_owned();
    let said = run("cat keys/one.pem deep/er/two.pem secrets/private/x secrets/y; grep -r canary .; true");
    assert!(!said.contains(CANARY), "{said}");
    assert!(run("cat secrets/public/z").contains("readable"), "{}", run("cat secrets/public/z"));
    run("echo x > locked/f; echo x > locked/new; echo x > a.lock; rm -f a.lock locked/f; mv locked l2");
    let read = |name: &str| std::fs::read_to_string(haft.ws().join(name)).ok();
    let stays = || Some(String::from("stays"));
    assert_eq!((read("locked/f"), read("a.lock"), read("locked/new")), (stays(), stays(), None));
    run(&format!("echo x > {}/made", extra.display()));
    assert!(extra.join("made").exists());
}

#[test]
fn only_sockets_of_the_list_are_reached() {
    use std::os::unix::net::UnixListener;
    let haft = Haft::new();
    let (allowed, denied) = (haft.home().join("a.sock"), haft.home().join("d.sock"));
    let _listeners = [&allowed, &denied].map(|path| UnixListener::bind(path).unwrap());
    let connect = |path: &Path| {
        let code = format!(
            "import socket; socket.socket(socket.AF_UNIX).connect('{}'); print('REACHED')",
            path.display()
        );
        let command = format!("python3 -c \"{code}\"");
        text(&bash(&haft, &["--permission-mode", "bypassPermissions"], &command)).contains("REACHED\n")
    };
    settings(&haft, &json!({"sandbox": {"enabled": true}}));
    if !machine_can(&haft) {
        return;
    }
    assert!(!connect(&allowed) && !connect(&denied), "none without a list");
    let network = json!({"allowUnixSockets": ["~/a.sock"]});
    settings(&haft, &json!({"sandbox": {"enabled": true, "network": network}}));
    assert!(connect(&allowed) && !connect(&denied));
    let network = json!({"allowAllUnixSockets": true});
    settings(&haft, &json!({"sandbox": {"enabled": true, "network": network}}));
    assert!(connect(&allowed) && connect(&denied));
}
