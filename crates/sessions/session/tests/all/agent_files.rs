//! Broken files of agents, skills and plugins: the rest works, and the broken file is reported with line
//! and reason.

use haft_session::{Command, Session};

use crate::{
    agents::tools,
    rig::{Place, Said, run, told},
    skills::notices,
};

/// What a session says when it begins, and the kinds it knows.
async fn begun(place: &Place) -> (String, Vec<String>) {
    let (spec, _) = place.answering(|_| Said::text("hi"));
    let (handle, events) = Session::open(spec).unwrap();
    let introduction = handle.ask(Command::Reload).await.unwrap();
    let kinds = introduction.agents.iter().map(|it| it.0.clone()).collect();
    handle.close().await;
    (notices(&told(events).await), kinds)
}

const GOOD: &str = "---\nname: good\ndescription: The good one\n---\nG";

#[tokio::test]
async fn a_broken_agent_file_costs_nobody_else_anything() {
    // Bytes, whether the agent `k` is there, and what is said about it.
    let rows: Vec<(Vec<u8>, bool, &str)> = vec![
        (b"---\nname: k\ndescription: caf\xe9\n---\nB".to_vec(), true, "k.md:3: it is not UTF-8"),
        (b"\xff\xfe\x00\x01".to_vec(), false, "k.md:1: "),
        (b"---\nname: [k, l]\ndescription: d\n---\nB".to_vec(), false, "k.md:2: `name` is no text"),
        (b"---\nname: k\ndescription:\n  a: b\n---\nB".to_vec(), false, "k.md:3: `description` is no text"),
        (
            b"---\nname: k\ndescription: d\ntools: {\"Read\": true}\n---\nB".to_vec(),
            true,
            "k.md:4: `tools` is no list",
        ),
        (
            b"---\nname: k\ndescription: d\ntools: [\"Read\", 7]\n---\nB".to_vec(),
            true,
            "k.md:4: `tools` is no list",
        ),
        (
            b"---\nname: k\ndescription: d\ndisallowedTools: {\"Bash\": true}\n---\nB".to_vec(),
            false,
            "k.md:4: `disallowedTools` is no list",
        ),
        (b"---\nname: k\ndescription: d\nno colon here\n---\nB".to_vec(), true, "k.md:4: "),
        (
            b"---\nname: k\ndescription: d\nname: l\n---\nB".to_vec(),
            true,
            "k.md:4: `name` stands here a second",
        ),
        (b"---\nname: k\ndescription: d\n".to_vec(), false, "k.md:1: "),
        (b"".to_vec(), false, "k.md:1: "),
        (vec![b'x'; 2 << 20], false, "k.md:1: it cannot be read: it has 2097152 bytes"),
        (
            b"---\nname: good\ndescription: d\n---\nB".to_vec(),
            false,
            "k.md:2: there is an agent \"good\" already",
        ),
    ];
    for (bytes, is_there, says) in rows {
        let place = Place::new();
        place.write("ws/.claude/agents/good.md", GOOD);
        std::fs::write(place.ws().join(".claude/agents/k.md"), &bytes).unwrap();
        let (said, kinds) = begun(&place).await;
        let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(80)]).into_owned();
        assert!(kinds.iter().any(|it| it == "good"), "{shown}: {kinds:?}");
        assert_eq!(kinds.iter().any(|it| it == "k"), is_there, "{shown}: {kinds:?}");
        assert!(said.contains(says), "{shown}: {said}");
        assert!(!said.contains("good.md:"), "{shown}: {said}");
    }
}

/// An invalid tool list never means all tools.
#[tokio::test]
async fn tools_that_cannot_be_read_are_none() {
    for (list, wanted) in [("{\"Read\": true}", vec![]), ("[\"Read\", 7]", vec!["Read"])] {
        let place = Place::new();
        let text = format!("---\nname: k\ndescription: d\ntools: {list}\n---\nB");
        place.write("ws/.claude/agents/k.md", &text);
        let (spec, requests) = place.answering(|request| {
            if crate::agents::is_child(request) {
                Said::text("done")
            } else if request.messages.len() == 1 {
                crate::agents::agent(
                    "c",
                    serde_json::json!({"subagent_type": "k", "run_in_background": false}),
                )
            } else {
                Said::text("done")
            }
        });
        run(spec, "go").await;
        let asked = requests.all();
        let child = asked.iter().find(|it| crate::agents::is_child(it)).unwrap();
        assert_eq!(tools(child), wanted, "{list}");
    }
}

/// Dangling symlinks are reported, cycles end, a symlink to `/` does not block, and special files are
/// not opened.
#[tokio::test]
async fn links_and_pipes_do_not_hold_a_session_up() {
    let place = Place::new();
    place.write("ws/.claude/agents/good.md", GOOD);
    place.write("ws/.claude/skills/fine/SKILL.md", "---\ndescription: d\n---\nB");
    let dir = place.ws().join(".claude/agents");
    let link = |to: &str, name: &str| std::os::unix::fs::symlink(to, dir.join(name)).unwrap();
    link("/nonexistent/file.md", "gone.md");
    link("/", "everything");
    for number in 0..12 {
        link(".", &format!("circle{number}"));
    }
    let made = std::process::Command::new("mkfifo").arg(dir.join("pipe.md")).status().unwrap();
    assert!(made.success());
    let opened = tokio::time::timeout(std::time::Duration::from_secs(60), begun(&place));
    let (said, kinds) = opened.await.expect("a session begins whatever links there are");
    assert!(kinds.iter().any(|it| it == "good"), "{kinds:?}");
    assert_eq!(kinds.iter().filter(|it| *it == "good").count(), 1);
    assert!(said.contains("gone.md:1: it cannot be read"), "{said}");
    assert!(said.contains("everything:1: it cannot be read: it is a link that leads out"), "{said}");
    assert!(said.contains("pipe.md:1: it cannot be read: it is no file"), "{said}");
}

/// A project's file that is a symlink out of the project is reported and not read; the user's own
/// symlinks are followed.
#[tokio::test]
async fn links_out_of_the_project_bring_nothing_in() {
    let place = Place::new();
    place.write("outside/key", "SECRET-4711");
    place.write("outside/agent.md", "---\nname: foreign\ndescription: SECRET-4711\n---\nSECRET-4711");
    place.write("outside/skill/SKILL.md", "---\ndescription: SECRET-4711\n---\nSECRET-4711");
    place.write("ws/.env", "SECRET-4711");
    place.write("ws/shared/real.md", "---\nname: within\ndescription: d\n---\nW");
    place.write("home/dotfiles/agents/mine.md", "---\nname: mine\ndescription: d\n---\nM");
    place.write("home/dotfiles/skill/SKILL.md", "---\ndescription: d\n---\nM");
    place.write("ws/.git/HEAD", "ref: refs/heads/main\n");
    place.write("ws/plugin/.claude-plugin/plugin.json", "{\"name\": \"plug\"}");
    let link = |to: &str, name: &str| {
        let name = place.dir.path().join(name);
        std::fs::create_dir_all(name.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(place.dir.path().join(to), name).unwrap();
    };
    let refused = [
        ("outside/agent.md", "ws/.claude/agents/out.md"),
        ("outside/key", "ws/.claude/agents/key.md"),
        ("ws/.env", "ws/.claude/agents/env.md"),
        ("outside", "ws/.claude/agents/dir"),
        ("outside/key", "ws/.claude/commands/key.md"),
        ("outside", "ws/.claude/commands/dir"),
        ("outside/skill", "ws/.claude/skills/dir"),
        ("outside/skill/SKILL.md", "ws/.claude/skills/file/SKILL.md"),
        ("outside/key", "ws/.claude/output-styles/key.md"),
        ("outside/agent.md", "ws/plugin/agents/out.md"),
        ("outside/skill", "ws/plugin/skills/dir"),
        ("outside/key", "ws/plugin/commands/key.md"),
    ];
    refused.iter().for_each(|(to, name)| link(to, name));
    link("ws/shared/real.md", "ws/.claude/agents/within.md");
    link("home/dotfiles/agents", "home/.claude/agents");
    link("home/dotfiles/skill", "home/.claude/skills/linked");
    let (mut spec, requests) = place.answering(|_| Said::text("hi"));
    let dir = haft_session::PluginDir { path: place.ws().join("plugin"), with_servers: true };
    spec.extensions.plugins.push(dir);
    let (handle, mut events) = Session::open(spec).unwrap();
    let introduction = handle.ask(Command::Reload).await.unwrap();
    handle.prompt(haft_session::Prompt::text("/file"));
    let mut all = Vec::new();
    while let Some(event) = events.next().await {
        let is_over = matches!(event.what, haft_session::SessionEventKind::TurnEnded(_));
        all.push(event);
        if is_over {
            break;
        }
    }
    handle.close().await;
    all.extend(told(events).await);
    let said = notices(&all);
    for (_, name) in refused {
        let line = said.lines().find(|it| it.contains(&format!("{name}:1: it cannot be read: it is a link")));
        assert!(line.is_some_and(|it| it.contains("is not there")), "{name}: {said}");
    }
    let agents: Vec<&str> = introduction.agents.iter().map(|it| it.0.as_str()).collect();
    assert!(agents.contains(&"within") && agents.contains(&"mine"), "{agents:?}");
    assert!(introduction.skills.iter().any(|it| it.name == "linked"));
    let whole = format!("{:?} {:?}", requests.all(), introduction);
    assert!(!whole.contains("SECRET-4711"));
}

/// Mentions with `@` in a project's command are attached only if reading needs no prompt; arguments
/// typed by the user and the user's own commands count as the user's.
#[tokio::test]
async fn a_projects_command_shows_nothing_from_elsewhere() {
    let place = Place::new();
    place.write("home/key", "SECRET-4711");
    place.write("ws/near.txt", "NEAR-4711");
    place.write("ws/.claude/commands/all.md", "Look at @~/key and @near.txt and @$0");
    place.write("home/.claude/commands/own.md", "Look at @~/key");
    place.write(
        "home/.claude/skills/printed/SKILL.md",
        "---\ndescription: d\nallowed-tools: Bash\n---\n!`printf '@~/key'`",
    );
    place.write("home/.claude/skills/told/SKILL.md", "---\ndescription: d\ncontext: fork\n---\ngo");
    for (typed, near, key) in [
        ("/all", true, false),
        ("/all ~/key", true, true),
        ("/all @~/key", true, true),
        ("/own", false, true),
        ("/printed", false, false),
        ("/told", false, false),
        ("look at @~/key", false, true),
    ] {
        let (spec, requests) = place.answering(|request| {
            if crate::agents::is_child(request) {
                Said::text("the answer is in @~/key")
            } else {
                Said::text("ok")
            }
        });
        crate::rig::run(spec, typed).await;
        let all = requests.all();
        let main = all.iter().find(|it| !crate::agents::is_child(it)).unwrap();
        let said = format!("{:?}", main.messages);
        assert_eq!(said.contains("NEAR-4711"), near, "{typed}: {said}");
        assert_eq!(said.contains("SECRET-4711"), key, "{typed}: {said}");
    }
}

/// Broken skills and plugins do not affect others.
#[tokio::test]
async fn a_broken_skill_or_plugin_costs_nobody_else_anything() {
    let place = Place::new();
    place.write("ws/.claude/skills/fine/SKILL.md", "---\ndescription: fine\n---\nB");
    place.write("ws/.claude/skills/torn/SKILL.md", "---\ndescription: torn\nthis is no field\n---\nB");
    place.write("ws/.claude/skills/empty/SKILL.md", "");
    std::fs::create_dir_all(place.ws().join(".claude/skills/dir/SKILL.md")).unwrap();
    let bad = place.ws().join(".claude/skills/bytes");
    std::fs::create_dir_all(&bad).unwrap();
    std::fs::write(bad.join("SKILL.md"), b"---\ndescription: b\xff\xfe\n---\nB").unwrap();
    let huge = place.ws().join(".claude/skills/huge");
    std::fs::create_dir_all(&huge).unwrap();
    std::fs::write(huge.join("SKILL.md"), vec![b'y'; 2 << 20]).unwrap();
    let (spec, _) = place.answering(|_| Said::text("hi"));
    let (handle, events) = Session::open(spec).unwrap();
    let introduction = handle.ask(Command::Reload).await.unwrap();
    let names: Vec<&str> = introduction.commands.iter().map(|it| it.name.as_str()).collect();
    handle.close().await;
    let said = notices(&told(events).await);
    assert!(names.contains(&"fine") && names.contains(&"torn"), "{names:?}");
    assert!(said.contains("skills/bytes/SKILL.md:2: it is not UTF-8"), "{said}");
    assert!(said.contains("skills/huge/SKILL.md:1:"), "{said}");
    assert!(said.contains("skills/torn/SKILL.md:3:"), "{said}");
}
