//! Order of evaluation, strictness and modes.
#![allow(clippy::unwrap_used, missing_docs, reason = "test code")]

use crate::common;

use std::{
    pin::pin,
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
};

use common::{Call, Rules, context, judge, judge_with, policy, with_rules};
use haft_permission::{
    AlwaysAskReason, Behavior, Classifier, ClassifierAnswer, ClassifierRequest, CommandAnalysis,
    CommandContext, CommandJudge, CommandNature, CommandPart, Decision, DecisionSource, FileMention,
    FileTarget, FileUse, FileUseKind, FileUseScope, HookOpinion, LivePermissions, PathRuleReach, Policy,
    RuleCoverage, RuleForm,
};
use haft_tool::{AllowReason, BoxFuture, Verdict};
use haft_types::PermissionMode::{self, AcceptEdits, Auto, BypassPermissions, Default, DontAsk, Plan};

use Behavior::{Allow, Ask, Deny};

const MODES: [PermissionMode; 6] = [Default, AcceptEdits, Plan, Auto, DontAsk, BypassPermissions];

#[track_caller]
fn row(rules: Rules<'_>, tool: &str, call: &Call, want: [Behavior; 6]) {
    for (mode, want) in MODES.into_iter().zip(want) {
        let decision = judge(&policy(mode, rules), tool, call);
        assert_eq!(decision.behavior, want, "{mode} {rules:?} {tool} {call:?}\n{decision:?}");
    }
}

#[test]
fn calls_without_rules_are_decided_by_mode() {
    let none = Rules::default();
    // default, acceptEdits, plan, auto, dontAsk, bypassPermissions.
    row(none, "Read", &Call::read("/ws/x"), [Allow; 6]);
    row(none, "Read", &Call::read("/etc/x"), [Ask, Ask, Ask, Ask, Deny, Allow]);
    row(none, "Write", &Call::write("/ws/x"), [Ask, Allow, Deny, Ask, Deny, Allow]);
    row(none, "Write", &Call::write("/etc/x"), [Ask, Ask, Deny, Ask, Deny, Allow]);
    row(none, "Write", &Call::write("/ws/.git/x"), [Ask, Ask, Deny, Ask, Deny, Allow]);
    row(none, "Bash", &Call::command("make"), [Ask, Ask, Deny, Ask, Deny, Allow]);
    row(none, "Bash", &Call::command("make; x"), [Ask, Ask, Deny, Ask, Deny, Allow]);
    row(none, "WebFetch", &Call::fetch("https://x.test"), [Ask, Ask, Ask, Ask, Deny, Allow]);
    row(none, "mcp__a__b", &Call::undeclared(), [Ask, Ask, Deny, Ask, Deny, Allow]);
    row(none, "mcp__a__b", &Call::undeclared().reading(), [Allow; 6]);
    row(none, "TodoWrite", &Call::touching(vec![]), [Allow; 6]);
    row(none, "Skill", &Call::named("x"), [Ask, Ask, Ask, Ask, Deny, Allow]);
    row(none, "Agent", &Call::named("x").with_verdict(Verdict::Allow), [Allow; 6]);
}

#[test]
fn calls_with_rules_are_decided_in_each_mode() {
    let deny = Rules { deny: &["Custom"], ask: &["Custom"], allow: &["Custom"] };
    row(deny, "Custom", &Call::undeclared(), [Deny; 6]);
    let ask = Rules { ask: &["Custom"], allow: &["Custom"], ..Rules::default() };
    row(ask, "Custom", &Call::undeclared().reading(), [Ask, Ask, Ask, Ask, Deny, Ask]);
    row(ask, "Custom", &Call::touching(vec![]), [Ask, Ask, Ask, Ask, Deny, Ask]);
    let allow =
        Rules { allow: &["Custom", "Bash(make:*)", "Edit(./x)", "Read(//etc/**)"], ..Rules::default() };
    row(allow, "Custom", &Call::undeclared(), [Allow, Allow, Deny, Allow, Allow, Allow]);
    row(allow, "Bash", &Call::command("make x"), [Allow, Allow, Deny, Allow, Allow, Allow]);
    row(allow, "Write", &Call::write("x"), [Allow, Allow, Deny, Allow, Allow, Allow]);
    row(allow, "Read", &Call::read("/etc/x"), [Allow; 6]);
    let deny =
        Rules { deny: &["Edit(./secrets/**)", "Bash(rm:*)"], allow: &["Edit", "Bash"], ..Rules::default() };
    row(deny, "Write", &Call::write("secrets/x"), [Deny; 6]);
    row(deny, "Bash", &Call::command("rm x"), [Deny; 6]);
}

#[test]
fn tool_verdict_is_applied_in_each_mode() {
    let none = Rules::default();
    let allow = Rules { allow: &["Custom"], ..Rules::default() };
    let call = |verdict: Verdict| Call::undeclared().with_verdict(verdict);
    let text = || String::from("because");
    row(none, "Custom", &call(Verdict::Allow), [Allow, Allow, Deny, Allow, Allow, Allow]);
    row(allow, "Custom", &call(Verdict::Ask(text())), [Ask, Ask, Deny, Ask, Deny, Allow]);
    row(allow, "Custom", &call(Verdict::Insist(text())), [Ask, Ask, Deny, Ask, Deny, Ask]);
    row(allow, "Custom", &call(Verdict::Deny(text())), [Deny; 6]);
    let nothing = |verdict: Verdict| Call::touching(vec![]).with_verdict(verdict);
    row(none, "ExitPlanMode", &nothing(Verdict::Ask(text())), [Ask, Ask, Ask, Ask, Deny, Allow]);
    row(none, "AskUserQuestion", &nothing(Verdict::Insist(text())), [Ask, Ask, Ask, Ask, Deny, Ask]);
    // A tool's allow does not extend to paths.
    let outside = Call::read("/etc/x").with_verdict(Verdict::Allow);
    row(none, "Custom", &outside, [Ask, Ask, Ask, Ask, Deny, Allow]);
}

#[test]
fn hook_opinion_is_applied_in_each_mode() {
    let check = |mode, rules, tool: &str, call: &Call, hook: &HookOpinion, want| {
        let decision = judge_with(&policy(mode, rules), tool, call, hook);
        assert_eq!(decision.behavior, want, "{mode} {tool} {hook:?} {decision:?}");
        decision
    };
    let none = Rules::default();
    let allow = Rules { allow: &["Custom"], ..Rules::default() };
    let text = || String::from("because");
    for mode in MODES {
        check(mode, allow, "Custom", &Call::undeclared(), &HookOpinion::Deny(text()), Deny);
        let want = match mode {
            DontAsk => Deny,
            Plan => Deny,
            _ => Ask,
        };
        check(mode, allow, "Custom", &Call::undeclared(), &HookOpinion::Ask(text()), want);
    }
    for mode in [Default, AcceptEdits, Auto, DontAsk, BypassPermissions] {
        check(mode, none, "Custom", &Call::undeclared(), &HookOpinion::Allow, Allow);
        let deny = Rules { deny: &["Custom"], ..none };
        check(mode, deny, "Custom", &Call::undeclared(), &HookOpinion::Allow, Deny);
    }
    let ask = Rules { ask: &["Custom"], ..none };
    check(Default, ask, "Custom", &Call::undeclared(), &HookOpinion::Allow, Ask);
    check(Default, none, "Write", &Call::write("/ws/.git/config"), &HookOpinion::Allow, Ask);
    check(Plan, none, "Write", &Call::write("/ws/x"), &HookOpinion::Allow, Deny);
    let insists = Call::undeclared().with_verdict(Verdict::Insist(text()));
    check(Default, none, "Custom", &insists, &HookOpinion::Allow, Ask);
    let asks = Call::undeclared().with_verdict(Verdict::Ask(text()));
    let decision = check(Default, none, "Custom", &asks, &HookOpinion::Allow, Allow);
    assert_eq!(decision.permit().unwrap().reason(), &AllowReason::Hook);
}

#[test]
fn permit_is_issued_only_for_allowed_or_approved_calls() {
    let policy = policy(Default, Rules { deny: &["Denied"], allow: &["Allowed"], ..Rules::default() });
    let ask = judge(&policy, "Custom", &Call::undeclared());
    assert!(ask.clone().permit().is_err());
    assert_eq!(ask.approved().unwrap().reason(), &AllowReason::User);
    let deny = judge(&policy, "Denied", &Call::undeclared());
    assert!(deny.clone().permit().is_err() && deny.approved().is_err());
    let allow = judge(&policy, "Allowed", &Call::undeclared());
    assert_eq!(allow.approved().unwrap().reason(), &AllowReason::Rule(String::from("Allowed")));
}

/// A classifier with scripted answers that records its requests.
struct Scripted {
    answers: Mutex<Vec<ClassifierAnswer>>,
    seen: Mutex<Vec<ClassifierRequest>>,
}

impl Classifier for Scripted {
    fn classify<'a>(&'a self, request: &'a ClassifierRequest) -> BoxFuture<'a, ClassifierAnswer> {
        self.seen.lock().unwrap().push(request.clone());
        let answer = self.answers.lock().unwrap().pop().unwrap_or(ClassifierAnswer::Abstain);
        Box::pin(async { answer })
    }
}

fn ready<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(it) => it,
        Poll::Pending => panic!("the classifier answers at once"),
    }
}

#[test]
fn classifier_answers_prompts_in_auto_mode() {
    let scripted = |answers: Vec<ClassifierAnswer>| {
        Arc::new(Scripted { answers: Mutex::new(answers), seen: Mutex::default() })
    };
    let with = |classifier: &Arc<Scripted>, rules| {
        let builder =
            Policy::builder("/ws").mode(Auto).classifier(Arc::clone(classifier) as Arc<dyn Classifier>);
        with_rules(builder, rules).build()
    };
    let classifier = scripted(vec![]);
    let auto =
        with(&classifier, Rules { ask: &["Firm"], allow: &["Bash", "Bash(make)"], ..Rules::default() });
    for (tool, call, want, classifiable) in [
        ("Write", Call::write("/ws/x"), Allow, false),
        ("Write", Call::write("/ws/.git/x"), Ask, false),
        ("Write", Call::write("/etc/x"), Ask, true),
        ("Firm", Call::undeclared(), Ask, false),
        ("Bash", Call::command("rm x"), Ask, true),
        ("Bash", Call::command("make"), Allow, false),
    ] {
        let decision = judge(&auto, tool, &call);
        assert_eq!((decision.behavior, decision.is_classifiable()), (want, classifiable), "{tool} {call:?}");
    }

    let call = Call::command("rm x");
    let session = |answers: Vec<ClassifierAnswer>| {
        let classifier = scripted(answers);
        (LivePermissions::new(with(&classifier, Rules::default())), classifier)
    };
    let ask = |session: &LivePermissions| -> Decision {
        let decision = judge(&session.policy(), "Bash", &call);
        ready(session.classify(decision, "Bash", &call, None))
    };
    let block = || ClassifierAnswer::Block(String::from("it deletes"));
    let (approving, classifier) = session(vec![ClassifierAnswer::Approve]);
    let decision = ask(&approving);
    assert_eq!((decision.behavior, &decision.source), (Allow, &DecisionSource::Classifier));
    assert_eq!(classifier.seen.lock().unwrap().len(), 1);
    assert!(decision.permit().is_ok());
    assert_eq!(ask(&approving).behavior, Ask, "it abstains");

    let (blocking, classifier) = session(vec![block(), block(), block(), block()]);
    for _ in 0..3 {
        let decision = ask(&blocking);
        assert_eq!(decision.reason, "blocked by the classifier: it deletes");
        assert!(decision.approved().is_err());
    }
    assert_eq!(ask(&blocking).behavior, Ask, "three in a row: a person looks");
    assert_eq!(classifier.seen.lock().unwrap().len(), 3);
    blocking.person_answered(Deny);
    assert_eq!(ask(&blocking).behavior, Deny);
}

/// A judge that returns a prepared analysis.
struct Prepared(CommandAnalysis);

impl CommandJudge for Prepared {
    fn analyse(&self, _line: &haft_tool::CommandLine, _place: &CommandContext<'_>) -> CommandAnalysis {
        self.0.clone()
    }

    fn propose(&self, line: &haft_tool::CommandLine, _place: &CommandContext<'_>) -> Vec<String> {
        vec![line.text().to_owned(); 9]
    }
}

fn part(text: &str, nature: CommandNature) -> CommandPart {
    let face = RuleForm::new(text.split(' ').map(String::from).collect());
    CommandPart {
        text: text.to_owned(),
        allow_faces: vec![face.clone()],
        deny_faces: vec![face],
        suspect_faces: Vec::new(),
        nature,
        files: vec![],
        concern: None,
        talks: false,
        weak: false,
    }
}

fn file(path: &str, kind: FileUseKind, through: FileMention) -> FileUse {
    FileUse { through, ..FileUse::operand(path, kind) }
}

#[track_caller]
fn line(
    mode: PermissionMode,
    rules: Rules<'_>,
    parts: &[CommandPart],
    doubt: Option<&str>,
    want: Behavior,
) -> Decision {
    let analysis = CommandAnalysis { parts: parts.to_vec(), doubt: doubt.map(String::from) };
    let builder = Policy::builder("/ws").home("/home/u").mode(mode).commands(Arc::new(Prepared(analysis)));
    let decision = judge(&with_rules(builder, rules).build(), "Bash", &Call::command("the line"));
    assert_eq!(decision.behavior, want, "{mode} {rules:?} {parts:?}\n{decision:?}");
    decision
}

#[test]
fn strictest_part_of_line_decides() {
    use CommandNature::{EditsFiles, Other, ReadOnly};
    use FileMention::{Operand, Redirection};
    use FileUseKind::{Read, Write};
    let none = Rules::default();
    let make = Rules { allow: &["Bash(make:*)"], ..none };
    let (ls, build) = (part("ls", ReadOnly), part("make x", Other));
    line(Default, none, std::slice::from_ref(&ls), None, Allow);
    line(Default, make, &[ls.clone(), build.clone()], None, Allow);
    line(Default, none, &[ls.clone(), build.clone()], None, Ask);
    line(Default, make, &[ls.clone(), build.clone()], Some("unclear"), Ask);
    line(BypassPermissions, none, std::slice::from_ref(&build), Some("unclear"), Allow);
    line(DontAsk, none, std::slice::from_ref(&ls), Some("unclear"), Deny);
    line(Default, Rules { deny: &["Bash(ls)"], ..make }, &[build.clone(), ls.clone()], None, Deny);
    line(Default, Rules { ask: &["Bash(ls)"], ..make }, &[build.clone(), ls.clone()], None, Ask);

    let reading =
        |path: &str| CommandPart { files: vec![file(path, Read, Operand)], ..part("cat f", ReadOnly) };
    line(Default, none, &[reading("/ws/f")], None, Allow);
    line(Default, none, &[reading("/etc/f")], None, Ask);
    line(Default, Rules { allow: &["Read(//etc/**)"], ..none }, &[reading("/etc/f")], None, Allow);
    line(Default, Rules { allow: &["Bash(cat:*)"], ..none }, &[reading("/etc/f")], None, Allow);
    line(
        Default,
        Rules { allow: &["Bash"], deny: &["Read(./f)"], ..none },
        &[reading("/ws/x/../f")],
        None,
        Deny,
    );

    let writing = |path: &str, through| CommandPart {
        files: vec![file(path, Write, through)],
        ..part("touch f", EditsFiles)
    };
    line(Default, none, &[writing("/ws/f", Operand)], None, Ask);
    line(AcceptEdits, none, &[writing("/ws/f", Operand)], None, Allow);
    line(AcceptEdits, none, &[writing("/etc/f", Operand)], None, Ask);
    line(AcceptEdits, none, &[writing("/ws/.git/f", Operand)], None, Ask);
    line(Plan, none, &[writing("/ws/f", Operand)], None, Deny);
    line(Plan, none, std::slice::from_ref(&ls), None, Allow);
    let touch = Rules { allow: &["Bash(touch:*)"], ..none };
    line(Default, touch, &[writing("/etc/f", Operand)], None, Allow);
    line(Default, touch, &[writing("/ws/.git/f", Operand)], None, Ask);
    // No rule about a command covers its redirections; the rule for every command does, as for `touch`.
    line(Default, touch, &[writing("/ws/f", Redirection)], None, Ask);
    line(Default, Rules { allow: &["Bash"], ..none }, &[writing("/ws/f", Redirection)], None, Allow);
    line(Default, Rules { allow: &["Bash"], ..none }, &[writing("/ws/.git/f", Redirection)], None, Ask);
    line(DontAsk, Rules { allow: &["Bash"], ..none }, &[writing("/ws/f", Redirection)], None, Allow);
    line(
        Default,
        Rules { allow: &["Bash", "Edit(./f)"], ..none },
        &[writing("/ws/f", Redirection)],
        None,
        Allow,
    );
    let redirected = CommandPart { files: vec![file("/ws/o", Write, Redirection)], ..ls.clone() };
    line(AcceptEdits, none, std::slice::from_ref(&redirected), None, Allow);
    line(Plan, none, &[redirected], None, Deny);

    let face = |coverage| part("watch ls", Other).allow_faces.remove(0).covered_by(coverage);
    let exact = CommandPart { allow_faces: vec![face(RuleCoverage::ExactRule)], ..part("watch ls", Other) };
    line(Default, Rules { allow: &["Bash(watch:*)"], ..none }, std::slice::from_ref(&exact), None, Ask);
    line(Default, Rules { allow: &["Bash(watch ls)"], ..none }, std::slice::from_ref(&exact), None, Allow);
    line(Default, Rules { allow: &["Bash"], ..none }, &[exact], None, Allow);
    let whole = CommandPart { allow_faces: vec![face(RuleCoverage::WholeRule)], ..part("watch ls", Other) };
    line(Default, Rules { allow: &["Bash(watch ls)"], ..none }, std::slice::from_ref(&whole), None, Ask);
    line(Default, Rules { allow: &["Bash"], ..none }, &[whole], None, Allow);
    let nobodys = CommandPart { allow_faces: vec![], ..build.clone() };
    line(Default, Rules { allow: &["Bash", "Bash(make:*)"], ..none }, &[nobodys], None, Ask);

    let insisting =
        CommandPart { concern: Some(AlwaysAskReason::Insist(String::from("removes /"))), ..build.clone() };
    line(BypassPermissions, Rules { allow: &["Bash"], ..none }, &[insisting], None, Ask);
    let careful = CommandPart { concern: Some(AlwaysAskReason::Ask(String::from("elsewhere"))), ..build };
    line(Default, Rules { allow: &["Bash"], ..none }, std::slice::from_ref(&careful), None, Ask);
    line(BypassPermissions, none, &[careful], None, Allow);
}

#[test]
fn near_miss_reason_names_the_differing_word() {
    let rules =
        Rules { allow: &["Bash(npm run test:*)", "Bash(npm install)", "Bash(make all)"], ..Rules::default() };
    let reason = |text: &str| line(Default, rules, &[part(text, CommandNature::Other)], None, Ask).reason;
    insta::assert_snapshot!(reason("npm run build"), @"no rule allows the command `npm run build`; `Bash(npm run test:*)` (project settings) does not match because of `build`");
    insta::assert_snapshot!(reason("npm run"), @"no rule allows the command `npm run`; `Bash(npm run test:*)` (project settings) does not match because it is longer");
    insta::assert_snapshot!(reason("make all x"), @"no rule allows the command `make all x`; `Bash(make all)` (project settings) does not match because of `x`");
    insta::assert_snapshot!(reason("cargo build"), @"no rule allows the command `cargo build`");
}

#[test]
fn at_most_five_rules_are_proposed() {
    let decision = line(Default, Rules::default(), &[part("x y", CommandNature::Other)], None, Ask);
    let [haft_permission::PermissionUpdate::AddRules(list)] = &*decision.suggestions else {
        panic!("{:?}", decision.suggestions)
    };
    assert!(list.rules.len() <= 5);
    assert_eq!(list.rules[0].text(), "Bash(the line)");
}

/// A real directory, because globs and trees are looked up.
#[test]
fn globs_trees_and_unknown_files_are_checked_against_rules() {
    use CommandNature::{EditsFiles, Other, ReadOnly};
    use FileUseKind::{Read, Write};
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    let ws = root.join("ws");
    std::fs::create_dir_all(ws.join("sub/.git")).unwrap();
    std::fs::create_dir_all(ws.join("plain")).unwrap();
    for file in [".env", "a.txt", "plain/b.txt"] {
        std::fs::write(ws.join(file), "x").unwrap();
    }
    std::os::unix::fs::symlink(root.join("outside"), ws.join("plain/out.lnk")).unwrap();
    let judged = |enforcement, mode, rules: Rules<'_>, part: CommandPart| {
        let analysis = CommandAnalysis { parts: vec![part], doubt: None };
        let builder =
            Policy::builder(&ws).mode(mode).enforcement(enforcement).commands(Arc::new(Prepared(analysis)));
        let policy = with_rules(builder, rules).build();
        policy.judge("Bash", &Call::command("line"), &context(&ws, None), &HookOpinion::None)
    };
    let check = |mode, rules, part: CommandPart, want| {
        let decision = judged(PathRuleReach::Advisory, mode, rules, part.clone());
        assert_eq!(decision.behavior, want, "{rules:?} {part:?}\n{decision:?}");
    };
    let using = |target: FileTarget, kind, through, reach, nature| CommandPart {
        files: vec![FileUse { target, kind, through, reach }],
        ..part("x y", nature)
    };
    let (itself, tree) = (FileUseScope::Itself, FileUseScope::Tree);
    let pattern = |text: &str| FileTarget::Pattern(ws.join(text));
    let unknown = || FileTarget::Unknown(String::from("$f"));
    let whole = |text: &str| FileTarget::Path(ws.join(text));
    let none = Rules::default();
    let deny = Rules { deny: &["Read(./.env)"], ..none };
    let denied_yet_allowed = Rules { allow: &["Bash"], ..deny };
    let operand = FileMention::Operand;

    let reading = |text: &str| using(pattern(text), Read, operand, itself, ReadOnly);
    check(Default, none, reading("*.txt"), Allow);
    check(Default, deny, reading("*.txt"), Allow);
    check(Default, deny, reading(".e*"), Deny);
    check(Default, denied_yet_allowed, reading("*"), Deny);
    check(Default, none, reading("plain/*.txt"), Allow);
    check(Default, none, reading("plain/*.lnk"), Ask);
    check(Default, none, reading("../*"), Ask);
    check(Default, none, reading("gone/*"), Allow);
    // A file that does not exist yet also has a name.
    check(Default, Rules { deny: &["Read(./later)"], ..none }, reading("lat*"), Deny);
    let touching = |text: &str| using(pattern(text), Write, operand, itself, EditsFiles);
    check(AcceptEdits, none, touching("*.txt"), Allow);
    check(AcceptEdits, none, touching("plain/*"), Ask);

    let f = |nature| using(unknown(), Read, operand, itself, nature);
    check(Default, none, f(ReadOnly), Ask);
    check(Default, Rules { allow: &["Bash"], ..none }, f(ReadOnly), Allow);
    check(Default, denied_yet_allowed, f(ReadOnly), Ask);
    check(BypassPermissions, deny, f(Other), Allow);
    let into = using(unknown(), Write, FileMention::Redirection, itself, ReadOnly);
    check(Default, Rules { allow: &["Bash", "Edit"], ..none }, into.clone(), Ask);
    check(AcceptEdits, none, into, Ask);

    let searching = |text: &str| using(whole(text), Read, operand, tree, ReadOnly);
    check(Default, none, searching("."), Allow);
    check(Default, deny, searching("."), Ask);
    check(Default, denied_yet_allowed, searching("."), Ask);
    check(Default, deny, searching("plain"), Allow);
    let sandboxed = judged(PathRuleReach::Sandboxed, Default, deny, searching("."));
    assert_eq!(sandboxed.behavior, Allow);
    let removing = |text: &str| using(whole(text), Write, operand, tree, EditsFiles);
    check(AcceptEdits, none, removing("plain"), Allow);
    check(AcceptEdits, none, removing("sub"), Ask);
    check(AcceptEdits, deny, removing("."), Ask);

    let mention = |text: &str, reach| using(whole(text), Read, FileMention::Mention, reach, Other);
    check(Default, denied_yet_allowed, mention(".env", itself), Deny);
    check(Default, denied_yet_allowed, mention("a.txt", itself), Allow);
    check(Default, denied_yet_allowed, mention(".", tree), Ask);
    check(Default, Rules { allow: &["Bash"], ..none }, mention("../../etc", itself), Allow);
}
