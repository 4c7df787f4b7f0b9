//! What each kind of rule matches.
#![allow(clippy::unwrap_used, missing_docs, reason = "test code")]

use crate::common;

use common::{Call, Rules, judge, policy};
use haft_permission::{Behavior, Names, Policy};
use haft_tool::{Access, AccessSet};
use haft_types::PermissionMode;
use serde_json::json;

use Behavior::{Allow, Ask, Deny};

#[track_caller]
fn check(rules: Rules<'_>, tool: &str, call: &Call, want: Behavior) {
    let decision = judge(&policy(PermissionMode::Default, rules), tool, call);
    assert_eq!(decision.behavior, want, "{rules:?} {tool} {call:?}\n{decision:?}");
}

#[track_caller]
fn allow(rule: &str, tool: &str, call: Call, want: Behavior) {
    check(Rules { allow: &[rule], ..Rules::default() }, tool, &call, want);
}

#[track_caller]
fn deny(rule: &str, tool: &str, call: Call, want: Behavior) {
    check(Rules { deny: &[rule], ..Rules::default() }, tool, &call, want);
    // An ask rule matches exactly where a deny rule does.
    let want = if want == Deny { Ask } else { want };
    check(Rules { ask: &[rule], ..Rules::default() }, tool, &call, want);
}

#[test]
fn bare_tool_rule_matches_only_its_tool() {
    for rule in ["Custom", "Custom(*)"] {
        allow(rule, "Custom", Call::undeclared(), Allow);
        deny(rule, "Custom", Call::undeclared().reading(), Deny);
        allow(rule, "Other", Call::undeclared(), Ask);
        deny(rule, "Other", Call::undeclared().reading(), Allow);
    }
    allow("Write", "Write", Call::write("/etc/x"), Allow);
    allow("Write", "Edit", Call::write("/etc/x"), Ask);
    deny("Write", "Edit", Call::write("/ws/x"), Ask);
    allow("Grep", "Grep", Call::read("/etc"), Allow);
}

#[test]
fn read_and_edit_rules_cover_their_families() {
    for tool in ["Read", "Glob", "Grep", "LS", "Search", "Custom"] {
        deny("Read", tool, Call::read("/ws/x"), Deny);
        deny("Read(./x)", tool, Call::read("x"), Deny);
        allow("Read", tool, Call::read("/etc/x"), Allow);
        allow("Read(//etc/**)", tool, Call::read("/etc/x"), Allow);
        allow("Edit(//etc/**)", tool, Call::read("/etc/x"), Allow);
        deny("Edit(./x)", tool, Call::read("x"), Allow);
    }
    for tool in ["Edit", "Write", "MultiEdit", "NotebookEdit", "Custom"] {
        deny("Edit", tool, Call::write("/ws/x"), Deny);
        deny("Edit(./x)", tool, Call::write("x"), Deny);
        deny("Read(./x)", tool, Call::write("x"), Deny);
        deny("Read", tool, Call::write("x"), Ask);
        allow("Edit(./x)", tool, Call::write("x"), Allow);
        allow("Read(./x)", tool, Call::write("x"), Ask);
        allow("Edit", tool, Call::write("x"), Allow);
    }
}

#[test]
fn write_rule_with_path_only_restricts() {
    for rule in ["Write(./x)", "MultiEdit(./x)", "NotebookEdit(./x)"] {
        allow(rule, "Write", Call::write("x"), Ask);
        deny(rule, "Write", Call::write("x"), Deny);
        deny(rule, "Edit", Call::write("x"), Deny);
        deny(rule, "Edit", Call::write("y"), Ask);
    }
    for rule in ["Glob(./x)", "Grep(./x)", "LS(./x)"] {
        allow(rule, "Glob", Call::read("/etc"), Ask);
        deny(rule, "Read", Call::read("x"), Deny);
    }
    let warnings = |behavior| {
        let builder = Policy::builder("/ws").rules(&common::settings(), behavior, ["Write(./x)"]);
        builder.build().warnings().iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    insta::assert_snapshot!(warnings(Allow).join("\n"), @"allow rule `Write(./x)` (project settings): is ignored: paths are allowed with Edit(path), not Write(path)");
    insta::assert_snapshot!(warnings(Deny).join("\n"), @"deny rule `Write(./x)` (project settings): is read as Edit(path), which covers Write and every tool like it");
}

#[test]
fn path_patterns() {
    let read = |path: &str| Call::read(path);
    for (rule, path, denied) in [
        (".env", "/ws/.env", true),
        (".env", "/ws/a/b/.env", true),
        (".env", "/other/.env", false),
        (".env", "/ws/.env.example", false),
        (".env", "/ws/.env/inner", true),
        ("./.env", "/ws/a/.env", false),
        ("./.env", "a/../.env", true),
        ("**/.env", "/ws/a/.env", true),
        ("//**/.env", "/other/.env", true),
        ("*.pem", "/ws/a/k.pem", true),
        ("*.pem", "/ws/a/k.pem.txt", false),
        ("./*.pem", "/ws/a/k.pem", false),
        ("secrets/**", "/ws/a/secrets/x", true),
        ("secrets/", "/ws/a/secrets/x/y", true),
        ("secrets/", "/ws/secrets", true),
        ("./secrets/**", "/ws/a/secrets/x", false),
        ("./secrets/**", "/ws/secrets/x/y", true),
        ("./secrets/**", "/ws/secrets", true),
        ("a/secrets/**", "/ws/a/secrets/x", true),
        ("a/secrets/**", "/ws/b/a/secrets/x", false),
        ("/docs/x", "/ws/docs/x", true),
        ("//etc/passwd", "/etc/passwd", true),
        ("//etc/passwd", "/etc/passwd.bak", false),
        ("~/.ssh/**", "~/.ssh/id_rsa", true),
        ("~/.ssh/**", "/home/u/.ssh/a/b", true),
        ("~/.ssh", "/home/u/.ssh/id_rsa", true),
        ("~", "/home/u/x", true),
        ("../shared/**", "/shared/x", true),
        ("src/**/*.key", "/ws/src/x.key", true),
        ("src/**/*.key", "/ws/src/a/b/x.key", true),
        ("src/*.key", "/ws/src/a/x.key", false),
        ("file?.txt", "/ws/file1.txt", true),
        ("file[0-9].txt", "/ws/file1.txt", true),
        ("*.{pem,key}", "/ws/x.key", true),
        ("./app/[id].tsx", "/ws/app/[id].tsx", true),
        ("./app/[id].tsx", "/ws/app/i.tsx", true),
        ("we\\*rd", "/ws/we*rd", true),
        ("we\\*rd", "/ws/weird", false),
        ("**", "/ws/anything", true),
        ("**", "/other", false),
        ("//", "/any/where", true),
        ("ünïcode/**", "/ws/ünïcode/x", true),
    ] {
        let want = match (denied, path.starts_with("/ws") || !path.starts_with(['/', '~'])) {
            (true, _) => Deny,
            (false, true) => Allow,
            (false, false) => Ask,
        };
        deny(&format!("Read({rule})"), "Read", read(path), want);
    }
}

#[test]
fn path_allow_rule_has_narrowest_coverage() {
    for (rule, path, allowed) in [
        ("./out/**", "/ws/out/x/y", true),
        ("./out/**", "/ws/out", false),
        ("out/**", "/ws/out/x", true),
        ("out/**", "/ws/a/out/x", false),
        ("out/", "/ws/out/x", true),
        ("out/", "/ws/a/out/x", false),
        ("notes.txt", "/ws/a/notes.txt", true),
        ("src/*", "/ws/src/x", true),
        ("src/*", "/ws/src/a/x", false),
        ("**/*.md", "/ws/a/x.md", true),
        ("**/*.md", "/ws/a.md/x", false),
        ("//opt/x", "/opt/x", true),
        ("/docs/**", "/ws/docs/x", true),
        ("~/notes/**", "/home/u/notes/x", true),
        ("!x", "/ws/x", false),
        ("[x", "/ws/[x", false),
    ] {
        let want = if allowed { Allow } else { Ask };
        allow(&format!("Edit({rule})"), "Write", Call::write(path), want);
    }
    allow("Read(//opt/x/**)", "LS", Call::read("/opt/x"), Allow);
}

#[test]
fn leading_slash_in_path_rule_is_relative_to_settings() {
    let origin = common::settings().rooted(std::path::Path::new("/ws/project"));
    let policy = Policy::builder("/ws").rules(&origin, Deny, ["Read(/x)"]).build();
    assert_eq!(judge(&policy, "Read", &Call::read("/ws/project/x")).behavior, Deny);
    assert_eq!(judge(&policy, "Read", &Call::read("/ws/x")).behavior, Allow);
}

#[test]
fn commands() {
    for (rule, line, allowed) in [
        ("Bash(npm run test:*)", "npm run test", true),
        ("Bash(npm run test:*)", "npm run test -- x", true),
        ("Bash(npm run test:*)", "npm run testing", false),
        ("Bash(npm run test *)", "npm run test", true),
        ("Bash(npm run build)", "npm run build", true),
        ("Bash(npm run build)", "npm run build x", false),
        ("Bash(ls*)", "lsof", true),
        ("Bash(ls *)", "lsof -i", false),
        ("Bash(git * main)", "git push origin main", true),
        ("Bash(git * main)", "git checkout dev", false),
        ("Bash", "terraform plan", true),
        ("Bash(*)", "terraform plan", true),
        ("Bash", "ls; rm x", false),
        ("run_shell(make)", "make", true),
        ("Bash(Make)", "make", false),
    ] {
        allow(rule, "Bash", Call::command(line), if allowed { Allow } else { Ask });
        allow(rule, "Monitor", Call::command(line), if allowed { Allow } else { Ask });
    }
    allow("Monitor", "Monitor", Call::command("make"), Allow);
    for (rule, line, denied) in [
        ("Bash(rm:*)", "rm -rf out", true),
        ("Bash(rm:*)", "   rm -rf out", true),
        ("Bash(rm:*)", "rmdir out", false),
        ("Bash(rm:*)", "sudo rm -rf out", true),
        ("Bash(rm:*)", "time rm x", true),
        ("Bash(rm:*)", "A=1 rm x", true),
        ("Bash(rm:*)", "grep rm x", false),
        ("Bash", "ls", true),
    ] {
        deny(rule, "Bash", Call::command(line), if denied { Deny } else { Ask });
    }
}

#[test]
fn decision_parts_name_their_rules() {
    let rules = Rules { allow: &["Bash(make:*)"], deny: &["Read(./.env)"], ..Rules::default() };
    let policy = policy(PermissionMode::Default, rules);
    let call = Call::touching(vec![
        Access::Command("make test".into()),
        Access::Read(".env".into()),
        Access::Read("src".into()),
    ]);
    let decision = judge(&policy, "Custom", &call);
    insta::assert_json_snapshot!(decision, @r#"
    {
      "decision": "deny",
      "reason": "`Read(./.env)` (project settings) denies reading /ws/.env",
      "parts": [
        {
          "subject": "make test",
          "decision": "allow",
          "reason": "`Bash(make:*)` (project settings) allows the command `make test`",
          "rule": "Bash(make:*)"
        },
        {
          "subject": "read /ws/.env",
          "decision": "deny",
          "reason": "`Read(./.env)` (project settings) denies reading /ws/.env",
          "rule": "Read(./.env)"
        },
        {
          "subject": "read /ws/src",
          "decision": "allow",
          "reason": "/ws/src may be read without asking"
        }
      ],
      "notes": [
        "advisory: shell can bypass Read and Edit rules, because no sandbox is on"
      ]
    }
    "#);
}

#[test]
fn domains() {
    let fetch = |address: &str| Call::fetch(address).reading();
    allow("WebFetch(domain:example.com)", "WebFetch", fetch("https://EXAMPLE.com./a"), Allow);
    allow("WebFetch(domain:example.com)", "WebFetch", fetch("https://api.example.com/"), Ask);
    allow("WebFetch(domain:*.example.com)", "WebFetch", fetch("https://a.b.example.com/"), Allow);
    allow("WebFetch", "WebFetch", fetch("https://any.test/"), Allow);
    allow("WebFetch(example.com)", "WebFetch", fetch("https://example.com/"), Ask);
    deny("WebFetch(domain:evil.test)", "WebFetch", fetch("https://EVIL.test./"), Deny);
    deny("WebFetch(domain:evil.test)", "Monitor", fetch("wss://evil.test/"), Deny);
    allow("WebFetch", "WebFetch", fetch("file:///etc/passwd"), Deny);
    allow("WebFetch", "WebFetch", fetch("https://user@example.com/"), Deny);
}

/// The `if` of a hook matches if any file of the call matches.
#[test]
fn is_about_matches_any_path_of_the_call() {
    use haft_tool::Access::{Read, Write};
    let policy = Policy::builder("/ws").home("/home/u").build();
    let several = Call::touching(vec![Write("/ws/a.txt".into()), Write("/ws/secret/b".into())]);
    let one = Call::touching(vec![Write("/ws/a.txt".into())]);
    let read = Call::touching(vec![Read("/ws/a.txt".into()), Read("/ws/secret/b".into())]);
    let cx = common::context("/ws".as_ref(), Some("/home/u".as_ref()));
    for (rule, tool, call, want) in [
        ("Edit(secret/**)", "MultiEdit", &several, true),
        ("MultiEdit(secret/**)", "MultiEdit", &several, true),
        ("Write(secret/**)", "MultiEdit", &several, true),
        ("Edit(//ws/secret/**)", "MultiEdit", &several, true),
        ("MultiEdit", "MultiEdit", &several, true),
        ("Edit(other/**)", "MultiEdit", &several, false),
        ("Edit(secret/**)", "MultiEdit", &one, false),
        ("Read(secret/**)", "Read", &read, true),
        ("Edit(*.txt)", "MultiEdit", &one, true),
    ] {
        assert_eq!(policy.is_about(rule, tool, call, &cx), want, "{rule} {tool}");
    }
}

#[test]
fn skills_agents_and_inputs() {
    allow("Skill(deploy)", "Skill", Call::named("deploy"), Allow);
    allow("Skill(deploy)", "Skill", Call::named("deploy-all"), Ask);
    allow("Skill(deploy *)", "Skill", Call::named("deploy prod"), Allow);
    allow("Skill(ns:deploy)", "Skill", Call::named("ns:deploy"), Allow);
    deny("Skill(ns:deploy)", "Skill", Call::named("ns:deploy"), Deny);
    let with_args = |args: &str| Call::named_twice("deploy", &format!("deploy:{args}"));
    deny("Skill(deploy:*)", "Skill", with_args(""), Deny);
    deny("Skill(deploy:*)", "Skill", with_args("prod now"), Deny);
    deny("Skill(deploy:prod)", "Skill", with_args("prod"), Deny);
    deny("Skill(deploy:prod)", "Skill", with_args("test"), Ask);
    deny("Skill(other:*)", "Skill", with_args("prod"), Ask);
    deny("Skill(ns:*)", "Skill", Call::named_twice("ns:deploy", "ns:deploy:"), Deny);
    allow("Skill(deploy:*)", "Skill", with_args("prod"), Allow);
    allow("Skill(deploy:prod)", "Skill", with_args("test"), Ask);
    deny("Agent(Explore)", "Agent", Call::named("Explore"), Deny);
    deny("Task(Explore)", "Agent", Call::named("Explore"), Deny);
    deny("Agent(Explore)", "Agent", Call::named("Plan"), Ask);
    let opus = Call::named("Plan").with_input(json!({"model": "opus", "n": 3, "flag": true}));
    deny("Agent(model:opus)", "Agent", opus.clone(), Deny);
    deny("Agent(model:*)", "Agent", opus.clone(), Deny);
    deny("Agent(n:3)", "Agent", opus.clone(), Deny);
    deny("Agent(model:haiku)", "Agent", opus.clone(), Ask);
    allow("Agent(model:opus)", "Agent", opus, Ask);
    let background = Call::command("make").with_input(json!({"run_in_background": true}));
    deny("Bash(run_in_background:true)", "Bash", background.clone(), Deny);
    deny("Bash(run_in_background:false)", "Bash", background, Ask);
    deny(
        "Grep(output_mode:content)",
        "Grep",
        Call::read("/ws").with_input(json!({"output_mode": "content"})),
        Deny,
    );
}

#[test]
fn server_and_wildcard_tool_rules_match() {
    let call = Call::undeclared;
    allow("mcp__github", "mcp__github__get_issue", call(), Allow);
    allow("mcp__github__*", "mcp__github__get_issue", call(), Allow);
    allow("mcp__github__get_*", "mcp__github__get_issue", call(), Allow);
    allow("mcp__github__get_*", "mcp__github__put_issue", call(), Ask);
    allow("mcp__*", "mcp__github__get_issue", call(), Ask);
    allow("*", "Custom", call(), Ask);
    deny("mcp__*", "mcp__github__get_issue", call().reading(), Deny);
    deny("*", "Custom", call().reading(), Deny);
    deny("mcp__git*", "mcp__github__get_issue", call().reading(), Deny);

    let mut names = Names::built_in();
    names.add_remote("mcp__my_server__a_b", "my.server", "a.b");
    let names = std::sync::Arc::new(names);
    for rule in ["mcp__my.server__a.b", "mcp__my_server__a_b", "mcp__my.server", "mcp__my_server__*"] {
        let builder = Policy::builder("/ws").names(std::sync::Arc::clone(&names));
        let policy = builder.rules(&common::settings(), Allow, [rule]).build();
        assert_eq!(judge(&policy, "mcp__my_server__a_b", &call()).behavior, Allow, "{rule}");
    }
}

#[test]
fn invalid_rule_asks_and_warns() {
    let check = |rule: &str, tool: &str, call: Call, want: Behavior| {
        for behavior in [Deny, Ask] {
            let policy = Policy::builder("/ws").rules(&common::settings(), behavior, [rule]).build();
            assert_eq!(policy.warnings().len(), 1, "{rule}");
            assert_eq!(judge(&policy, tool, &call).behavior, want, "{rule} {tool}");
        }
        let policy = Policy::builder("/ws").rules(&common::settings(), Allow, [rule]).build();
        assert_eq!(policy.warnings().len(), 1, "{rule}");
    };
    check("Custom(x", "Custom", Call::undeclared().reading(), Ask);
    check("Custom(x", "Other", Call::undeclared().reading(), Allow);
    check("Custom x", "Custom", Call::undeclared().reading(), Ask);
    check("Read(!x)", "Grep", Call::read("/ws/y"), Ask);
    check("Read([x)", "Read", Call::read("/ws/y"), Ask);
    check("Glob([x)", "Read", Call::read("/ws/y"), Ask);
    check("Bash()", "Bash", Call::command("make"), Ask);
    check("WebFetch(example.com)", "WebFetch", Call::fetch("https://x.test"), Ask);
    check("(x)", "Custom", Call::undeclared().reading(), Ask);
    check("", "Custom", Call::undeclared().reading(), Allow);
    // An invalid `Read` rule may have been about the edited file.
    let policy = policy(
        PermissionMode::AcceptEdits,
        Rules { deny: &["Read(!x)"], allow: &["Edit"], ..Rules::default() },
    );
    assert_eq!(judge(&policy, "Write", &Call::write("/ws/y")).behavior, Ask);
}

#[test]
fn deny_rule_about_missing_input_asks() {
    let call = || Call::undeclared().reading();
    deny("mcp__x__y(dangerous)", "mcp__x__y", call(), Ask);
    deny("mcp__x__y(mode:dangerous)", "mcp__x__y", call(), Allow);
    let named = Call { reach: AccessSet::Declared(vec![Access::Named(String::from("fine"))]), ..call() };
    deny("Custom(dangerous)", "Custom", named, Allow);
}

#[test]
fn bare_deny_rule_removes_the_tool() {
    let rules = Rules { deny: &["Write", "mcp__x", "Bash(rm:*)", "Task"], ..Rules::default() };
    let policy = policy(PermissionMode::Default, rules);
    for (tool, removed) in
        [("Write", true), ("mcp__x__y", true), ("Bash", false), ("Agent", true), ("Edit", false)]
    {
        assert_eq!(policy.removes(tool).is_some(), removed, "{tool}");
    }
}
