//! `haft doctor`, `login`, `init`, `models`, `update` and `bug`.

use std::{
    os::unix::fs::PermissionsExt as _,
    process::{Output, Stdio},
};

use crate::common::Haft;
use haft_testkit::{MockForm, MockModel, Script, Turn};
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
    // Only the sandbox's own state remains.
    let left = std::fs::read_dir(haft.home().join(".haft")).into_iter().flatten().flatten();
    assert!(left.into_iter().all(|it| it.file_name() == "sandbox"));
    // The same as text.
    let text = out(&haft.run(&["doctor"], ""));
    assert!(text.contains("✗  key") && text.contains("→ `haft login`"), "{text}");
    let (code, report) = doctor(&haft, &[("ANTHROPIC_API_KEY", "sk-secret")]);
    assert_eq!(code, Some(0), "{report}");
    assert!(!report.to_string().contains("sk-secret"));
}

#[test]
fn doctor_finds_what_is_wrong() {
    let key = ("GEMINI_API_KEY", "k");
    // Invalid settings, servers with a missing program, stored prompts without a timer.
    let haft = Haft::new();
    haft.write_home(".haft/settings.json", "{\"model\": ");
    haft.write_home(".haft/mcp.json", r#"{"mcpServers": {"x": {"command": "no-such-program-here"}}}"#);
    let (code, report) = doctor(&haft, &[key]);
    assert_eq!(code, Some(1));
    assert!(check(&report, "settings")["found"].as_str().unwrap().contains("settings.json"), "{report}");
    assert!(check(&report, "key")["found"].as_str().unwrap().starts_with("Gemini at"), "{report}");
    let mcp = check(&report, "mcp");
    assert!(mcp["found"].as_str().unwrap().contains("no-such-program-here"), "{mcp}");
    // Without any programs in `PATH`.
    let (_, report) = doctor(&haft, &[key, ("PATH", "/nowhere")]);
    assert_eq!(check(&report, "shell")["health"], "ok", "bash is looked for in its usual places first");
    assert_eq!(check(&report, "git")["health"], "warn");
    // Other users may write to Haft's directory.
    let open = Haft::new();
    std::fs::create_dir(open.home().join(".haft")).unwrap();
    std::fs::set_permissions(open.home().join(".haft"), std::fs::Permissions::from_mode(0o777)).unwrap();
    let (code, report) = doctor(&open, &[key]);
    assert_eq!(code, Some(1));
    assert!(check(&report, "home")["do"].as_str().unwrap().starts_with("chmod go-w"), "{report}");
    // A missing home is not a failure.
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
    // Without a named provider the one with a stored key is used.
    let (code, report) = doctor(&haft, &[]);
    assert_eq!(code, Some(0), "{report}");
    assert!(check(&report, "key")["found"].as_str().unwrap().starts_with("Gemini at"), "{report}");
    // A stored key is not sent to the address in `--base-url`.
    let script = Script { api_key: Some("sk-own".to_owned()), ..Script::from_turns([Turn::text("hi")]) };
    let model = MockModel::start(script).await.unwrap();
    let url = model.url();
    let asked = ["-p", "go", "--provider", "gemini", "--base-url", &url];
    let refused = run_with(&haft, &asked, &[], "");
    assert!(!refused.status.success());
    assert!(model.requests().iter().all(|it| !format!("{:?}", it.headers).contains("AIza")));
    // A key from the provider's variable is sent.
    let answered = run_with(&haft, &asked, &[("GEMINI_API_KEY", "sk-own")], "");
    assert_eq!(out(&answered).trim(), "hi", "{}", err(&answered));
    assert_eq!(model.requests().last().unwrap().form, Some(MockForm::Gemini));
    // A second login keeps the first.
    haft.ok(&["login", "openai"], "sk-two");
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.contains("AIza-secret") && text.contains("\"default\": \"openai\""), "{text}");
    assert!(haft.ok(&["logout", "openai"], "").contains("openai"));
    assert!(haft.ok(&["logout"], "").contains("gemini"));
    assert!(!file.exists());
    assert!(haft.ok(&["logout"], "").contains("no key"));
    for (input, why) in
        [("", "no key was given"), ("  \n", "no key was given"), ("two words", "contains spaces")]
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

/// No project, trusted or not, can redirect a key that is being checked.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_not_tried_where_a_folder_says() {
    let (theirs, mine) = (
        MockModel::start(Script::default()).await.unwrap(),
        MockModel::start(Script::default()).await.unwrap(),
    );
    let haft = Haft::new();
    let settings = json!({"env": {"ANTHROPIC_BASE_URL": theirs.url()}});
    haft.write(".haft/settings.json", &settings.to_string());
    haft.ok(&["trust", "--yes"], "");
    let env = [("ANTHROPIC_BASE_URL", mine.url())];
    let env: Vec<(&str, &str)> = env.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let output = run_with(&haft, &["login", "--check"], &env, "sk-mine");
    assert!(output.status.success(), "{}", err(&output));
    assert_eq!((theirs.requests().len(), mine.requests().len()), (0, 1));
}

#[test]
fn a_keyring_holds_the_key_where_there_is_one() {
    let haft = Haft::new();
    // A fake keyring that stores keys in a file.
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
    // A keyring that fails is not used.
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
    // Without a terminal the files are only proposed.
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
    // A second run changes nothing and keeps the user's files.
    std::fs::write(haft.ws().join("AGENTS.md"), "mine").unwrap();
    assert!(haft.ok(&["init", "--yes"], "").contains("Nothing to do."));
    assert_eq!(std::fs::read_to_string(haft.ws().join("AGENTS.md")).unwrap(), "mine");
}

#[tokio::test(flavor = "multi_thread")]
async fn models_are_listed_with_prices_and_servers_of_this_machine() {
    let model = MockModel::start(Script::from_turns([Turn::text("local")])).await.unwrap();
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
    // A server at a remote address is not contacted.
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
    // And a listed server can be used.
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
    // An existing file is not overwritten.
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

/// The program as a user who cannot write to their home. Root can write everywhere, so the user id is
/// changed.
fn as_somebody_without_a_home(haft: &Haft, temp: &std::path::Path) -> std::process::Command {
    use std::os::unix::process::CommandExt as _;
    let mode = |path: &std::path::Path, mode: u32| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    std::fs::create_dir_all(temp).unwrap();
    mode(haft.dir.path(), 0o755);
    mode(&haft.ws(), 0o777);
    mode(&haft.home(), 0o555);
    mode(temp, 0o777);
    let mut command = haft.command();
    command.env("TMPDIR", temp).stdin(Stdio::null());
    if rustix::process::geteuid().is_root() {
        command.uid(65534).gid(65534);
    }
    command
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_are_kept_where_only_their_owner_sees_them() {
    for what in ["a home that cannot be written", "no home"] {
        let haft = Haft::new();
        let temp = haft.dir.path().join("temp");
        let turns = [
            Turn::tool("Bash", json!({"command": "echo made > made.txt"})),
            Turn::text("done"),
            Turn::text("again"),
        ];
        let model = MockModel::start(Script::from_turns(turns)).await.unwrap();
        let run = |args: &[&str]| {
            let mut command = as_somebody_without_a_home(&haft, &temp);
            if what == "no home" {
                command.env_remove("HOME");
            }
            command.env("ANTHROPIC_API_KEY", "key").env("ANTHROPIC_BASE_URL", model.url());
            command.args(["-p", "go", "--permission-mode", "bypassPermissions"]).args(args).output()
        };
        let Ok(first) = run(&[]) else {
            return eprintln!("SKIPPED: others may not start the program where it was built");
        };
        assert_eq!(first.status.code(), Some(0), "{what}: {}", err(&first));
        assert!(haft.ws().join("made.txt").is_file(), "{what}");
        let told = err(&first).contains("HAFT_CONFIG_DIR");
        assert_eq!(told, what != "no home", "{what}: {}", err(&first));
        // The next session of this user finds it; other users do not.
        let second = run(&["--continue"]).unwrap();
        assert_eq!(out(&second).trim(), "again", "{what}: {}", err(&second));
        let history = model.requests().last().unwrap().json()["messages"].to_string();
        assert!(history.contains("echo made"), "{what}: {history}");
        for entry in std::fs::read_dir(&temp).unwrap().flatten() {
            let mode = entry.metadata().unwrap().permissions().mode();
            assert_eq!(mode & 0o077, 0, "{what}: {}", entry.path().display());
        }
        // `haft doctor` as the same user.
        let mut doctor = as_somebody_without_a_home(&haft, &temp);
        let report = doctor.args(["doctor", "--json"]).output().unwrap();
        let report: Value = serde_json::from_str(&out(&report)).unwrap();
        assert_eq!(check(&report, "home")["health"], "warn", "{what}: {report}");
        std::fs::set_permissions(haft.home(), std::fs::Permissions::from_mode(0o755)).unwrap();
    }
}

/// An added allow rule is in force, or the output says why not: also for a rule that was already in the
/// file, and if trust cannot be stored.
#[test]
fn a_rule_that_is_given_is_in_force_or_named() {
    let haft = Haft::new();
    let rule = "Bash(npm test)";
    let allow = |command: &mut std::process::Command| {
        let allowed = command.args(["permissions", "allow", rule]).output().unwrap();
        (allowed.status.code(), err(&allowed))
    };
    let is_allowed = || haft.run(&["permissions", "test", "npm test"], "").status.success();
    // A rule in a project file that the user did not add needs trust; one the user added does not.
    haft.write(".haft/settings.local.json", &json!({"permissions": {"allow": [rule]}}).to_string());
    assert!(!is_allowed());
    assert_eq!(allow(&mut haft.command()).0, Some(0));
    assert!(is_allowed());
    // Only the given rule becomes trusted.
    let more = json!({"permissions": {"allow": [rule, "Bash(curl *)"]}}).to_string();
    haft.write(".haft/settings.local.json", &more);
    assert_eq!(allow(&mut haft.command()).0, Some(0));
    assert!(is_allowed() && !haft.run(&["permissions", "test", "curl x.org"], "").status.success());
    // Trust cannot be stored if the home is not writable.
    let temp = haft.dir.path().join("temp");
    std::fs::remove_dir_all(haft.ws().join(".haft")).unwrap();
    let Ok(_) = as_somebody_without_a_home(&haft, &temp).arg("--version").output() else {
        return eprintln!("SKIPPED: others may not start the program where it was built");
    };
    std::fs::remove_dir_all(haft.home().join(".haft")).ok();
    let (code, said) = allow(&mut as_somebody_without_a_home(&haft, &temp));
    assert!(code == Some(2) && said.contains("not in force") && said.contains("HAFT_CONFIG_DIR"), "{said}");
    for args in [&["mcp", "add", "x", "--", "y"][..], &["trust", "--yes"]] {
        let refused = as_somebody_without_a_home(&haft, &temp).args(args).output().unwrap();
        let said = err(&refused);
        assert!(refused.status.code() == Some(2) && said.contains("set HAFT_CONFIG_DIR"), "{args:?}: {said}");
    }
    std::fs::set_permissions(haft.home(), std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// Rules proposed by `haft init` need trust like other project settings, and it says so.
#[test]
fn init_says_when_its_rules_count() {
    let haft = Haft::new();
    haft.write("package.json", r#"{"scripts": {"test": "node t.js"}}"#);
    let said = haft.ok(&["init", "--yes"], "");
    assert!(said.contains("`haft trust`"), "{said}");
    assert!(!haft.run(&["permissions", "test", "npm run test"], "").status.success());
    haft.ok(&["trust", "--yes"], "");
    assert!(haft.run(&["permissions", "test", "npm run test"], "").status.success());
    // Without rules nothing needs trust.
    let haft = Haft::new();
    let said = haft.ok(&["init", "--yes"], "");
    assert!(said.contains("Written") && !said.contains("haft trust"), "{said}");
}

/// With a key of one vendor and no model given, a model of that vendor is used, whatever variables of
/// other programs say. For local servers a model must be named.
#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_nobody_named_is_of_who_answers() {
    let model = MockModel::start(Script::from_turns(vec![Turn::text("ok"); 12])).await.unwrap();
    let (url, v1) = (model.url(), format!("{}/v1", model.url()));
    let openai = [("OPENAI_API_KEY", "k"), ("OPENAI_BASE_URL", v1.as_str())];
    let claude = [("ANTHROPIC_API_KEY", "k"), ("ANTHROPIC_BASE_URL", url.as_str())];
    let router = [("OPENROUTER_API_KEY", "k"), ("OPENROUTER_BASE_URL", v1.as_str())];
    let others = [("OPENAI_MODEL", "gpt-other"), ("ANTHROPIC_MODEL", "claude-other"), ("GEMINI_MODEL", "g")];
    let haft_model = [("HAFT_MODEL", "mine")];
    for (env, want) in [
        (claude.to_vec(), "claude-opus-5-5"),
        ([&claude[..], &others[..1]].concat(), "claude-opus-5-5"),
        ([&claude[..], &others[..]].concat(), "claude-other"),
        (openai.to_vec(), "gpt-6.2-sol"),
        ([&openai[..], &others[1..]].concat(), "gpt-6.2-sol"),
        ([&openai[..], &others[..]].concat(), "gpt-other"),
        ([&openai[..], &others[..], &haft_model].concat(), "mine"),
        (router.to_vec(), "openrouter/auto"),
    ] {
        let haft = Haft::new();
        let ran = run_with(&haft, &["-p", "go"], &env, "");
        assert_eq!(ran.status.code(), Some(0), "{env:?}: {}", err(&ran));
        assert_eq!(model.requests().last().unwrap().json()["model"], want, "{env:?}");
    }
    let (haft, before) = (Haft::new(), model.requests().len());
    let env = [("OLLAMA_HOST", url.as_str()), others[0]];
    let ran = run_with(&haft, &["-p", "go", "--provider", "ollama"], &env, "");
    let said = err(&ran);
    assert!(
        ran.status.code() == Some(2) && said.contains("--model") && said.contains("haft models"),
        "{said}"
    );
    assert_eq!(model.requests().len(), before);
}

/// A session without decisions prints a message.
#[tokio::test(flavor = "multi_thread")]
async fn a_log_without_decisions_says_so() {
    let model = MockModel::start(Script::from_turns([Turn::text("ok")])).await.unwrap();
    let url = model.url();
    let haft = Haft::new();
    run_with(&haft, &["-p", "go"], &[("ANTHROPIC_API_KEY", "k"), ("ANTHROPIC_BASE_URL", &url)], "");
    let log = haft.run(&["permissions", "log"], "");
    assert!(log.status.success() && err(&log).contains("no call was judged"), "{}", err(&log));
}
