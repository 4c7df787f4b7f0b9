//! `haft mcp login | logout`, and sessions with servers that require a login, against authorization
//! servers with different behaviour.
#![allow(clippy::unwrap_used, missing_docs, reason = "test code")]

use crate::common;

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use common::{Haft, text};
use serde_json::{Value, json};

/// An MCP server and its authorization server.
struct Authority {
    child: Child,
    base: String,
}

impl Authority {
    fn start(habits: &Value) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../engine/mcp-client/tests/all/support/authority.py");
        let mut child = Command::new("python3")
            .args(["-IS".as_ref(), script.as_os_str(), habits.to_string().as_ref()])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Self { child, base: line.trim().to_owned() }
    }

    fn change(&self, habits: &Value) {
        assert_eq!(ask("POST", &format!("{}/control", self.base), &habits.to_string()).0, 200);
    }

    /// Requests of one kind that it received.
    fn heard(&self, what: &str) -> Vec<Value> {
        let (_, _, body) = ask("GET", &format!("{}/log", self.base), "");
        let log: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(log["reused"], 0, "a refresh token was used twice");
        log["log"].as_array().unwrap().iter().filter(|it| it["what"] == what).cloned().collect()
    }

    /// Configuration of the server with this `oauth` object.
    fn entry(&self, oauth: &Value) -> String {
        json!({"type": "http", "url": format!("{}/mcp", self.base), "oauth": oauth}).to_string()
    }
}

impl Drop for Authority {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// A plain HTTP request: status, headers, body. Follows no redirects.
fn ask(method: &str, url: &str, body: &str) -> (u16, String, String) {
    let rest = url.strip_prefix("http://").unwrap();
    let (host, path) = rest.split_once('/').unwrap();
    let mut stream = TcpStream::connect(host.replace("localhost", "127.0.0.1")).unwrap();
    let length = body.len();
    let request = format!(
        "{method} /{path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, head.to_owned(), body.to_owned())
}

fn location(head: &str) -> Option<String> {
    let line = head.lines().find(|it| it.to_ascii_lowercase().starts_with("location:"))?;
    Some(line.split_once(':').unwrap().1.trim().to_owned())
}

/// How the browser's redirect reaches Haft.
#[derive(Clone, Copy)]
enum Back {
    ByItself,
    Pasted,
    AfterForgeries,
}

struct Done {
    ok: bool,
    said: String,
}

/// Runs `haft mcp login` with a simulated browser.
fn log_in(haft: &Haft, back: Back) -> Done {
    let mut child = haft.spawn(&["mcp", "login", "srv", "--no-browser"]);
    let mut stdin = child.stdin.take();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut said = String::new();
    let page = loop {
        let before = said.len();
        if stderr.read_line(&mut said).unwrap() == 0 {
            break None;
        }
        if said[before..].starts_with("  http") {
            break Some(said[before..].trim().to_owned());
        }
    };
    if let Some(target) = page.and_then(|page| location(&ask("GET", &page, "").1)) {
        let forged = target.replace("state=", "state=x");
        match back {
            Back::ByItself => assert_eq!(ask("GET", &target, "").0, 200),
            Back::Pasted => {
                let stdin = stdin.as_mut().unwrap();
                writeln!(stdin, "what?\n{forged}\n  {target}").unwrap();
            }
            Back::AfterForgeries => {
                // A connection opened in advance and never used, as browsers do.
                let host = target.split('/').nth(2).unwrap().replace("localhost", "127.0.0.1");
                let _silent = TcpStream::connect(host).unwrap();
                let base = target.split('?').next().unwrap();
                for bad in [forged.as_str(), &format!("{base}?error=access_denied"), base] {
                    assert_eq!(ask("GET", bad, "").0, 404, "{bad}");
                }
                assert_eq!(ask("GET", &target, "").0, 200);
            }
        }
    }
    drop(stdin.take());
    stderr.read_to_string(&mut said).unwrap();
    child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    Done { ok: child.wait().unwrap().success(), said }
}

fn add(haft: &Haft, entry: &str) {
    haft.run(&["mcp", "remove", "srv", "-s", "user"], "");
    haft.ok(&["mcp", "add-json", "-s", "user", "srv", entry], "");
}

/// Calls a tool in a new session; returns the output.
fn call(haft: &Haft, tool: &str) -> String {
    let calls = [json!({"name": format!("mcp__srv__{tool}"), "input": {}})];
    text(&haft.reports(&["--allowedTools", "mcp__srv"], &calls)[0]).to_owned()
}

fn state(haft: &Haft) -> String {
    let output = haft.run(&["mcp", "list", "--json"], "");
    let rows: Value = serde_json::from_slice(&output.stdout).unwrap();
    rows[0]["state"].as_str().unwrap().to_owned()
}

/// All files below a directory, recursively.
fn files(below: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(below) else { return Vec::new() };
    let of = |path: PathBuf| if path.is_dir() { files(&path) } else { vec![path] };
    entries.flatten().flat_map(|it| of(it.path())).collect()
}

/// Checks that secrets are only in files that other users cannot read.
fn nothing_leaked(haft: &Haft, said: &str) {
    assert!(!said.contains("secret-"), "{said}");
    for file in files(haft.dir.path()) {
        let bytes = std::fs::read(&file).unwrap_or_default();
        if String::from_utf8_lossy(&bytes).contains("secret-") {
            let mode = std::fs::metadata(&file).unwrap().permissions().mode();
            let is_kept = file.extension().is_some_and(|it| it == "json") && mode & 0o77 == 0;
            assert!(is_kept, "{} holds secrets ({mode:o})", file.display());
        }
    }
}

#[test]
fn logins_work_whatever_the_authorization_server_is_like() {
    let own = json!({"clientId": "me"});
    let with_secret = json!({"clientId": "me", "clientSecret": "secret-mine"});
    for (habits, oauth, back) in [
        (json!({}), json!({}), Back::ByItself),
        (json!({"metadata": "insert"}), json!({}), Back::Pasted),
        (json!({"metadata": "oidc-root", "iss": "right"}), json!({}), Back::AfterForgeries),
        (json!({"metadata": "oidc-insert", "resource": "root"}), json!({}), Back::ByItself),
        (json!({"metadata": "oidc-append", "resource": "odd"}), json!({}), Back::ByItself),
        (json!({"resource": "none", "scope": "a b"}), json!({}), Back::ByItself),
        (json!({"challenge": false, "scope": "a b"}), json!({}), Back::ByItself),
        (json!({"registration": "none"}), own.clone(), Back::ByItself),
        (json!({"registration": "refused", "auth_method": "none"}), own, Back::ByItself),
        (json!({"registration": "secret"}), json!({}), Back::ByItself),
        (json!({"registration": "secret", "auth_method": "client_secret_post"}), json!({}), Back::ByItself),
        (
            json!({"registration": "none", "auth_method": "client_secret_basic"}),
            with_secret.clone(),
            Back::ByItself,
        ),
        (
            json!({"metadata": "odd", "metadata_patch": {"code_challenge_methods_supported": null}}),
            json!({"authServerMetadataUrl": "BASE/somewhere/else.json"}),
            Back::ByItself,
        ),
        (json!({"token": "form"}), json!({}), Back::ByItself),
        (json!({"token": "strings", "refresh": "keep"}), json!({"scopes": "x y"}), Back::ByItself),
    ] {
        let (haft, authority) = (Haft::new(), Authority::start(&habits));
        let oauth: Value = serde_json::from_str(&oauth.to_string().replace("BASE", &authority.base)).unwrap();
        add(&haft, &authority.entry(&oauth));
        assert_eq!(state(&haft), "needs login", "{habits}");
        assert!(call(&haft, "echo").contains("haft mcp login srv"), "{habits}");
        let done = log_in(&haft, back);
        assert!(done.ok && done.said.contains("Logged in to srv."), "{habits} {oauth}: {}", done.said);
        assert!(call(&haft, "echo").contains("let in"), "{habits}");
        assert_eq!(state(&haft), "ready");
        // An expired token is refreshed without the user, and a rotated refresh token is stored.
        for _ in 0..2 {
            authority.change(&json!({"forget_access": true}));
            assert!(call(&haft, "echo").contains("let in"), "{habits}");
        }
        let asked = authority.heard("authorize");
        let tokens = authority.heard("token");
        assert_eq!((asked.len(), tokens.len()), (1, 3), "{habits}: {tokens:?}");
        assert_eq!(asked[0]["code_challenge_method"], "S256");
        let resource = format!("{}/mcp", authority.base);
        for request in asked.iter().chain(&tokens) {
            assert_eq!(request["resource"], resource, "{habits}: {request}");
        }
        assert!(tokens[0]["code_verifier"].is_string());
        if oauth["scopes"].is_string() {
            assert_eq!(asked[0]["scope"], "x y");
        }
        nothing_leaked(&haft, &done.said.replace("secret-mine", ""));
        assert!(haft.ok(&["mcp", "logout", "srv"], "").contains("Logged out"));
        assert_eq!(state(&haft), "needs login");
        assert!(
            !files(&haft.home())
                .iter()
                .any(|it| { String::from_utf8_lossy(&std::fs::read(it).unwrap()).contains("secret-access") })
        );
    }
}

#[test]
fn a_login_that_cannot_be_trusted_or_fails_says_why() {
    let big = "x".repeat(5000);
    for (habits, oauth, want) in [
        (json!({"metadata_patch": {"code_challenge_methods_supported": null}}), json!({}), "PKCE"),
        (json!({"metadata_patch": {"code_challenge_methods_supported": ["plain"]}}), json!({}), "S256"),
        (json!({"metadata_patch": {"issuer": "https://evil.test"}}), json!({}), "issuer"),
        (json!({"iss": "https://evil.test"}), json!({}), "https://evil.test"),
        (
            json!({"metadata_patch": {"authorization_response_iss_parameter_supported": true}}),
            json!({}),
            "does not say that it came from",
        ),
        (json!({"resource_patch": {"resource": "https://evil.test/mcp"}}), json!({}), "resource"),
        (json!({"metadata_patch": {"token_endpoint": "http://169.254.169.254/t"}}), json!({}), "nearer"),
        (
            json!({"metadata_patch": {"authorization_endpoint": "file:///etc/passwd"}}),
            json!({}),
            "no web page",
        ),
        (json!({"metadata_patch": {"authorization_endpoint": null}}), json!({}), "oauth.grant"),
        (json!({"metadata_status": 503}), json!({}), "503"),
        (json!({"registration": "none"}), json!({}), "oauth.clientId"),
        (json!({"registration": "refused"}), json!({}), "by invitation only"),
        (json!({"registration": "html"}), json!({}), "oauth.clientId"),
        (json!({"authorize_error": "access_denied"}), json!({}), "access_denied: not today"),
        (json!({"token": "500"}), json!({}), "without a token"),
        (json!({"token": "html"}), json!({}), "without a token"),
        (json!({"token": "huge"}), json!({}), "more than a megabyte"),
        (json!({"token": "echo"}), json!({}), "invalid_request"),
        (json!({"token": "error200"}), json!({}), "the code is used"),
        (json!({"token": "hang"}), json!({}), "did not answer within"),
        (json!({"auth_method": "client_secret_basic"}), json!({"clientId": big}), "invalid_client"),
    ] {
        let (haft, authority) = (Haft::new(), Authority::start(&habits));
        add(&haft, &authority.entry(&oauth));
        let done = log_in(&haft, Back::ByItself);
        assert!(!done.ok && done.said.contains(want), "{habits}: {}", done.said);
        let last = done.said.trim().lines().last().unwrap();
        assert!(last.len() < 600, "{habits}: {last}");
        nothing_leaked(&haft, &done.said);
        assert_eq!(state(&haft), "needs login");
    }
}

#[test]
fn a_lost_login_is_asked_for_again_and_a_bad_moment_is_not() {
    let (haft, authority) = (Haft::new(), Authority::start(&json!({})));
    add(&haft, &authority.entry(&json!({})));
    assert!(log_in(&haft, Back::ByItself).ok);
    for (refresh, lost) in [
        ("500", false),
        ("temporarily_unavailable", false),
        ("invalid_grant", true),
        ("invalid_client", true),
    ] {
        authority.change(&json!({"forget_access": true, "refresh": refresh}));
        let said = call(&haft, "echo");
        assert_eq!(said.contains("haft mcp login srv"), lost, "{refresh}: {said}");
        assert_eq!(said.contains("just now"), !lost, "{refresh}: {said}");
        authority.change(&json!({"refresh": "rotate"}));
        if lost {
            let registered = authority.heard("register").len();
            authority.change(&json!({"forget_refresh": true}));
            assert!(log_in(&haft, Back::ByItself).ok);
            assert_eq!(authority.heard("register").len(), registered + 1, "nobody knows the old client");
        }
        let said = call(&haft, "echo");
        assert!(said.contains("let in"), "{refresh}: {said}");
        nothing_leaked(&haft, &said);
    }
}

#[test]
fn more_is_asked_for_when_more_is_needed() {
    let habits = json!({"scope": "basic", "step_up": "admin"});
    let (haft, authority) = (Haft::new(), Authority::start(&habits));
    add(&haft, &authority.entry(&json!({})));
    assert!(log_in(&haft, Back::ByItself).ok);
    assert!(call(&haft, "echo").contains("let in"));
    let said = call(&haft, "admin");
    assert!(said.contains("haft mcp login srv"), "{said}");
    // The token suffices for the server, but not for this tool.
    assert!(call(&haft, "echo").contains("let in"));
    assert!(log_in(&haft, Back::ByItself).ok);
    assert!(call(&haft, "admin").contains("let in"));
    let scopes: Vec<Value> = authority.heard("authorize").iter().map(|it| it["scope"].clone()).collect();
    assert_eq!(scopes, ["basic", "basic admin"]);
    assert!(log_in(&haft, Back::ByItself).said.contains("works already"));
}

#[test]
fn a_port_that_is_taken_is_named() {
    let (haft, authority) = (Haft::new(), Authority::start(&json!({})));
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    add(&haft, &authority.entry(&json!({"callbackPort": port})));
    let done = log_in(&haft, Back::ByItself);
    assert!(!done.ok && done.said.contains(&format!("the port {port}")), "{}", done.said);
    drop(taken);
    let done = log_in(&haft, Back::ByItself);
    assert!(done.ok, "{}", done.said);
    assert_eq!(authority.heard("authorize")[0]["redirect_uri"], format!("http://localhost:{port}/callback"));
}

/// Grants that need no user.
#[test]
fn without_anybody_there_the_entry_says_how_tokens_are_got() {
    let bearer = "urn:ietf:params:oauth:grant-type:jwt-bearer";
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "secret-in-file\n").unwrap();
    let path = file.path().display().to_string();
    let machine = json!({"grant": "client_credentials", "clientId": "me"});
    let with = |extra: Value| {
        let mut entry = machine.clone();
        entry.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        entry
    };
    for (habits, oauth, method, secret) in [
        (json!({}), with(json!({"clientSecret": "secret a+b&c"})), "client_secret_basic", "secret a+b&c"),
        (
            json!({"auth_method": "client_secret_post"}),
            with(json!({"clientSecretFile": path})),
            "client_secret_post",
            "secret-in-file",
        ),
        (
            json!({"metadata_patch": {"authorization_endpoint": null, "response_types_supported": ["none"]}}),
            with(json!({"clientSecretFile": path, "scopes": ["a", "b"]})),
            "client_secret_basic",
            "secret-in-file",
        ),
        (
            json!({"grant": bearer}),
            json!({"grant": "jwt_bearer", "clientId": "me", "assertionFile": path}),
            "none",
            "",
        ),
    ] {
        let mut habits = habits;
        habits["registration"] = json!("none");
        if habits["grant"].is_null() {
            habits["grant"] = json!("client_credentials");
        }
        let (haft, authority) = (Haft::new(), Authority::start(&habits));
        add(&haft, &authority.entry(&oauth));
        let said = call(&haft, "echo");
        assert!(said.contains("let in"), "{habits} {oauth}: {said}");
        // The next session reuses the stored token.
        assert!(call(&haft, "echo").contains("let in"));
        let tokens = authority.heard("token");
        assert_eq!(tokens.len(), 1, "{tokens:?}");
        assert_eq!(tokens[0]["method"], method);
        assert_eq!(tokens[0]["secret"].as_str().unwrap_or_default(), secret);
        assert_eq!(tokens[0]["resource"], format!("{}/mcp", authority.base));
        assert_eq!(tokens[0]["scope"].as_str(), oauth["scopes"].is_array().then_some("a b"));
        authority.change(&json!({"forget_access": true}));
        assert!(call(&haft, "echo").contains("let in"));
        assert_eq!(authority.heard("token").len(), 2);
        assert!(haft.ok(&["mcp", "login", "srv"], "").contains("works"));
        assert!(haft.ok(&["mcp", "logout", "srv"], "").contains("Logged out"));
        nothing_leaked(&haft, &said);
    }
}

/// Of many processes that need a token one requests it for all; a short-lived token is renewed in time.
#[test]
fn one_of_many_processes_gets_the_token_for_all() {
    let habits = json!({"grant": "client_credentials", "registration": "none"});
    let (haft, authority) = (Haft::new(), Authority::start(&habits));
    let oauth = json!({"grant": "client_credentials", "clientId": "me", "clientSecret": "s"});
    add(&haft, &authority.entry(&oauth));
    let all = || {
        std::thread::scope(|scope| {
            let calls: Vec<_> = (0..6).map(|_| scope.spawn(|| call(&haft, "echo"))).collect();
            for said in calls.into_iter().map(|it| it.join().unwrap()) {
                assert!(said.contains("let in"), "{said}");
            }
        });
    };
    all();
    assert_eq!(authority.heard("token").len(), 1);
    authority.change(&json!({"forget_access": true, "lifetime": 1}));
    all();
    let before = authority.heard("token").len();
    assert!(2 <= before, "{before}");
    authority.change(&json!({"lifetime": 3600}));
    std::thread::sleep(std::time::Duration::from_millis(1100));
    all();
    assert_eq!(authority.heard("token").len(), before + 1, "a token that ended was replaced once");
    // Changed OAuth settings need a new token.
    add(
        &haft,
        &authority.entry(&json!({
            "grant": "client_credentials", "clientId": "me", "clientSecret": "s", "scopes": ["more"],
        })),
    );
    assert!(call(&haft, "echo").contains("let in"));
    assert_eq!(authority.heard("token").last().unwrap()["scope"], "more");
}

/// A login at the company's identity provider also gives access to the server.
#[test]
fn a_login_at_the_company_is_enough() {
    let bearer = "urn:ietf:params:oauth:grant-type:jwt-bearer";
    let file = tempfile::NamedTempFile::new().unwrap();
    let access = "urn:ietf:params:oauth:token-type:access_token";
    for (id_token, habits, want) in [
        ("secret-in-file", json!({}), Ok(())),
        ("secret-old", json!({}), Err("at the identity provider: invalid_grant: unknown person")),
        ("secret-in-file", json!({"company": "/other"}), Err("speaks of another issuer")),
        ("secret-in-file", json!({"jag": access}), Err("another kind of token")),
    ] {
        std::fs::write(file.path(), id_token).unwrap();
        let mut habits = habits;
        habits["grant"] = json!(bearer);
        let (haft, authority) = (Haft::new(), Authority::start(&habits));
        let provider = json!({
            "issuer": format!("{}/company", authority.base), "clientId": "desk", "clientSecret": "hush",
            "idTokenFile": file.path(),
        });
        let oauth = json!({
            "grant": "enterprise", "clientId": "me", "clientSecret": "s", "identityProvider": provider,
        });
        add(&haft, &authority.entry(&oauth));
        let said = call(&haft, "echo");
        nothing_leaked(&haft, &said);
        let Err(part) = want else {
            assert!(said.contains("let in"), "{said}");
            let (exchange, token) = (&authority.heard("exchange")[0], &authority.heard("token")[0]);
            assert_eq!((&exchange["client"], &exchange["secret"]), (&json!("desk"), &json!("hush")));
            assert_eq!(exchange["audience"], authority.base);
            assert_eq!(exchange["resource"], format!("{}/mcp", authority.base));
            assert_eq!((&token["assertion"], &token["client"]), (&json!("secret-jag"), &json!("me")));
            continue;
        };
        assert!(said.contains(part), "{said}");
        assert!(authority.heard("token").is_empty(), "nothing was asked without a permission");
    }
}

#[test]
fn what_is_wrong_with_an_entry_is_said_and_nobody_is_sent_to_a_browser() {
    let habits = json!({"grant": "client_credentials", "token": "echo"});
    let (haft, authority) = (Haft::new(), Authority::start(&habits));
    let entry = |secret: Value| {
        let mut oauth = json!({"grant": "client_credentials", "clientId": "me"});
        oauth.as_object_mut().unwrap().extend(secret.as_object().unwrap().clone());
        authority.entry(&oauth)
    };
    for (oauth, want) in [
        (json!({"clientSecret": "secret-wrong"}), "invalid_request"),
        (json!({"clientSecretFile": "/nonexistent/x"}), "/nonexistent/x cannot be read"),
        (json!({"privateKey": "secret-nonsense"}), "not in PEM"),
    ] {
        add(&haft, &entry(oauth.clone()));
        let said = call(&haft, "echo");
        assert!(said.contains(want) && said.contains("`oauth`"), "{oauth}: {said}");
        assert!(!said.contains("haft mcp login"), "{said}");
        let login = haft.run(&["mcp", "login", "srv"], "");
        let stderr = String::from_utf8_lossy(&login.stderr).into_owned();
        assert!(!login.status.success() && stderr.contains(want), "{stderr}");
        assert!(!(said + &stderr).contains("secret-"));
    }
    // A variable that is not set is reported before any request.
    let asked = authority.heard("token").len();
    add(&haft, &entry(json!({"clientSecret": "${NOT_SET_4711}"})));
    let listed = haft.run(&["mcp", "list"], "");
    let said =
        String::from_utf8_lossy(&listed.stdout).into_owned() + &String::from_utf8_lossy(&listed.stderr);
    assert!(said.contains("NOT_SET_4711"), "{said}");
    assert_eq!(authority.heard("token").len(), asked);
    assert!(authority.heard("authorize").is_empty());
}

/// A server that rejects every token causes one more token request, not an endless loop.
#[test]
fn a_refused_token_costs_one_more_and_not_many() {
    let habits = json!({"grant": "client_credentials", "step_up": "admin", "always_403": true});
    let (haft, authority) = (Haft::new(), Authority::start(&habits));
    let oauth = json!({"grant": "client_credentials", "clientId": "me", "clientSecret": "s"});
    add(&haft, &authority.entry(&oauth));
    let said = call(&haft, "admin");
    assert!(said.contains("does not take the token"), "{said}");
    let tokens = authority.heard("token");
    assert!(tokens.len() <= 3, "{tokens:?}");
    assert!(tokens.iter().any(|it| it["scope"] == "admin"), "{tokens:?}");
    authority.change(&json!({"always_403": false}));
    assert!(call(&haft, "admin").contains("let in"));
}
