//! Changes by a host during a session affect all components, and managed settings bind what a host adds.
#![allow(clippy::print_stderr, reason = "test code")]

use haft_session::{Command, Prompt, Session};
use haft_types::PermissionMode;
use serde_json::{Map, Value, json};

use crate::rig::{Place, call, results, text, told};

fn object(value: Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap()
}

#[tokio::test]
async fn lists_of_servers_hold_for_those_of_a_host() {
    let cat = std::path::Path::new("/bin/cat").canonicalize().unwrap();
    let denied = json!({"deniedMcpServers": [{"serverName": "bad"}, {"serverCommand": [cat]}]});
    let allowed = json!({"allowedMcpServers": [{"serverCommand": ["/bin/true"]}]});
    let exclusive = json!({"managedMcpServers": {"own": {"command": "/bin/true"}}});
    for (managed, refused) in [
        (json!({}), &[][..]),
        (denied, &["bad", "reads"]),
        (allowed, &["bad", "reads"]),
        (exclusive, &["bad", "fine", "reads"]),
    ] {
        let place = Place::new();
        let mut spec = place.spec(Vec::new());
        spec.settings.managed = Some(managed.to_string());
        let (handle, _events) = Session::open(spec).unwrap();
        let servers = json!({
            "bad": {"command": "haft-no-such-program"},
            "reads": {"type": "stdio", "command": "cat"},
            "fine": {"command": "/bin/true"},
        });
        let set = handle.ask(|reply| Command::SetServers { servers, reply }).await.unwrap();
        let found: Vec<&str> = set.errors.keys().map(String::as_str).collect();
        assert_eq!(found, refused, "{managed}");
        assert_eq!(set.added.len(), 3 - refused.len(), "{managed}");
        handle.close().await;
    }
}

#[tokio::test]
async fn a_server_that_is_denied_later_goes() {
    let place = Place::new();
    let (handle, _events) = Session::open(place.spec(Vec::new())).unwrap();
    let servers = json!({"a": {"command": "haft-no-such-program"}, "b": {"command": "haft-no-such-program"}});
    handle.ask(|reply| Command::SetServers { servers: servers.clone(), reply }).await.unwrap();
    let changes = object(json!({"deniedMcpServers": [{"serverName": "a"}]}));
    handle.ask(|reply| Command::ChangeFlagSettings { changes, reply }).await.unwrap().unwrap();
    let set = handle.ask(|reply| Command::SetServers { servers, reply }).await.unwrap();
    assert!(set.errors.contains_key("a") && set.added.is_empty(), "{set:?}");
    handle.close().await;
}

#[tokio::test]
async fn a_sandbox_switched_on_holds_the_next_command_and_rules_count() {
    let place = Place::new();
    let mut spec = place.spec(vec![
        call("1", "Bash", json!({"command": "echo out > ../outside.txt; echo in > inside.txt"})),
        call("2", "Bash", json!({"command": "touch by-rule"})),
        text("Done."),
    ]);
    spec.permissions.mode = Some(PermissionMode::BypassPermissions);
    let (handle, events) = Session::open(spec).unwrap();
    let sandbox = match handle.premises().walls.sandbox() {
        Ok(sandbox) => std::sync::Arc::clone(sandbox),
        Err(why) => return eprintln!("SKIPPED: {why}"),
    };
    if sandbox.features().kernel.namespaces.is_some() {
        return eprintln!("SKIPPED: no namespaces");
    }
    let changes = object(json!({
        "sandbox": {"enabled": true},
        "permissions": {"deny": ["Bash(touch *)"]},
    }));
    handle.ask(|reply| Command::ChangeFlagSettings { changes, reply }).await.unwrap().unwrap();
    handle.prompt(Prompt::text("go"));
    handle.send(Command::Finish);
    let said = results(&told(events).await, place.dir.path());
    assert!(!place.dir.path().join("outside.txt").exists(), "{said:?}");
    assert!(place.ws().join("inside.txt").exists(), "{said:?}");
    assert!(said[1].1 && !place.ws().join("by-rule").exists(), "{said:?}");
}
