//! Memory files, rules and output styles.

use haft_agent::AgentEvent;
use haft_model::Request;
use haft_session::{Command, Prompt, Session, SessionEventKind};
use serde_json::{Value, json};

use crate::{
    agents::{agent, is_child},
    rig::{Place, Said, call, run, told},
    skills::{notices, whole},
};

fn system(request: &Request) -> String {
    request.system.iter().map(|it| it.text.clone()).collect::<Vec<_>>().join("\n")
}

/// Order of memory files: the user's, then from the root down; in each directory the file with its
/// imports, `.claude`, rules, the local file. `AGENTS.md` applies if no `CLAUDE.md` exists there or
/// above.
#[tokio::test]
async fn files_are_told_in_their_order() {
    let place = Place::new();
    for (file, text) in [
        ("home/.claude/CLAUDE.md", "USER"),
        ("home/.claude/rules/style.md", "USER-RULE"),
        ("ws/.git/HEAD", ""),
        ("ws/CLAUDE.md", "ROOT @docs/more.md and <!-- COMMENT --> `@docs/code.md`"),
        ("ws/docs/more.md", "IMPORT"),
        ("ws/docs/code.md", "CODE"),
        ("ws/AGENTS.md", "AGENTS-ROOT"),
        ("ws/.claude/CLAUDE.md", "DOT"),
        ("ws/.claude/rules/all.md", "RULE"),
        ("ws/.claude/rules/deep/some.md", "---\npaths: \"*.py\"\n---\nPY-RULE"),
        ("ws/CLAUDE.local.md", "LOCAL"),
        ("ws/sub/AGENTS.md", "AGENTS-SUB"),
        ("ws/sub/CLAUDE.local.md", "SUB-LOCAL"),
    ] {
        place.write(file, text);
    }
    let (mut spec, requests) = place.answering(|_| Said::text("ok"));
    spec.place.cwd = place.ws().join("sub");
    run(spec, "go").await;
    let text = system(&requests.all()[0]);
    let order = ["\nUSER\n", "USER-RULE", "ROOT", "IMPORT", "DOT", "\nRULE", "\nLOCAL", "SUB-LOCAL"];
    let at: Vec<Option<usize>> = order.iter().map(|it| text.find(it)).collect();
    assert!(at.iter().all(Option::is_some) && at.is_sorted(), "{at:?}\n{text}");
    for not in ["COMMENT", "CODE", "AGENTS-ROOT", "AGENTS-SUB", "PY-RULE"] {
        assert!(!text.contains(not), "{not}\n{text}");
    }
    // Without a file of ours the others' count.
    let other = Place::new();
    other.write("ws/.git/HEAD", "");
    other.write("ws/AGENTS.md", "AGENTS-ROOT");
    let (spec, requests) = other.answering(|_| Said::text("ok"));
    run(spec, "go").await;
    assert!(system(&requests.all()[0]).contains("AGENTS-ROOT"));
}

/// Nested memory files and rules follow the result that touched them, once per agent, and never if a
/// rule denies them; hooks run.
#[tokio::test]
async fn what_is_below_is_told_when_it_is_touched() {
    let place = Place::new();
    let hook = json!({"hooks": {"InstructionsLoaded": [{"hooks": [
        {"type": "command", "command": "cat >> $HOME/heard; echo >> $HOME/heard"},
    ]}]}, "permissions": {"deny": [format!("Read(/{})", place.ws().join("secret.md").display())]}});
    place.write("home/.claude/settings.json", &hook.to_string());
    for (file, text) in [
        ("ws/.git/HEAD", ""),
        ("ws/CLAUDE.md", "ROOT @secret.md @../outside.md"),
        ("ws/secret.md", "SECRET"),
        ("outside.md", "OUTSIDE"),
        ("ws/.claude/rules/py.md", "---\npaths:\n  - \"**/*.py\"\n---\nPY-RULE"),
        ("ws/lib/CLAUDE.md", "LIB @part.md @../secret.md"),
        ("ws/lib/part.md", "PART"),
        ("ws/lib/deep/CLAUDE.md", "DEEP"),
        ("ws/lib/a.py", "1\n"),
        ("ws/lib/b.py", "2\n"),
    ] {
        place.write(file, text);
    }
    let read = |id: &str, file: &str| Said::Blocks(call(id, "Read", json!({"file_path": file})));
    let (spec, requests) =
        place.answering(move |request| match (is_child(request), request.messages.len()) {
            (true, 1) => read("c1", "lib/a.py"),
            (false, 1) => read("m1", "lib/a.py"),
            (false, 3) => read("m2", "lib/b.py"),
            (false, 5) => agent("m3", json!({"run_in_background": false})),
            (false, 7) => agent("m4", json!({"run_in_background": false, "subagent_type": "Explore"})),
            _ => Said::text("done"),
        });
    let events = run(spec, "go").await;
    let all = requests.all();
    let main: Vec<&Request> = all.iter().filter(|it| !is_child(it)).collect();
    let told = whole(main[1]);
    for text in ["LIB @part.md", "PART", "PY-RULE"] {
        assert_eq!(told.matches(text).count(), 1, "{text}: {told}");
        assert_eq!(whole(main[2]).matches(text).count(), 1, "{text}: only once");
    }
    assert!(all.iter().all(|it| !whole(it).contains("DEEP") && !whole(it).contains("\nSECRET")));
    assert!(all.iter().all(|it| !system(it).contains("\nSECRET") && !system(it).contains("OUTSIDE")));
    let children: Vec<&Request> = all.iter().filter(|it| is_child(it)).collect();
    let knows: Vec<bool> = children.iter().map(|it| whole(it).contains("PY-RULE")).collect();
    assert_eq!(knows, [false, true, false, false], "a child hears by its own reads, Explore does not");
    assert!(system(children[0]).contains("ROOT") && !system(children[2]).contains("ROOT"));
    let heard = std::fs::read_to_string(place.home().join("heard")).unwrap();
    let heard: Vec<Value> =
        heard.lines().filter(|it| !it.is_empty()).map(|it| serde_json::from_str(it).unwrap()).collect();
    let reasons: Vec<(&str, &str)> = heard
        .iter()
        .map(|it| {
            let file = it["file_path"].as_str().unwrap().rsplit('/').next().unwrap();
            (it["load_reason"].as_str().unwrap(), file)
        })
        .collect();
    assert_eq!(
        reasons[..4],
        [
            ("session_start", "CLAUDE.md"),
            ("nested_traversal", "CLAUDE.md"),
            ("include", "part.md"),
            ("path_glob_match", "py.md"),
        ]
    );
    assert_eq!(heard[3]["globs"], json!(["**/*.py"]));
    assert!(heard[1]["trigger_file_path"].as_str().unwrap().ends_with("lib/a.py"));
    assert!(
        notices(&events).contains("it must not be read")
            && notices(&events).contains("outside of the project")
    );
}

/// Output styles from files, built-in and unknown; a change during a session is sent as a message.
#[tokio::test]
async fn styles_are_told_and_changed() {
    let place = Place::new();
    place.write(
        "ws/.claude/output-styles/terse.md",
        "---\nname: Terse\ndescription: Few words\n---\nUSE FEW WORDS",
    );
    place.write("home/.claude/settings.json", &json!({"outputStyle": "Terse"}).to_string());
    let (spec, requests) = place.answering(|_| Said::text("ok"));
    let (handle, mut events) = Session::open(spec).unwrap();
    handle.prompt(Prompt::text("one"));
    while let Some(event) = events.next().await {
        if let SessionEventKind::TurnEnded(_) = event.what {
            break;
        }
    }
    place.write(
        "home/.claude/settings.json",
        &json!({"outputStyle": "Explanatory", "verbose": true}).to_string(),
    );
    handle.prompt(Prompt::text("two"));
    handle.send(Command::Finish);
    let rest = told(events).await;
    assert!(!rest.iter().any(|it| matches!(&it.what, SessionEventKind::Agent(AgentEvent::Bust(_)))));
    let all = requests.all();
    assert!(system(&all[0]).contains("# Output style: Terse\nUSE FEW WORDS"), "{}", system(&all[0]));
    assert_eq!(all[0].system, all[1].system);
    assert!(whole(&all[1]).contains("# Output style: Explanatory"), "{}", whole(&all[1]));
    place.write("home/.claude/settings.json", &json!({"outputStyle": "nobody's"}).to_string());
    let (spec, requests) = place.answering(|_| Said::text("ok"));
    let events = run(spec, "go").await;
    assert!(notices(&events).contains("there is no output style \"nobody's\""));
    assert!(!system(&requests.all()[0]).contains("# Output style"));
}
