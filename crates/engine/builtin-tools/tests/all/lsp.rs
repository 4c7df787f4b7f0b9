//! Language servers through the tool: answers, rejections, and reports about edits.

use crate::{
    lsp_rig::{Project, fake_settings, path_dirs, program},
    shell_rig::{eventually, lives},
};

use std::{sync::Arc, time::Duration};

use haft_lsp::{LspSettings, PoolLimits};
use haft_permission::{Behavior, Destination, HookOpinion, Policy, RuleSource};
use haft_tool::{Access, CallContext};
use serde_json::{Value, json};

#[test]
fn lsp_description_matches_snapshot() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let _inside = runtime.enter();
    let project = Project::fake(&[]);
    let spec = project.lsp.spec();
    insta::assert_json_snapshot!(json!({
        "name": project.lsp.name(), "description": spec.description, "input": spec.input_schema }));
}

/// A server found only in the further directories is not started by that call, because it was not
/// approved.
#[tokio::test]
async fn server_from_further_directories_needs_approval_first() {
    let settings = fake_settings(&[("x", &[])]);
    let further = path_dirs();
    let project = Project::looking_further(settings, Vec::new(), PoolLimits::default(), None, further);
    project.put("a.x", "def size\n");
    let input = json!({"operation": "findReferences", "filePath": "a.x", "symbol": "size"});
    let commands = || {
        let cx = CallContext::detached("c", project.dir());
        let call = Arc::clone(&project.lsp).parse(input.clone(), &cx).unwrap();
        call.reach(&cx).accesses().iter().filter(|it| matches!(it, Access::Command(_))).count()
    };
    assert_eq!(commands(), 0);
    let said = project.said(input.clone()).await;
    assert!(said.contains("was found just now") && said.contains("Call this again"), "{said}");
    assert_eq!(commands(), 1);
    let said = project.said(input.clone()).await;
    assert!(said.contains("1 reference of `size`"), "{said}");
    // If it is not found there either, the error is the usual one.
    let project = Project::new(fake_settings(&[("x", &[])]), Vec::new());
    project.put("a.x", "def size\n");
    for _ in 0..2 {
        let said = project.said(input.clone()).await;
        assert!(said.contains("There is no language server for .x files on the PATH"), "{said}");
    }
}

#[tokio::test]
async fn lsp_results_and_errors_match_snapshot() {
    let project = Project::fake(&[]);
    let a = project.put("a.x", "🦀 def größe(x)\n  return größe ERR bad\nHINT unused\n");
    let b = project.put("deep/b.x", "größe and größe\n\ndef other\n");
    project.put("none.zzz", "");
    let mut told = String::new();
    for input in [
        json!({"operation": "documentSymbol", "filePath": b}),
        json!({"operation": "goToDefinition", "filePath": a, "line": 2, "character": 12}),
        json!({"operation": "goToDefinition", "filePath": "deep/b.x", "line": 1, "symbol": "größe"}),
        json!({"operation": "findReferences", "filePath": a, "symbol": "größe"}),
        json!({"operation": "findReferences", "filePath": a, "symbol": "größe", "offset": 3}),
        json!({"operation": "hover", "filePath": a, "line": 1, "character": 1}),
        json!({"operation": "hover", "filePath": a, "line": 1}),
        json!({"operation": "workspaceSymbol", "query": "other"}),
        json!({"operation": "workspaceSymbol", "query": "nothing"}),
        json!({"operation": "goToImplementation", "filePath": a, "line": 1, "symbol": "größe"}),
        json!({"operation": "prepareCallHierarchy", "filePath": a, "symbol": "größe"}),
        json!({"operation": "incomingCalls", "filePath": a, "symbol": "größe"}),
        json!({"operation": "outgoingCalls", "filePath": a, "symbol": "größe"}),
        json!({"operation": "rename", "filePath": a, "symbol": "größe", "newName": "size"}),
        json!({"operation": "codeActions", "filePath": a, "line": 2, "symbol": "ERR"}),
        json!({"operation": "diagnostics", "filePath": a}),
        json!({"operation": "diagnostics"}),
        json!({"operation": "diagnostics", "filePath": b}),
        json!({"operation": "hover", "filePath": a, "line": 99, "character": 1}),
        json!({"operation": "hover", "filePath": a, "symbol": "missing"}),
        json!({"operation": "hover", "filePath": a}),
        json!({"operation": "hover"}),
        json!({"operation": "rename", "filePath": a, "symbol": "größe"}),
        json!({"operation": "workspaceSymbol"}),
        json!({"operation": "hover", "filePath": "none.zzz", "line": 1, "character": 1}),
        json!({"operation": "hover", "filePath": "missing.x", "line": 1, "character": 1}),
        json!({"operation": "hover", "filePath": ".", "line": 1, "character": 1}),
    ] {
        let said = project.said(input.clone()).await;
        let input = project.rig.plain(&input.to_string());
        told.push_str(&format!(">>> {input}\n{said}\n\n"));
    }
    insta::assert_snapshot!(told);
    assert_eq!(std::fs::read_to_string(&b).unwrap(), "größe and größe\n\ndef other\n");
    assert_eq!(project.pool.all().len(), 1);
}

#[tokio::test]
async fn broken_servers_fail_only_their_own_queries() {
    for (words, want) in [
        (
            &["--lie", "textDocument/hover", "7"][..],
            "failed: fake answered textDocument/hover with something that is no answer: a hover without contents",
        ),
        (
            &["--lie", "textDocument/hover", "{\"contents\": 3}"],
            "failed: fake answered textDocument/hover with something that is no answer: a number instead of contents",
        ),
        (
            &["--lie", "initialize", "{}"],
            "failed: fake did not start: fake answered initialize with something that is no answer: no capabilities",
        ),
        (
            &["--die-on", "initialize"],
            "failed: fake did not start: it exited with code 3. It printed:\nboom: no initialize",
        ),
        (
            &["--die-on", "textDocument/hover"],
            "failed: fake ended while it was asked (it exited with code 3); the next call starts it anew",
        ),
        (
            &["--huge"],
            "failed: fake ended while it was asked (it sent something that is no message: a message of 999999999999 bytes is too large); the next call starts it anew",
        ),
    ] {
        let project = Project::fake(words);
        let a = project.put("a.x", "def a\n");
        let hover = json!({"operation": "hover", "filePath": a, "line": 1, "symbol": "a"});
        assert_eq!(project.said(hover).await, want, "{words:?}");
        let names = project.said(json!({"operation": "documentSymbol", "filePath": a})).await;
        let starts = !words.contains(&"initialize");
        assert_eq!(names.starts_with("1 names in a.x"), starts, "{words:?}: {names}");
    }
    // Locations that are invalid, or in files that do not exist.
    let wild = json!([{"uri": "file:///no/such", "range": {"start": {"line": 4_000_000_000_u32, "character": 9}, "end": {"line": 1, "character": 1}}},
        {"uri": "untitled:x", "range": {"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 0}}}]);
    let project = Project::fake(&["--lie", "textDocument/definition", &wild.to_string()]);
    let a = project.put("a.x", "def a\n");
    let said = project.said(json!({"operation": "goToDefinition", "filePath": a, "symbol": "a"})).await;
    assert_eq!(
        said,
        "1 definition of `a` in 1 file\n/no/such\n  4000000001:1\n[`a` is on line 1]\n[1 more in places that are no files]"
    );
}

#[tokio::test]
async fn query_waits_for_an_indexing_server() {
    let project = Project::fake(&["--index", "2"]);
    let a = project.put("a.x", "def a\n");
    let said = project.said(json!({"operation": "goToDefinition", "filePath": a, "symbol": "a"})).await;
    assert!(said.starts_with("1 definition of `a` in 1 file"), "{said}");
}

/// While a server indexes for longer than a call waits, project-wide queries report its progress, never
/// an empty result.
#[tokio::test]
async fn server_that_never_finishes_indexing_is_reported() {
    let project = Project::fake(&["--index", "3600"]);
    let a = project.put("a.x", "def a\na and a\n");
    let ask = |operation: &str| {
        let input = json!({"operation": operation, "filePath": a, "line": 1, "symbol": "a", "query": "a"});
        project.said(input)
    };
    // Queries about one file are answered nevertheless.
    assert!(ask("documentSymbol").await.starts_with("1 names in a.x"));
    let (references, definition, symbols) =
        tokio::join!(ask("findReferences"), ask("goToDefinition"), ask("workspaceSymbol"));
    for said in [references, definition, symbols] {
        assert!(said.starts_with("failed: ") && said.contains("Indexing") && said.contains("40"), "{said}");
        assert!(said.contains("does not mean that there is nothing"), "{said}");
    }
}

/// Whether permission allows a call under these rules without a prompt.
fn judged(project: &Project, rules: &[(Behavior, &str)], input: &Value) -> bool {
    let origin = RuleSource::new("test", Destination::Session).rooted(project.dir());
    let policy = rules.iter().fold(Policy::builder(project.dir()), |it, (behavior, rule)| {
        it.rules(&origin, *behavior, [(*rule).to_owned()])
    });
    let cx = CallContext::detached("call", project.dir());
    let call = Arc::clone(&project.lsp).parse(input.clone(), &cx).unwrap();
    policy.build().judge("LSP", call.as_ref(), &cx, &HookOpinion::default()).behavior == Behavior::Allow
}

#[tokio::test]
async fn server_start_asks_once_and_deny_rules_apply() {
    let project = Project::fake(&[]);
    let a = project.put("a.x", "def a\n");
    let hover = json!({"operation": "hover", "filePath": a, "symbol": "a"});
    let (allow, deny) = (Behavior::Allow, Behavior::Deny);
    assert!(!judged(&project, &[], &hover));
    assert!(judged(&project, &[(allow, "LSP")], &hover));
    assert!(!judged(&project, &[(allow, "LSP"), (deny, "Read(a.x)")], &hover));
    project.said(hover.clone()).await;
    // The server is running now, so queries about project files need no prompt.
    assert!(judged(&project, &[], &hover));
    assert!(!judged(&project, &[(deny, "LSP")], &hover));
    assert!(!judged(&project, &[(deny, "Read(a.x)")], &hover));
    assert!(judged(&project, &[], &json!({"operation": "workspaceSymbol", "query": "a"})));
}

#[tokio::test]
async fn project_programs_are_not_started_and_newly_installed_ones_are_found() {
    let mut path = path_dirs();
    let bin = tempfile::tempdir().unwrap();
    path.insert(0, bin.path().to_owned());
    path.retain(|dir| !dir.join("gopls").exists());
    let project = Project::new(LspSettings::default(), path);
    program(&project.dir().join("node_modules/.bin"), "gopls", "#!/bin/sh\ntouch /tmp/started\n");
    let a = project.put("a.go", "package a\n");
    let hover = json!({"operation": "hover", "filePath": a, "symbol": "a"});
    let missing = project.said(hover.clone()).await;
    assert!(missing.contains("looked for gopls") && missing.contains("go install"), "{missing}");
    // A program installed meanwhile is found, and reports itself what is missing.
    program(bin.path(), "gopls", "#!/bin/sh\necho no toolchain >&2\nexit 1\n");
    let found = project.said(hover).await;
    assert_eq!(found, "failed: gopls did not start: it exited with code 1. It printed:\nno toolchain");
}

#[tokio::test]
async fn servers_that_ignore_shutdown_are_killed() {
    let project = Project::fake(&["--stubborn"]);
    let a = project.put("a.x", "def a\n");
    project.said(json!({"operation": "hover", "filePath": a, "symbol": "a"})).await;
    let running = project.rig.tasks.shell().owner().list();
    let pids: Vec<i32> = running.iter().flat_map(|it| &it.processes).map(|it| it.id.pid).collect();
    assert!(!pids.is_empty());
    project.pool.stop(None).await;
    eventually("the end of the server", || !pids.iter().any(|pid| lives(*pid))).await;
}

/// Edits a file and returns what the model reads after the diff.
async fn edited(project: &Project, old: &str, new: &str) -> String {
    let input = json!({"file_path": "a.x", "old_string": old, "new_string": new});
    let said = project.said_by(&project.edit, input).await;
    said.split_once("Note: ").map(|it| it.1.to_owned()).unwrap_or_default()
}

#[tokio::test]
async fn edit_results_report_new_and_fixed_problems() {
    for words in [&[][..], &["--pull"], &["--no-version"], &["--stale"]] {
        let project = Project::fake(words);
        let a = project.put("a.x", "def a\nWARN old\n");
        project.said_by(&project.read, json!({"file_path": a})).await;
        // Without a server nothing is reported.
        assert_eq!(edited(&project, "def a", "def b ERR x").await, "", "{words:?}");
        assert_eq!(edited(&project, "def b ERR x", "def a").await, "");
        project.said(json!({"operation": "diagnostics", "filePath": a})).await;
        let told = |told: &str| format!("<new-diagnostics>\n{told}\n</new-diagnostics>");
        // The first edit is reported once the server has answered; later ones at once, if it is fast.
        let mut all = edited(&project, "def a", "def b ERR broken").await;
        if all.is_empty() {
            let heard = || !project.told.lock().unwrap().is_empty();
            eventually("news with the next request", heard).await;
            all = project.told.lock().unwrap().remove(0);
        }
        assert!(
            all.contains(&told("a.x: 1 new problem\n  error 1:7 ERR broken [fake err]")),
            "{words:?}: {all}"
        );
        let mut fixed = edited(&project, "def b ERR broken\nWARN old", "def b\n").await;
        if fixed.is_empty() {
            let heard = || !project.told.lock().unwrap().is_empty();
            eventually("news with the next request", heard).await;
            fixed = project.told.lock().unwrap().remove(0);
        }
        assert!(fixed.contains(&told("a.x: 2 fixed: none left")), "{words:?}: {fixed}");
        // No new problems, so no report.
        assert_eq!(edited(&project, "def b", "def c").await, "", "{words:?}");
    }
}

/// Returns what the model reads about the last edit, in its result or with the next request.
async fn told_of(project: &Project, result: String) -> String {
    if !result.is_empty() {
        return result;
    }
    eventually("news with the next request", || !project.told.lock().unwrap().is_empty()).await;
    project.told.lock().unwrap().remove(0)
}

#[tokio::test]
async fn problem_after_many_clean_edits_is_reported() {
    for words in [&[][..], &["--pull"], &["--no-version"]] {
        let project = Project::fake(words);
        let a = project.put("a.x", "def name_0\n");
        project.said_by(&project.read, json!({"file_path": a})).await;
        project.said(json!({"operation": "diagnostics", "filePath": a})).await;
        for number in 0..9 {
            let (old, new) = (format!("name_{number}\n"), format!("name_{}\n", number + 1));
            assert_eq!(edited(&project, &old, &new).await, "", "{words:?}");
            // By now the server has checked each of them.
            let said = project.said(json!({"operation": "diagnostics", "filePath": a})).await;
            assert!(!said.contains("ERR"), "{words:?}: {said}");
        }
        assert_eq!(*project.told.lock().unwrap(), Vec::<String>::new(), "{words:?}");
        for (old, new, want) in [
            ("name_9", "name_9 ERR one", "a.x: 1 new problem\n  error 1:12 ERR one [fake err]"),
            ("ERR one", "ERR two", "a.x: 1 new problem, 1 fixed\n  error 1:12 ERR two [fake err]"),
            (" ERR two", "", "a.x: 1 fixed: none left"),
        ] {
            let result = edited(&project, old, new).await;
            let told = told_of(&project, result).await;
            assert!(told.contains(want), "{words:?}: {told}");
        }
    }
}

#[tokio::test]
async fn sub_agent_gets_diagnostics_with_the_edit_result() {
    let project = Project::fake(&["--pull"]);
    let a = project.put("a.x", "def name_0\n");
    let agent = haft_types::AgentId::new("helper");
    let edit = async |old: &str, new: &str| {
        let input = json!({"file_path": "a.x", "old_string": old, "new_string": new});
        let said = project.said_as(&agent, &project.edit, input).await;
        said.split_once("Note: ").map(|it| it.1.to_owned()).unwrap_or_default()
    };
    project.said_as(&agent, &project.read, json!({"file_path": a})).await;
    project.said(json!({"operation": "diagnostics", "filePath": a})).await;
    for number in 0..5 {
        assert_eq!(edit(&format!("name_{number}"), &format!("name_{}", number + 1)).await, "");
    }
    // In this result or, on a slow machine, in the next one.
    let (mut told, mut tries) = (edit("name_5", "name_5 ERR x").await, 0);
    while told.is_empty() && tries < 100 {
        told = edit(&format!("ERR x{}", "x".repeat(tries)), &format!("ERR x{}", "x".repeat(tries + 1))).await;
        tries += 1;
    }
    assert!(told.contains("1 new problem") && told.contains("ERR x"), "{told}");
    assert_eq!(*project.told.lock().unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn slow_server_does_not_delay_edits() {
    let outside = tempfile::tempdir().unwrap();
    let gate = outside.path().join("gate");
    let project = Project::fake(&["--gate", gate.to_str().unwrap()]);
    let a = project.put("a.x", "def a\n");
    std::fs::write(&gate, "").unwrap();
    project.said_by(&project.read, json!({"file_path": a})).await;
    project.said(json!({"operation": "diagnostics", "filePath": a})).await;
    // From now on the server is silent until released, however slow the machine.
    std::fs::remove_file(&gate).unwrap();
    // Of two edits in a row only the last text counts; its report comes with a later request.
    assert_eq!(edited(&project, "def a", "ERR first").await, "");
    assert_eq!(edited(&project, "ERR first", "ERR second").await, "");
    assert_eq!(*project.told.lock().unwrap(), Vec::<String>::new());
    std::fs::write(&gate, "").unwrap();
    eventually("news with a later request", || !project.told.lock().unwrap().is_empty()).await;
    let told = project.told.lock().unwrap().join("\n");
    assert!(told.contains("ERR second") && !told.contains("ERR first"), "{told}");
}

#[tokio::test]
async fn untrusted_project_starts_no_server_by_an_allow_rule() {
    let why = "/p has settings that nobody has trusted yet";
    let project = Project::with(fake_settings(&[("x", &[])]), path_dirs(), PoolLimits::default(), Some(why));
    let a = project.put("a.x", "def a\n");
    let hover = json!({"operation": "hover", "filePath": a, "symbol": "a"});
    let rules = [(Behavior::Allow, "LSP")];
    assert!(!judged(&project, &rules, &hover));
    let cx = CallContext::detached("call", project.dir());
    let call = Arc::clone(&project.lsp).parse(hover.clone(), &cx).unwrap();
    let verdict = format!("{:?}", call.check_permissions(&cx));
    assert!(verdict.contains(why) && verdict.contains("fake_server.py` may run code"), "{verdict}");
    // The user approved the server; it is running, and further queries need no prompt.
    project.said(hover.clone()).await;
    assert!(judged(&project, &rules, &hover));
}

#[tokio::test]
async fn project_problems_exclude_ignored_files() {
    let project = Project::fake(&["--pull-all"]);
    project.put(".gitignore", "/gen/\n*.tmp.x\n");
    project.put(".git/HEAD", "");
    let a = project.put("a.x", "ERR mine\n");
    project.put("sub/deep/b.x", "ERR deep\n");
    project.put("gen/c.x", "ERR generated\n");
    project.put("sub/d.tmp.x", "ERR scratch\n");
    project.put("sub/.gitignore", "e.x\n");
    project.put("sub/e.x", "ERR local\n");
    project.said(json!({"operation": "documentSymbol", "filePath": a})).await;
    let said = project.said(json!({"operation": "diagnostics"})).await;
    // Includes files that were never opened: the server was asked about the whole project.
    assert_eq!(
        said,
        "a.x: 1 error\n  error 1:1 ERR mine [fake err]\nsub/deep/b.x: 1 error\n  error 1:1 ERR deep [fake err]\n\
         [3 files that ignore files name are left out]"
    );
    let one = project.said(json!({"operation": "diagnostics", "filePath": "gen/c.x"})).await;
    assert!(one.contains("ERR generated"), "{one}");
}

#[tokio::test]
async fn servers_over_the_memory_limit_are_stopped_and_reported() {
    let limits = PoolLimits { weigh: Duration::from_millis(50), ..PoolLimits::default() };
    let settings = LspSettings {
        most_memory: Some(150 << 20),
        ..fake_settings(&[
            ("x", &["--memory", "80"]),
            ("y", &["--memory", "81"]),
            ("z", &["--memory", "200"]),
        ])
    };
    let project = Project::with(settings, path_dirs(), limits, None);
    let names = |ending: &str| {
        let file = project.put(&format!("a.{ending}"), "def a\n");
        json!({"operation": "documentSymbol", "filePath": file})
    };
    assert!(project.said(names("x")).await.starts_with("1 names"));
    let mut said = project.said(names("y")).await;
    assert!(said.starts_with("1 names"), "{said}");
    // Together they exceed the memory limit: the one idle longer is stopped.
    eventually("the end of one", || project.pool.all().len() == 1).await;
    said.push_str(&project.said(names("y")).await);
    assert!(
        said.contains("[fake, which was not asked for longest, was stopped: language servers took 1")
            && said.contains("more than lsp.memoryMb (150)]"),
        "{said}"
    );
    assert!(!project.said(names("y")).await.contains("stopped"), "it is said once");
    // A server that exceeds the limit alone is not restarted forever.
    project.pool.stop(None).await;
    let mut last = String::new();
    for _ in 0..4 {
        last = project.said(names("z")).await;
        eventually("the end of it", || project.pool.all().is_empty()).await;
    }
    assert!(
        last.contains("fake-z") && last.contains("takes 2") && last.contains("lsp.memoryMb (150)"),
        "{last}"
    );
    assert!(last.starts_with("failed: "), "{last}");
}

/// Any number of concurrent callers share one server per project.
#[tokio::test]
async fn concurrent_queries_share_one_server() {
    let project = Project::fake(&["--delay", "0.2"]);
    let a = project.put("a.x", "def a\nERR a\n");
    let ask = |operation: &str| {
        project.said(json!({"operation": operation, "filePath": a, "line": 1, "symbol": "a"}))
    };
    let (one, two, three, four, five) = tokio::join!(
        ask("hover"),
        ask("goToDefinition"),
        ask("findReferences"),
        ask("documentSymbol"),
        ask("hover"),
    );
    for (said, want) in [
        (one, "is a name"),
        (two, "1 definition"),
        (three, "2 references"),
        (four, "1 names in a.x"),
        (five, "is a name"),
    ] {
        assert!(said.contains(want), "{want}: {said}");
    }
    assert_eq!(project.pool.all().len(), 1);
}
