//! How to run commands of the pages that cannot be run unchanged.

/// How to run a command.
#[derive(Clone, Copy, Debug)]
pub(super) enum How {
    AsItStands,
    /// With values for placeholders; `$ID` is a session id.
    As(&'static str),
    /// Like `As`, with the allowed exit codes.
    Ends(&'static str, &'static [i32]),
    /// A server; it is stopped once it has printed this.
    Serves(&'static str, &'static str),
    /// It cannot be run here; the reason.
    Not(&'static str),
}

use How::{As, Ends, Not, Serves};

/// Limits the number of commands that are not run.
pub(super) const MAX_NOT_RUN: usize = 15;

const TERMINAL: &str = "a conversation needs a terminal: `terminal.rs` has one";
const MACHINE: &str = "another machine: `tool_host.rs` has two on this one";

pub(super) const TABLE: &[(&str, How)] = &[
    ("haft \"explain this repository\"", As("haft -p \"explain this repository\"")),
    ("haft \"why does @src/main.rs fail?\"", As("haft -p \"why does @src/main.rs fail?\"")),
    ("haft --host build1=ssh://me@build1/srv/app", Not(MACHINE)),
    ("haft --host office=https://box/office", Not(MACHINE)),
    ("haft --ide", Not("an editor: `ide_bridge.rs` is one")),
    ("haft --model opus", As("haft -p x --model opus")),
    (
        "haft --output-format stream-json --verbose --input-format stream-json …",
        As(
            "echo '{\"type\":\"user\",\"message\":{\"role\":\"user\",\"content\":\"x\"}}' | haft --output-format stream-json --verbose --input-format stream-json",
        ),
    ),
    ("haft --plugin-dir DIR", As("haft -p x --plugin-dir plugin")),
    (
        "haft --provider ollama --model qwen3-coder",
        As("OLLAMA_HOST=$ANTHROPIC_BASE_URL haft -p x --provider ollama --model qwen3-coder"),
    ),
    ("haft --resume ID", As("haft -p x --resume $ID")),
    ("haft --resume ID --host …", Not(MACHINE)),
    ("haft -c", As("haft -p x -c")),
    ("haft -p", As("haft -p x")),
    (
        "haft -p \"name the three largest files\" --output-format json --json-schema '{\"type\": \"object\", \"properties\": {\"files\": {\"type\": \"array\", \"items\": {\"type\": \"string\"}}}, \"required\": [\"files\"]}'",
        Ends(
            "haft -p \"name the three largest files\" --output-format json --json-schema '{\"type\": \"object\", \"properties\": {\"files\": {\"type\": \"array\", \"items\": {\"type\": \"string\"}}}, \"required\": [\"files\"]}'",
            &[0, 1],
        ),
    ),
    ("haft -p \"…\" --agent reviewer", As("haft -p x --agent Explore")),
    ("haft -p --output-format stream-json", As("haft -p --output-format stream-json x")),
    ("haft -p … --record run.cassette", As("haft -p x --record again.cassette")),
    ("haft acp --login", As("echo key | haft acp --login")),
    (
        "haft completions bash > ~/.local/share/bash-completion/completions/haft",
        As("haft completions bash | grep haft"),
    ),
    ("haft context ID", As("haft context $ID")),
    ("haft cost ID", As("haft cost $ID")),
    ("haft cron install", As("haft cron install --print")),
    ("haft cron remove ID", Ends("haft cron remove nothing", &[2])),
    ("haft dev mock-model SCRIPT", Serves("haft dev mock-model model.json", "http://127.0.0.1:")),
    ("haft diff ID", As("haft diff $(haft history | head -1 | cut -d' ' -f1)")),
    ("haft fleet attach ID", Ends("haft fleet attach nothing", &[2])),
    ("haft fleet cancel NAME", Ends("haft fleet cancel nothing", &[2])),
    ("haft fleet cost --by", As("haft fleet cost --by repo")),
    ("haft fleet logs ID -f", Ends("haft fleet logs nothing -f", &[2])),
    ("haft fleet map", As("haft fleet map repos.csv -p \"migrate {repo} to {target}\" --dry-run")),
    (
        "haft fleet map repos.csv -p \"migrate {repo} to {target}\" --canary 5% --wait",
        As("haft fleet map repos.csv -p \"migrate {repo} to {target}\" --canary 5% --wait"),
    ),
    ("haft fleet move --to nats://a,b,c", Ends("haft fleet move --to nats://127.0.0.1:1", &[2])),
    ("haft fleet results NAME --patches DIR", Ends("haft fleet results nothing --patches out", &[2])),
    ("haft fleet retry", Ends("haft fleet retry no-such-job", &[1, 2])),
    ("haft fleet say ID \"use Java 21\"", Ends("haft fleet say nothing \"use Java 21\"", &[2])),
    ("haft fleet serve", Serves("haft fleet serve --http 127.0.0.1:0", "http://127.0.0.1:")),
    ("haft fleet submit", As("haft fleet submit -p x")),
    ("haft fleet submit --wait", As("haft fleet submit -p x --wait")),
    (
        "haft fleet submit -p \"explain this repository\" --repo https://host/a/b@main --wait",
        As("haft fleet submit -p \"explain this repository\" --repo \"$PWD\" --wait"),
    ),
    ("haft fleet up --nodes 3", Not("NATS servers: `fleet` has three")),
    ("haft fleet worker", Serves("haft fleet worker", "waits for jobs")),
    ("haft fleet worker --slots 8", Serves("haft fleet worker --slots 8", "waits for jobs")),
    ("haft init", As("haft init --yes")),
    ("haft login", As("echo key | haft login")),
    ("haft login && haft", As("echo key | haft login && haft -p x")),
    ("haft login --check", As("haft login --help | grep -e --check")),
    ("haft login [PROVIDER]", As("echo key | haft login openai")),
    ("haft login openai", As("echo key | haft login openai")),
    (
        "haft mcp add --client-secret",
        As("MCP_CLIENT_SECRET=x haft mcp add --client-secret -t http near http://127.0.0.1:1/mcp"),
    ),
    ("haft mcp add -s project", As("haft mcp add -s project near -- true")),
    ("haft mcp add -t http NAME URL", As("haft mcp add -t http near http://127.0.0.1:1/mcp")),
    ("haft mcp add NAME -- COMMAND ARGS…", As("haft mcp add near -- true x")),
    ("haft mcp add-json NAME '{\"command\": …}'", As("haft mcp add-json near '{\"command\": \"true\"}'")),
    ("haft mcp doctor NAME", As("haft mcp add near -- haft mcp serve && haft mcp doctor near")),
    ("haft mcp get NAME", As("haft mcp add near -- haft mcp serve && haft mcp get near")),
    ("haft mcp get word-count", As("haft mcp add near -- haft mcp serve && haft mcp get near")),
    ("haft mcp login NAME", Not("an authorization server: `mcp_login.rs` has twenty")),
    ("haft mcp logout", As("haft mcp add -t http near http://127.0.0.1:1/mcp && haft mcp logout near")),
    ("haft mcp logout NAME", As("haft mcp add -t http near http://127.0.0.1:1/mcp && haft mcp logout near")),
    (
        "haft mcp logs NAME",
        As("haft mcp add near -- haft mcp serve && haft mcp get near && haft mcp logs near"),
    ),
    ("haft mcp remove NAME", As("haft mcp add near -- true && haft mcp remove near")),
    (
        "haft mcp serve --http 127.0.0.1:8080",
        Serves("haft mcp serve --http 127.0.0.1:0", "http://127.0.0.1:"),
    ),
    ("haft mcp serve --oauth-introspect", As("haft mcp serve --help | grep -e --oauth-introspect")),
    ("haft media-worker", Ends("haft media-worker", &[2])),
    ("haft new tool NAME", As("haft new tool word-count")),
    ("haft permissions", Ends("haft permissions", &[2])),
    ("haft permissions ask", As("haft permissions ask 'Bash(npm test)'")),
    ("haft permissions deny", As("haft permissions deny 'Bash(npm test)'")),
    ("haft permissions explain", Ends("haft permissions explain Read '{\"file_path\": \"x\"}'", &[0, 1])),
    ("haft permissions explain --agent NAME", As("haft permissions explain --agent Explore ls")),
    (
        "haft permissions explain Read '{\"file_path\": \"~/.ssh/id_rsa\"}'",
        Ends("haft permissions explain Read '{\"file_path\": \"~/.ssh/id_rsa\"}'", &[1]),
    ),
    (
        "haft permissions revoke",
        As("haft permissions allow 'Bash(npm test)' && haft permissions revoke 'Bash(npm test)'"),
    ),
    ("haft permissions test", As("haft permissions test ls")),
    (
        "haft plugins configure",
        As(
            "haft plugins marketplace add . && haft plugins install good@near && haft plugins configure good@near mood=fine",
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
        "haft plugins install review@team-plugins",
        As("haft plugins marketplace add . && haft plugins install good@near"),
    ),
    ("haft plugins marketplace add PATH", As("haft plugins marketplace add .")),
    ("haft plugins marketplace add ~/src/team-plugins", As("haft plugins marketplace add .")),
    (
        "haft plugins uninstall",
        As(
            "haft plugins marketplace add . && haft plugins install good@near && haft plugins uninstall good@near",
        ),
    ),
    ("haft plugins validate DIRECTORY", As("haft plugins validate plugin")),
    ("haft redo", As("haft undo && haft redo")),
    ("haft replay", As("haft replay run.cassette")),
    ("haft reset", Ends("haft reset", &[2])),
    ("haft rewind --to 3", As("haft rewind --to 1")),
    ("haft sandbox check", Ends("haft sandbox check", &[0, 1])),
    ("haft sandbox run -- npm test", Ends("haft sandbox run -- true", &[0, 1, 2])),
    ("haft sessions path ID", As("haft sessions path $ID")),
    ("haft sessions search TEXT", As("haft sessions search 'Write a file'")),
    ("haft sessions show ID", As("haft sessions show $ID")),
    ("haft sessions title ID NAME", As("haft sessions title $ID name && haft sessions show name")),
    ("haft tasks output ID", Ends("haft tasks output nothing", &[1, 2])),
    ("haft tasks stop ID", Ends("haft tasks stop nothing", &[1, 2])),
    ("haft tool", Ends("haft tool", &[2])),
    ("haft tool call", As("haft tool call LS '{\"path\": \".\"}'")),
    (
        "haft tool call Edit --read-first '{\"file_path\": \"README.md\", \"old_string\": \"A\", \"new_string\": \"B\"}'",
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
    ("haft tool run", As("echo '{\"name\": \"LS\", \"input\": {\"path\": \".\"}}' | haft tool run")),
    ("haft tool-host --http", Serves("haft tool-host --http 127.0.0.1:0", "http://127.0.0.1:")),
    ("haft tool-host --meet 127.0.0.1:7070", Serves("haft tool-host --meet 127.0.0.1:0", "127.0.0.1:")),
    ("haft tool-host --through https://box/office --token-file FILE", Not(MACHINE)),
    ("haft tool-host --through …", Not(MACHINE)),
    ("haft triggers serve", Serves("haft triggers serve --port 0", "http://127.0.0.1:")),
    ("haft undo --host NAME=ADDRESS", Not(MACHINE)),
    ("haft undo ID", As("haft undo $(haft history | head -1 | cut -d' ' -f1)")),
    ("haft undo ID --turn", As("haft undo $(haft history | head -1 | cut -d' ' -f1) --turn")),
    ("haft view", Serves("haft view --no-open", "http://127.0.0.1:")),
    ("haft view --html FILE", As("haft view --html page.html")),
    ("haft worktrees remove NAME", Ends("haft worktrees remove nothing", &[2])),
    ("haft worktrees rescue NAME", Ends("haft worktrees rescue nothing", &[2])),
];
