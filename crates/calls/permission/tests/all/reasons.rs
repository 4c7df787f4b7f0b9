//! All texts for users and models, word for word.
#![allow(clippy::unwrap_used, missing_docs, reason = "test code")]

use crate::common;

use std::fmt::Write;

use common::{Call, Rules, context, judge, judge_with, policy, settings, with_rules};
use haft_permission::{
    AgentRights, Behavior, DelegatedRight, Destination, HookOpinion, LivePermissions, OutsideWorkspace,
    PathRuleReach, PermissionUpdate, Policy, RuleList, RuleSource, RuleText, explain, preview,
};
use haft_tool::{Access, Verdict};
use haft_types::PermissionMode::{self, AcceptEdits, BypassPermissions, Default, DontAsk, Plan};
use serde_json::json;

const RULES: Rules<'_> = Rules {
    deny: &[
        "Denied",
        "Read(./.env)",
        "Edit(./locked/**)",
        "Bash(rm:*)",
        "WebFetch(domain:evil.test)",
        "Agent(model:opus)",
        "Skill(nuke)",
        "Odd(x",
        "mcp__a__b(thing)",
    ],
    ask: &[
        "Asked",
        "Read(./private/**)",
        "Bash(git push:*)",
        "WebFetch(domain:*.sub.test)",
        "Skill(risky *)",
    ],
    allow: &[
        "Allowed",
        "Read(//opt/**)",
        "Edit(./out/**)",
        "Bash(make:*)",
        "WebFetch(domain:fine.test)",
        "Skill(ok)",
    ],
};

#[test]
fn decision_reason_texts_match() {
    let text = || String::from("because");
    let none = HookOpinion::None;
    let undeclared = Call::undeclared;
    let rows: Vec<(PermissionMode, &str, Call, HookOpinion)> = vec![
        (Default, "Allowed", undeclared(), none.clone()),
        (Default, "Asked", undeclared(), none.clone()),
        (Default, "Denied", undeclared(), none.clone()),
        (Default, "Odd", undeclared(), none.clone()),
        (Default, "mcp__a__b", undeclared(), none.clone()),
        (Default, "Custom", undeclared(), none.clone()),
        (Default, "Custom", undeclared().reading(), none.clone()),
        (Default, "Custom", Call::touching(vec![]), none.clone()),
        (Default, "Custom", undeclared().with_verdict(Verdict::Allow), none.clone()),
        (Default, "Custom", undeclared().with_verdict(Verdict::Ask(text())), none.clone()),
        (Default, "Custom", undeclared().with_verdict(Verdict::Insist(text())), none.clone()),
        (Default, "Custom", undeclared().with_verdict(Verdict::Deny(text())), none.clone()),
        (Default, "Custom", undeclared(), HookOpinion::Allow),
        (Default, "Custom", undeclared(), HookOpinion::Ask(text())),
        (Default, "Custom", undeclared(), HookOpinion::Deny(text())),
        (Plan, "Custom", undeclared(), none.clone()),
        (DontAsk, "Custom", undeclared(), none.clone()),
        (BypassPermissions, "Custom", undeclared(), none.clone()),
        (Default, "Agent", Call::named("x").with_input(json!({"model": "opus"})), none.clone()),
        (Default, "Read", Call::read("x"), none.clone()),
        (Default, "Read", Call::read(".env"), none.clone()),
        (Default, "Read", Call::read("private/x"), none.clone()),
        (Default, "Read", Call::read("/opt/x"), none.clone()),
        (Default, "Read", Call::read("/etc/x"), none.clone()),
        (Default, "Read", Call::read(""), none.clone()),
        (Default, "Read", Call::read("a\0b"), none.clone()),
        (Default, "Read", Call::read("new\nline\u{202e}"), none.clone()),
        (Default, "Write", Call::write("x"), none.clone()),
        (AcceptEdits, "Write", Call::write("x"), none.clone()),
        (Plan, "Write", Call::write("x"), none.clone()),
        (Default, "Write", Call::write("out/x"), none.clone()),
        (Default, "Write", Call::write("locked/x"), none.clone()),
        (Default, "Write", Call::write(".git/config"), none.clone()),
        (DontAsk, "Write", Call::write(".git/config"), none.clone()),
        (Default, "Write", Call::write("/sys/power/state"), none.clone()),
        (Default, "Bash", Call::command("make x"), none.clone()),
        (Default, "Bash", Call::command("rm x"), none.clone()),
        (Default, "Bash", Call::command("git push"), none.clone()),
        (Default, "Bash", Call::command("npm publish"), none.clone()),
        (Default, "Bash", Call::command("a | b"), none.clone()),
        (Default, "Bash", Call::command("sudo make"), none.clone()),
        (Default, "Bash", Call::command(""), none.clone()),
        (Plan, "Bash", Call::command("make x"), none.clone()),
        (Default, "WebFetch", Call::fetch("https://fine.test/x"), none.clone()),
        (Default, "WebFetch", Call::fetch("https://a.sub.test/x"), none.clone()),
        (Default, "WebFetch", Call::fetch("https://evil.test/x"), none.clone()),
        (Default, "WebFetch", Call::fetch("https://other.test/x"), none.clone()),
        (Default, "WebFetch", Call::fetch("https://u@fine.test/x"), none.clone()),
        (Default, "WebFetch", Call::fetch("ftp://fine.test/x"), none.clone()),
        (Default, "WebFetch", Call::fetch("fine.test"), none.clone()),
        (Default, "Skill", Call::named("ok"), none.clone()),
        (Default, "Skill", Call::named("risky x"), none.clone()),
        (Default, "Skill", Call::named("nuke"), none.clone()),
        (Default, "Skill", Call::named("other"), none),
    ];
    let mut out = String::new();
    for (mode, tool, call, hook) in rows {
        let decision = judge_with(&policy(mode, RULES), tool, &call, &hook);
        writeln!(out, "{:5} {}", decision.behavior, decision.reason).unwrap();
    }
    insta::assert_snapshot!(out);
}

#[test]
fn symlink_and_agent_reason_texts_match() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    let at = |path: &str| root.join(path);
    for path in ["ws/.git", "out"] {
        std::fs::create_dir_all(at(path)).unwrap();
    }
    for path in ["ws/.env", "out/s"] {
        std::fs::write(at(path), "x").unwrap();
    }
    std::os::unix::fs::symlink(".env", at("ws/link")).unwrap();
    std::os::unix::fs::symlink(".git", at("ws/g")).unwrap();
    std::os::unix::fs::symlink("../out", at("ws/o")).unwrap();
    std::fs::hard_link(at("ws/.env"), at("ws/hard")).unwrap();
    let builder = Policy::builder(at("ws")).rules(&settings(), Behavior::Deny, ["Read(./.env)"]);
    let main = builder.clone().delegation(DelegatedRight {
        rule: "Bash(make:*)".into(),
        to: "builder".into(),
        origin: RuleSource::fixed("settings"),
    });
    let main = main.build();
    let reader = main.child(&AgentRights {
        name: "reader".into(),
        tools: Some(vec![String::from("Read")]),
        ..AgentRights::default()
    });
    let closed = builder.reads_outside(OutsideWorkspace::Deny).build();
    let mut out = String::new();
    for (policy, tool, call) in [
        (&main, "Read", Call::read("link")),
        (&main, "Read", Call::read("hard")),
        (&main, "Read", Call::read("o/s")),
        (&closed, "Read", Call::read("o/s")),
        (&main, "Write", Call::write("g/config")),
        (&main, "Bash", Call::command("make x")),
        (&reader, "Grep", Call::read(".")),
    ] {
        let decision = policy.judge(tool, &call, &context(&at("ws"), None), &HookOpinion::None);
        let reason = decision.reason.replace(root.to_str().unwrap(), "");
        writeln!(out, "{:5} {reason}", decision.behavior).unwrap();
    }
    insta::assert_snapshot!(out);
}

/// A grant for one agent only is labelled as such. Its parents and siblings do not have it, its children
/// do, and deny rules still apply.
#[test]
fn agent_only_grant_applies_to_agent_and_children() {
    let deny = Policy::builder("/ws").rules(&settings(), Behavior::Deny, ["Bash(make denied)"]);
    let main = std::sync::Arc::new(LivePermissions::new(deny.build()));
    let of = |name: &str, above: &std::sync::Arc<LivePermissions>| {
        let rights = AgentRights { name: name.into(), ..AgentRights::default() };
        std::sync::Arc::new(above.child(rights))
    };
    let middle = of("middle", &main);
    let (one, two) = (of("one", &middle), of("two", &middle));
    let rule = RuleText { tool_name: String::from("Bash"), rule_content: Some(String::from("make:*")) };
    let destination = Destination::Agent;
    let list = RuleList { rules: vec![rule], behavior: Behavior::Allow, destination };
    assert!(one.apply(&PermissionUpdate::AddRules(list.clone())).is_empty());
    let below = of("below", &one);
    let says = |who: &LivePermissions, line: &str| {
        let cx = context(std::path::Path::new("/ws"), None);
        who.policy().judge("Bash", &Call::command(line), &cx, &HookOpinion::None)
    };
    for (who, line, behavior) in [
        (&one, "make x", Behavior::Allow),
        (&below, "make x", Behavior::Allow),
        (&two, "make x", Behavior::Ask),
        (&middle, "make x", Behavior::Ask),
        (&main, "make x", Behavior::Ask),
        (&one, "make denied", Behavior::Deny),
        (&one, "other", Behavior::Ask),
    ] {
        let decision = says(who, line);
        assert_eq!(decision.behavior, behavior, "{line}: {}", decision.reason);
    }
    let reason = says(&one, "make x").reason;
    assert!(reason.contains("allowed to the agent one alone"), "{reason}");
    // It persists when a parent changes, and ends when it is removed.
    main.apply(&PermissionUpdate::SetMode { mode: AcceptEdits, destination: Destination::Session });
    assert_eq!(says(&one, "make x").behavior, Behavior::Allow);
    main.apply(&PermissionUpdate::SetMode { mode: Plan, destination: Destination::Session });
    assert_eq!(says(&one, "make x").behavior, Behavior::Deny);
    main.apply(&PermissionUpdate::SetMode { mode: Default, destination: Destination::Session });
    one.apply(&PermissionUpdate::RemoveRules(list));
    assert_eq!(says(&one, "make x").behavior, Behavior::Ask);
}

#[test]
fn unattended_decision_texts_match() {
    let mut out = String::new();
    for (tool, call) in [
        ("Custom", Call::undeclared()),
        ("Bash", Call::command("npm publish")),
        ("Bash", Call::command("a | b")),
        ("WebFetch", Call::fetch("https://other.test")),
        ("Skill", Call::named("other")),
        ("Read", Call::read("/etc/hosts")),
        ("Read", Call::read("/home/u/x")),
        ("Write", Call::write("x")),
        ("Write", Call::write("/srv/a/x")),
        ("Write", Call::write(".git/x")),
        ("Asked", Call::undeclared()),
        ("Allowed", Call::undeclared()),
    ] {
        let decision = judge(&policy(Default, RULES), tool, &call).unattended();
        assert_ne!(decision.behavior, Behavior::Ask);
        writeln!(out, "{:5} {}", decision.behavior, decision.reason).unwrap();
    }
    insta::assert_snapshot!(out);
}

#[test]
fn explain_texts_match() {
    let call = Call::touching(vec![
        Access::Command("npm publish".into()),
        Access::Command("make x".into()),
        Access::Read("x".into()),
    ]);
    let rules = Rules { deny: &["Read(./.env)"], allow: &["Bash(make:*)"], ..Rules::default() };
    insta::assert_snapshot!(explain(&judge(&policy(Default, rules), "Custom", &call)));
    let sandboxed = Policy::builder("/ws").enforcement(PathRuleReach::Sandboxed);
    let sandboxed = with_rules(sandboxed, rules).build();
    insta::assert_snapshot!(explain(&judge(&sandboxed, "Bash", &Call::command("make"))));
    insta::assert_snapshot!(explain(&judge(&sandboxed, "Read", &Call::read(".env"))));
}

#[test]
fn update_preview_texts_match() {
    let rule = |tool: &str, spec: Option<&str>| RuleText {
        tool_name: tool.to_owned(),
        rule_content: spec.map(str::to_owned),
    };
    let list = |rules, destination| RuleList { rules, behavior: Behavior::Allow, destination };
    let add = |tool: &str, spec: Option<&str>, destination| {
        PermissionUpdate::AddRules(list(vec![rule(tool, spec)], destination))
    };
    let mut out = String::new();
    for update in [
        add("Bash", Some("npm test *"), Destination::LocalSettings),
        add("Bash", Some("python x.py"), Destination::LocalSettings),
        add("Bash", Some("*"), Destination::LocalSettings),
        add("Bash", Some("git * main"), Destination::LocalSettings),
        add("Bash", Some("ls*"), Destination::LocalSettings),
        add("Bash", None, Destination::Session),
        add("Read", Some("//etc/ssl/**"), Destination::Session),
        add("Edit", Some("//srv/a"), Destination::UserSettings),
        add("WebFetch", Some("domain:x.test"), Destination::ProjectSettings),
        add("Skill", Some("deploy"), Destination::CliArg),
        PermissionUpdate::RemoveRules(list(vec![rule("Bash", None)], Destination::Session)),
        PermissionUpdate::SetMode { mode: AcceptEdits, destination: Destination::Session },
        PermissionUpdate::AddDirectories {
            directories: vec!["/a".into()],
            destination: Destination::Session,
        },
        PermissionUpdate::RemoveDirectories {
            directories: vec!["/a".into()],
            destination: Destination::Session,
        },
    ] {
        let preview = preview(&update);
        writeln!(out, "{}", preview.summary).unwrap();
        for it in preview.matches {
            writeln!(out, "  would run: {it}").unwrap();
        }
        for it in preview.misses {
            writeln!(out, "  would ask: {it}").unwrap();
        }
    }
    insta::assert_snapshot!(out);
}

#[test]
fn rule_warning_texts_match() {
    let texts = [
        "",
        "(x)",
        "Bash(x",
        "Bash(x) y",
        "Bash()",
        "Bash x",
        "Read(!x)",
        "Read([x)",
        "Read(*/../x)",
        "Bash(:*)",
        "WebFetch(x)",
        "WebFetch(domain:a b)",
        "Write(x)",
        "Grep(x)",
        "mcp__*",
        "*",
    ];
    let mut out = String::new();
    for behavior in [Behavior::Allow, Behavior::Deny] {
        let policy = Policy::builder("/ws").rules(&settings(), behavior, texts).build();
        for warning in policy.warnings() {
            writeln!(out, "{warning}").unwrap();
        }
    }
    insta::assert_snapshot!(out);
}

#[test]
fn suggested_updates_allow_the_same_call() {
    for (tool, call) in [
        ("Custom", Call::undeclared()),
        ("mcp__a__c", Call::undeclared()),
        ("Bash", Call::command("npm publish")),
        ("WebFetch", Call::fetch("https://other.test/x?y")),
        ("Skill", Call::named("other thing")),
        ("Read", Call::read("/etc/hosts")),
        ("Read", Call::read("/srv/we[i]rd {x}/*/f")),
        ("Read", Call::read("/home/u/x")),
        ("Read", Call::read("/x")),
        ("Write", Call::write("x")),
        ("Write", Call::write("/srv/a/x")),
        (
            "Custom",
            Call::touching(vec![Access::Read("/etc/a".into()), Access::Fetch("https://b.test".into())]),
        ),
    ] {
        let policy = policy(Default, RULES);
        let decision = judge(&policy, tool, &call);
        assert_eq!(decision.behavior, Behavior::Ask, "{tool} {call:?}");
        let mut builder = policy.to_builder();
        for update in &decision.suggestions {
            builder = builder.update(update);
        }
        let after = judge(&builder.build(), tool, &call);
        assert_eq!(after.behavior, Behavior::Allow, "{:?} {after:?}", decision.suggestions);
    }
}
