//! doctor, login, init, models, update, bug: the first hour with Haft.

use std::{
    os::unix::fs::PermissionsExt as _,
    process::{Output, Stdio},
};

use crate::common::Haft;
use haft_testkit::{Form, MockModel, Script, Turn};
use serde_json::{Value, json};

fn run_with(haft: &Haft, args: &[&str], env: &[(&str, &str)], stdin: &str) -> Output {
    use std::io::Write as _;
    let mut command = haft.command();
    command.args(args).env("HAFT_LOCAL_PATIENCE_MS", "20000").envs(env.iter().copied());
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(stdin.as_bytes()).ok();
    child.wait_with_output().unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn doctor(haft: &Haft, env: &[(&str, &str)]) -> (Option<i32>, Value) {
    let output = run_with(haft, &["doctor", "--json"], env, "");
    let report = serde_json::from_str(&out(&output)).unwrap_or_else(|_| panic!("{}", err(&output)));
    (output.status.code(), report)
}

fn check<'a>(report: &'a Value, name: &str) -> &'a Value {
    let checks = report["checks"].as_array().unwrap();
    checks.iter().find(|it| it["name"] == name).unwrap_or_else(|| panic!("no {name}: {report}"))
}

#[test]
fn every_line_of_doctor_that_is_not_well_says_what_to_do() {
    let haft = Haft::new();
    let (code, report) = doctor(&haft, &[]);
    assert_eq!((code, &report["ok"]), (Some(1), &json!(false)));
    assert_eq!(check(&report, "key")["health"], "fail");
    assert!(check(&report, "key")["do"].as_str().unwrap().contains("haft login"));
    for it in report["checks"].as_array().unwrap() {
        let is_told = !it["do"].as_str().unwrap().is_empty();
        assert_eq!(is_told, it["health"] != "ok", "{it}");
    }
    // Nothing stays behind but what the sandbox keeps for itself.
    let left = std::fs::read_dir(haft.home().join(".haft")).into_iter().flatten().flatten();
    assert!(left.into_iter().all(|it| it.file_name() == "sandbox"));
    // The same for people.
    let text = out(&haft.run(&["doctor"], ""));
    assert!(text.contains("✗  key") && text.contains("→ `haft login`"), "{text}");
    // With a key it works.
    let (code, report) = doctor(&haft, &[("ANTHROPIC_API_KEY", "sk-secret")]);
    assert_eq!(code, Some(0), "{report}");
    assert!(!report.to_string().contains("sk-secret"));
}

#[test]
fn doctor_finds_what_is_wrong() {
    let key = ("GEMINI_API_KEY", "k");
    // Settings that cannot be read, servers whose program is missing, prompts nobody runs.
    let haft = Haft::new();
    haft.write_home(".haft/settings.json", "{\"model\": ");
    haft.write_home(".haft/mcp.json", r#"{"mcpServers": {"x": {"command": "no-such-program-here"}}}"#);
    let (code, report) = doctor(&haft, &[key]);
    assert_eq!(code, Some(1));
    assert!(check(&report, "settings")["found"].as_str().unwrap().contains("settings.json"), "{report}");
    assert!(check(&report, "key")["found"].as_str().unwrap().starts_with("Gemini at"), "{report}");
    let mcp = check(&report, "mcp");
    assert!(mcp["found"].as_str().unwrap().contains("no-such-program-here"), "{mcp}");
    // Without programs.
    let (_, report) = doctor(&haft, &[key, ("PATH", "/nowhere")]);
    assert_eq!(check(&report, "shell")["health"], "fail");
    assert_eq!(check(&report, "git")["health"], "warn");
    // Others may write into our directory.
    let open = Haft::new();
    std::fs::create_dir(open.home().join(".haft")).unwrap();
    std::fs::set_permissions(open.home().join(".haft"), std::fs::Permissions::from_mode(0o777)).unwrap();
    let (code, report) = doctor(&open, &[key]);
    assert_eq!(code, Some(1));
    assert!(check(&report, "home")["do"].as_str().unwrap().starts_with("chmod go-w"), "{report}");
    // No home at all is no reason to fail.
    let homeless = Haft::new();
    let mut command = homeless.command();
    let output =
        command.env_remove("HOME").env("GEMINI_API_KEY", "k").args(["doctor", "--json"]).output().unwrap();
    let report: Value = serde_json::from_str(&out(&output)).unwrap();
    assert_eq!(
        (output.status.code(), &check(&report, "home")["health"]),
        (Some(0), &json!("warn")),
        "{report}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_reaches_out_only_when_asked_and_without_a_key() {
    let model = MockModel::start(Script::default()).await.unwrap();
    let url = model.url();
    let env =
        [("ANTHROPIC_BASE_URL", url.as_str()), ("ANTHROPIC_API_KEY", "sk-secret"), ("OLLAMA_HOST", &url)];
    let haft = Haft::new();
    assert_eq!(doctor(&haft, &env).0, Some(0));
    assert_eq!(model.count(), 0);
    let output = run_with(&haft, &["doctor", "--online", "--json"], &env, "");
    let report: Value = serde_json::from_str(&out(&output)).unwrap();
    assert!(check(&report, "provider")["found"].as_str().unwrap().contains("answers"), "{report}");
    assert!(check(&report, "local")["found"].as_str().unwrap().starts_with("ollama at"), "{report}");
    for request in model.requests() {
        assert!(!format!("{:?}", request.headers).contains("sk-secret"));
    }
    let dead = [("ANTHROPIC_BASE_URL", "http://127.0.0.1:1"), ("ANTHROPIC_API_KEY", "k")];
    let output = run_with(&haft, &["doctor", "--online", "--json"], &dead, "");
    assert_eq!(output.status.code(), Some(1), "{}", out(&output));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_kept_used_and_forgotten() {
    let haft = Haft::new();
    let said = out(&run_with(&haft, &["login", "gemini"], &[], "AIza-secret\n"));
    let file = haft.home().join(".haft/credentials.json");
    assert!(said.contains("credentials.json") && !said.contains("AIza-secret"), "{said}");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(std::fs::metadata(haft.home().join(".haft")).unwrap().permissions().mode() & 0o777, 0o700);
    // Whoever is logged in answers when nobody is named.
    let (code, report) = doctor(&haft, &[]);
    assert_eq!(code, Some(0), "{report}");
    assert!(check(&report, "key")["found"].as_str().unwrap().starts_with("Gemini at"), "{report}");
    // A key that is kept does not go to an address that somebody names.
    let script = Script { api_key: Some("sk-own".to_owned()), ..Script::of([Turn::text("hi")]) };
    let model = MockModel::start(script).await.unwrap();
    let url = model.url();
    let asked = ["-p", "go", "--provider", "gemini", "--base-url", &url];
    let refused = run_with(&haft, &asked, &[], "");
    assert!(!refused.status.success());
    assert!(model.requests().iter().all(|it| !format!("{:?}", it.headers).contains("AIza")));
    // What its own variable says does.
    let answered = run_with(&haft, &asked, &[("GEMINI_API_KEY", "sk-own")], "");
    assert_eq!(out(&answered).trim(), "hi", "{}", err(&answered));
    assert_eq!(model.requests().last().unwrap().form, Some(Form::Gemini));
    // A second login stays beside the first.
    haft.ok(&["login", "openai"], "sk-two");
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.contains("AIza-secret") && text.contains("\"default\": \"openai\""), "{text}");
    assert!(haft.ok(&["logout", "openai"], "").contains("openai"));
    assert!(haft.ok(&["logout"], "").contains("gemini"));
    assert!(!file.exists());
    assert!(haft.ok(&["logout"], "").contains("no key"));
    for (input, why) in
        [("", "no key was given"), ("  \n", "no key was given"), ("two words", "more than one word")]
    {
        let output = run_with(&haft, &["login"], &[], input);
        assert_eq!(output.status.code(), Some(2), "{input:?}");
        assert!(err(&output).contains(why) && !err(&output).contains("words\n"), "{}", err(&output));
    }
    assert!(!file.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_can_be_tried_before_it_is_kept() {
    let script = Script { api_key: Some("sk-right".to_owned()), ..Script::default() };
    let model = MockModel::start(script).await.unwrap();
    let url = model.url();
    for (provider, variable, right) in [
        ("anthropic", "ANTHROPIC_BASE_URL", true),
        ("openai", "OPENAI_BASE_URL", true),
        ("openai", "OPENAI_BASE_URL", false),
    ] {
        let haft = Haft::new();
        let key = if right { "sk-right" } else { "sk-wrong" };
        let output = run_with(&haft, &["login", provider, "--check"], &[(variable, &url)], key);
        assert_eq!(output.status.success(), right, "{}", err(&output));
        assert_eq!(haft.home().join(".haft/credentials.json").exists(), right);
        assert!(!err(&output).contains("sk-wrong"));
    }
}

#[test]
fn a_keyring_holds_the_key_where_there_is_one() {
    let haft = Haft::new();
    // A keyring that keeps what it is given in a file.
    let bin = haft.home().join("bin");
    std::fs::create_dir(&bin).unwrap();
    let tool = bin.join("secret-tool");
    let text = "#!/bin/sh\ncase $1 in\nstore) cat > \"$HOME/ring\";;\nlookup) cat \"$HOME/ring\";;\nclear) rm \"$HOME/ring\";;\nesac\n";
    std::fs::write(&tool, text).unwrap();
    std::fs::set_permissions(&tool, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let env = [("PATH", path.as_str()), ("DBUS_SESSION_BUS_ADDRESS", "unix:path=/x")];
    let said = out(&run_with(&haft, &["login"], &env, "sk-ring"));
    assert!(said.contains("the keyring"), "{said}");
    let kept = std::fs::read_to_string(haft.home().join(".haft/credentials.json")).unwrap();
    assert!(!kept.contains("sk-ring") && kept.contains("secret-tool lookup"), "{kept}");
    let output = run_with(&haft, &["doctor", "--json"], &env, "");
    assert!(out(&output).contains("a command that prints the key"), "{}", out(&output));
    run_with(&haft, &["logout"], &env, "");
    assert!(!haft.home().join("ring").exists());
    // One that does not work is not relied on.
    std::fs::write(&tool, "#!/bin/sh\nexit 1\n").unwrap();
    let output = run_with(&haft, &["login"], &env, "sk-file");
    assert!(
        out(&output).contains("credentials.json") && err(&output).contains("keyring"),
        "{}",
        err(&output)
    );
}

#[test]
fn init_shows_asks_and_never_overwrites() {
    let haft = Haft::new();
    haft.write("Cargo.toml", "[package]\nname = \"x\"\n");
    haft.write("src/lib.rs", "");
    haft.write("package.json", r#"{"scripts": {"test": "x", "build": "y"}}"#);
    haft.write("pnpm-lock.yaml", "");
    // Nobody is there to ask.
    let output = haft.run(&["init"], "");
    assert_eq!(output.status.code(), Some(2));
    assert!(
        out(&output).contains("--- AGENTS.md (new)") && err(&output).contains("--yes"),
        "{}",
        err(&output)
    );
    assert!(!haft.ws().join("AGENTS.md").exists());
    haft.ok(&["init", "--dry-run"], "");
    let plan: Value = serde_json::from_str(&haft.ok(&["init", "--json"], "")).unwrap();
    assert_eq!(
        (&plan["files"][0]["path"], &plan["files"][0]["written"]),
        (&json!("AGENTS.md"), &json!(false))
    );
    assert!(!haft.ws().join("AGENTS.md").exists() && !haft.ws().join(".haft").exists());
    haft.ok(&["init", "--yes"], "");
    let agents = std::fs::read_to_string(haft.ws().join("AGENTS.md")).unwrap();
    for want in ["`cargo test`", "`pnpm run test`", "- `src/`"] {
        assert!(agents.contains(want), "{want}: {agents}");
    }
    let settings: Value =
        serde_json::from_str(&std::fs::read_to_string(haft.ws().join(".haft/settings.json")).unwrap())
            .unwrap();
    assert!(settings["permissions"]["allow"].as_array().unwrap().contains(&json!("Bash(cargo test)")));
    assert_eq!(settings["permissions"]["deny"][0], "Read(.env)");
    // A second time there is nothing to do, and what people wrote stays.
    std::fs::write(haft.ws().join("AGENTS.md"), "mine").unwrap();
    assert!(haft.ok(&["init", "--yes"], "").contains("Nothing to do."));
    assert_eq!(std::fs::read_to_string(haft.ws().join("AGENTS.md")).unwrap(), "mine");
}

#[tokio::test(flavor = "multi_thread")]
async fn models_are_listed_with_prices_and_servers_of_this_machine() {
    let model = MockModel::start(Script::of([Turn::text("local")])).await.unwrap();
    let haft = Haft::new();
    haft.write_home(".haft/models.json", r#"[{"id": "home-brew", "window": 9000, "price": {"input": 1.5}}]"#);
    let host = model.url();
    let env = [("OLLAMA_HOST", host.as_str()), ("VLLM_BASE_URL", "http://192.0.2.1:8000")];
    let text = out(&run_with(&haft, &["models"], &env, ""));
    assert!(
        text.contains("claude-opus-5-5 (opus)") && text.contains("gemini-3.1-pro-preview (gemini)"),
        "{text}"
    );
    assert!(text.contains(&format!("ollama at {host} (use --provider ollama):\n  mock")), "{text}");
    // An address that is not this machine's is not asked.
    assert!(text.contains("vllm is at http://192.0.2.1:8000, not on this machine"), "{text}");
    let listed: Value =
        serde_json::from_str(&out(&run_with(&haft, &["models", "--json"], &env, ""))).unwrap();
    let mine = &listed["models"][0];
    assert_eq!((&mine["id"], &mine["price"]["input"]), (&json!("home-brew"), &json!(1.5)));
    assert!(mine["from"].as_str().unwrap().ends_with("models.json"));
    assert_eq!(listed["servers"][0]["models"][0]["id"], "mock");
    let few: Value =
        serde_json::from_str(&haft.ok(&["models", "haiku", "--no-local", "--json"], "")).unwrap();
    assert!(few["models"].as_array().unwrap().iter().all(|it| it["id"].as_str().unwrap().contains("haiku")));
    // And what is listed answers.
    let run = run_with(&haft, &["-p", "go", "--provider", "ollama", "--model", "mock"], &env, "");
    assert_eq!(out(&run).trim(), "local", "{}", err(&run));
}

#[test]
fn an_archive_for_a_report_holds_no_secret() {
    let haft = Haft::new();
    let secret = "sk-ant-REDACTED";
    haft.write_home(".haft/settings.json", &format!("{{\"no_such_key_{secret}\": 1}}"));
    let env = [("ANTHROPIC_API_KEY", secret), ("DB_PASSWORD", "hunter2hunter2")];
    let output = run_with(&haft, &["bug", "--out", "report.tar", "--json"], &env, "");
    let said: Value = serde_json::from_str(&out(&output)).unwrap_or_else(|_| panic!("{}", err(&output)));
    assert!(said["files"].as_array().unwrap().len() >= 3, "{said}");
    let path = haft.ws().join("report.tar");
    let bytes = std::fs::read(&path).unwrap();
    let text = String::from_utf8_lossy(&bytes);
    assert!(!text.contains(secret) && !text.contains("hunter2hunter2"), "{text}");
    assert!(!text.contains(haft.home().to_str().unwrap()));
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let listed = std::process::Command::new("tar").arg("tf").arg(&path).output().unwrap();
    let names = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert!(names.contains("doctor.json") && names.contains("version.txt"), "{names}");
    // What is there is not overwritten.
    let again = run_with(&haft, &["bug", "--out", "report.tar"], &env, "");
    assert_eq!(again.status.code(), Some(2));
}

#[test]
fn update_names_the_command_of_the_way_it_came() {
    let haft = Haft::new();
    let said: Value = serde_json::from_str(&haft.ok(&["update", "--json"], "")).unwrap();
    assert_eq!(said["version"], env!("CARGO_PKG_VERSION"));
    assert!(said["channel"].is_string(), "{said}");
    let program = haft.ok(&["doctor", "--binary"], "");
    assert!(std::path::Path::new(program.trim()).is_file(), "{program}");
}

#[test]
fn a_new_tool_is_a_crate_of_its_own() {
    let haft = Haft::new();
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../../..");
    haft.ok(&["new", "tool", "WordCount", "--haft", source], "");
    let root = haft.ws().join("word-count");
    for file in ["Cargo.toml", "src/lib.rs", "src/main.rs", "README.md"] {
        let text = std::fs::read_to_string(root.join(file)).unwrap();
        assert!(!text.contains('@') && !text.to_lowercase().contains("template"), "{file}: {text}");
    }
    // It stands on its own: cargo finds all it needs in it.
    let output = std::process::Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(&root)
        .output()
        .unwrap();
    let known: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", err(&output)));
    assert_eq!(known["packages"][0]["name"], "word-count");
    // What is there is left alone.
    assert_eq!(haft.run(&["new", "tool", "word-count"], "").status.code(), Some(2));
    assert_eq!(haft.run(&["new", "tool", "../out"], "").status.code(), Some(2));
}
