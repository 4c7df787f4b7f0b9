//! The shared table of URLs, and further rows, over real names and sockets: in a network namespace where
//! every address leads to a server that records connections (`world.sh`, `world.py`).
#![allow(clippy::print_stderr, reason = "test code")]

use crate::{
    web_corpus::{outcome, rows},
    web_rig::SOON,
};

use std::{
    net::IpAddr,
    path::{Path, PathBuf},
    process::Command,
};

use haft_net::SystemNetwork;
use serde_json::{Value, json};

/// Environment variable that tells the test inside the namespace where its servers write.
const WORLD: &str = "HAFT_TEST_WEB_WORLD";

/// Further rows: redirects and outcomes. Public addresses are connected to, and nothing else ever is.
fn own_rows() -> Vec<Value> {
    let public = "93.184.216.34";
    let row = |url: &str, dns: Value, responses: Value, expect: &str| {
        json!({"id": format!("own {url} {dns}"), "url": url, "dns": dns, "responses": responses, "mode": "default",
            "rules": {"allow": ["WebFetch"], "ask": [], "deny": []}, "expect": expect})
    };
    let mut rows = vec![
        row("https://v6.test/", json!({"v6.test": ["2606:4700::6810:85e5"]}), json!({}), "allow"),
        row("https://both.test/", json!({"both.test": [public, "2606:4700::1"]}), json!({}), "allow"),
        row("https://other.test:8443/", json!({"other.test": [public]}), json!({}), "allow"),
        row("http://port.test:8080/", json!({"port.test": [public]}), json!({}), "allow"),
        row(
            "https://alias.test/",
            json!({"alias.test": {"cname": "far.test"}, "far.test": [public]}),
            json!({}),
            "allow",
        ),
        // One private address among several, in IPv4 or IPv6 answers.
        row("http://mixed.test/", json!({"mixed.test": [public, "10.0.0.1"]}), json!({}), "block"),
        row("http://mixed6.test/", json!({"mixed6.test": [public, "fd00::1"]}), json!({}), "block"),
        row(
            "http://alias.test/",
            json!({"alias.test": {"cname": "in.test"}, "in.test": ["192.168.0.9"]}),
            json!({}),
            "block",
        ),
        row("http://intranet.test/", json!({}), json!({}), "block"),
        row("http://localhost:8080/", json!({}), json!({}), "block"),
        row("http://nothing.test/", json!({}), json!({}), "error"),
        // Names whose second resolution differs.
        row(
            "https://turns.test/a",
            json!({"turns.test": {"sequence": [[public], ["127.0.0.1"]]}}),
            json!({"https://turns.test/a": {"status": 302, "location": "/b"}}),
            "block",
        ),
        // Redirects to private addresses, by address and by name.
        row(
            "https://a.test/x",
            json!({"a.test": [public], "in.test": ["10.9.9.9"]}),
            json!({"https://a.test/x": {"status": 302, "location": "https://in.test/"}}),
            "report_redirect",
        ),
    ];
    for near in [
        "0.0.0.0",
        "10.0.0.1",
        "100.64.0.1",
        "127.0.0.53",
        "169.254.169.254",
        "172.20.1.1",
        "192.0.0.8",
        "192.168.7.7",
        "198.19.0.1",
        "224.0.0.1",
        "::",
        "::1",
        "::ffff:10.0.0.1",
        "::127.0.0.1",
        "fe80::1",
        "fc00::1",
        "fd00:ec2::254",
        "ff02::1",
        "64:ff9b::7f00:1",
        "64:ff9b::a9fe:a9fe",
        "2002:7f00:1::",
        "2002:a9fe:a9fe::1",
        "fe80::5efe:10.0.0.1",
        "2001:db8::1",
    ] {
        rows.push(row("http://near.test/", json!({"near.test": [near]}), json!({}), "block"));
        let literal = if near.contains(':') { format!("[{near}]") } else { near.to_owned() };
        rows.push(row(&format!("http://{literal}/"), json!({}), json!({}), "block"));
        let to = format!("http://{literal}:8080/x");
        let responses = json!({"https://a.test/x": {"status": 307, "location": to}});
        rows.push(row("https://a.test/x", json!({"a.test": [public]}), responses, "block"));
    }
    rows
}

/// Returns every name the certificate must cover.
fn names(rows: &[Value]) -> Vec<String> {
    let mut names: Vec<String> =
        rows.iter().flat_map(|row| row["dns"].as_object().unwrap().keys().cloned()).collect();
    names.push(String::from("93.184.216.34"));
    names.sort();
    names.dedup();
    names
}

#[test]
fn url_table_holds_over_real_sockets() {
    let mut all = rows();
    all.extend(own_rows());
    match std::env::var_os(WORLD) {
        Some(dir) => {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
            runtime.unwrap().block_on(check(Path::new(&dir), &all));
        }
        None => in_world(&all),
    }
}

/// Runs this test again, inside a network namespace.
fn in_world(all: &[Value]) {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("names.json"), json!(names(all)).to_string()).unwrap();
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/all/web_world/world.sh");
    let ran = Command::new("unshare")
        .args(["--user", "--map-root-user", "--net", "--mount", "sh"])
        .arg(script)
        .arg(dir.path())
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "web_server::url_table_holds_over_real_sockets", "--nocapture"])
        .env(WORLD, dir.path())
        .output();
    let ran = match ran {
        Ok(ran) => ran,
        Err(err) => return eprintln!("SKIPPED: no network of its own can be made: unshare: {err}"),
    };
    let said = format!("{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    // Without running servers nothing was tested.
    if !dir.path().join("ready").exists() {
        return eprintln!("SKIPPED: no network of its own can be made here:\n{said}");
    }
    assert!(ran.status.success() && said.contains("1 passed"), "{said}");
}

/// Returns what the servers recorded about a row.
fn seen(dir: &Path, row: &Value) -> (Vec<String>, Vec<IpAddr>) {
    let text = std::fs::read_to_string(dir.join("log")).unwrap_or_default();
    let lines = text.lines().map(|it| serde_json::from_str::<Value>(it).unwrap());
    let lines: Vec<Value> = lines.filter(|it| it["row"] == row["id"]).collect();
    let asked = lines.iter().filter_map(|it| it["asked"].as_str().map(str::to_owned)).collect();
    let connected = lines.iter().filter_map(|it| it["connected"].as_str()?.parse().ok()).collect();
    (asked, connected)
}

async fn check(dir: &Path, all: &[Value]) {
    let mut wrong = Vec::new();
    for row in all {
        let (now, next) = (dir.join("row.json"), dir.join("row.next"));
        std::fs::write(&next, row.to_string()).unwrap();
        std::fs::rename(&next, &now).unwrap();
        let network = SystemNetwork::new(|_| None);
        let (got, why) =
            tokio::time::timeout(SOON * 3, outcome(row, network)).await.expect("an answer in time");
        let (asked, connected) = seen(dir, row);
        let want = row["expect"].as_str().unwrap();
        let is_near = connected.iter().any(|it| !haft_net::is_public(*it));
        let is_right = match want {
            "property" => got == "allow" && !connected.is_empty(),
            // For a name that changes, only its first address may be connected to.
            "block" if row["dns"].to_string().contains("sequence") => true,
            "allow" | "report_redirect" => got == want && !connected.is_empty(),
            _ => got == want,
        };
        let asked_early = matches!(got.as_str(), "ask" | "deny") && !asked.is_empty();
        if !is_right || is_near || asked_early {
            wrong.push(format!(
                "{} {}: wanted {want}, got {got} ({why}); asked for {asked:?}, connected to {connected:?}",
                row["id"], row["url"]
            ));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), all.len(), wrong.join("\n"));
}
