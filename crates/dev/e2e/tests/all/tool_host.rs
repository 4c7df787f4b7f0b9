//! Sessions with files and commands on a remote host: two homes, and a fake `ssh` that starts the remote
//! side with a clean environment.
#![allow(clippy::unwrap_used, missing_docs, reason = "test code")]

use std::{
    os::unix::fs::PermissionsExt as _,
    path::PathBuf,
    process::{Output, Stdio},
    time::Duration,
};

use haft_testkit::{MockModel, Script, haft_binary};
use serde_json::{Value, json};

use crate::common::{Haft, eventually};

/// A local and a remote machine, and the connection between them.
struct Machines {
    near: Haft,
    far: Haft,
}

impl Machines {
    fn new() -> Self {
        let machines = Self { near: Haft::new(), far: Haft::new() };
        let program = PathBuf::from(haft_binary());
        let (home, bin) = (machines.far.home(), program.parent().unwrap().to_owned());
        // Writes its pid, so that a test can cut the connection by killing it.
        let script = format!(
            "#!/bin/sh\necho $$ >> {pids}\nwhile [ \"$1\" != -- ]; do shift; done\nshift; shift\ncd {home}\n\
             exec env -i HOME={home} PATH={bin}:$PATH HAFT_TOOL_HOST_IDLE=5 sh -c \"exec $1\"\n",
            pids = machines.pids().display(),
            home = home.display(),
            bin = bin.display(),
        );
        std::fs::write(machines.ssh(), script).unwrap();
        std::fs::set_permissions(machines.ssh(), std::fs::Permissions::from_mode(0o755)).unwrap();
        machines
    }

    fn ssh(&self) -> PathBuf {
        self.near.dir.path().join("ssh")
    }

    fn pids(&self) -> PathBuf {
        self.near.dir.path().join("pids")
    }

    fn address(&self, name: &str) -> String {
        format!("{name}=ssh://box{}", self.far.ws().display())
    }

    /// Settings of the remote machine's user.
    fn far_settings(&self, settings: &Value) {
        self.far.write_home(".haft/settings.json", &settings.to_string());
    }

    fn command(&self, args: &[&str]) -> tokio::process::Command {
        let mut command = self.near.async_command();
        command.args(args).args(["--host", &self.address("b1")]).env("HAFT_SSH", self.ssh());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        command
    }

    async fn run(&self, args: &[&str]) -> (Option<i32>, String, String) {
        texts(self.command(args).output().await.unwrap())
    }

    /// Closes the current connection.
    fn cut(&self) {
        let pids = std::fs::read_to_string(self.pids()).unwrap_or_default();
        if let Some(pid) =
            pids.lines().last().and_then(|it| it.parse().ok()).and_then(rustix::process::Pid::from_raw)
        {
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).ok();
        }
    }

    fn connections(&self) -> usize {
        std::fs::read_to_string(self.pids()).unwrap_or_default().lines().count()
    }

    fn far_file(&self, name: &str) -> String {
        std::fs::read_to_string(self.far.ws().join(name)).unwrap_or_default()
    }
}

impl Drop for Machines {
    fn drop(&mut self) {
        self.far.run(&["tool-host", "--stop"], "");
    }
}

fn texts(output: Output) -> (Option<i32>, String, String) {
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn all_allowed() -> Value {
    json!({"permissions": {"allow": ["Bash", "Edit", "Write", "Read"]}})
}

async fn model(turns: Value) -> MockModel {
    let script: Script = serde_json::from_value(json!({"turns": turns, "strict": false})).unwrap();
    MockModel::start(script).await.unwrap()
}

fn tool(name: &str, input: &Value) -> Value {
    json!({"reply": [{"tool": {"name": name, "input": input}}]})
}

#[tokio::test]
async fn a_model_works_over_there_and_is_told_so() {
    let machines = Machines::new();
    machines.far_settings(&all_allowed());
    machines.far.write("a.txt", "one\n");
    machines.far.write(".git/HEAD", "ref: refs/heads/main\n");
    machines.near.write("a.txt", "near\n");
    let model = model(json!([
        tool("Read", &json!({"file_path": "a.txt"})),
        tool("Edit", &json!({"file_path": "a.txt", "old_string": "one", "new_string": "two"})),
        tool("Bash", &json!({"command": "mkdir sub; cd sub; pwd; echo $HOME; echo \"[$SECRET]\""})),
        tool("Bash", &json!({"command": "pwd"})),
        {"reply": [{"text": "done"}]},
    ]))
    .await;
    let mut command = machines.command(&["-p", "go", "--allowedTools", "Bash,Edit"]);
    command.env("ANTHROPIC_BASE_URL", model.url()).env("SECRET", "of the near side");
    let (code, stdout, stderr) = texts(command.output().await.unwrap());
    assert_eq!((code, stdout.as_str()), (Some(0), "done\n"), "{stderr}");
    assert_eq!(machines.far_file("a.txt"), "two\n");
    assert_eq!(std::fs::read_to_string(machines.near.ws().join("a.txt")).unwrap(), "near\n");
    let requests = model.requests();
    let far = machines.far.ws().display().to_string();
    let system = requests[0].json()["system"].to_string();
    assert!(system.contains(&format!("Working directory: {far}")), "{system}");
    assert!(system.contains("the tool host b1") && system.contains("Git repository: yes"), "{system}");
    assert!(!system.contains(&machines.near.ws().display().to_string()), "{system}");
    let last = requests.last().unwrap().json()["messages"].to_string();
    let home = machines.far.home().display().to_string();
    assert!(last.contains(&format!("{far}/sub")) && last.contains(&home), "{last}");
    assert!(!last.contains("of the near side"), "{last}");
    // A command starts in the directory where the previous one ended.
    let pwd = format!("\"text\":\"{far}/sub");
    assert_eq!(last.matches(&pwd).count(), 2, "{last}");
    // A change is undone on the host where it was made.
    let (code, out, err) = machines.run(&["history", "--json"]).await;
    assert_eq!(code, Some(0), "{err}");
    assert!(out.contains("Edit") && out.contains("a.txt"), "{out}");
    let edit =
        out.lines().map(|it| serde_json::from_str::<Value>(it).unwrap()).find(|it| it["tool"] == "Edit");
    let id = edit.unwrap()["id"].as_str().unwrap().to_owned();
    let (code, _, err) = machines.run(&["undo", &id]).await;
    assert_eq!((code, machines.far_file("a.txt").as_str()), (Some(0), "one\n"), "{err}");
}

#[tokio::test]
async fn what_the_host_denies_is_denied_with_its_rule() {
    let machines = Machines::new();
    machines.far_settings(
        &json!({"permissions": {"allow": ["Bash"], "deny": ["Bash(rm *)", "Read(secret.txt)"]}}),
    );
    machines.far.write("secret.txt", "hidden-4711\n");
    for (name, input, rule) in [
        ("Bash", json!({"command": "rm -f secret.txt"}), "Bash(rm *)"),
        ("Read", json!({"file_path": "secret.txt"}), "Read(secret.txt)"),
        ("Write", json!({"file_path": "new.txt", "content": "x"}), "nobody is there to ask"),
    ] {
        let args = [
            "tool",
            "call",
            name,
            &input.to_string(),
            "--permission-mode",
            "acceptEdits",
            "--allowedTools",
            "Bash",
        ];
        let (code, out, err) = machines.run(&args).await;
        assert_eq!(code, Some(1), "{out}{err}");
        let all = format!("{out}{err}");
        assert!(all.contains("The rules of host b1 decided") && all.contains(rule), "{all}");
        assert!(!all.contains("hidden-4711"), "{all}");
    }
    assert_eq!(machines.far_file("secret.txt"), "hidden-4711\n");
    assert!(!machines.far.ws().join("new.txt").exists());
    // A call denied locally is not sent to the host.
    let before = machines.connections();
    let args = ["tool", "call", "Bash", r#"{"command": "touch here"}"#, "--disallowedTools", "Bash(touch *)"];
    let (code, out, err) = machines.run(&args).await;
    assert_eq!(code, Some(1));
    assert!(!format!("{out}{err}").contains("rules of host"), "{out}{err}");
    assert!(!machines.far.ws().join("here").exists() && before < machines.connections());
}

#[tokio::test]
async fn a_connection_that_is_cut_five_times_costs_nothing() {
    let machines = Machines::new();
    machines.far_settings(&all_allowed());
    let line = "echo begin >> log; for i in 1 2 3 4 5 6; do echo part $i; while [ ! -e go$i ]; do sleep 0.02; done; \
                done; echo end >> log; seq 1 3000";
    let input = json!({"command": line, "timeout": 600_000}).to_string();
    let child =
        machines.command(&["tool", "call", "Bash", &input, "--allowedTools", "Bash", "--json"]).spawn();
    let child = child.unwrap();
    let waited = tokio::task::spawn_blocking(move || {
        eventually("it begins", || machines.far_file("log") == "begin\n");
        for round in 1..=6 {
            let before = machines.connections();
            if round < 6 {
                machines.cut();
                eventually("it is connected again", || before < machines.connections());
            }
            machines.far.write(&format!("go{round}"), "");
        }
        machines
    });
    let (code, out, err) = texts(child.wait_with_output().await.unwrap());
    let machines = waited.await.unwrap();
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(5 < machines.connections());
    assert_eq!(machines.far_file("log"), "begin\nend\n");
    let report: Value = serde_json::from_str(out.lines().last().unwrap()).unwrap();
    let text = report["content"][0]["text"].as_str().unwrap();
    assert!(text.starts_with("part 1\npart 2") && text.contains("3000"), "{text}");
}

#[tokio::test]
async fn a_killed_caller_comes_back_to_the_same_command() {
    let machines = Machines::new();
    machines.far_settings(&all_allowed());
    let line = "echo begin >> log; while [ ! -e go ]; do sleep 0.02; done; echo end >> log; echo result-4711";
    let model = model(json!([
        tool("Bash", &json!({"command": line, "timeout": 600_000})),
        {"when": {"last_user": "go on"}, "times": "always", "reply": [{"text": "done"}]},
        {"times": "always", "reply": [{"text": "done"}]},
    ]))
    .await;
    let mut first = machines.command(&["-p", "start", "--allowedTools", "Bash"]);
    let mut first = first.env("ANTHROPIC_BASE_URL", model.url()).spawn().unwrap();
    while machines.far_file("log").is_empty() {
        assert!(first.try_wait().unwrap().is_none(), "it ended too early");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    first.kill().await.unwrap();
    // Bash is not allowed this time: the call was allowed before and already runs, so only its result is
    // fetched.
    let before = machines.connections();
    let mut second = machines.command(&["-p", "go on", "--continue"]);
    let second = second.env("ANTHROPIC_BASE_URL", model.url()).spawn().unwrap();
    while machines.connections() <= before {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    machines.far.write("go", "");
    let (code, out, err) = texts(second.wait_with_output().await.unwrap());
    assert_eq!((code, out.as_str()), (Some(0), "done\n"), "{err}");
    assert_eq!(machines.far_file("log"), "begin\nend\n");
    let last = model.requests().last().unwrap().json()["messages"].clone();
    let results: Vec<Value> = last
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|it| it["content"].as_array().cloned().unwrap_or_default())
        .filter(|it| it["type"] == "tool_result")
        .collect();
    assert_eq!(results.len(), 1, "{last}");
    assert!(results[0].to_string().contains("result-4711"), "{}", results[0]);
    assert_ne!(results[0]["is_error"], json!(true));
    assert_eq!(model.refusals(), [""; 0]);
}

#[tokio::test]
async fn background_commands_are_over_there_and_their_end_is_told() {
    let machines = Machines::new();
    machines.far_settings(&all_allowed());
    let line = "while [ ! -e go ]; do sleep 0.02; done; echo over-4711; touch was";
    let model = model(json!([
        tool("Bash", &json!({"command": line, "run_in_background": true})),
        {"reply": [{"text": "started"}]},
        {"times": "always", "reply": [{"text": "heard"}]},
    ]))
    .await;
    let mut child = machines.command(&["-p", "start", "--allowedTools", "Bash"]);
    let child = child.env("ANTHROPIC_BASE_URL", model.url()).spawn().unwrap();
    let begun = std::time::Instant::now();
    while model.count() < 2 {
        assert!(begun.elapsed() < Duration::from_secs(120), "the command did not go into the background");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    machines.cut();
    machines.far.write("go", "");
    let (code, out, err) = texts(child.wait_with_output().await.unwrap());
    assert_eq!((code, out.as_str()), (Some(0), "heard\n"), "{err}");
    assert!(machines.far.ws().join("was").exists());
    let last = model.requests().last().unwrap().json()["messages"].to_string();
    assert!(last.contains("On host b1:") && last.contains("over-4711"), "{last}");
}

#[tokio::test]
async fn hosts_at_an_address_and_several_of_them() {
    let machines = Machines::new();
    machines.far_settings(&all_allowed());
    let mut server = machines.far.async_command();
    machines.far.write("web/there", "");
    server.args(["tool-host", "--http", "127.0.0.1:0", "--allowedTools", "Bash", "--cwd", "web"]);
    let mut server = server.stderr(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
    let mut lines =
        tokio::io::AsyncBufReadExt::lines(tokio::io::BufReader::new(server.stderr.take().unwrap()));
    let first = lines.next_line().await.unwrap().unwrap();
    let url = first.split(" at ").last().unwrap().to_owned();
    let second = lines.next_line().await.unwrap().unwrap();
    let token = std::fs::read_to_string(second.split(" is in ").last().unwrap()).unwrap();
    let call = |token: &str, host: &str| {
        let mut command = machines.near.async_command();
        command.args([
            "tool",
            "call",
            "Bash",
            "--json",
            &json!({"command": "pwd", "host": host}).to_string(),
        ]);
        command.args([
            "--allowedTools",
            "Bash",
            "--host",
            &machines.address("b1"),
            "--host",
            &format!("web={url}"),
        ]);
        command.env("HAFT_SSH", machines.ssh()).env("HAFT_HOST_TOKEN", token.trim());
        command
    };
    let far = machines.far.ws().display().to_string();
    for host in ["b1", "web"] {
        let (code, out, err) = texts(call(&token, host).output().await.unwrap());
        assert_eq!(code, Some(0), "{out}{err}");
        let dir = if host == "web" { format!("{far}/web") } else { far.clone() };
        let report: Value = serde_json::from_str(out.lines().last().unwrap()).unwrap();
        assert_eq!(report["content"][0]["text"], format!("[host {host}]"), "{out}{err}");
        assert_eq!(report["data"]["stdout"], dir, "{out}{err}");
    }
    let (code, out, err) = texts(call("wrong", "web").output().await.unwrap());
    assert_eq!(code, Some(1), "{out}{err}");
    assert!(format!("{out}{err}").contains("does not take the token"), "{out}{err}");
    let (code, out, err) = texts(call("wrong", "b1").output().await.unwrap());
    assert_eq!(code, Some(0), "{out}{err}");
}

#[test]
fn where_hosts_make_no_sense_they_are_refused_with_a_reason() {
    let haft = Haft::new();
    let check = |args: &[&str], want: &str| {
        let output = haft.run(args, "");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.contains(want), "{args:?}: {said}");
    };
    check(&["mcp", "serve", "--host", "a=ssh://x/"], "start it over there");
    check(&["tool-host", "--host", "a=ssh://x/"], "its own machine");
    check(&["doctor", "--host", "a=ssh://x/"], "nothing to do on another machine");
    check(&["rewind", "--host", "a=ssh://x/"], "the record of changes is on the host");
    check(&["tool", "call", "LS", "{}", "--host", "a=http://example.com/"], "read on the way");
    check(&["tool", "call", "LS", "{}", "--host", "somewhere"], "the settings know no host somewhere");
    check(
        &[
            "tool",
            "call",
            "LS",
            "{}",
            "--host",
            "a=ssh://x/",
            "--settings",
            "{\"hosts\": {\"a\": {\"ssh\": \"/no/ssh\"}}}",
        ],
        "host a (ssh://x/~) cannot be reached: /no/ssh cannot be started",
    );
    // A project cannot choose a host.
    haft.write(".haft/settings.json", r#"{"host": "evil", "hosts": {"evil": "ssh://evil/"}}"#);
    let output = haft.run(&["tool", "call", "LS", "{}", "--host", "evil"], "");
    assert!(String::from_utf8_lossy(&output.stderr).contains("know no host evil"));
}
