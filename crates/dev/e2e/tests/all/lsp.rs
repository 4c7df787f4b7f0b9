//! Language servers: `haft tool call LSP`; none survives the process.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, reason = "test code")]

use crate::common;

use std::{path::Path, process::Stdio};

use common::Haft;
use serde_json::json;

fn script() -> String {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let script = here.join("../../system/lsp/tests/all/support/fake_server.py");
    script.canonicalize().unwrap().display().to_string()
}

fn settings(words: &[&str]) -> String {
    let mut args = vec![script()];
    args.extend(words.iter().map(|it| (*it).to_owned()));
    json!({"lsp": {"servers": {"fake": {"command": "python3", "args": args, "extensionToLanguage": {".x": "text"}}}}})
        .to_string()
}

#[test]
fn a_person_asks_and_a_project_brings_no_server() {
    let haft = Haft::new();
    haft.write("a.x", "def größe\ncall größe\n");
    let input = json!({"operation": "findReferences", "filePath": "a.x", "symbol": "größe"}).to_string();
    let ask = |mode: &str| haft.run(&["--permission-mode", mode, "tool", "call", "LSP", &input], "");
    // Server settings of an untrusted project are ignored.
    haft.write(".haft/settings.json", &settings(&[]));
    let unknown = ask("bypassPermissions");
    let said =
        String::from_utf8_lossy(&unknown.stdout).into_owned() + &String::from_utf8_lossy(&unknown.stderr);
    assert!(said.contains("No language server is known for .x files"), "{said}");
    std::fs::remove_file(haft.ws().join(".haft/settings.json")).unwrap();
    haft.write_home(".haft/settings.json", &settings(&[]));
    // Starting a server asks like a command.
    assert!(!ask("default").status.success());
    let answered = ask("bypassPermissions");
    let said = String::from_utf8_lossy(&answered.stdout);
    assert!(said.contains("2 references of `größe` in 1 file") && said.contains("2:6"), "{said}");
}

#[test]
fn no_server_outlives_us_even_when_we_are_killed() {
    let haft = Haft::new();
    haft.write("a.x", "def a\n");
    let log = haft.ws().join("heard");
    let words = ["--stubborn", "--hang-on", "textDocument/hover", "--log", log.to_str().unwrap()];
    haft.write_home(".haft/settings.json", &settings(&words));
    let input = json!({"operation": "hover", "filePath": "a.x", "symbol": "a"}).to_string();
    let mut command = haft.command();
    command.args(["--permission-mode", "bypassPermissions", "tool", "call", "LSP", &input]);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let heard = || std::fs::read_to_string(&log).unwrap_or_default().contains("textDocument/hover");
    common::eventually("the question", heard);
    let running = || {
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        let lines = processes.filter_map(|it| std::fs::read(it.path().join("cmdline")).ok());
        let is_server = |line: &Vec<u8>| {
            let line = String::from_utf8_lossy(line);
            let program = line.split('\0').next().and_then(|it| it.rsplit('/').next()).unwrap_or_default();
            program.starts_with("python3") && line.contains(log.to_str().unwrap())
        };
        lines.filter(is_server).count()
    };
    assert_eq!(running(), 1);
    child.kill().unwrap();
    child.wait().unwrap();
    common::eventually("the end of the server", || running() == 0);
}

#[test]
fn a_plugin_brings_a_server_and_an_untrusted_project_keeps_it_from_starting() {
    let haft = Haft::new();
    haft.write("a.x", "def größe\n");
    let plugins = json!([{"name": "plug", "source": "./plug"}]);
    let list = json!({"name": "local", "owner": {"name": "me"}, "plugins": plugins});
    haft.write_home("market/.claude-plugin/marketplace.json", &list.to_string());
    haft.write_home("market/plug/.claude-plugin/plugin.json", &json!({"name": "plug"}).to_string());
    // A server file in the plugin's root, which has a special name.
    std::fs::copy(script(), haft.home().join("market/plug/server.py")).unwrap();
    let server = json!({"command": "python3", "args": ["${CLAUDE_PLUGIN_ROOT}/server.py"],
        "extensionToLanguage": {".x": "text"}, "transport": "stdio", "shutdownTimeout": 100});
    haft.write_home("market/plug/.lsp.json", &json!({"fake": server}).to_string());
    let market = json!({"source": {"source": "directory", "path": haft.home().join("market")}});
    let settings = json!({"permissions": {"allow": ["LSP"]}, "enabledPlugins": {"plug@local": true},
        "extraKnownMarketplaces": {"local": market}});
    haft.write_home(".haft/settings.json", &settings.to_string());
    let input = json!({"operation": "documentSymbol", "filePath": "a.x"}).to_string();
    let ask = || {
        let output = haft.run(&["tool", "call", "LSP", &input], "");
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
    };
    let said = ask();
    assert!(said.contains("1 names in a.x"), "{said}");
    // The user's allow rule does not cover a server that the project defines.
    haft.write(".claude/settings.json", &json!({"env": {"X": "1"}}).to_string());
    let said = ask();
    assert!(!said.contains("1 names") && said.contains("nobody has trusted yet"), "{said}");
    haft.ok(&["trust", "--yes"], "");
    let said = ask();
    assert!(said.contains("1 names in a.x"), "{said}");
}

#[test]
fn doctor_names_servers_and_what_to_install() {
    let haft = Haft::new();
    let bin = haft.home().join(".local/bin");
    std::fs::create_dir_all(&bin).unwrap();
    std::os::unix::fs::symlink("/bin/true", bin.join("zls")).unwrap();
    haft.write("src/main.zig", "");
    haft.write("lib/x.ex", "");
    let output = haft.run(&["doctor", "--json"], "");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let line = report["checks"].as_array().unwrap().iter().find(|it| it["name"] == "languages").unwrap();
    assert!(line["found"].as_str().unwrap().contains("zls (Zig)"), "{line}");
    // An installed server needs no advice.
    let remedy = line["do"].as_str().unwrap();
    assert!(line["health"] == "warn" && remedy.contains("Elixir: ") && !remedy.contains("Zig"), "{line}");
}
