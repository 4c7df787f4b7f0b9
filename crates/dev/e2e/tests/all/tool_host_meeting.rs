//! Hosts behind NAT that can only connect outwards, and the relay where clients reach them.
#![allow(clippy::unwrap_used, missing_docs, reason = "test code")]

use std::process::Stdio;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};

use crate::common::Haft;

const TOKEN: &str = "token-4711";

/// A serving process and the address it prints.
async fn served(haft: &Haft, args: &[&str]) -> (tokio::process::Child, String) {
    let mut command = haft.async_command();
    command.arg("tool-host").args(args).args(["--token-env", "MEETING"]).env("MEETING", TOKEN);
    let mut child = command.stdin(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let first = lines.next_line().await.unwrap().unwrap();
    // Reads the rest of its output, so that it does not block.
    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    (child, first.rsplit(' ').next().unwrap().to_owned())
}

async fn call(near: &Haft, url: &str, token: &str, command: &str) -> (Option<i32>, String) {
    let input = json!({"command": command}).to_string();
    let mut line = near.async_command();
    line.args(["tool", "call", "Bash", "--json", &input, "--allowedTools", "Bash"]);
    line.args(["--host", &format!("office={url}")])
        .env("HAFT_HOST_TOKEN", token)
        .env("HAFT_HOST_PATIENCE", "20");
    let output = line.output().await.unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout) + &text(&output.stderr))
}

/// Output of a call, retried until a host accepts it.
async fn reached(near: &Haft, url: &str, command: &str) -> String {
    let begin = std::time::Instant::now();
    loop {
        let (code, said) = call(near, url, TOKEN, command).await;
        if code == Some(0) {
            return said;
        }
        assert!(begin.elapsed().as_secs() < 120, "{said}");
    }
}

#[tokio::test]
async fn a_host_that_can_only_dial_out_is_met() {
    let (near, far, point) = (Haft::new(), Haft::new(), Haft::new());
    far.write_home(".haft/settings.json", &json!({"permissions": {"allow": ["Bash"]}}).to_string());
    let (meeting, address) = served(&point, &["--meet", "127.0.0.1:0"]).await;
    let url = address.replace("NAME", "office");
    let (host, named) = served(&far, &["--through", &url]).await;
    assert_eq!(named, url);
    // Several clients, one after another and at once, each connected to the same host.
    let said = reached(&near, &url, "echo $$; pwd").await;
    let report: Value = serde_json::from_str(said.lines().last().unwrap()).unwrap();
    let dir = far.ws().display().to_string();
    assert!(report["data"]["stdout"].as_str().unwrap().ends_with(&dir), "{report}");
    let many = (0..6).map(|number| {
        let (near, url) = (&near, &url);
        async move { reached(near, url, &format!("echo {number} >> all")).await }
    });
    futures_util::future::join_all(many).await;
    let mut lines: Vec<String> =
        std::fs::read_to_string(far.ws().join("all")).unwrap().lines().map(str::to_owned).collect();
    lines.sort();
    assert_eq!(lines, ["0", "1", "2", "3", "4", "5"]);
    // With a wrong token or another name no host is found.
    let (code, text) = call(&near, &url, "wrong", "echo x").await;
    assert!(code != Some(0) && text.contains("does not take the token"), "{text}");
    let (code, text) = call(&near, &url.replace("office", "attic"), TOKEN, "echo x").await;
    assert!(code != Some(0) && text.contains("no tool host waits there"), "{text}");
    // The relay restarts: the host reconnects by itself.
    let port = url.split(':').nth(2).unwrap().split('/').next().unwrap().to_owned();
    drop(meeting);
    let again = loop {
        // Retry until the port is free.
        let (mut child, said) = served(&point, &["--meet", &format!("127.0.0.1:{port}")]).await;
        if said.contains("http://") && child.try_wait().unwrap().is_none() {
            break child;
        }
    };
    reached(&near, &url, "echo back > back").await;
    assert_eq!(std::fs::read_to_string(far.ws().join("back")).unwrap(), "back\n");
    drop((host, again));
    // With a wrong token or address the host exits with a reason.
    let mut wrong = far.async_command();
    wrong.args(["tool-host", "--through", "http://example.com/x"]).env("HAFT_HOST_TOKEN", "x");
    let refused = wrong.output().await.unwrap();
    assert!(!refused.status.success());
    assert!(String::from_utf8_lossy(&refused.stderr).contains("could be read on the way"), "{refused:?}");
    let mut nothing = far.async_command();
    nothing.args(["tool-host", "--through", &url]);
    let refused = nothing.output().await.unwrap();
    assert!(String::from_utf8_lossy(&refused.stderr).contains("--token-file"), "{refused:?}");
}
