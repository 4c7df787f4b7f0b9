//! The shared table of URLs: rules, addresses, names and redirects, through permission and the tool,
//! with a simulated network.
#![allow(clippy::print_stderr, reason = "test code")]

use crate::web_rig::{Rig, StubNetwork};

use std::{path::Path, sync::Arc};

use haft_net::{PrivateHosts, WebNetwork};
use haft_permission::{Behavior, Destination, HookOpinion, Policy, RuleSource};
use haft_tool::CallContext;
use serde_json::{Value, json};

pub fn rows() -> Vec<Value> {
    let corpora = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dev/testkit/corpora");
    let text = std::fs::read_to_string(corpora.join("webfetch_ssrf.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn network(row: &Value) -> StubNetwork {
    let mut network = StubNetwork::default();
    let addresses = |list: &Value| -> Vec<std::net::IpAddr> {
        list.as_array().unwrap().iter().map(|it| it.as_str().unwrap().parse().unwrap()).collect()
    };
    for (name, answer) in row["dns"].as_object().unwrap() {
        if answer["hang"] == true {
            network.hangs.push(name.clone());
        }
        let answers = match answer.get("sequence") {
            Some(sequence) => sequence.as_array().unwrap().iter().map(addresses).collect(),
            None if answer.is_array() => vec![addresses(answer)],
            None => vec![Vec::new()],
        };
        network.names.insert(name.clone(), answers);
    }
    for (url, answer) in row["responses"].as_object().unwrap() {
        let status = answer["status"].as_u64().unwrap() as u16;
        network.pages.insert(url.clone(), (status, answer["location"].as_str().map(str::to_owned)));
    }
    network
}

fn policy(row: &Value) -> Policy {
    let origin = RuleSource::new("table", Destination::CliArg);
    let mut builder = Policy::builder("/ws").mode(row["mode"].as_str().unwrap().parse().unwrap());
    for (name, behavior) in [("allow", Behavior::Allow), ("ask", Behavior::Ask), ("deny", Behavior::Deny)] {
        let texts = row["rules"][name].as_array().unwrap().iter().map(|it| it.as_str().unwrap().to_owned());
        builder = builder.rules(&origin, behavior, texts);
    }
    builder.build()
}

/// Returns the outcome of a call in the terms of the table.
pub async fn outcome(row: &Value, network: Arc<dyn WebNetwork>) -> (String, String) {
    let rig = Rig::over(network, PrivateHosts::default(), |_| {});
    let cx = CallContext::detached("call_1", Path::new("/ws").to_owned());
    let input = json!({ "url": row["url"] });
    let said = |what: &str, why: String| (what.to_owned(), why);
    let call = match Arc::clone(&rig.tool).parse(input.clone(), &cx) {
        Ok(call) => call,
        Err(err) => return said("block", err.message),
    };
    if let Err(err) = call.validate(&cx) {
        return said("block", err.message);
    }
    let decision = policy(row).judge("WebFetch", &*call, &cx, &HookOpinion::None);
    match decision.behavior {
        Behavior::Ask => return said("ask", call.describe()),
        Behavior::Deny => return said("deny", format!("{:?}", decision.behavior)),
        Behavior::Allow => {}
    }
    match rig.call(input).await {
        Ok(output) if output.data.get("redirectTo").is_some() => {
            said("report_redirect", output.content.to_text())
        }
        Ok(output) => said("allow", output.content.to_text()),
        Err(err) if err.message.contains("not found") || err.message.contains("took longer") => {
            said("error", err.message)
        }
        Err(err) => said("block", err.message),
    }
}

#[tokio::test]
async fn web_fetch_follows_the_url_table() {
    let mut wrong = Vec::new();
    let rows = rows();
    for row in &rows {
        let network = Arc::new(network(row));
        let (got, why) = outcome(row, Arc::clone(&network) as _).await;
        let connected = network.connected.lock().unwrap().clone();
        let want = row["expect"].as_str().unwrap();
        let only: Vec<std::net::IpAddr> = row["expect_connect_only"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|it| it.as_str().unwrap().parse().unwrap())
            .collect();
        // A row with one allowed connection passes if that connection was made, or none.
        let right = match want {
            "property" => got == "allow",
            "block" if !only.is_empty() => {
                connected.iter().flat_map(|it| &it.1).all(|address| only.contains(address))
            }
            "allow" | "report_redirect" => got == want && !connected.is_empty(),
            _ => got == want && !connected.iter().any(|it| it.1.iter().any(|ip| !haft_net::is_public(*ip))),
        };
        let asked_early = matches!(got.as_str(), "ask" | "deny")
            && network.lookups.load(std::sync::atomic::Ordering::SeqCst) != 0;
        if !right || asked_early {
            wrong.push(format!("{} {}: wanted {want}, got {got} ({why})", row["id"], row["url"]));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), rows.len(), wrong.join("\n"));
}

#[tokio::test]
async fn one_private_address_rejects_the_host_without_connecting() {
    for (addresses, redirect, want) in [
        (vec!["93.184.216.34", "10.0.0.1"], None, "leads to 10.0.0.1, which is in a private network"),
        (vec!["::ffff:169.254.169.254"], None, "the machine's own affairs"),
        (vec!["64:ff9b::7f00:1"], None, "is this machine"),
        (vec!["93.184.216.34"], Some("http://[::ffff:10.0.0.1]/x"), "sends on to"),
        (vec!["93.184.216.34"], Some("https://127.0.0.1/x"), "is this machine"),
        (vec!["93.184.216.34"], Some("https://a.test:25/"), "port 25"),
        (vec!["93.184.216.34"], Some("ftp://a.test/"), "ftp: cannot be fetched"),
    ] {
        let mut network = StubNetwork::default();
        let addresses = addresses.iter().map(|it| it.parse().unwrap()).collect();
        network.names.insert("a.test".into(), vec![addresses]);
        if let Some(to) = redirect {
            network.pages.insert("https://a.test/".into(), (302, Some(to.into())));
        }
        let network = Arc::new(network);
        let rig = Rig::over(Arc::clone(&network) as Arc<_>, PrivateHosts::default(), |_| {});
        let said = rig.said(json!({ "url": "https://a.test/" })).await;
        assert!(said.contains(want), "{redirect:?}: {said}");
        let connected = network.connected.lock().unwrap().len();
        assert_eq!(connected, usize::from(redirect.is_some()), "{said}");
    }
}

#[tokio::test]
async fn redirects_are_followed_up_to_the_limit() {
    let mut network = StubNetwork::default();
    network.names.insert("a.test".into(), vec![vec!["93.184.216.34".parse().unwrap()]]);
    for number in 0..20 {
        let to = format!("/hop/{}", number + 1);
        network.pages.insert(format!("https://a.test/hop/{number}"), (302, Some(to)));
    }
    network.pages.insert("https://a.test/plain".into(), (301, Some("http://a.test/plain".into())));
    network.pages.insert("https://a.test/www".into(), (301, Some("https://www.a.test/".into())));
    network.pages.insert("https://a.test/lost".into(), (302, None));
    let rig = Rig::over(Arc::new(network), PrivateHosts::default(), |_| {});
    for (path, want) in [
        ("/hop/10", "the page"),
        ("/hop/9", "sent on more than 10 times"),
        ("/plain", "call WebFetch {\"url\":\"http://a.test/plain\"}"),
        ("/www", "call WebFetch {\"url\":\"https://www.a.test/\"}"),
        ("/lost", "without saying where to go"),
    ] {
        let said = rig.said(json!({ "url": format!("https://a.test{path}") })).await;
        assert!(said.contains(want), "{path}: {said}");
    }
}
