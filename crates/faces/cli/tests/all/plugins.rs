//! `haft plugins`, and plugins and marketplaces on disk.
#![allow(clippy::unwrap_used, missing_docs, reason = "test code")]

use crate::common;

use common::Haft;
use haft_testkit::{MockModel, Script};
use serde_json::{Value, json};

/// A marketplace beside the project, known from the person's settings.
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
        &json!({"hooks": {"UserPromptSubmit": [{"hooks": [{"type": "command", "command": "echo FROM-HOOK ${CLAUDE_PLUGIN_ROOT}"}]}]}})
            .to_string(),
    );
    let source = json!({"source": "directory", "path": haft.home().join("market")});
    haft.write_home(
        ".claude/settings.json",
        &json!({"extraKnownMarketplaces": {"local": {"source": source}}}).to_string(),
    );
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
    assert!(agents.contains("good:a  (plugin good; all tools)"), "{agents}");
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

/// A manifest that cannot be used takes its plugin and nothing else; what is on
/// and not there is said, with exit code 1.
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

/// In a session: names carry the plugin's, its short names are refused with the
/// whole one, its hooks run, and a project cannot switch one on by itself.
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
    assert!(last.contains(&format!("In {root}.")) && last.contains(&format!("FROM-HOOK {root}")), "{last}");
    // A project's settings alone do not switch a plugin on.
    let other = Haft::new();
    market(&other);
    other.write(".claude/settings.json", &json!({"enabledPlugins": {"good@local": true}}).to_string());
    assert!(!String::from_utf8(other.run(&["skills"], "").stdout).unwrap().contains("good:s"));
}
