//! Skills and commands: arguments, commands in them, what they allow, agents of
//! their own, files that make them known.

use haft_model::Request;
use haft_session::{
    AgentStatus, Command, LogStart, Prompt, Session, SessionEvent, SessionEventKind, SessionSpec,
    SettingsSpec,
};
use haft_types::PermissionMode;
use serde_json::{Value, json};

use crate::{
    agents::{agent, first, is_child, last, main_results, reports, tools},
    rig::{Place, Requests, Said, call, ends, run, told},
};

/// Everything that is said in a request.
pub fn whole(request: &Request) -> String {
    let texts = request.messages.iter().flat_map(|it| &it.content).map(|block| match block {
        haft_types::MessageBlock::Text { text } => text.clone(),
        haft_types::MessageBlock::ToolResult { content, .. } => content.to_text(),
        _ => String::new(),
    });
    texts.collect::<Vec<_>>().join("\n")
}

pub fn notices(events: &[SessionEvent]) -> String {
    let all = events.iter().filter_map(|it| match &it.what {
        SessionEventKind::Notice(text) => Some(text.clone()),
        _ => None,
    });
    all.collect::<Vec<_>>().join("\n")
}

/// Prompts one after the other, and everything that happened.
pub async fn one_by_one(spec: SessionSpec, prompts: &[&str]) -> Vec<SessionEvent> {
    let (handle, mut events) = Session::open(spec).unwrap();
    let mut all = Vec::new();
    for prompt in prompts {
        handle.prompt(Prompt::text(*prompt));
        while let Some(event) = events.next().await {
            let is_over = matches!(event.what, SessionEventKind::TurnEnded(_));
            all.push(event);
            if is_over {
                break;
            }
        }
    }
    handle.send(Command::Finish);
    drop(handle);
    all.extend(told(events).await);
    all
}

fn described(request: &Request, tool: &str) -> String {
    let found =
        request.tools.definitions().iter().find(|it| it.name == tool).map(|it| it.description.clone());
    found.unwrap_or_default()
}

/// One call of Skill in a place, and then whatever `next` says; the requests and
/// what happened.
async fn load(place: &Place, input: Value, mode: PermissionMode) -> (Requests, Vec<SessionEvent>) {
    let (mut spec, requests) = place.answering(move |request| match request.messages.len() {
        1 if !is_child(request) => Said::Blocks(call("s1", "Skill", input.clone())),
        _ => Said::text("done"),
    });
    spec.permissions.mode = Some(mode);
    let events = run(spec, "go").await;
    (requests, events)
}

/// `$1` of awk and prices are not placeholders, and arguments are never run.
#[tokio::test]
async fn arguments_are_text() {
    let body = "---\ndescription: d\n---\nLook at $0 for $5.00.\n```sh\nawk '{print $1}'\n```\nNow: !`echo got $ARGUMENTS`";
    for (args, says) in [
        ("one two", "got one two"),
        ("'; touch x; '", "got '; touch x; '"),
        ("$(touch y) `touch z`", "got $(touch y) `touch z`"),
        ("a\\\"; touch x; \\\"b", "got a\\\"; touch x; \\\"b"),
    ] {
        let place = Place::new();
        place.write("home/.claude/skills/look/SKILL.md", body);
        let input = json!({"skill": "/look", "args": args});
        let (requests, events) = load(&place, input, PermissionMode::BypassPermissions).await;
        let said = last(&requests.all()[1]);
        assert!(said.contains(says), "{args}: {said} {:?}", main_results(&events));
        assert!(said.contains("awk '{print $1}'") && said.contains("$5.00"), "{said}");
        let files: Vec<_> =
            std::fs::read_dir(place.ws()).unwrap().flatten().map(|it| it.file_name()).collect();
        assert!(files.is_empty(), "{args}: {files:?}");
    }
}

/// A skill's command that would ask, is denied or fails makes loading fail; its allowed-tools apply
/// after approval.
#[tokio::test]
async fn commands_of_skills_are_judged() {
    let touch = "!`touch made`";
    for (head, body, settings, is_error, says) in [
        ("", touch, json!({}), true, "not allowed without a question"),
        ("allowed-tools: Bash(touch *)\n", touch, json!({}), true, "nobody is there to ask"),
        (
            "allowed-tools: Bash(touch *)\n",
            touch,
            json!({"permissions": {"allow": ["Skill(x)"]}}),
            false,
            "Launching",
        ),
        (
            "allowed-tools: Bash(touch *)\n",
            touch,
            json!({"permissions": {"allow": ["Skill(x)"], "deny": ["Bash(touch *)"]}}),
            true,
            "not allowed without a question",
        ),
        ("", "!`false`", json!({"permissions": {"allow": ["Bash(false)"]}}), true, "failed"),
        ("", touch, json!({"disableSkillShellExecution": true}), false, "Launching"),
    ] {
        let place = Place::new();
        place.write("home/.claude/settings.json", &settings.to_string());
        place.write("home/.claude/skills/x/SKILL.md", &format!("---\ndescription: d\n{head}---\n{body}"));
        let (_, events) = load(&place, json!({"skill": "x"}), PermissionMode::Default).await;
        let (was_error, text) = main_results(&events)[0].clone();
        assert_eq!((was_error, text.contains(says)), (is_error, true), "{head} {settings}: {text}");
        let runs = !is_error && settings.get("disableSkillShellExecution").is_none();
        assert_eq!(place.ws().join("made").exists(), runs, "{head} {settings}");
    }
}

/// Allow rules of a skill end with the turn, its deny rules apply; in a sub-agent it can only deny.
#[tokio::test]
async fn what_a_skill_allows_and_forbids_ends_with_the_turn() {
    let place = Place::new();
    place.write("home/.claude/settings.json", &json!({"permissions": {"allow": ["Skill"]}}).to_string());
    place.write(
        "home/.claude/skills/x/SKILL.md",
        "---\ndescription: d\nallowed-tools: Bash(touch *)\ndisallowed-tools: Write\n---\nB",
    );
    let touch =
        |id: &str, file: &str| Said::Blocks(call(id, "Bash", json!({"command": format!("touch {file}")})));
    let (mut spec, _) = place.answering(move |request| match (is_child(request), request.messages.len()) {
        (true, 1) => Said::Blocks(call("c1", "Skill", json!({"skill": "x"}))),
        (true, 3) => touch("c2", "child"),
        (true, _) => Said::text("done"),
        (false, 1) => touch("m0", "before"),
        (false, 3) => agent("m1", json!({"run_in_background": false})),
        (false, 5) => Said::Blocks(call("m2", "Skill", json!({"skill": "x"}))),
        (false, 7) => touch("m3", "active"),
        (false, 9) => Said::Blocks(call("m4", "Write", json!({"file_path": "w", "content": ""}))),
        (false, 11) => Said::text("end of the turn"),
        (false, 13) => touch("m5", "after"),
        _ => Said::text("done"),
    });
    spec.permissions.mode = Some(PermissionMode::Default);
    let events = one_by_one(spec, &["one", "two"]).await;
    for (file, there) in
        [("before", false), ("child", false), ("active", true), ("w", false), ("after", false)]
    {
        assert_eq!(place.ws().join(file).exists(), there, "{file}: {:?}", main_results(&events));
    }
}

/// A forked skill runs in its own agent and cannot load itself there; a second load in a conversation is
/// one line.
#[tokio::test]
async fn forked_skills_have_an_agent_of_their_own() {
    let place = Place::new();
    place.write(
        "ws/.claude/skills/deep/SKILL.md",
        "---\ndescription: d\ncontext: fork\nagent: Explore\n---\nLook for $0.",
    );
    place.write("ws/.claude/skills/plain/SKILL.md", "---\ndescription: p\n---\nPlain.");
    let (spec, requests) = place.answering(|request| match (is_child(request), request.messages.len()) {
        (true, 1) => Said::Blocks(call("c1", "Skill", json!({"skill": "deep"}))),
        (true, _) => Said::text(&format!("Found. {}", last(request))),
        (false, 1) => Said::Blocks(call("m1", "Skill", json!({"skill": "deep", "args": "cats"}))),
        (false, 3 | 5) => {
            Said::Blocks(call(&format!("m{}", request.messages.len()), "Skill", json!({"skill": "plain"})))
        }
        (false, _) => Said::text("done"),
    });
    let events = run(spec, "go").await;
    let report = &reports(&events)[0];
    assert_eq!((report.status, report.kind.as_str()), (AgentStatus::Completed, "Explore"));
    let results = main_results(&events);
    assert!(
        results[0].1.contains("    Found.") && results[0].1.contains("do not load it again"),
        "{results:?}"
    );
    assert!(results[2].1.contains("loaded already"), "{results:?}");
    let child = requests.all().into_iter().find(is_child).unwrap();
    assert!(first(&child).contains("Look for cats."), "{}", first(&child));
    assert!(!tools(&child).contains(&String::from("Write")));
}

/// Typed by a person: the same, and its report is what the model hears.
#[tokio::test]
async fn typed_commands_are_expanded_and_unknown_ones_are_no_commands() {
    let place = Place::new();
    place.write(
        "ws/.claude/commands/fix/one.md",
        "---\nmodel: haiku\narguments: issue who\n---\nFix $issue for $who.",
    );
    place.write("home/.claude/skills/both/SKILL.md", "---\ndescription: d\n---\nThe skill.");
    place.write("ws/.claude/skills/both/SKILL.md", "---\ndescription: d\n---\nThe project's.");
    place.write("ws/.claude/commands/both.md", "The command.");
    place.write(
        "ws/.claude/skills/fork/SKILL.md",
        "---\ndescription: d\ncontext: fork\n---\nAlone: $ARGUMENTS",
    );
    place.write("ws/.claude/skills/ask/SKILL.md", "---\ndescription: d\n---\n!`touch made`");
    for (prompt, says) in [
        ("/fix:one 12 'Bob Lee'", "Fix 12 for Bob Lee."),
        ("/both", "The skill."),
        ("/fork a b", "    Alone: a b"),
        ("/nothing here", "/nothing is no command or skill here"),
        ("/usr/bin is a directory", "/usr/bin is a directory"),
    ] {
        let (spec, requests) = place.answering(|request| {
            if is_child(request) {
                Said::text(&format!("report of {}", first(request)))
            } else {
                Said::text("ok")
            }
        });
        run(spec, prompt).await;
        let main = requests.all().into_iter().find(|it| !is_child(it)).unwrap();
        assert!(first(&main).contains(says), "{prompt}: {}", first(&main));
        assert_eq!(first(&main).contains("is no command"), prompt.starts_with("/nothing"));
        assert_eq!(main.model.contains("haiku"), prompt.starts_with("/fix"), "{prompt}");
    }
    let (spec, requests) = place.answering(|_| Said::text("ok"));
    let events = run(spec, "/ask").await;
    assert_eq!(requests.all().len(), 0, "a skill that could not be loaded is not sent");
    assert!(!place.ws().join("made").exists());
    let failed = events.iter().any(|it| matches!(&it.what, SessionEventKind::CommandEnded(ended) if format!("{:?}", ended.result).contains("not allowed without a question")));
    assert!(failed);
}

/// Files activate skills through `paths` and subdirectories. The list at the start is unchanged, and a
/// broken file is reported.
#[tokio::test]
async fn files_make_skills_known_and_the_prefix_stays() {
    let place = Place::new();
    place.write("ws/.git/HEAD", "");
    place.write(
        "ws/.claude/skills/rust/SKILL.md",
        "---\ndescription: For Rust\npaths: ['src/**/*.rs', docs/]\n---\nR",
    );
    place.write(
        "ws/.claude/skills/broken/SKILL.md",
        "---\ndescription: Works: all the same\n!! what\ncontext: odd\n---\nB",
    );
    place.write("ws/src/.claude/skills/inner/SKILL.md", "---\ndescription: For src\n---\nI");
    place.write("ws/src/.claude/skills/rust/SKILL.md", "---\ndescription: Same name\n---\nSame");
    place.write("ws/src/a.rs", "fn a() {}\n");
    place.write("ws/b.txt", "text\n");
    let dir = place.ws();
    let (spec, requests) = place.answering(move |request| match request.messages.len() {
        1 => Said::Blocks(call("r1", "Read", json!({"file_path": "b.txt"}))),
        3 => Said::Blocks(call("r2", "Read", json!({"file_path": "src/a.rs"}))),
        5 => Said::Blocks(call("s1", "Skill", json!({"skill": "src:rust"}))),
        7 => {
            let new = dir.join(".claude/skills/new/SKILL.md");
            std::fs::create_dir_all(new.parent().unwrap()).unwrap();
            std::fs::write(new, "---\ndescription: Brand new\n---\nN").unwrap();
            Said::text("one")
        }
        9 => Said::Blocks(call("s2", "Skill", json!({"skill": "new"}))),
        _ => Said::text("two"),
    });
    let events = one_by_one(spec, &["one", "two"]).await;
    let all = requests.all();
    let list = described(&all[0], "Skill");
    assert!(list.contains("- broken: Works: all the same") && !list.contains("For Rust"), "{list}");
    assert!(!whole(&all[1]).contains("For Rust") && !whole(&all[1]).contains("For src"));
    let known = whole(&all[2]);
    assert!(known.contains("- rust: For Rust") && known.contains("- inner: For src"), "{known}");
    assert!(known.contains("- src:rust: Same name"), "{known}");
    assert!(whole(&all[3]).contains("Same"), "{:?}", main_results(&events));
    assert_eq!(whole(&all[3]).matches("For Rust").count(), 1, "told once");
    assert!(whole(&all[4]).contains("- new: Brand new"), "{}", whole(&all[4]));
    assert!(main_results(&events).iter().all(|it| !it.0), "{:?}", main_results(&events));
    for request in &all[1..] {
        assert_eq!(request.system, all[0].system);
        assert_eq!(request.tools.definitions(), all[0].tools.definitions());
    }
    let notices = notices(&events);
    assert!(notices.contains("broken/SKILL.md:3:") && notices.contains("context \"odd\""), "{notices}");
}

/// 200 skills in a small context window: each keeps a line, and model and user are told about the
/// shortening.
#[tokio::test]
async fn a_long_list_is_short_and_says_so() {
    let place = Place::new();
    for number in 0..200 {
        place.write(
            &format!("ws/.claude/skills/s{number:03}/SKILL.md"),
            &format!("---\ndescription: Number {number}. {}\n---\nB", "more words ".repeat(30)),
        );
    }
    let (mut spec, requests) = place.answering(|request| match request.messages.len() {
        1 => Said::Blocks(call("q", "Skill", json!({"skill": "?number 123."}))),
        _ => Said::text("done"),
    });
    spec.model.as_mut().unwrap().model = Some(String::from("claude-opus-4-5"));
    let events = run(spec, "go").await;
    let list = described(&requests.all()[0], "Skill");
    assert_eq!(list.lines().filter(|it| it.starts_with("- s")).count(), 200);
    assert!(list.len() < 9_000 && list.contains("200 descriptions are shortened"), "{}", list.len());
    assert!(main_results(&events)[0].1.starts_with("- s123: Number 123."), "{:?}", main_results(&events));
    assert!(notices(&events).contains("skillListingBudgetFraction"), "{}", notices(&events));
}

/// A definition can limit and preload skills; a plugin's skill needs its full name.
#[tokio::test]
async fn definitions_choose_skills() {
    let place = Place::new();
    for name in ["a", "b"] {
        place.write(
            &format!("ws/.claude/skills/{name}/SKILL.md"),
            &format!("---\ndescription: d\n---\nBody {name}."),
        );
    }
    place.write(
        "ws/.claude/agents/few.md",
        "---\nname: few\ndescription: d\ntools: Read, Skill(a)\nskills: b\n---\nYou are few.",
    );
    let (spec, requests) = place.answering(|request| match (is_child(request), request.messages.len()) {
        (false, 1) => agent("m1", json!({"subagent_type": "few", "run_in_background": false})),
        (true, 1) => Said::Blocks(
            [call("c1", "Skill", json!({"skill": "a"})), call("c2", "Skill", json!({"skill": "b"}))].concat(),
        ),
        _ => Said::text("done"),
    });
    run(spec, "go").await;
    let child: Vec<Request> = requests.all().into_iter().filter(is_child).collect();
    assert!(
        first(&child[0]).contains("<command-name>b</command-name>") && first(&child[0]).contains("Body b.")
    );
    let said = whole(&child[1]);
    assert!(said.contains("Body a.") && said.contains("may only use these skills: a"), "{said}");
}

/// A skill loaded before a restart is in the log like everything else, and the
/// session goes on with the same list.
#[tokio::test]
async fn a_resumed_session_goes_on_with_skills() {
    let place = Place::new();
    place.write("ws/.claude/skills/a/SKILL.md", "---\ndescription: d\n---\nBody a.");
    let (spec, requests) = place.answering(|request| match request.messages.len() {
        1 => Said::Blocks(call("s1", "Skill", json!({"skill": "a"}))),
        _ => Said::text("done"),
    });
    let (handle, events) = Session::open(spec.clone()).unwrap();
    let id = handle.id().to_string();
    handle.prompt(Prompt::text("one"));
    handle.send(Command::Finish);
    drop(handle);
    told(events).await;
    let mut again = spec;
    again.log.start = LogStart::Session(id);
    let events = run(again, "two").await;
    assert_eq!(ends(&events).len(), 1);
    let all = requests.all();
    let (before, after) = (&all[all.len() - 2], &all[all.len() - 1]);
    assert_eq!(before.system, after.system);
    assert_eq!(before.tools.definitions(), after.tools.definitions());
    assert_eq!(before.messages[..], after.messages[..before.messages.len()]);
}

/// Settings without the project have no skills of the project.
#[tokio::test]
async fn sources_leave_places_out() {
    let place = Place::new();
    place.write("ws/.claude/skills/of-project/SKILL.md", "---\ndescription: d\n---\nB");
    place.write("home/.claude/skills/of-user/SKILL.md", "---\ndescription: d\n---\nB");
    let (mut spec, requests) = place.answering(|_| Said::text("ok"));
    spec.settings = SettingsSpec { sources: Some(vec![haft_config::SettingsLayer::User]), ..spec.settings };
    run(spec, "go").await;
    let list = described(&requests.all()[0], "Skill");
    assert!(list.contains("of-user") && !list.contains("of-project"), "{list}");
}
