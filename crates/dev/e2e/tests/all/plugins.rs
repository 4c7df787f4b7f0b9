//! `haft plugins`, and plugins and marketplaces on disk.
#![allow(clippy::unwrap_used, missing_docs, reason = "test code")]

use crate::common;

use common::Haft;
use haft_testkit::{MockModel, Script};
use serde_json::{Value, json};

/// A marketplace beside the project, configured in the user's settings.
fn market(haft: &Haft) {
    let plugins = json!([
        {"name": "good", "source": "./plugins/good", "description": "Good things"},
        {"name": "far", "source": {"source": "github", "repo": "a/b"}},
        {"name": "out", "source": "../outside"},
    ]);
    let list = json!({"name": "local", "owner": {"name": "me"}, "plugins": plugins});
    haft.write_home("market/.claude-plugin/marketplace.json", &serde_json::to_string_pretty(&list).unwrap());
    haft.write_home(
        "market/plugins/good/.claude-plugin/plugin.json",
        "{\n  \"name\": \"good\",\n  \"version\": \"1.2\",\n  \"mood\": 1,\n  \"skills\": [\"./more\", \"../no\"]\n}",
    );
    haft.write_home(
        "market/plugins/good/skills/s/SKILL.md",
        "---\ndescription: A skill\n---\nIn ${CLAUDE_PLUGIN_ROOT}.",
    );
    haft.write_home("market/plugins/good/more/t/SKILL.md", "---\ndescription: Another\n---\nT");
    haft.write_home("market/plugins/good/commands/c.md", "Say c.");
    haft.write_home(
        "market/plugins/good/agents/a.md",
        "---\nname: a\ndescription: An agent\npermissionMode: bypassPermissions\nhooks: {Stop: []}\nmcpServers: {\"x\": {\"command\": \"evil\"}}\n---\nA",
    );
    haft.write_home(
        "market/plugins/good/hooks/hooks.json",
        &json!({"hooks": {"UserPromptSubmit": [{"hooks": [{"type": "command", "command": "echo FROM-HOOK ${CLAUDE_PLUGIN_ROOT} ENV-HOOK $CLAUDE_PLUGIN_ROOT"}]}]}})
            .to_string(),
    );
    let source = json!({"source": "directory", "path": haft.home().join("market")});
    haft.write_home(
        ".claude/settings.json",
        &json!({"extraKnownMarketplaces": {"local": {"source": source}}}).to_string(),
    );
}

/// Marketplaces are also read from a second settings key.
#[test]
fn additional_marketplaces_are_known() {
    let haft = Haft::new();
    market(&haft);
    let settings = haft.home().join(".claude/settings.json");
    let text = std::fs::read_to_string(&settings).unwrap();
    std::fs::write(&settings, text.replace("extraKnownMarketplaces", "additionalMarketplaces")).unwrap();
    let listed = haft.run(&["plugins"], "");
    let text = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert!(text.contains("good@local"), "{text}");
}

/// Managed settings restrict the sources of marketplaces.
#[test]
fn marketplaces_come_from_where_they_may() {
    for (managed, known) in [
        (json!({}), true),
        (json!({"strictKnownMarketplaces": []}), false),
        (json!({"strictKnownMarketplaces": [{"source": "github", "repo": "acme/tools"}]}), false),
        (
            json!({"strictKnownMarketplaces": [{"source": "pathPattern", "pathPattern": "/home/market$"}]}),
            true,
        ),
        (json!({"allowedMarketplaces": []}), false),
        (json!({"allowedMarketplaces": [{"source": "directory"}]}), true),
        (json!({"allowedMarketplaces": [{"source": "directory"}], "strictKnownMarketplaces": []}), false),
        (json!({"blockedMarketplaces": [{"source": "directory"}]}), false),
        (json!({"blockedMarketplaces": [{"source": "github", "repo": "acme/tools"}]}), true),
    ] {
        let haft = Haft::new();
        market(&haft);
        let managed = managed.to_string();
        let listed = haft.run(&["plugins", "--managed-settings", &managed], "");
        let text = String::from_utf8_lossy(&listed.stdout).into_owned();
        assert_eq!(text.contains("good@local"), known, "{managed}: {text}");
        assert_eq!(text.contains("is not used"), !known, "{managed}: {text}");
        // The same marketplace under another name, from the command line.
        let added = haft.run(
            &[
                "plugins",
                "--managed-settings",
                &managed,
                "marketplace",
                "add",
                haft.home().join("market").to_str().unwrap(),
            ],
            "",
        );
        assert_eq!(added.status.success(), known, "{managed}: {added:?}");
    }
}

#[test]
fn plugins_are_listed_switched_and_their_mistakes_named() {
    let haft = Haft::new();
    market(&haft);
    let text = haft.ok(&["plugins"], "");
    for line in [
        "good@local  (off)\n    Good things\n",
        "far@local  (off)\n    not on this machine\n",
        "marketplace local  (3 plugins;",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    assert!(
        text.contains("marketplace.json:") && text.contains("\"../outside\" of out does not begin with ./"),
        "{text}"
    );
    assert_eq!(haft.ok(&["plugins", "enable", "good"], ""), "good@local is on now (user settings)\n");
    let json: Value = serde_json::from_slice(&haft.run(&["plugins", "--json"], "").stdout).unwrap();
    let good = json["plugins"].as_array().unwrap().iter().find(|it| it["id"] == "good@local").unwrap();
    assert_eq!((&good["enabled"], &good["version"]), (&json!(true), &json!("1.2")));
    assert_eq!(good["adds"], json!({"skills": 2, "commands": 1, "agents": 1, "hooks": 1}));
    let problems: Vec<(u64, &str)> = json["problems"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|it| it["file"].as_str().unwrap().ends_with("plugin.json"))
        .map(|it| (it["line"].as_u64().unwrap(), it["reason"].as_str().unwrap()))
        .collect();
    assert_eq!(problems[0], (4, "`mood` is no key of a plugin; it is passed over"));
    assert_eq!((problems[1].0, problems[1].1.contains("\"../no\"")), (5, true), "{problems:?}");
    let skills = haft.ok(&["skills"], "");
    for line in
        ["/good:s  (skill; plugin good)", "/good:t  (skill; plugin good)", "/good:c  (command; plugin good)"]
    {
        assert!(skills.contains(line), "{line}\n{skills}");
    }
    let agents = haft.ok(&["agents"], "");
    assert!(agents.contains("good:a  (plugin good; the model of who starts it; all tools)"), "{agents}");
    for says in ["permissionMode of a plugin's agent does not count", "are not run", "are not started"] {
        assert!(agents.contains(says), "{says}\n{agents}");
    }
    haft.ok(&["plugins", "disable", "good@local"], "");
    assert!(!haft.ok(&["skills"], "").contains("good:s"));
    let refused = haft.run(&["plugins", "enable", "nobody"], "");
    assert_eq!(refused.status.code(), Some(2));
    let stderr = String::from_utf8(refused.stderr).unwrap();
    assert!(stderr.contains("there is no plugin nobody; known are: good@local"), "{stderr}");
}

/// An invalid manifest disables only its plugin. An enabled plugin that cannot be loaded is reported
/// with exit code 1.
#[test]
fn a_broken_plugin_takes_nothing_with_it() {
    for (manifest, line, says) in [
        ("{\n \"name\": \"x\",,\n}", 2, "it is no JSON"),
        ("{\n \"name\": 7\n}", 2, "`name` must be a text"),
        ("{\n \"userConfig\": {\n  \"key\": {\"kind\": 1}\n }\n}", 3, "`kind` is no key of userConfig.key"),
        ("[]", 1, "it is no JSON object"),
    ] {
        let haft = Haft::new();
        market(&haft);
        haft.ok(&["plugins", "enable", "good@local"], "");
        haft.write_home(".claude/plugins/cache/other/bad/1.0/.claude-plugin/plugin.json", manifest);
        haft.write_home(
            ".claude/plugins/cache/other/bad/1.0/skills/lost/SKILL.md",
            "---\ndescription: d\n---\nL",
        );
        haft.write_home(
            ".haft/settings.json",
            &json!({"enabledPlugins": {"good@local": true, "bad@other": true, "gone@other": true}})
                .to_string(),
        );
        let output = haft.run(&["plugins"], "");
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(text.contains(&format!("plugin.json:{line}: ")) && text.contains(says), "{manifest}\n{text}");
        assert!(text.contains("the plugin gone@other is switched on"), "{text}");
        let skills = String::from_utf8(haft.run(&["skills"], "").stdout).unwrap();
        assert!(skills.contains("/good:s") && !skills.contains("lost"), "{skills}");
    }
}

/// In a session names carry the plugin's prefix, a short name is rejected with the full one, the
/// plugin's hooks run, and a project cannot enable a plugin by itself.
#[tokio::test]
async fn plugins_work_in_a_session() {
    let haft = Haft::new();
    market(&haft);
    haft.ok(&["plugins", "enable", "good@local"], "");
    let script: Script = serde_json::from_value(json!({"turns": [
        {"reply": [{"tool": {"name": "Skill", "input": {"skill": "s"}}}]},
        {"reply": [{"tool": {"name": "Skill", "input": {"skill": "good:s"}}}]},
        {"reply": [{"text": "done"}]},
    ]}))
    .unwrap();
    let model = MockModel::start(script).await.unwrap();
    let output = haft
        .async_command()
        .args(["-p", "go"])
        .env("ANTHROPIC_BASE_URL", model.url())
        .stdin(std::process::Stdio::null())
        .output()
        .await
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let bodies: Vec<Value> = model.requests().iter().map(|it| it.json()).collect();
    let last = bodies.last().unwrap()["messages"].to_string();
    let root = haft.home().join("market/plugins/good").display().to_string();
    assert!(last.contains("good:s is one: use its whole name"), "{last}");
    assert!(
        last.contains(&format!("In {root}.")) && last.contains(&format!("FROM-HOOK {root} ENV-HOOK {root}")),
        "{last}"
    );
    // A project's settings alone do not enable a plugin.
    let other = Haft::new();
    market(&other);
    other.write(".claude/settings.json", &json!({"enabledPlugins": {"good@local": true}}).to_string());
    assert!(!String::from_utf8(other.run(&["skills"], "").stdout).unwrap().contains("good:s"));
}

/// Marketplaces are added, updated and removed, plugins installed and uninstalled, from local
/// directories and local git repositories only.
#[test]
fn plugins_are_installed_from_what_is_on_this_machine() {
    let haft = Haft::new();
    let git = |dir: &std::path::Path, args: &[&str]| {
        let mut command = std::process::Command::new("git");
        command.args(["-c", "user.name=t", "-c", "user.email=t@t"]).args(args).current_dir(dir);
        command.env("HOME", haft.home()).env("GIT_CONFIG_NOSYSTEM", "1");
        let output = command.output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    let skill = |at: &str, text: &str| haft.write_home(at, &format!("---\ndescription: d\n---\n{text}"));
    let manifest = |version: &str| json!({"name": "cloned", "version": version}).to_string();
    haft.write_home("repo/part/.claude-plugin/plugin.json", &manifest("1.0"));
    skill("repo/part/skills/c/SKILL.md", "C");
    let repo = haft.home().join("repo");
    git(&repo, &["init", "-q"]);
    git(&repo, &["add", "."]);
    git(&repo, &["commit", "-qm", "one"]);
    skill("lists/plugins/near/skills/n/SKILL.md", "N");
    let list = json!({"name": "mine", "owner": {"name": "me"}, "plugins": [
        {"name": "near", "source": "./plugins/near"},
        {"name": "cloned", "source": {"source": "git-subdir", "url": repo, "path": "part"}},
        {"name": "far", "source": {"source": "github", "repo": "a/b"}},
        {"name": "out", "source": {"source": "git-subdir", "url": repo, "path": "../lists"}},
    ]});
    haft.write_home("lists/.claude-plugin/marketplace.json", &list.to_string());
    let lists = haft.home().join("lists");
    git(&lists, &["init", "-q"]);
    git(&lists, &["add", "."]);
    git(&lists, &["commit", "-qm", "one"]);
    git(&haft.home(), &["clone", "-q", "--bare", "lists", "lists.git"]);
    let failing = |args: &[&str]| {
        let output = haft.run(args, "");
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    for from in ["https://example.invalid/x.git", "a:b/c", "nowhere", "repo"] {
        let said = failing(&["plugins", "marketplace", "add", from]);
        assert!(said.contains(from.rsplit('/').next().unwrap()), "{from}: {said}");
    }
    let bare = haft.home().join("lists.git");
    let said = haft.ok(&["plugins", "marketplace", "add", bare.to_str().unwrap()], "");
    assert_eq!(said, "marketplace mine is known now; it has: near, cloned, far, out\n");
    let near = haft.ok(&["plugins", "install", "near"], "");
    assert!(near.starts_with("near@mine is installed and on (user settings): "), "{near}");
    let cloned = haft.ok(&["plugins", "install", "cloned@mine"], "");
    assert!(cloned.trim_end().ends_with("plugins/cache/mine/cloned/1.0"), "{cloned}");
    for id in ["far@mine", "out@mine"] {
        let said = failing(&["plugins", "install", id]);
        assert!(said.contains(id), "{said}");
    }
    let skills = haft.ok(&["skills"], "");
    assert!(skills.contains("/near:n") && skills.contains("/cloned:c"), "{skills}");
    let left: Vec<String> = std::fs::read_dir(haft.home().join(".haft/plugins"))
        .unwrap()
        .flatten()
        .map(|it| it.file_name().into_string().unwrap())
        .filter(|it| it.starts_with(".new"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
    // A newer version of the marketplace, copied again.
    let newer = list.to_string().replace("\"far\"", "\"farther\"");
    haft.write_home("lists/.claude-plugin/marketplace.json", &newer);
    git(&lists, &["commit", "-qam", "two"]);
    git(&lists, &["push", "-q", bare.to_str().unwrap(), "HEAD:refs/heads/master", "HEAD:refs/heads/main"]);
    haft.ok(&["plugins", "marketplace", "update", "mine"], "");
    assert!(haft.ok(&["plugins"], "").contains("farther@mine"));
    haft.ok(&["plugins", "uninstall", "cloned"], "");
    let skills = haft.ok(&["skills"], "");
    assert!(skills.contains("/near:n") && !skills.contains("/cloned:c"), "{skills}");
    let removed = haft.run(&["plugins", "marketplace", "remove", "mine"], "");
    assert!(String::from_utf8(removed.stderr).unwrap().contains("near@mine is still switched on"));
    assert!(failing(&["plugins", "marketplace", "remove", "mine"]).contains("no marketplace mine"));
}

/// Problems are reported with file and line, and the exit code tells whether there are any.
#[test]
fn plugins_are_validated() {
    for (files, says, code) in [
        (&[("p/skills/s/SKILL.md", "---\ndescription: d\n---\nS")][..], "plugin p: 1 skills", 0),
        (&[("p/.claude-plugin/plugin.json", "{\n\"mood\": 1}")], "plugin.json:2: `mood`", 1),
        (&[("p/.claude-plugin/plugin.json", "{")], "it is no JSON", 1),
        (
            &[("p/.claude-plugin/marketplace.json", "{\"name\": \"m\", \"plugins\": []}")],
            "marketplace m: 0 plugins",
            0,
        ),
        (&[("p/.claude-plugin/marketplace.json", "{\"name\": \"m\"}")], "`plugins` is missing", 1),
        (&[("p/README.md", "x")], "neither a plugin nor a marketplace", 2),
    ] {
        let haft = Haft::new();
        files.iter().for_each(|(path, text)| haft.write(path, text));
        let output = haft.run(&["plugins", "validate", "p"], "");
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8(text).unwrap();
        assert!(text.contains(says), "{files:?}: {text}");
        assert_eq!(output.status.code(), Some(code), "{files:?}: {text}");
    }
}

/// Options of a plugin: set by command, secrets stored separately and never shown, used in prompts,
/// hooks and server variables. Plugin programs come last in `PATH`.
#[tokio::test]
async fn plugins_are_told_what_they_want_to_know() {
    let haft = Haft::new();
    let options = json!({
        "greeting": {"type": "string", "title": "G", "description": "How to greet", "default": "hello"},
        "token": {"type": "string", "title": "T", "description": "A key", "sensitive": true, "required": true},
    });
    let manifest = json!({"name": "p", "userConfig": options});
    haft.write_home("market/p/.claude-plugin/plugin.json", &manifest.to_string());
    haft.write_home(
        "market/p/skills/s/SKILL.md",
        "---\ndescription: d\n---\nSay ${user_config.greeting}, not ${user_config.token}.",
    );
    let hook = |text: &str| json!({"hooks": [{"type": "command", "command": text}]});
    let hooks = json!({"hooks": {"UserPromptSubmit": [
        hook("echo HOOK ${user_config.greeting}"), hook("printf %s ${user_config.token} | wc -c | sed s/^/LENGTH/"),
    ]}});
    haft.write_home("market/p/hooks/hooks.json", &hooks.to_string());
    for (name, text) in [("own-program", "echo FROM-PLUGIN"), ("true", "echo SHADOWED")] {
        haft.write_home(&format!("market/p/bin/{name}"), &format!("#!/bin/sh\n{text}\n"));
        let path = haft.home().join("market/p/bin").join(name);
        std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }
    let list = json!({"name": "m", "plugins": [{"name": "p", "source": "./p"}]});
    haft.write_home("market/.claude-plugin/marketplace.json", &list.to_string());
    haft.ok(&["plugins", "marketplace", "add", haft.home().join("market").to_str().unwrap()], "");
    let installed = haft.run(&["plugins", "install", "p"], "");
    assert!(String::from_utf8(installed.stderr).unwrap().contains("it needs `token` (A key)"));
    let listed = haft.run(&["plugins"], "");
    assert!(String::from_utf8(listed.stdout).unwrap().contains("configure p@m token=VALUE"));
    let run = async |haft: &Haft| {
        let script: Script = serde_json::from_value(json!({"turns": [
            {"reply": [{"tool": {"name": "Skill", "input": {"skill": "p:s"}}},
                {"tool": {"name": "Bash", "input": {"command": "own-program; true"}}}]},
            {"reply": [{"text": "done"}]},
        ]}))
        .unwrap();
        let model = MockModel::start(script).await.unwrap();
        let output = haft
            .async_command()
            .args(["-p", "go", "--allowedTools", "Bash"])
            .env("ANTHROPIC_BASE_URL", model.url())
            .stdin(std::process::Stdio::null())
            .output()
            .await
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        model.requests().last().unwrap().json()["messages"].to_string()
    };
    let said = run(&haft).await;
    assert!(said.contains("HOOK hello") && !said.contains("LENGTH"), "what is not known is not run: {said}");
    assert!(said.contains("FROM-PLUGIN") && !said.contains("SHADOWED"), "{said}");
    assert!(said.contains("Say hello, not ${user_config.token}."), "{said}");
    haft.ok(&["plugins", "configure", "p", "greeting=good day"], "");
    let shown = haft.ok(&["plugins", "configure", "p", "token"], "s3cret-value\n");
    assert!(shown.contains("greeting = good day") && shown.contains("token = (a secret)"), "{shown}");
    assert!(!shown.contains("s3cret"), "{shown}");
    let said = run(&haft).await;
    assert!(said.contains("HOOK good day") && said.contains("LENGTH12"), "{said}");
    assert!(said.contains("Say good day, not ${user_config.token}.") && !said.contains("s3cret"), "{said}");
    let settings = std::fs::read_to_string(haft.home().join(".haft/settings.json")).unwrap();
    assert!(settings.contains("good day") && !settings.contains("s3cret"), "{settings}");
    let refused = haft.run(&["plugins", "configure", "p", "colour=red"], "");
    assert!(String::from_utf8(refused.stderr).unwrap().contains("it wants to know: greeting, token"));
}
