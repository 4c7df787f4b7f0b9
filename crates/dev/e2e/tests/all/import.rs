//! `haft import`: the setup of other agents is converted, or reported with a reason.

use crate::common::Haft;
use serde_json::{Value, json};

fn import(haft: &Haft, args: &[&str]) -> Vec<(String, String, String)> {
    let mut all = vec!["import", "--json"];
    all.extend(args);
    let text = haft.ok(&all, "");
    let said: Value = serde_json::from_str(&text).unwrap();
    let word = |it: &Value, name: &str| it[name].as_str().unwrap_or_default().to_owned();
    let steps = said["steps"].as_array().unwrap().iter();
    steps.map(|it| (word(it, "theirs"), word(it, "outcome"), word(it, "why") + &word(it, "note"))).collect()
}

/// The outcome of the step whose name starts like this.
fn outcome<'a>(steps: &'a [(String, String, String)], theirs: &str) -> (&'a str, &'a str) {
    let found = steps.iter().find(|it| it.0.contains(theirs));
    let found = found.unwrap_or_else(|| panic!("no {theirs}: {steps:#?}"));
    (&found.1, &found.2)
}

/// A second import leaves every file of Haft unchanged, byte for byte.
fn second_run_changes_nothing(haft: &Haft, from: &str) {
    let ours = |haft: &Haft| {
        let mut all = Vec::new();
        for root in [haft.home().join(".haft"), haft.ws().join(".haft"), haft.ws().join(".mcp.json")] {
            files(&root, &mut all);
        }
        // The last valid settings are cached whenever they are read.
        all.retain(|(name, _): &(String, Vec<u8>)| !name.contains("/.haft/cache/"));
        all
    };
    let before = ours(haft);
    let steps = import(haft, &[from, "--yes"]);
    assert!(steps.iter().all(|it| it.1 != "taken"), "{steps:#?}");
    assert_eq!(ours(haft), before);
}

fn files(path: &std::path::Path, out: &mut Vec<(String, Vec<u8>)>) {
    if path.is_file() {
        out.push((path.display().to_string(), std::fs::read(path).unwrap()));
    }
    let mut inside: Vec<_> =
        std::fs::read_dir(path).into_iter().flatten().flatten().map(|it| it.path()).collect();
    inside.sort();
    inside.iter().for_each(|it| files(it, out));
}

fn servers(haft: &Haft) -> Value {
    let path = haft.home().join(".haft/mcp.json");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|_| panic!("no {}", path.display()));
    serde_json::from_str::<Value>(&text).unwrap()["mcpServers"].clone()
}

fn settings(haft: &Haft) -> Value {
    serde_json::from_str(&std::fs::read_to_string(haft.home().join(".haft/settings.json")).unwrap()).unwrap()
}

#[test]
fn codex() {
    let haft = Haft::new();
    haft.write_home(
        ".codex/config.toml",
        r#"
model = "gpt-5.1-codex"
model_reasoning_effort = "high"
approval_policy = "never"
sandbox_mode = "workspace-write"
[tui]
notifications = true
[mcp_servers.docs]
command = "npx"
args = ["-y", "docs"]
env = { DOCS_API_KEY = "sk-very-secret", MODE = "fast" }
tool_timeout_sec = 12.5
startup_timeout_sec = 20
[mcp_servers.remote]
url = "https://example.org/mcp"
bearer_token_env_var = "REMOTE_TOKEN"
[mcp_servers.off]
command = "x"
enabled = false
[projects."/a"]
trust_level = "trusted"
"#,
    );
    haft.write_home(".codex/AGENTS.md", "Be brief.");
    haft.write_home(".codex/prompts/fix.md", "Fix $ARGUMENTS");
    haft.write_home(".codex/skills/deploy/SKILL.md", "---\nname: deploy\ndescription: d\n---\n");
    haft.write_home(".codex/auth.json", r#"{"OPENAI_API_KEY": "sk-other-secret"}"#);
    // A dry run changes nothing.
    let steps = import(&haft, &["codex", "--dry-run"]);
    assert_eq!(outcome(&steps, "mcp_servers.docs").0, "would take");
    assert!(!haft.home().join(".haft").exists());
    let steps = import(&haft, &["codex"]);
    assert_eq!(
        outcome(&steps, "mcp_servers.docs"),
        ("taken", "no secret was copied: set DOCS_API_KEY in your environment")
    );
    assert_eq!(outcome(&steps, "mcp_servers.off").0, "not taken");
    assert_eq!(outcome(&steps, "sandbox_mode").0, "taken");
    assert_eq!(outcome(&steps, "model_reasoning_effort").0, "taken");
    for left in ["approval_policy", "model (", "tui", "projects", "auth.json"] {
        let (how, why) = outcome(&steps, left);
        assert!(how == "not taken" && !why.is_empty(), "{left}: {how} {why}");
    }
    let list = servers(&haft);
    assert_eq!(list["docs"]["env"], json!({"DOCS_API_KEY": "${DOCS_API_KEY}", "MODE": "fast"}));
    assert_eq!(list["docs"]["timeout"], json!(12_500));
    assert_eq!(list["docs"]["startupTimeout"], json!(20_000));
    assert_eq!(list["remote"]["headers"]["Authorization"], "Bearer ${REMOTE_TOKEN}");
    assert_eq!(settings(&haft)["sandbox"]["enabled"], true);
    assert_eq!(std::fs::read_to_string(haft.home().join(".haft/AGENTS.md")).unwrap(), "Be brief.");
    assert!(haft.home().join(".haft/commands/fix.md").is_file());
    assert!(haft.home().join(".haft/skills/deploy/SKILL.md").is_file());
    let mut all = Vec::new();
    files(&haft.home().join(".haft"), &mut all);
    assert!(all.iter().all(|(_, bytes)| !String::from_utf8_lossy(bytes).contains("secret")));
    second_run_changes_nothing(&haft, "codex");
    // The imported servers and commands are listed.
    assert!(haft.ok(&["skills"], "").contains("/fix"));
}

#[test]
fn gemini() {
    let haft = Haft::new();
    haft.write_home(
        ".gemini/settings.json",
        r#"{ // mine
  "theme": "GitHub",
  "tools": {"allowed": ["run_shell_command(git status)", "read_file", "replace", "save_memory"], "exclude": ["run_shell_command(rm)"], "sandbox": true,},
  "mcpServers": {
    "a": {"command": "node", "args": ["a.js"], "env": {"TOKEN": "$MY_TOKEN"}, "trust": true, "excludeTools": ["drop"]},
    "b": {"httpUrl": "https://example.org/mcp", "headers": {"Authorization": "Bearer abcdef"}},
    "c": {}
  },
}"#,
    );
    haft.write_home(".gemini/GEMINI.md", "Know this.");
    haft.write_home(".gemini/commands/git/log.toml", "description = \"d: x\"\nprompt = \"Show {{args}}\"");
    haft.write_home(".gemini/commands/run.toml", "prompt = \"!{ls}\"");
    // An allow rule is not imported without confirmation.
    let steps = import(&haft, &["gemini"]);
    let (how, why) = outcome(&steps, "run_shell_command(git status)");
    assert!(how == "not taken" && why.contains("--yes"), "{why}");
    assert_eq!(outcome(&steps, "run_shell_command(rm)").0, "taken");
    let steps = import(&haft, &["gemini", "--yes"]);
    assert_eq!(outcome(&steps, "run_shell_command(git status)").0, "taken");
    for left in ["theme", "save_memory", "read_file", "mcpServers.c", "mcpServers.a.trust", "run.toml"] {
        assert_eq!(outcome(&steps, left).0, "not taken", "{left}");
    }
    let list = servers(&haft);
    assert_eq!(list["a"]["env"]["TOKEN"], "${MY_TOKEN}");
    assert_eq!(
        list["b"],
        json!({"type": "http", "url": "https://example.org/mcp", "headers": {"Authorization": "Bearer ${B_AUTHORIZATION}"}})
    );
    let permissions = settings(&haft)["permissions"].clone();
    // The other agent never reads or changes files outside the project, so the rule is restricted.
    assert_eq!(permissions["allow"], json!(["Bash(git status:*)", "Edit(./**)"]));
    assert_eq!(permissions["deny"], json!(["Bash(rm:*)", "mcp__a__drop"]));
    let command = std::fs::read_to_string(haft.home().join(".haft/commands/git/log.md")).unwrap();
    assert_eq!(command, "---\ndescription: \"d: x\"\n---\nShow $ARGUMENTS\n");
    assert_eq!(std::fs::read_to_string(haft.home().join(".haft/AGENTS.md")).unwrap(), "Know this.");
    second_run_changes_nothing(&haft, "gemini");
}

#[test]
fn opencode() {
    let haft = Haft::new();
    haft.write_home(
        ".config/opencode/opencode.jsonc",
        r#"{
  "$schema": "x", "model": "anthropic/claude-opus-5",
  "permission": {"edit": "ask", "bash": {"git push *": "deny", "npm test": "allow"}, "webfetch": "deny", "doom_loop": "ask"},
  "mcp": {
    "l": {"type": "local", "command": ["bun", "x", "srv"], "environment": {"KEY": "{env:SRV_KEY}"}},
    "r": {"type": "remote", "url": "https://example.org/mcp", "enabled": false}
  }
}"#,
    );
    haft.write_home(
        ".config/opencode/agent/review.md",
        "---\ndescription: Reviews\nmode: subagent\n---\nLook.",
    );
    haft.write_home(".config/opencode/command/go.md", "Go $ARGUMENTS");
    haft.write("opencode.json", r#"{"mcp": {"p": {"type": "local", "command": ["srv"]}}}"#);
    let steps = import(&haft, &["opencode", "--yes"]);
    assert_eq!(outcome(&steps, "mcp.r").0, "not taken");
    assert_eq!(outcome(&steps, "doom_loop").0, "not taken");
    assert_eq!(
        servers(&haft)["l"],
        json!({"type": "stdio", "command": "bun", "args": ["x", "srv"], "env": {"KEY": "${SRV_KEY}"}})
    );
    let permissions = settings(&haft)["permissions"].clone();
    assert_eq!(permissions["ask"], json!(["Edit", "Write"]));
    assert_eq!(permissions["deny"], json!(["Bash(git push *)", "WebFetch"]));
    assert_eq!(permissions["allow"], json!(["Bash(npm test)"]));
    // Project files of the other agent become project files of Haft.
    let project: Value =
        serde_json::from_str(&std::fs::read_to_string(haft.ws().join(".mcp.json")).unwrap()).unwrap();
    assert_eq!(project["mcpServers"]["p"]["command"], "srv");
    second_run_changes_nothing(&haft, "opencode");
    let agents: Value = serde_json::from_str(&haft.ok(&["agents", "--json"], "")).unwrap();
    assert!(agents["agents"].as_array().unwrap().iter().any(|it| it["name"] == "review"), "{agents}");
}

/// In opencode the last matching rule wins; the imported rules are never more permissive.
#[test]
fn rules_of_opencode_are_taken_in_their_order() {
    for (rules, allow, ask, deny) in [
        // A typical list: everything asks except the following entries.
        (r#"{"*": "ask", "npm *": "allow"}"#, json!(["Bash(npm *)"]), Value::Null, Value::Null),
        // The last entry overrides the first.
        (r#"{"npm *": "allow", "*": "ask"}"#, Value::Null, json!(["Bash"]), Value::Null),
        (r#"{"npm *": "allow", "*": "deny"}"#, Value::Null, Value::Null, json!(["Bash"])),
        // In Haft deny wins over everything.
        (r#"{"*": "deny", "git status": "allow"}"#, Value::Null, Value::Null, json!(["Bash"])),
        (r#"{"*": "allow", "rm *": "deny"}"#, json!(["Bash"]), Value::Null, json!(["Bash(rm *)"])),
        (r#"{"git push": "ask", "*": "allow"}"#, json!(["Bash"]), json!(["Bash(git push)"]), Value::Null),
    ] {
        let haft = Haft::new();
        haft.write_home(
            ".config/opencode/opencode.json",
            &format!(r#"{{"permission": {{"bash": {rules}}}}}"#),
        );
        import(&haft, &["opencode", "--yes"]);
        let found = settings(&haft)["permissions"].clone();
        assert_eq!((&found["allow"], &found["ask"], &found["deny"]), (&allow, &ask, &deny), "{rules}");
    }
}

/// opencode asks about files outside the project even if everything is allowed.
#[test]
fn files_beyond_the_project_are_asked_about() {
    let haft = Haft::new();
    haft.write_home(
        ".config/opencode/opencode.json",
        r#"{"permission": {"edit": "allow", "read": "allow"}}"#,
    );
    import(&haft, &["opencode", "--yes"]);
    assert_eq!(settings(&haft)["permissions"], json!({"allow": ["Edit(./**)"]}));
    for (path, decision) in [("new.txt", "allow"), ("/etc/new.txt", "ask")] {
        let input = json!({"file_path": path, "content": "x"}).to_string();
        let said = haft.run(&["permissions", "explain", "Write", &input], "");
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        assert!(said.starts_with(decision), "{path}: {said}");
    }
}

#[test]
fn agents_of_opencode_can_do_no_more_than_there() {
    for (front, taken, text) in [
        (
            "tools:\n  bash: false\n  write: false\n  read: true\nmodel: x/y",
            true,
            "disallowedTools: Bash, Write\n",
        ),
        ("mode: subagent", true, "description: d\n---"),
        ("tools:\n  server_*: false", false, "server_*"),
        ("permission:\n  edit: deny", false, "permission"),
        ("tools: {bash: false}", false, "tools"),
    ] {
        let haft = Haft::new();
        haft.write_home(".config/opencode/agent/it.md", &format!("---\ndescription: d\n{front}\n---\nLook."));
        let steps = import(&haft, &["opencode", "--yes"]);
        let (found, why) = outcome(&steps, "it.md");
        assert_eq!(found == "taken", taken, "{front}: {why}");
        let made = std::fs::read_to_string(haft.home().join(".haft/agents/it.md")).unwrap_or_default();
        assert!(
            if taken { made.contains(text) } else { why.contains(text) && made.is_empty() },
            "{front}: {made}{why}"
        );
    }
}

#[test]
fn no_secret_is_copied_wherever_it_stands() {
    let token = "ghp_abcdefghijklmnopqrstuvwxyz0123456789";
    for (server, taken) in [
        (json!({"command": "srv", "args": ["--token", token]}), false),
        (json!({"url": format!("https://example.org/mcp?token={token}")}), false),
        (json!({"command": "srv", "env": {"PLAIN": token}}), true),
        (json!({"url": "https://example.org/mcp", "headers": {"X-Thing": token}}), true),
        (json!({"command": "srv", "args": ["--verbose"], "env": {"MODE": "fast"}}), true),
    ] {
        let haft = Haft::new();
        haft.write_home(".gemini/settings.json", &json!({"mcpServers": {"s": server}}).to_string());
        let steps = import(&haft, &["gemini", "--yes"]);
        assert_eq!(outcome(&steps, "mcpServers.s").0 == "taken", taken, "{server}");
        let mut kept = Vec::new();
        files(&haft.home().join(".haft"), &mut kept);
        let leaks = kept.iter().any(|(_, bytes)| String::from_utf8_lossy(bytes).contains(token));
        assert!(!leaks, "{server}: {kept:?}");
    }
}

#[test]
fn claude_is_read_where_it_is() {
    let haft = Haft::new();
    haft.write_home(".claude/settings.json", r#"{"permissions": {"allow": ["Bash(ls *)"]}}"#);
    haft.write_home(".claude/agents/a.md", "---\nname: a\ndescription: d\n---\n");
    haft.write_home(".claude.json", r#"{"mcpServers": {"x": {"command": "x"}}}"#);
    haft.write_home(".claude/.credentials.json", "{}");
    haft.write("CLAUDE.md", "know");
    let steps = import(&haft, &["claude", "--yes"]);
    for there in ["settings.json", "agents", ".claude.json", "CLAUDE.md"] {
        assert_eq!(outcome(&steps, there).0, "in place", "{there}");
    }
    assert_eq!(outcome(&steps, ".credentials.json").0, "not taken");
    assert!(!haft.home().join(".haft/settings.json").exists());
}

#[test]
fn what_is_broken_or_not_there_is_said() {
    let haft = Haft::new();
    for from in ["claude", "codex", "gemini", "opencode"] {
        assert_eq!(import(&haft, &[from]), []);
    }
    assert!(haft.ok(&["import", "codex"], "").contains("nothing to bring along"));
    haft.write_home(".codex/config.toml", "a = = 1");
    haft.write_home(".gemini/settings.json", "{");
    haft.write_home(".config/opencode/opencode.json", "[]");
    for from in ["codex", "gemini", "opencode"] {
        let steps = import(&haft, &[from, "--yes"]);
        assert!(steps[0].1 == "not taken" && !steps[0].2.is_empty(), "{from}: {steps:?}");
    }
    let table = haft.ok(&["import", "codex"], "");
    assert!(
        table.contains("THEIRS") && table.contains("not taken") && table.contains("it is broken"),
        "{table}"
    );
}

/// Expected outcome of an entry: name in the other agent, outcome, part of the reason.
type ShapeRow = (&'static str, &'static str, &'static str);

/// Configurations as in the other agents' documentation, of several versions.
type ShapeTable = &'static [(&'static str, &'static str, &'static [ShapeRow])];

const CODEX_SHAPES: ShapeTable = &[
    (
        ".codex/config.toml",
        "[mcp_servers.a]\ncommand = \"a\"\nstartup_timeout_sec = 20\nenabled_tools = [\"x\"]\ndisabled_tools = [\"y\", \"z\"]\nrequired = true\n",
        &[
            ("mcp_servers.a (", "taken", "without its required"),
            ("mcp_servers.a.disabled_tools", "taken", ""),
            ("mcp_servers.a.enabled_tools", "not taken", "haft permissions deny"),
        ],
    ),
    (
        ".codex/config.toml",
        "model = 5\nmcp_servers = \"none\"\n[profiles.x]\nmodel = \"o\"\n[features]\nweb = true\n",
        &[
            ("model (", "not taken", "nothing of the kind"),
            ("mcp_servers (", "not taken", "nothing of the kind"),
            ("profiles (", "not taken", "--settings"),
            ("features (", "not taken", "nothing of the kind"),
        ],
    ),
    (
        ".codex/config.toml",
        "\u{feff}[mcp_servers.\"with blank\"]\ncommand = \"a\"\n[mcp_servers.b]\nurl = \"https://example.org/mcp\"\nenv_http_headers = { X-Key = \"B_KEY\" }\n",
        &[("mcp_servers.b (", "taken", "")],
    ),
    (".codex/config.toml", "model = \"a\"\n\n[mcp_servers\n", &[("config.toml", "not taken", "in line 3")]),
];

const GEMINI_SHAPES: ShapeTable = &[
    (
        ".gemini/settings.json",
        r#"{"mcp": {"excluded": ["a"], "serverCommand": "x"}, "mcpServers": {
                "a": {"command": "a"},
                "b": {"url": "https://example.org/sse", "headers": {"X": "Key $B_KEY and ${B_MORE}"}, "oauth": {"enabled": true}},
                "c": {"command": "c", "args": ["--in", "$HOME/x", "$"], "includeTools": ["x"]}}}"#,
        &[
            ("mcpServers.a (", "not taken", "mcp.excluded"),
            ("mcpServers.b (", "taken", "without its oauth"),
            ("mcpServers.c (", "taken", ""),
            ("mcpServers.c.includeTools", "not taken", "haft permissions deny"),
            ("mcp.serverCommand", "not taken", "nothing of the kind"),
        ],
    ),
    (
        ".gemini/settings.json",
        r#"{"mcp": {"allowed": ["b"]}, "mcpServers": {"a": {"command": "a"}, "b": {"command": "b"}},
                "contextFileName": "X.md", "coreTools": ["read_file"], "excludeTools": ["run_shell_command"], "theme": "x"}"#,
        &[
            ("mcpServers.a (", "not taken", "mcp.allowed"),
            ("mcpServers.b (", "taken", ""),
            ("contextFileName", "not taken", "AGENTS.md"),
            ("tools.coreTools", "not taken", "--tools"),
            ("tools.excludeTools", "taken", ""),
            ("theme", "not taken", "nothing of the kind"),
        ],
    ),
    (".gemini/commands/a.toml", "description = \"d\"", &[("a.toml", "not taken", "no prompt")]),
    (".gemini/commands/a.toml", "prompt = ", &[("a.toml", "not taken", "it is broken: ")]),
];

const OPENCODE_SHAPES: ShapeTable = &[
    (
        ".config/opencode/opencode.jsonc",
        r#"{"mcp": {"servers": {
                "a": {"type": "local", "command": ["a"], "cwd": "sub", "timeout": {"startup": 1, "request": 2000}},
                "b": {"type": "remote", "url": "https://example.org/mcp", "disabled": true},
                "c": {"type": "remote", "url": "https://example.org/mcp", "oauth": {"client_id": "x"}}}},
              "permission": "allow"}"#,
        &[
            ("mcp.a (", "taken", ""),
            ("mcp.b (", "not taken", "turned off"),
            ("mcp.c (", "taken", "without its oauth"),
            ("permission = allow", "not taken", "--permission-mode"),
        ],
    ),
    (
        ".config/opencode/config.json",
        r#"{"mcp": {"servers": {"type": "local", "command": ["srv"], "timeout": 3000}, "odd": 5}, "permission": {"bash": 7, "edit": "sometimes"}}"#,
        &[
            ("mcp.servers (", "taken", ""),
            ("mcp.odd (", "not taken", "neither a command nor an address"),
            ("permission.bash", "not taken", "unknown"),
            ("permission.edit", "not taken", "unknown"),
        ],
    ),
    (".config/opencode/opencode.json", "{\n\"mcp\": [}", &[("opencode.json", "not taken", "line 2")]),
];

const CLAUDE_SHAPES: ShapeTable = &[
    (".claude/settings.json", "{ broken", &[("settings.json", "not taken", "it is broken")]),
    (".claude/settings.local.json", "{}", &[("settings.local.json", "in place", "")]),
];

#[test]
fn shapes_of_many_versions() {
    let tables = [
        ("codex", CODEX_SHAPES),
        ("gemini", GEMINI_SHAPES),
        ("opencode", OPENCODE_SHAPES),
        ("claude", CLAUDE_SHAPES),
    ];
    for (from, (file, text, rows)) in
        tables.into_iter().flat_map(|(from, table)| table.iter().map(move |it| (from, *it)))
    {
        let haft = Haft::new();
        haft.write_home(file, text);
        let steps = import(&haft, &[from, "--yes"]);
        for (theirs, how, why) in rows {
            let (found, said) = outcome(&steps, theirs);
            assert!(found == *how && said.contains(why), "{from} {theirs}: {found} {said}\n{text}");
        }
        second_run_changes_nothing(&haft, from);
    }
}

#[test]
fn what_servers_are_told_means_the_same_here() {
    let haft = Haft::new();
    haft.write_home(
        ".gemini/settings.json",
        r#"{"mcpServers": {"b": {"url": "https://example.org/sse", "headers": {"X": "Key $B_KEY and ${B_MORE}, 5$"}},
            "c": {"command": "c", "args": ["$HOME/x", "a$1"]}}}"#,
    );
    haft.write_home(
        ".config/opencode/opencode.json",
        r#"{"mcp": {"servers": {"a": {"type": "local", "command": ["a"], "cwd": "sub", "timeout": {"request": 2000}}}}}"#,
    );
    import(&haft, &["gemini", "--yes"]);
    import(&haft, &["opencode", "--yes"]);
    let list = servers(&haft);
    assert_eq!(list["b"]["headers"]["X"], "Key ${B_KEY} and ${B_MORE}, 5$");
    assert_eq!(list["c"]["args"], json!(["${HOME}/x", "a$1"]));
    assert_eq!(
        list["a"],
        json!({"type": "stdio", "command": "a", "args": [], "cwd": "sub", "timeout": 2000})
    );
}

/// Files that exist but cannot be read are reported.
#[test]
fn files_that_cannot_be_read_are_named() {
    for (from, file) in [
        ("codex", ".codex/config.toml"),
        ("codex", ".codex/AGENTS.md"),
        ("codex", ".codex/prompts/a.md"),
        ("gemini", ".gemini/settings.json"),
        ("gemini", ".gemini/GEMINI.md"),
        ("opencode", ".config/opencode/opencode.jsonc"),
        ("opencode", ".config/opencode/agent/a.md"),
        ("claude", ".claude/settings.json"),
        ("claude", ".claude.json"),
    ] {
        for why in ["not UTF-8", "no file", "No such file", "8 MB"] {
            let haft = Haft::new();
            let path = haft.home().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            match why {
                "not UTF-8" => std::fs::write(&path, b"\xff\xfea").unwrap(),
                "no file" => std::fs::create_dir(&path).unwrap(),
                "No such file" => std::os::unix::fs::symlink("nowhere", &path).unwrap(),
                _ => std::fs::write(&path, vec![b' '; 9 << 20]).unwrap(),
            }
            let steps = import(&haft, &[from, "--yes"]);
            let (how, said) = outcome(&steps, file);
            assert!(how == "not taken" && said.contains(why), "{file}: {how} {said}");
        }
    }
}

/// A configuration file named by an environment variable is found.
#[test]
fn opencode_where_a_variable_says() {
    let haft = Haft::new();
    let path = haft.home().join("elsewhere.json");
    std::fs::write(&path, r#"{"mcp": {"a": {"type": "local", "command": ["a"]}}}"#).unwrap();
    let mut command = haft.command();
    command.args(["import", "opencode", "--json"]).env("OPENCODE_CONFIG", &path);
    let said: Value = serde_json::from_slice(&command.output().unwrap().stdout).unwrap();
    assert_eq!(said["steps"][0]["outcome"], "taken", "{said}");
    assert_eq!(servers(&haft)["a"]["command"], "a");
}
