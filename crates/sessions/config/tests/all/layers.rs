//! Precedence, merging and origins.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, reason = "test code")]

use crate::common;

use common::{World, lines};
use haft_config::{FeatureSwitch, FlagSettings, McpScope, SettingsLayer, Sourced, TrustMode};
use haft_types::PermissionMode;
use serde_json::json;

fn values<T: Clone>(list: &[Sourced<T>]) -> Vec<T> {
    list.iter().map(|it| it.value.clone()).collect()
}

fn trusted() -> World {
    let mut world = World::default();
    world.options.trust = TrustMode::Assume;
    world
}

const FILES: [&str; 8] = [
    "home/.claude/settings.json",
    "home/.haft/settings.json",
    "project/.claude/settings.json",
    "project/.haft/settings.json",
    "project/.claude/settings.local.json",
    "project/.haft/settings.local.json",
    "etc/managed-settings.json",
    "etc/managed-settings.d/10-more.json",
];

#[test]
fn scalars_override_and_lists_concatenate() {
    let mut world = trusted();
    for (index, file) in FILES.iter().enumerate() {
        let text = json!({
            "model": format!("m{index}"),
            "permissions": {"deny": [format!("Bash(d{index})"), "Bash(shared)"]},
            "env": {format!("V{index}"): "x", "V": format!("v{index}")},
        });
        world.write(file, &text.to_string());
        // Each higher-precedence file overrides values, and list entries of all files count.
        let loaded = world.load();
        let settings = &loaded.settings;
        assert_eq!(settings.model.as_ref().unwrap().value, format!("m{index}"));
        assert_eq!(settings.model.as_ref().unwrap().origin.source.path().unwrap(), world.path(file));
        let rules = values(&settings.permissions.deny);
        assert!((0..=index).all(|it| rules.contains(&format!("Bash(d{it})"))), "{rules:?}");
        let env: Vec<&str> = settings.env.iter().map(|(name, _)| &**name).collect();
        assert_eq!(env.len(), index + 2, "{env:?}");
        assert_eq!(settings.get("env.V").unwrap().value, format!("v{index}"));
        assert_eq!(lines(&loaded.problems), Vec::<String>::new());
    }
    // The command line ranks between the local file and the organisation.
    world.options.arguments =
        vec![FlagSettings::settings(r#"{"model": "flag", "theme": "dark"}"#, &world.path("project"))];
    let loaded = world.load();
    assert_eq!(loaded.settings.model.as_ref().unwrap().value, "m7");
    assert_eq!(loaded.settings.get("theme").unwrap().origin.to_string(), "--settings:1");
    for file in &FILES[6..] {
        std::fs::remove_file(world.path(file)).unwrap();
    }
    assert_eq!(world.load().settings.model.as_ref().unwrap().value, "flag");
}

#[test]
fn every_value_names_its_file_and_line() {
    let world = trusted();
    world.write(
        "home/.haft/settings.json",
        "{\n  \"permissions\": {\n    \"allow\": [\n      \"Read\",\n      \"Bash(ls *)\"\n    ]\n  }\n}\n",
    );
    world.write(
        "project/.claude/settings.json",
        "{\"permissions\":\n {\"defaultMode\": \"acceptEdits\",\n \"allow\": [\"Read\"]}}",
    );
    let settings = &world.load().settings;
    let origins: Vec<String> = settings.permissions.allow.iter().map(|it| it.origin.to_string()).collect();
    let (home, project) =
        (world.path("home/.haft/settings.json"), world.path("project/.claude/settings.json"));
    let (home, project) = (home.display(), project.display());
    assert_eq!(origins, [format!("{home}:4"), format!("{home}:5"), format!("{project}:3")]);
    let mode = settings.permissions.default_mode.clone().unwrap();
    assert_eq!((mode.value, mode.origin.line()), (PermissionMode::AcceptEdits, Some(2)));
    // What `/` in a path rule refers to depends on the file.
    let bases: Vec<_> = settings.permissions.allow.iter().map(|it| it.origin.source.base.clone()).collect();
    assert_eq!(bases, [world.path("home/.haft"), world.path("home/.haft"), world.path("project")]);
}

#[test]
fn unknown_key_warns_with_suggestion() {
    let world = World::default();
    let path = world.write(
        "home/.haft/settings.json",
        "{\n\"modle\": \"x\",\n\"permissions\": {\"alow\": []},\n\"xyzzy\": 1,\n\"spinnerVerbs\": {},\n\"$schema\": \"s\",\n\"sandbox\": {\"network\": {\"allowDomains\": []}}}",
    );
    let path = path.display();
    assert_eq!(
        lines(&world.load().warnings),
        [
            format!("{path}:2:10: there is no setting \"modle\"; did you mean \"model\"?"),
            format!("{path}:3:25: there is no setting \"permissions.alow\"; did you mean \"allow\"?"),
            format!("{path}:4:10: there is no setting \"xyzzy\""),
            format!(
                "{path}:7:41: there is no setting \"sandbox.network.allowDomains\"; did you mean \"allowedDomains\"?"
            ),
        ]
    );
}

#[test]
fn value_of_wrong_type_is_dropped_alone() {
    let world = World::default();
    world.write(
        "home/.haft/settings.json",
        &json!({
            "model": 7,
            "cleanupPeriodDays": 5,
            "permissions": {"deny": ["Bash(rm *)", 3, "Read(x)"], "allow": "Read", "defaultMode": "yolo"},
            "env": {"N": 1, "T": true, "BAD": [], "OK": "x"},
            "features": {"REPL": false, "Cron": "no"},
            "hooks": {"PreToolUse": [{"hooks": [{"type": "command", "command": "x", "timeout": -1}]}]},
        })
        .to_string(),
    );
    let loaded = world.load();
    let settings = &loaded.settings;
    assert_eq!(values(&settings.permissions.deny), ["Bash(rm *)", "Read(x)"]);
    assert_eq!(values(&settings.permissions.allow), ["Read"]);
    assert!(settings.model.is_none() && settings.permissions.default_mode.is_none());
    assert_eq!(settings.cleanup_period_days, 5);
    let env: Vec<(&str, &str)> = settings.env.iter().map(|(name, it)| (&**name, &*it.value)).collect();
    assert_eq!(env, [("N", "1"), ("T", "true"), ("OK", "x")]);
    assert_eq!(settings.feature("REPL", FeatureSwitch::On), FeatureSwitch::Off);
    assert_eq!(settings.feature("Cron", FeatureSwitch::On), FeatureSwitch::On);
    assert_eq!(settings.hooks.len(), 1);
    let problems = lines(&loaded.problems).join("\n");
    for words in [
        "model must be text",
        "an entry of permissions.deny must be text",
        "permissions.defaultMode must be one of default, manual",
        "env.BAD must be text",
        "features.Cron must be true or false",
        "a number of seconds above 0",
    ] {
        assert!(problems.contains(words), "{words}: {problems}");
    }
    assert_eq!(loaded.problems.len(), 6, "{problems}");
}

#[test]
fn duplicate_key_warns() {
    let world = World::default();
    world.write("home/.haft/settings.json", "{\"model\": \"a\",\n \"model\": \"b\"}");
    let loaded = world.load();
    assert!(lines(&loaded.warnings)[0].ends_with(":2:2: \"model\" stands here twice; only this one counts"));
    assert_eq!(loaded.settings.model.as_ref().unwrap().value, "b");
}

#[test]
fn managed_settings_override_all_layers() {
    let world = trusted();
    let hook = |command: &str| json!({"PreToolUse": [{"hooks": [{"type": "command", "command": command, "id": command}]}]});
    world.write("home/.haft/settings.json", &json!({"permissions": {"allow": ["Read"], "deny": ["Write"]}, "hooks": hook("mine"), "allowManagedHooksOnly": true}).to_string());
    let loaded = world.load();
    assert!(lines(&loaded.warnings)[0].contains("counts only in managed settings"));
    assert_eq!(loaded.settings.hooks.len(), 1);
    world.write("etc/managed-settings.json", &json!({"allowManagedHooksOnly": true, "allowManagedPermissionRulesOnly": true, "permissions": {"allow": ["Grep"]}, "hooks": hook("theirs")}).to_string());
    let settings = &world.load().settings;
    let hooks: Vec<&str> = settings.hooks.iter().map(|it| it.id.as_str()).collect();
    assert_eq!(hooks, ["theirs"]);
    assert_eq!(values(&settings.permissions.allow), ["Grep"]);
    // Deny rules of all layers apply.
    assert_eq!(values(&settings.permissions.deny), ["Write"]);
}

#[test]
fn hooks_are_disabled_only_by_permitted_layers() {
    let hook = |id: &str| json!({"Stop": [{"hooks": [{"type": "command", "command": id, "id": id}]}]});
    let all = [("home/.haft", "user"), ("project/.haft", "project"), ("etc", "managed")];
    for (by, what, want) in [
        ("nobody", json!({}), &["user", "project", "managed"][..]),
        ("home/.haft", json!({"disabledHooks": ["project", "managed"]}), &["user", "managed"]),
        ("home/.haft", json!({"disableAllHooks": true}), &["managed"]),
        ("project/.haft", json!({"disabledHooks": ["user", "project"]}), &["user", "managed"]),
        ("project/.haft", json!({"disableAllHooks": true}), &["user", "managed"]),
        ("etc", json!({"disableAllHooks": true}), &[]),
    ] {
        let world = trusted();
        for (place, id) in all {
            let mut text = json!({"hooks": hook(id)});
            if place == by {
                text.as_object_mut().unwrap().extend(what.as_object().unwrap().clone());
            }
            let name = if place == "etc" { "managed-settings.json" } else { "settings.json" };
            world.write(&format!("{place}/{name}"), &text.to_string());
        }
        let loaded = world.load();
        let hooks: Vec<&str> = loaded.settings.hooks.iter().map(|it| it.id.as_str()).collect();
        assert_eq!(hooks, want, "{by} {what}");
    }
}

#[test]
fn flags_and_layer_selection_are_applied() {
    let mut world = trusted();
    world.write("home/.haft/settings.json", r#"{"model": "user"}"#);
    world.write("project/.haft/settings.json", r#"{"model": "project"}"#);
    world.options.layers = vec![SettingsLayer::User];
    assert_eq!(world.load().settings.model.as_ref().unwrap().value, "user");
    world.options.layers = Vec::new();
    assert!(world.load().settings.model.is_none());
    let file = world.write("flag.json", r#"{"model": "file"}"#);
    world.options.arguments = vec![FlagSettings::settings(file.to_str().unwrap(), &world.path("project"))];
    assert_eq!(world.load().settings.model.as_ref().unwrap().value, "file");
    world.options.arguments = vec![FlagSettings::settings("absent.json", &world.path("project"))];
    assert!(lines(&world.load().problems)[0].contains("there is no such file"));
    world.options.arguments = vec![FlagSettings::settings("{\"model\": }", &world.path("project"))];
    assert_eq!(lines(&world.load().problems), ["--settings:1:11: expected value"]);
    let flags = json!({"permissions": {"allow": ["Read"]}});
    world.options.arguments = vec![
        FlagSettings::flags(flags.as_object().unwrap()),
        FlagSettings::managed(r#"{"model": "managed"}"#),
    ];
    let loaded = world.load();
    assert_eq!(loaded.settings.permissions.allow[0].origin.source.layer, SettingsLayer::Flag);
    assert_eq!(loaded.settings.model.as_ref().unwrap().value, "managed");
}

#[test]
fn empty_allow_list_is_kept() {
    let world = World::default();
    assert!(world.load().settings.mcp.allowed.is_none());
    world.write("etc/managed-settings.json", r#"{"allowedMcpServers": [], "allowedHttpHookUrls": []}"#);
    let settings = &world.load().settings;
    assert_eq!(settings.mcp.allowed.as_ref().map(Vec::len), Some(0));
    assert_eq!(settings.http_hooks.allowed_urls, Some(Vec::new()));
}

#[test]
fn user_and_project_servers_are_merged() {
    let world = trusted();
    let real = world.path("project").canonicalize().unwrap();
    let claude = json!({
        "numStartups": 9,
        "mcpServers": {"a": {"command": "user"}, "b": {"command": "user"}},
        "projects": {real.to_str().unwrap(): {"mcpServers": {"b": {"command": "local"}}}},
    });
    world.write("home/.claude.json", &claude.to_string());
    world.write(
        "project/.mcp.json",
        &json!({"mcpServers": {"b": {"command": "project"}, "c": {"command": "project"}, "d": 5}})
            .to_string(),
    );
    let loaded = world.load();
    let servers: Vec<(&str, &str, McpScope)> = loaded
        .settings
        .mcp_servers
        .iter()
        .map(|it| (&*it.name, it.config["command"].as_str().unwrap(), it.scope))
        .collect();
    assert_eq!(
        servers,
        [("a", "user", McpScope::User), ("b", "local", McpScope::Local), ("c", "project", McpScope::Project)]
    );
    assert!(lines(&loaded.problems)[0].contains("a server must be an object"));
    assert!(loaded.warnings.is_empty(), "other programs' keys are not ours to judge");
}

#[test]
fn home_directory_is_not_a_project() {
    let mut world = World::default();
    world.write("home/.haft/settings.json", r#"{"permissions": {"allow": ["Read"]}}"#);
    let mut places = world.places();
    places.project = world.path("home");
    world.options.trust = TrustMode::Ask;
    let loaded = haft_config::SettingsStore::open(places, world.options.clone()).current();
    assert_eq!(values(&loaded.settings.permissions.allow), ["Read"]);
    assert_eq!(loaded.settings.permissions.allow[0].origin.source.layer, SettingsLayer::User);
    assert!(loaded.pending_trust.is_none());
}

#[test]
fn megabyte_of_rules_loads() {
    let world = World::default();
    let rules: Vec<String> = (0..40_000).map(|it| format!("Bash(cmd{it} *)")).collect();
    world.write("home/.haft/settings.json", &json!({"permissions": {"deny": rules}}).to_string());
    let loaded = world.load();
    assert_eq!(loaded.settings.permissions.deny.len(), 40_000);
}
