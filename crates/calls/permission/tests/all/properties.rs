//! Properties of all rules and all calls.
#![allow(clippy::unwrap_used, missing_docs, reason = "test code")]

use crate::common;

use std::sync::Arc;

use common::{Call, context, settings};
use haft_permission::{
    AgentRights, Behavior, DelegatedRight, HookOpinion, OutsideWorkspace, Policy, PolicyBuilder, RuleSource,
};
use haft_tool::{Access, AccessSet, Verdict};
use haft_types::PermissionMode;
use proptest::{prelude::*, sample};

const RULES: &[&str] = &[
    "Read",
    "Read(*)",
    "Read(./.env)",
    "Read(.env)",
    "Read(**/*.pem)",
    "Read(secrets/**)",
    "Read(//etc/**)",
    "Read(~/.ssh/**)",
    "Read(/docs/x)",
    "Read(!x)",
    "Read([x)",
    "Edit",
    "Edit(./out/**)",
    "Edit(//srv/**)",
    "Edit(src/*)",
    "Edit(.env)",
    "Write",
    "Write(./out/x)",
    "Glob(x)",
    "MultiEdit(./x)",
    "Bash",
    "Bash(*)",
    "Bash(make:*)",
    "Bash(make test)",
    "Bash(git * main)",
    "Bash(rm *)",
    "Bash(ls*)",
    "Bash(x",
    "Bash()",
    "Bash(flag:true)",
    "WebFetch",
    "WebFetch(domain:a.test)",
    "WebFetch(domain:*.a.test)",
    "WebFetch(a)",
    "Skill(x)",
    "Skill(x *)",
    "Agent(model:opus)",
    "Custom",
    "Custom(x)",
    "Task",
    "mcp__a",
    "mcp__a__b",
    "mcp__*",
    "*",
    "",
    "(x)",
    "Custom(",
];

const TOOLS: &[&str] = &[
    "Read",
    "Grep",
    "Write",
    "Edit",
    "Bash",
    "Monitor",
    "WebFetch",
    "Skill",
    "Agent",
    "Custom",
    "mcp__a__b",
    "Other",
];

const PATHS: &[&str] = &[
    "/ws/x",
    "x",
    ".env",
    "src/a",
    "src/b/c",
    "sub/.env",
    "secrets/k",
    "a/secrets/k",
    "k.pem",
    "out/x",
    "out",
    "/etc/hosts",
    "/srv/a",
    "~/.ssh/id",
    "/home/u/x",
    "docs/x",
    ".git/config",
    ".bashrc",
    "../up",
    "/proc/self/mem",
    "",
    "a\0b",
    "/",
];

const LINES: &[&str] = &[
    "make",
    "make test",
    "make test x",
    "git push main",
    "rm x",
    "rmdir x",
    "ls",
    "lsof",
    "a; b",
    "sudo rm x",
    "",
];

const ADDRESSES: &[&str] =
    &["https://a.test/x", "https://b.a.test", "http://c.test", "file:///x", "https://u@a.test"];

fn access() -> impl Strategy<Value = Access> {
    prop_oneof![
        4 => unnamed_access(),
        1 => sample::select(&["x", "x y", "z"][..]).prop_map(|it| Access::Named(it.into())),
    ]
}

fn unnamed_access() -> impl Strategy<Value = Access> {
    prop_oneof![
        sample::select(PATHS).prop_map(|it| Access::Read(it.into())),
        sample::select(PATHS).prop_map(|it| Access::Write(it.into())),
        sample::select(LINES).prop_map(|it| Access::Command(it.into())),
        sample::select(ADDRESSES).prop_map(|it| Access::Fetch(it.into())),
    ]
}

fn call() -> impl Strategy<Value = Call> {
    let reach = prop_oneof![
        1 => Just(AccessSet::Undeclared),
        4 => prop::collection::vec(access(), 0..3).prop_map(AccessSet::Declared),
    ];
    let verdict = prop_oneof![
        6 => Just(Verdict::Passthrough),
        1 => Just(Verdict::Allow),
        1 => Just(Verdict::Ask(String::from("t"))),
        1 => Just(Verdict::Insist(String::from("t"))),
        1 => Just(Verdict::Deny(String::from("t"))),
    ];
    let input = sample::select(&[r"{}", r#"{"model":"opus"}"#, r#"{"flag":true}"#][..]);
    (reach, verdict, any::<bool>(), input).prop_map(|(reach, verdict, read_only, input)| Call {
        reach,
        verdict,
        read_only,
        input: serde_json::from_str(input).unwrap(),
    })
}

fn hook() -> impl Strategy<Value = HookOpinion> {
    prop_oneof![
        5 => Just(HookOpinion::None),
        1 => Just(HookOpinion::Allow),
        1 => Just(HookOpinion::Ask(String::from("h"))),
        1 => Just(HookOpinion::Deny(String::from("h"))),
    ]
}

type RuleList = Vec<(Behavior, &'static str)>;

fn behavior() -> impl Strategy<Value = Behavior> {
    sample::select(&[Behavior::Allow, Behavior::Ask, Behavior::Deny][..])
}

fn rules(most: usize) -> impl Strategy<Value = RuleList> {
    prop::collection::vec((behavior(), sample::select(RULES)), 0..=most)
}

fn mode() -> impl Strategy<Value = PermissionMode> {
    sample::select(&PermissionMode::ALL[..])
}

#[derive(Clone, Debug)]
struct Question {
    mode: PermissionMode,
    tool: &'static str,
    call: Call,
    hook: HookOpinion,
}

fn question() -> impl Strategy<Value = Question> {
    (mode(), sample::select(TOOLS), call(), hook()).prop_map(|(mode, tool, call, hook)| Question {
        mode,
        tool,
        call,
        hook,
    })
}

fn policy(mode: PermissionMode, rules: &RuleList) -> Policy {
    build(Policy::builder("/ws").home("/home/u").mode(mode), rules)
}

fn build(builder: PolicyBuilder, rules: &RuleList) -> Policy {
    rules
        .iter()
        .fold(builder, |builder, (behavior, text)| builder.rules(&settings(), *behavior, [*text]))
        .build()
}

fn ask(policy: &Policy, question: &Question) -> Behavior {
    let cx = context("/ws".as_ref(), Some("/home/u".as_ref()));
    let decision = policy.judge(question.tool, &question.call, &cx, &question.hook);
    assert!(decision.parts.iter().all(|part| part.decision <= decision.behavior), "{decision:?}");
    assert!(!decision.reason.is_empty() && decision.parts.iter().all(|part| !part.reason.is_empty()));
    assert_eq!(decision.clone().permit().is_ok(), decision.behavior == Behavior::Allow);
    assert_eq!(decision.clone().approved().is_ok(), decision.behavior != Behavior::Deny);
    assert_ne!(decision.clone().unattended().behavior, Behavior::Ask);
    decision.behavior
}

fn rights(name: &str, mode: Option<PermissionMode>, rules: &RuleList) -> AgentRights {
    let rules = rules.iter().map(|(behavior, text)| (*behavior, Arc::from(*text))).collect();
    AgentRights {
        name: name.into(),
        mode,
        rules,
        origin: RuleSource::fixed("agent"),
        ..AgentRights::default()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_order_of_rules_does_not_matter(
        (given, shuffled) in rules(8).prop_flat_map(|it| (Just(it.clone()), Just(it).prop_shuffle())),
        question in question(),
    ) {
        let mode = question.mode;
        prop_assert_eq!(ask(&policy(mode, &given), &question), ask(&policy(mode, &shuffled), &question));
    }

    #[test]
    fn added_deny_never_weakens_and_allow_never_beats_deny(
        mut given in rules(6), added in sample::select(RULES), says in behavior(), question in question(),
        outside in sample::select(&[OutsideWorkspace::Ask, OutsideWorkspace::Deny][..]),
    ) {
        let builder = Policy::builder("/ws").home("/home/u").mode(question.mode);
        let builder = builder.reads_outside(outside).writes_outside(outside);
        let before = ask(&build(builder.clone(), &given), &question);
        given.push((says, added));
        let after = ask(&build(builder, &given), &question);
        match says {
            Behavior::Allow => {
                prop_assert!(after <= before, "an allow made it stricter: {before} {after}");
                let denied = before == Behavior::Deny && outside == OutsideWorkspace::Ask;
                prop_assert!(!denied || after == Behavior::Deny || question.mode == PermissionMode::DontAsk);
            }
            Behavior::Ask | Behavior::Deny => prop_assert!(before <= after, "{before} {after}"),
        }
    }

    #[test]
    fn call_decision_equals_its_strictest_part(
        given in rules(6), a in unnamed_access(), b in unnamed_access(), mode in mode(), tool in sample::select(TOOLS),
    ) {
        let policy = policy(mode, &given);
        let judge = |accesses: Vec<Access>| {
            let question = Question { mode, tool, call: Call::touching(accesses), hook: HookOpinion::None };
            ask(&policy, &question)
        };
        let apart = judge(vec![a.clone()]).max(judge(vec![b.clone()]));
        prop_assert_eq!(judge(vec![a, b]), apart);
    }

    #[test]
    fn child_decision_never_exceeds_its_parent(
        above in rules(6), below in rules(6), child_mode in prop::option::of(mode()), question in question(),
    ) {
        let parent = policy(question.mode, &above);
        let child = parent.child(&rights("child", child_mode, &below));
        let grandchild = child.child(&rights("grandchild", None, &vec![(Behavior::Allow, "Bash")]));
        let allowed = ask(&parent, &question);
        prop_assert!(allowed <= ask(&child, &question));
        prop_assert!(ask(&child, &question) <= ask(&grandchild, &question));
    }

    #[test]
    fn delegated_decision_never_exceeds_the_level_above(
        above in rules(5), coordinator in rules(5), passed in sample::select(RULES), below in rules(4),
        question in question(),
    ) {
        let root = policy(question.mode, &above);
        let delegations = vec![DelegatedRight { rule: passed.into(), to: "*".into(), origin: RuleSource::fixed("agent") }];
        let coordinator = AgentRights { delegations, ..rights("coordinator", None, &coordinator) };
        let coordinator = root.child(&coordinator);
        let worker = coordinator.child(&rights("worker", None, &below));
        prop_assert!(ask(&root, &question) <= ask(&coordinator, &question));
        prop_assert!(ask(&root, &question) <= ask(&worker, &question));
    }

    #[test]
    fn rule_parser_never_panics_on_arbitrary_text(
        text in "[A-Za-z_*(){}\\[\\]!/~.:,; \\\\\\PC]{0,20}", says in behavior(), question in question(),
    ) {
        let builder = Policy::builder("/ws").mode(question.mode).rules(&settings(), says, [text]);
        let none = ask(&policy(question.mode, &vec![]), &question);
        let with = ask(&builder.build(), &question);
        let fine = if says == Behavior::Allow { with <= none } else { none <= with };
        prop_assert!(fine, "{none} {with}");
    }
}
