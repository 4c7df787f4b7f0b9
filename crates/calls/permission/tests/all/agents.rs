//! Sub-agents, and permissions that change during a session.
#![allow(clippy::unwrap_used, missing_docs, reason = "test code")]

use crate::common;

use std::{path::Path, sync::Arc};

use common::{Call, Rules, context, judge, policy, with_rules};
use haft_permission::{
    AgentRights, Behavior, DelegatedRight, Destination, HookOpinion, LivePermissions, Names,
    PermissionUpdate, Policy, RuleList, RuleSource, RuleText, explain,
};
use haft_types::PermissionMode;

use Behavior::{Allow, Ask, Deny};

fn rights(name: &str, rules: &[(Behavior, &str)]) -> AgentRights {
    AgentRights {
        name: name.into(),
        rules: rules.iter().map(|(behavior, text)| (*behavior, Arc::from(*text))).collect(),
        origin: RuleSource::fixed("agent definition"),
        ..AgentRights::default()
    }
}

fn delegation(rule: &str, to: &str) -> DelegatedRight {
    DelegatedRight { rule: rule.into(), to: to.into(), origin: RuleSource::fixed("agent definition") }
}

#[track_caller]
fn check(policy: &Policy, tool: &str, call: &Call, want: Behavior) {
    let decision = judge(policy, tool, call);
    assert_eq!(decision.behavior, want, "{}\n{}", explain(&decision), policy.lattice());
}

#[test]
fn agent_rights_never_exceed_its_parents() {
    let parent = policy(
        PermissionMode::Plan,
        Rules { deny: &["Write"], allow: &["Bash(git status:*)", "Custom"], ..Rules::default() },
    );
    let child = parent.child(&AgentRights {
        mode: Some(PermissionMode::BypassPermissions),
        ..rights("child", &[(Allow, "Write"), (Allow, "Bash(*)")])
    });
    let grandchild = child.child(&rights("grandchild", &[(Allow, "Edit")]));
    for agent in [&parent, &child, &grandchild] {
        check(agent, "Write", &Call::write("x"), Deny);
        check(agent, "Bash", &Call::command("touch x"), Deny);
        check(agent, "Read", &Call::read("x"), Allow);
        check(agent, "Custom", &Call::undeclared(), Deny);
        assert!(agent.removes("Write").is_some());
    }
}

#[test]
fn child_inherits_allow_rules() {
    let parent = policy(
        PermissionMode::Default,
        Rules {
            allow: &["Bash(make:*)", "Edit(./out/**)"],
            ask: &["Bash(make publish:*)"],
            ..Rules::default()
        },
    );
    let same = parent.child(&rights("same", &[]));
    let strict = parent.child(&AgentRights { mode: Some(PermissionMode::DontAsk), ..rights("strict", &[]) });
    for (tool, call, inherited, unasked) in [
        ("Bash", Call::command("make x"), Allow, Allow),
        ("Bash", Call::command("make publish"), Ask, Ask),
        ("Write", Call::write("out/x"), Allow, Allow),
        ("Write", Call::write("x"), Ask, Deny),
        ("Read", Call::read("x"), Allow, Allow),
    ] {
        check(&same, tool, &call, inherited);
        check(&strict, tool, &call, unasked);
    }
    // Deny rules of a definition apply to it and its children, not to its parents.
    let limited = parent.child(&rights("limited", &[(Deny, "Bash(make:*)"), (Ask, "Read(./x)")]));
    let below = limited.child(&rights("below", &[(Allow, "Bash")]));
    for agent in [&limited, &below] {
        check(agent, "Bash", &Call::command("make x"), Deny);
        check(agent, "Read", &Call::read("x"), Ask);
    }
    check(&parent, "Bash", &Call::command("make x"), Allow);
}

#[test]
fn tool_list_of_definition_limits_the_agent() {
    let parent = Policy::builder("/ws").build();
    let listed = AgentRights {
        tools: Some(vec![String::from("read_file"), String::from("mcp__a__*"), String::from("Bash(git *)")]),
        ..rights("reader", &[])
    };
    let child = parent.child(&listed);
    let below = child.child(&rights("below", &[]));
    for agent in [&child, &below] {
        check(agent, "Read", &Call::read("x"), Allow);
        check(agent, "Grep", &Call::read("x"), Deny);
        check(agent, "mcp__a__b", &Call::undeclared().reading(), Allow);
        check(agent, "mcp__b__b", &Call::undeclared().reading(), Deny);
        check(agent, "Bash", &Call::command("git x"), Ask);
    }
}

#[test]
fn delegated_rights_can_be_passed_on_but_not_used() {
    let root =
        policy(PermissionMode::AcceptEdits, Rules { deny: &["Edit(./secrets/**)"], ..Rules::default() });
    let coordinator = root.child(&AgentRights {
        delegations: vec![
            delegation("Write", "writer"),
            delegation("Edit(./docs/**)", "editor"),
            delegation("Bash(make:*)", "*"),
        ],
        ..rights("coordinator", &[(Deny, "Write"), (Deny, "Bash")])
    });
    check(&coordinator, "Write", &Call::write("x"), Deny);
    check(&coordinator, "Edit", &Call::write("docs/x"), Deny);
    check(&coordinator, "Edit", &Call::write("src/x"), Allow);
    check(&coordinator, "Bash", &Call::command("make x"), Deny);

    let writer = coordinator.child(&rights("writer", &[]));
    let below = writer.child(&rights("helper", &[]));
    for agent in [&writer, &below] {
        check(agent, "Write", &Call::write("x"), Allow);
        check(agent, "Write", &Call::write("docs/x"), Allow);
        check(agent, "Write", &Call::write("secrets/x"), Deny);
        check(agent, "Write", &Call::write(".git/x"), Ask);
        check(agent, "Bash", &Call::command("rm x"), Deny);
        assert!(agent.removes("Write").is_none());
    }
    // The main agent has no rule for make and asks; the coordinator's own denial is skipped.
    check(&writer, "Bash", &Call::command("make x"), Ask);
    let other = coordinator.child(&rights("other", &[(Allow, "Write")]));
    check(&other, "Write", &Call::write("x"), Deny);
    check(&other, "Bash", &Call::command("make x"), Ask);

    insta::assert_snapshot!(writer.lattice(), @r"
    main: mode acceptEdits; deny Edit(./secrets/**)
    └─ coordinator: mode acceptEdits; deny Write, Bash; may delegate Write to writer but not use it; may delegate Edit(./docs/**) to editor but not use it; may delegate Bash(make:*) to * but not use it
       └─ writer: mode acceptEdits
    A call has to pass every level; the strictest answer counts.
    advisory: shell can bypass Read and Edit rules, because no sandbox is on.
    ");
    insta::assert_snapshot!(explain(&judge(&other, "Write", &Call::write("x"))), @r"
    deny: `Write` (agent definition) denies the tool Write
      allow  write /ws/x
             edits of /ws/x are accepted
    agents, the calling one first:
      allow  other: edits of /ws/x are accepted
      deny   coordinator: `Write` (agent definition) denies the tool Write
      allow  main: edits of /ws/x are accepted
    ");
}

#[test]
fn deny_rules_of_main_agent_apply_despite_delegation() {
    let builder =
        Policy::builder("/ws").mode(PermissionMode::AcceptEdits).delegation(delegation("Write", "writer"));
    let open = builder.clone().build();
    check(&open, "Write", &Call::write("x"), Deny);
    check(&open.child(&rights("writer", &[])), "Write", &Call::write("x"), Allow);
    let closed = with_rules(builder, Rules { deny: &["Write"], ..Rules::default() }).build();
    check(&closed.child(&rights("writer", &[])), "Write", &Call::write("x"), Deny);
}

fn add(behavior: Behavior, tool: &str, spec: Option<&str>, destination: Destination) -> PermissionUpdate {
    PermissionUpdate::AddRules(list(behavior, tool, spec, destination))
}

fn list(behavior: Behavior, tool: &str, spec: Option<&str>, destination: Destination) -> RuleList {
    let rule = RuleText { tool_name: tool.to_owned(), rule_content: spec.map(str::to_owned) };
    RuleList { rules: vec![rule], behavior, destination }
}

#[test]
fn live_permissions_apply_updates() {
    let project = RuleSource::new("project settings", Destination::ProjectSettings).rooted(Path::new("/ws"));
    let start = Policy::builder("/ws")
        .rules(&project, Allow, ["Custom", "Bash(make)"])
        .rules(&RuleSource::fixed("managed settings"), Deny, ["Bash(rm:*)"])
        .build();
    let session = LivePermissions::new(start);
    let now = |tool: &str, call: Call| judge(&session.policy(), tool, &call).behavior;
    assert_eq!(now("Write", Call::write("x")), Ask);
    session.apply(&PermissionUpdate::SetMode {
        mode: PermissionMode::AcceptEdits,
        destination: Destination::Session,
    });
    assert_eq!(now("Write", Call::write("x")), Allow);

    session.apply(&add(Deny, "Edit", Some("/x"), Destination::ProjectSettings));
    assert_eq!(now("Write", Call::write("x")), Deny);
    session.apply(&PermissionUpdate::RemoveRules(list(Deny, "Edit", Some("/x"), Destination::Session)));
    assert_eq!(now("Write", Call::write("x")), Deny, "another destination");
    session.apply(&PermissionUpdate::RemoveRules(list(
        Deny,
        "Edit",
        Some("/x"),
        Destination::ProjectSettings,
    )));
    assert_eq!(now("Write", Call::write("x")), Allow);

    session.apply(&add(Allow, "Bash", Some("*"), Destination::Session));
    session.apply(&add(Allow, "Bash", None, Destination::Session));
    assert_eq!(session.policy().source_rules().len(), 4, "the same rule once");
    assert_eq!(now("Bash", Call::command("anything")), Allow);
    assert_eq!(now("Bash", Call::command("rm x")), Deny, "nobody may change this");
    session.apply(&PermissionUpdate::RemoveRules(list(Allow, "Bash", None, Destination::Session)));
    assert_eq!(now("Bash", Call::command("anything")), Ask);
    session.apply(&PermissionUpdate::ReplaceRules(list(Allow, "Other", None, Destination::ProjectSettings)));
    assert_eq!((now("Custom", Call::undeclared()), now("Other", Call::undeclared())), (Ask, Allow));

    let directories = vec!["/more".into()];
    let destination = Destination::Session;
    session.apply(&PermissionUpdate::AddDirectories { directories: directories.clone(), destination });
    assert_eq!(now("Read", Call::read("/more/x")), Allow);
    session.apply(&PermissionUpdate::RemoveDirectories { directories, destination });
    assert_eq!(now("Read", Call::read("/more/x")), Ask);

    let warnings = session.apply(&add(Deny, "Read", Some("!x"), Destination::Session));
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert_eq!(now("Read", Call::read("x")), Ask);

    let mut names = Names::built_in();
    names.add_remote("mcp__w__t", "öther", "t");
    session.rename(&Arc::new(names));
    session.apply(&add(Allow, "mcp__öther", None, Destination::Session));
    assert_eq!(now("mcp__w__t", Call::undeclared()), Allow);
}

#[test]
fn child_permissions_follow_parent_updates() {
    let session = Arc::new(LivePermissions::new(Policy::builder("/ws").build()));
    let child = Arc::new(session.child(rights("child", &[])));
    let grandchild = child.child(rights("grandchild", &[(Deny, "Other")]));
    let now = |tool: &str| judge(&grandchild.policy(), tool, &Call::undeclared()).behavior;
    assert_eq!(now("Custom"), Ask);
    grandchild.apply(&add(Allow, "Custom", None, Destination::Session));
    assert_eq!(now("Custom"), Allow);
    assert_eq!(judge(&session.policy(), "Custom", &Call::undeclared()).behavior, Allow);
    session.apply(&add(Deny, "Custom", None, Destination::Session));
    assert_eq!(now("Custom"), Deny);
    session.apply(&add(Allow, "Other", None, Destination::Session));
    assert_eq!(now("Other"), Deny);
    let before = grandchild.policy();
    assert!(Arc::ptr_eq(&before, &grandchild.policy()), "nothing changed, nothing is made again");
}

#[test]
fn child_mode_does_not_affect_parent() {
    let session = Arc::new(LivePermissions::new(Policy::builder("/ws").build()));
    let child = Arc::new(session.child(rights("child", &[])));
    let grandchild = child.child(rights("grandchild", &[]));
    let set = |permissions: &LivePermissions, mode, destination| {
        let update = PermissionUpdate::SetMode { mode, destination };
        permissions.apply(&update);
        permissions.keeps(&update)
    };
    let modes = || [session.policy().mode, child.policy().mode, grandchild.policy().mode];
    let writes = || [&session, &child].map(|it| judge(&it.policy(), "Write", &Call::write("x")).behavior);
    use PermissionMode::{AcceptEdits, BypassPermissions, Default, Plan};

    assert!(!set(&child, BypassPermissions, Destination::UserSettings), "settings are the session's");
    assert_eq!(modes(), [Default, BypassPermissions, BypassPermissions]);
    assert_eq!(writes(), [Ask, Ask], "the parent still asks");
    assert!(!set(&session, AcceptEdits, Destination::Session));
    assert_eq!(modes(), [AcceptEdits, BypassPermissions, BypassPermissions]);
    assert_eq!(writes(), [Allow, Allow]);
    set(&child, Plan, Destination::Session);
    assert_eq!(modes(), [AcceptEdits, Plan, Plan]);
    assert_eq!(writes(), [Allow, Deny]);
    assert!(set(&session, Plan, Destination::UserSettings));
    child.apply(&add(Allow, "Custom", None, Destination::Session));
    assert_eq!(modes(), [Plan, Plan, Plan]);
    assert!(session.policy().source_rules().iter().any(|rule| &*rule.text == "Custom"));
}

#[test]
fn concurrent_readers_see_consistent_policies() {
    let session = Arc::new(LivePermissions::new(Policy::builder("/ws").build()));
    std::thread::scope(|scope| {
        for worker in 0..4 {
            let session = Arc::clone(&session);
            scope.spawn(move || {
                for round in 0..25 {
                    let rule = format!("T{worker}_{round}");
                    session.apply(&add(Allow, &rule, None, Destination::Session));
                    assert_eq!(judge(&session.policy(), &rule, &Call::undeclared()).behavior, Allow);
                }
            });
        }
    });
    assert_eq!(session.policy().source_rules().len(), 100, "no update is lost");
}

#[test]
fn permission_updates_use_the_sdk_format() {
    let json = r#"{"type":"addRules","rules":[{"toolName":"Bash","ruleContent":"npm test:*"}],"behavior":"allow","destination":"localSettings"}"#;
    let update: PermissionUpdate = serde_json::from_str(json).unwrap();
    assert_eq!(update, add(Allow, "Bash", Some("npm test:*"), Destination::LocalSettings));
    assert_eq!(serde_json::to_string(&update).unwrap(), json);
}

#[test]
fn child_rules_restrict_search_results() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    let parent = Policy::builder(&root).rules(&RuleSource::fixed("managed"), Deny, ["Read(.env)"]).build();
    let child = parent.child(&rights("child", &[(Deny, "Read(./private/**)")]));
    let call = Call::read(&root);
    let permit = |policy: &Policy| {
        policy.judge("Grep", &call, &context(&root, None), &HookOpinion::None).permit().unwrap()
    };
    for (file, above, below) in [("a", true, true), ("x/.env", false, false), ("private/a", true, false)] {
        assert_eq!(permit(&parent).may_read(&root.join(file)), above, "{file}");
        assert_eq!(permit(&child).may_read(&root.join(file)), below, "{file}");
    }
}
