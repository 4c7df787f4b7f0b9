//! How commands of the pages are run that cannot be run as they stand.

/// How one is run.
#[derive(Clone, Copy, Debug)]
pub(super) enum How {
    AsItStands,
    /// With something in the place of what stands for something. `$ID` is a session.
    As(&'static str),
    /// The same, and one of these is its exit code.
    Ends(&'static str, &'static [i32]),
    /// It serves until it is ended; this is what it says when it does.
    Serves(&'static str, &'static str),
    /// It cannot be run here, and why.
    Not(&'static str),
}

use How::{As, Ends, Not, Serves};

/// The list of commands that are not run does not grow unnoticed.
pub(super) const MAX_NOT_RUN: usize = 15;

const TERMINAL: &str = "a conversation needs a terminal: `terminal.rs` has one";
const MACHINE: &str = "another machine: `tool_host.rs` has two on this one";

pub(super) const TABLE: &[(&str, How)] = &[
    ("haft \"a message\"", Not(TERMINAL)),
    ("haft --ide", Not("an editor: `ide_bridge.rs` is one")),
    ("haft --host NAME=ADDRESS", Not(MACHINE)),
    ("haft --host build1=ssh://me@build1/srv/app", Not(MACHINE)),
    ("haft --host gpu1=ssh://gpu1/data --host cpu1=ssh://cpu1/data", Not(MACHINE)),
    ("haft --host office=https://box/office", Not(MACHINE)),
    ("haft --resume ID --host …", Not(MACHINE)),
    ("haft -p \"make the tests pass\" --host build1=ssh://me@build1/~/app", Not(MACHINE)),
    ("haft tool call Bash '{\"command\": \"nvidia-smi\"}' --host gpu1", Not(MACHINE)),
    ("haft undo --host NAME=ADDRESS", Not(MACHINE)),
    // Placeholders.
    (
        "haft --output-format stream-json --verbose --input-format stream-json …",
        As(
            "echo '{\"type\":\"user\",\"message\":{\"role\":\"user\",\"content\":\"x\"}}' | haft --output-format stream-json --verbose --input-format stream-json",
        ),
    ),
    ("haft -p", As("haft -p x")),
    ("haft -p \"…\"", As("haft -p x")),
    ("haft -p --output-format stream-json", As("haft -p --output-format stream-json x")),
    ("haft -p … --continue", As("haft -p x --continue")),
    ("haft -p … --record run.cassette", As("haft -p x --record again.cassette")),
    ("haft acp --login", As("echo key | haft acp --login")),
    ("haft context [ID]", As("haft context && haft context $ID")),
    ("haft cost [ID]", As("haft cost $ID")),
    ("haft cost [SESSION]", As("haft cost $ID")),
    ("haft cron install", As("haft cron install --print")),
    ("haft dev mock-model", Serves("haft dev mock-model model.json", "http://127.0.0.1:")),
    ("haft dev mock-model SCRIPT", Serves("haft dev mock-model model.json", "http://127.0.0.1:")),
    ("haft diff [ID]", As("haft diff $(haft history | head -1 | cut -d' ' -f1)")),
    ("haft fleet", Ends("haft fleet", &[2])),
    (
        "haft fleet map repos.csv -p \"migrate {repo} to {target}\" --canary 5% --wait",
        As("haft fleet map repos.csv -p \"migrate {repo} to {target}\" --canary 5% --wait"),
    ),
    ("haft fleet retry", Ends("haft fleet retry no-such-job", &[1, 2])),
    (
        "haft fleet schedule NAME --cron '0 6 * * *' -p \"…\"",
        As("haft fleet schedule daily --cron '0 6 * * *' -p x"),
    ),
    ("haft fleet serve", Serves("haft fleet serve --http 127.0.0.1:0", "http://127.0.0.1:")),
    ("haft fleet show blob:HASH", Ends("haft fleet show blob:0000", &[1, 2])),
    (
        "haft fleet submit -p \"explain this repository\" --repo https://host/a/b@main --wait",
        As("haft fleet submit -p \"explain this repository\" --repo \"$PWD\" --wait"),
    ),
    ("haft fleet up --nodes 3", Not("NATS servers: `fleet` has three")),
    ("haft fleet worker", Serves("haft fleet worker", "waits for jobs")),
    ("haft fleet worker --slots 8 &", Serves("haft fleet worker --slots 8", "waits for jobs")),
    (
        "haft import claude|codex|gemini|opencode",
        As("haft import claude && haft import codex && haft import gemini && haft import opencode"),
    ),
    ("haft init", As("haft init --yes")),
    ("haft login", As("echo key | haft login")),
    ("haft login openai", As("echo key | haft login openai")),
    ("haft mcp add", As("haft mcp add near -- true")),
    (
        "haft mcp add -t http NAME URL -H \"Name: value\"",
        As("haft mcp add -t http near http://127.0.0.1:1/mcp -H 'Name: value'"),
    ),
    ("haft mcp add NAME -- COMMAND ARGS…", As("haft mcp add near -- true x")),
    ("haft mcp add-json NAME '{\"command\": …}'", As("haft mcp add-json near '{\"command\": \"true\"}'")),
    ("haft mcp get", As("haft mcp add near -- haft mcp serve && haft mcp get near")),
    (
        "haft mcp list | get NAME | doctor [NAME]",
        As(
            "haft mcp add near -- haft mcp serve && haft mcp list && haft mcp get near && haft mcp doctor near",
        ),
    ),
    ("haft mcp login NAME", Not("an authorization server: `mcp_login.rs` has twenty")),
    ("haft mcp login NAME | logout NAME", Not("an authorization server: `mcp_login.rs` has twenty")),
    (
        "haft mcp logs NAME",
        As("haft mcp add near -- haft mcp serve && haft mcp get near && haft mcp logs near"),
    ),
    ("haft mcp remove", As("haft mcp add near -- true && haft mcp remove near")),
    ("haft mcp remove NAME", As("haft mcp add near -- true && haft mcp remove near")),
    ("haft mcp serve --http", Serves("haft mcp serve --http", "http://127.0.0.1:")),
    (
        "haft mcp serve --http 127.0.0.1:8080",
        Serves("haft mcp serve --http 127.0.0.1:0", "http://127.0.0.1:"),
    ),
    ("haft media-worker", Ends("haft media-worker", &[2])),
    ("haft new tool NAME", As("haft new tool word-count")),
    ("haft permissions allow", As("haft permissions allow 'Bash(npm test)'")),
    ("haft permissions explain", Ends("haft permissions explain Read '{\"file_path\": \"x\"}'", &[0, 1])),
    ("haft permissions explain --agent NAME", As("haft permissions explain --agent Explore ls")),
    (
        "haft permissions explain Read '{\"file_path\": \"~/.ssh/id_rsa\"}'",
        Ends("haft permissions explain Read '{\"file_path\": \"~/.ssh/id_rsa\"}'", &[1]),
    ),
    (
        "haft permissions revoke \"Bash(npm test)\"",
        As("haft permissions allow 'Bash(npm test)' && haft permissions revoke 'Bash(npm test)'"),
    ),
    (
        "haft permissions test --batch",
        As(
            r#"printf '{"tool": "Bash", "cwd": "%s", "input": {"command": "ls"}}' "$PWD" | haft permissions test --batch | grep '"allow"'"#,
        ),
    ),
    (
        "haft plugins configure NAME KEY=VALUE",
        As(
            "haft plugins marketplace add . && haft plugins install good@near && haft plugins configure good@near mood=fine",
        ),
    ),
    (
        "haft plugins disable",
        As(
            "haft plugins marketplace add . && haft plugins install good@near && haft plugins disable good@near",
        ),
    ),
    (
        "haft plugins enable NAME@MARKETPLACE",
        As("haft plugins marketplace add . && haft plugins enable good@near"),
    ),
    (
        "haft plugins install NAME@MARKETPLACE",
        As("haft plugins marketplace add . && haft plugins install good@near"),
    ),
    (
        "haft plugins marketplace add | remove | update",
        As(
            "haft plugins marketplace add . && haft plugins marketplace update near && haft plugins marketplace remove near",
        ),
    ),
    (
        "haft plugins uninstall",
        As(
            "haft plugins marketplace add . && haft plugins install good@near && haft plugins uninstall good@near",
        ),
    ),
    ("haft plugins validate DIRECTORY", As("haft plugins validate plugin")),
    ("haft redo", As("haft undo && haft redo")),
    ("haft replay", As("haft replay run.cassette")),
    // It repairs a terminal, and there is none.
    ("haft reset", Ends("haft reset", &[2])),
    ("haft rewind [ID]", As("haft rewind && haft rewind $ID")),
    ("haft sandbox", Ends("haft sandbox", &[2])),
    ("haft sandbox check", Ends("haft sandbox check", &[0, 1])),
    ("haft sandbox run -- CMD", Ends("haft sandbox run -- true", &[0, 1, 2])),
    ("haft sandbox run -- npm test", Ends("haft sandbox run -- true", &[0, 1, 2])),
    ("haft sessions path ID", As("haft sessions path $ID")),
    ("haft sessions search TEXT", As("haft sessions search 'Write a file'")),
    ("haft sessions show", As("haft sessions show $ID")),
    ("haft sessions show ID", As("haft sessions show $ID")),
    ("haft sessions title", As("haft sessions title $ID name")),
    ("haft sessions title ID NAME", As("haft sessions title $ID name && haft sessions show name")),
    ("haft tasks output ID", Ends("haft tasks output nothing", &[1, 2])),
    ("haft tasks stop ID", Ends("haft tasks stop nothing", &[1, 2])),
    ("haft tool", Ends("haft tool", &[2])),
    ("haft tool call", As("haft tool call LS '{\"path\": \".\"}'")),
    (
        "haft tool call Edit --read-first '…'",
        As(
            "haft tool call Edit --read-first '{\"file_path\": \"README.md\", \"old_string\": \"A\", \"new_string\": \"B\"}' --permission-mode acceptEdits",
        ),
    ),
    (
        "haft tool call LSP '{\"operation\": \"findReferences\", \"filePath\": \"src/lib.rs\", \"symbol\": \"twice\"}'",
        Ends(
            "haft tool call LSP '{\"operation\": \"findReferences\", \"filePath\": \"src/lib.rs\", \"symbol\": \"twice\"}'",
            &[0, 1, 3],
        ),
    ),
    (
        "haft tool call Read | Grep | Glob | LS",
        As(
            "haft tool call Read '{\"file_path\": \"README.md\"}' && haft tool call Grep '{\"pattern\": \"A\"}' && haft tool call Glob '{\"pattern\": \"*\"}' && haft tool call LS '{\"path\": \".\"}'",
        ),
    ),
    ("haft tool call | run", As("echo '{\"name\": \"LS\", \"input\": {\"path\": \".\"}}' | haft tool run")),
    ("haft tool run", As("echo '{\"name\": \"LS\", \"input\": {\"path\": \".\"}}' | haft tool run")),
    ("haft tool-host --http", Serves("haft tool-host --http 127.0.0.1:0", "http://127.0.0.1:")),
    ("haft tool-host --http ADDRESS", Serves("haft tool-host --http 127.0.0.1:0", "http://127.0.0.1:")),
    ("haft tool-host --meet 127.0.0.1:7070", Serves("haft tool-host --meet 127.0.0.1:0", "127.0.0.1:")),
    ("haft tool-host --through https://box/office --token-file FILE", Not(MACHINE)),
    ("haft tool-host --through …", Not(MACHINE)),
    ("haft triggers fire NAME", As("haft triggers fire review")),
    ("haft triggers serve", Serves("haft triggers serve --port 0", "http://127.0.0.1:")),
    ("haft undo ID", As("haft undo $(haft history | head -1 | cut -d' ' -f1)")),
    ("haft undo ID --turn", As("haft undo $(haft history | head -1 | cut -d' ' -f1) --turn")),
    ("haft undo | redo | history", As("haft undo && haft redo && haft history")),
    ("haft view", Serves("haft view --no-open", "http://127.0.0.1:")),
    ("haft view ID", Serves("haft view $ID --no-open", "http://127.0.0.1:")),
    ("haft view --html FILE", As("haft view --html page.html")),
    ("haft worktrees remove", Ends("haft worktrees remove nothing", &[1, 2])),
    ("haft worktrees rescue", Ends("haft worktrees rescue nothing", &[1, 2])),
];
