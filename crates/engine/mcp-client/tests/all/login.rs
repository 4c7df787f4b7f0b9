//! Logins: found, kept, renewed once, lost only when they are lost.

#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, reason = "test code")]

use crate::support;

use std::{
    collections::HashMap,
    os::unix::fs::PermissionsExt,
    path::Path,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use axum::{
    Form, Json, Router,
    body::Body,
    extract::{Query, Request, State},
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
    routing::{any, get, post},
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use haft_mcp_client::{
    AuthOptions, CallbackListener, HttpEndpoint, ServerConfig, ServerEndpoint, ServerState,
};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use support::{Fixture, TIMEOUT};

/// An MCP server with an authorization server beside it, which rotates refresh
/// tokens and takes the whole login back when an old one is used again.
#[derive(Default)]
struct World {
    base: String,
    state: Mutex<Tokens>,
}

#[derive(Default)]
struct Tokens {
    issued: u32,
    /// The only access token that is good.
    access: Option<String>,
    /// The only refresh token that is good.
    refresh: Option<String>,
    refreshes: u32,
    lifetime: u64,
    broken: bool,
    used_twice: bool,
    /// Tokens work only together with a key.
    bound: bool,
    /// What was proven, and with which key.
    proofs: Vec<(Value, Value)>,
}

impl Tokens {
    fn issue(&mut self) -> Value {
        self.issued += 1;
        let (access, refresh) = (format!("access-{}", self.issued), format!("refresh-{}", self.issued));
        self.access = Some(access.clone());
        self.refresh = Some(refresh.clone());
        let kind = if self.bound { "DPoP" } else { "Bearer" };
        json!({
            "access_token": access, "token_type": kind, "expires_in": self.lifetime, "refresh_token": refresh,
        })
    }
}

/// Reads a proof, if there is a good one, and keeps it. It must have the number
/// of the place it is for.
fn proven(tokens: &mut Tokens, headers: &HeaderMap, method: &str, place: &str, token: Option<&str>) -> bool {
    let Some(text) = headers.get("dpop").and_then(|it| it.to_str().ok()) else { return false };
    let part = |at: usize| -> Value {
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(text.split('.').nth(at).unwrap()).unwrap()).unwrap()
    };
    let (header, claims) = (part(0), part(1));
    assert_eq!((&header["typ"], &header["alg"]), (&json!("dpop+jwt"), &json!("ES256")));
    assert!(header["jwk"]["d"].is_null(), "the key itself was sent");
    assert_eq!(claims["htm"], method);
    assert!(claims["htu"].as_str().unwrap().ends_with(place), "{claims}");
    let hash = token.map(|it| URL_SAFE_NO_PAD.encode(Sha256::digest(it)));
    assert_eq!(claims["ath"].as_str(), hash.as_deref());
    assert!(!tokens.proofs.iter().any(|(_, it)| it["jti"] == claims["jti"]), "a proof was used twice");
    let is_numbered = claims["nonce"] == format!("number-for{place}");
    tokens.proofs.push((header["jwk"].clone(), claims));
    is_numbered
}

async fn world(lifetime: u64) -> Arc<World> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let world = Arc::new(World { base, state: Mutex::new(Tokens { lifetime, ..Tokens::default() }) });
    let app = Router::new()
        .route("/mcp", any(mcp))
        .route("/.well-known/oauth-protected-resource/mcp", get(resource))
        .route("/.well-known/oauth-authorization-server", get(metadata))
        .route("/register", post(register))
        .route("/authorize", get(authorize))
        .route("/token", post(token))
        .with_state(Arc::clone(&world));
    tokio::spawn(async move { axum::serve(listener, app).await });
    world
}

async fn resource(State(world): State<Arc<World>>) -> Json<Value> {
    let base = &world.base;
    Json(
        json!({"resource": format!("{base}/mcp"), "authorization_servers": [base], "scopes_supported": ["tools"]}),
    )
}

async fn metadata(State(world): State<Arc<World>>) -> Json<Value> {
    let base = &world.base;
    Json(json!({
        "issuer": base,
        "authorization_endpoint": format!("{base}/authorize"),
        "token_endpoint": format!("{base}/token"),
        "registration_endpoint": format!("{base}/register"),
        "response_types_supported": ["code"],
        "code_challenge_methods_supported": ["S256"],
        "dpop_signing_alg_values_supported": ["ES256"],
    }))
}

async fn register(Json(request): Json<Value>) -> (StatusCode, Json<Value>) {
    let answer = json!({"client_id": "client-1", "redirect_uris": request["redirect_uris"]});
    (StatusCode::CREATED, Json(answer))
}

async fn authorize(Query(query): Query<HashMap<String, String>>) -> Response {
    assert_eq!(query["code_challenge_method"], "S256");
    assert_eq!(query["scope"], "tools");
    let target = format!("{}?code=the-code&state={}", query["redirect_uri"], query["state"]);
    (StatusCode::FOUND, [("location", target)]).into_response()
}

async fn token(
    State(world): State<Arc<World>>,
    headers: HeaderMap,
    Form(form): Form<HashMap<String, String>>,
) -> Response {
    let mut tokens = world.state.lock().unwrap();
    if tokens.bound && !proven(&mut tokens, &headers, "POST", "/token", None) {
        let number = [("dpop-nonce", "number-for/token")];
        return (StatusCode::BAD_REQUEST, number, Json(json!({"error": "use_dpop_nonce"}))).into_response();
    }
    if tokens.broken {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    }
    let good = match form["grant_type"].as_str() {
        "authorization_code" => form["code"] == "the-code",
        _ => {
            let good = tokens.refresh.as_deref() == Some(form["refresh_token"].as_str());
            tokens.used_twice |= !good;
            tokens.refreshes += 1;
            good
        }
    };
    if good {
        Json(tokens.issue()).into_response()
    } else {
        (StatusCode::BAD_REQUEST, Json(json!({"error": "invalid_grant"}))).into_response()
    }
}

async fn mcp(State(world): State<Arc<World>>, request: Request) -> Response {
    let given = request.headers().get("authorization").and_then(|it| it.to_str().ok()).map(str::to_owned);
    let base = &world.base;
    let (scheme, access) = {
        let tokens = world.state.lock().unwrap();
        (if tokens.bound { "DPoP" } else { "Bearer" }, tokens.access.clone())
    };
    let wanted = access.as_ref().map(|it| format!("{scheme} {it}"));
    if wanted.is_none() || given != wanted {
        let challenge =
            format!("{scheme} resource_metadata=\"{base}/.well-known/oauth-protected-resource/mcp\"");
        return (StatusCode::UNAUTHORIZED, [("www-authenticate", challenge)]).into_response();
    }
    if scheme == "DPoP" {
        let mut tokens = world.state.lock().unwrap();
        let method = request.method().as_str();
        if !proven(&mut tokens, request.headers(), method, "/mcp", access.as_deref()) {
            let told =
                [("www-authenticate", "DPoP error=\"use_dpop_nonce\""), ("dpop-nonce", "number-for/mcp")];
            return (StatusCode::UNAUTHORIZED, told).into_response();
        }
    }
    if request.method() != "POST" {
        return StatusCode::METHOD_NOT_ALLOWED.into_response();
    }
    let body = axum::body::to_bytes(request.into_body(), 1 << 20).await.unwrap();
    let message: Value = serde_json::from_slice(&body).unwrap();
    let result = match message["method"].as_str().unwrap() {
        "initialize" => json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}}),
        "tools/list" => json!({"tools": [{"name": "echo"}]}),
        "tools/call" => json!({"content": [{"type": "text", "text": "hi"}]}),
        _ => {
            let error = json!({"code": -32601, "message": "no"});
            return Json(json!({"jsonrpc": "2.0", "id": message["id"], "error": error})).into_response();
        }
    };
    if message.get("id").is_none() {
        return Response::builder().status(202).body(Body::empty()).unwrap();
    }
    Json(json!({"jsonrpc": "2.0", "id": message["id"], "result": result})).into_response()
}

fn user(world: &World, directory: &Path) -> Fixture {
    let auth = AuthOptions { directory: Some(directory.to_owned()), client_metadata_url: None };
    let fixture = Fixture::with(|options| options.auth = auth);
    let endpoint = HttpEndpoint { url: format!("{}/mcp", world.base), ..HttpEndpoint::default() };
    fixture.manager.set_servers(vec![ServerConfig::new("srv", ServerEndpoint::Http(endpoint))]);
    fixture
}

fn state(fixture: &Fixture) -> ServerState {
    fixture.manager.status().remove(0).state
}

/// What a browser does with the page of a login.
async fn browse(url: &str) {
    let page = reqwest::get(url).await.unwrap();
    assert!(page.text().await.unwrap().contains("go back to Haft"));
}

async fn log_in(fixture: &Fixture) {
    let listener = CallbackListener::bind(None).await.unwrap();
    let flow = fixture.manager.login("srv", &listener.redirect_uri()).await.unwrap();
    let url = flow.authorization_url().to_owned();
    let (callback, ()) = tokio::join!(listener.wait(|url| flow.is_answer(url)), browse(&url));
    flow.finish(&callback.unwrap()).await.unwrap();
    fixture.manager.reconnect("srv").await.unwrap();
}

async fn call(fixture: &Fixture) -> Result<String, String> {
    let output = fixture.call("mcp__srv__echo", json!({})).await;
    output.map(|it| it.content.to_text()).map_err(|err| err.message)
}

#[tokio::test]
async fn a_login_is_asked_for_made_and_kept() {
    let (world, home) = (world(3600).await, tempfile::tempdir().unwrap());
    let first = user(&world, home.path());
    let started = Instant::now();
    assert!(first.manager.settled(TIMEOUT).await);
    assert_eq!(state(&first), ServerState::NeedsAuth);
    assert!(started.elapsed() < Duration::from_secs(60));
    log_in(&first).await;
    assert_eq!((state(&first), call(&first).await), (ServerState::Ready, Ok(String::from("hi"))));

    // Only the owner can read it, and the next session needs no login.
    let files: Vec<_> = std::fs::read_dir(home.path()).unwrap().flatten().map(|it| it.path()).collect();
    let file = files.iter().find(|it| it.extension().is_some_and(|it| it == "json")).unwrap();
    assert_eq!(std::fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);
    let second = user(&world, home.path());
    assert!(second.manager.settled(TIMEOUT).await);
    assert_eq!(state(&second), ServerState::Ready);

    assert_eq!(second.manager.logout("srv"), Ok(true));
    assert_eq!(second.manager.logout("srv"), Ok(false));
    assert!(second.manager.reconnect("srv").await.is_err());
    assert_eq!(state(&second), ServerState::NeedsAuth);
}

#[tokio::test]
async fn a_refused_token_is_renewed_once_however_many_ask() {
    let (world, home) = (world(3600).await, tempfile::tempdir().unwrap());
    let users = [user(&world, home.path()), user(&world, home.path()), user(&world, home.path())];
    users[0].manager.settled(TIMEOUT).await;
    log_in(&users[0]).await;
    for user in &users {
        user.manager.reconnect("srv").await.unwrap();
    }
    // The server forgets the token; everybody finds out at the same moment.
    world.state.lock().unwrap().access = Some(String::from("another"));
    let calls = users.iter().flat_map(|user| [call(user), call(user)]);
    for answer in futures_util::future::join_all(calls).await {
        assert_eq!(answer, Ok(String::from("hi")));
    }
    let tokens = world.state.lock().unwrap();
    assert_eq!((tokens.refreshes, tokens.used_twice), (1, false));
}

#[tokio::test]
async fn a_token_is_renewed_before_it_ends() {
    let (world, home) = (world(2).await, tempfile::tempdir().unwrap());
    let user = user(&world, home.path());
    user.manager.settled(TIMEOUT).await;
    log_in(&user).await;
    tokio::time::sleep(Duration::from_millis(2200)).await;
    assert_eq!(call(&user).await, Ok(String::from("hi")));
    let tokens = world.state.lock().unwrap();
    assert!(1 <= tokens.refreshes && !tokens.used_twice);
}

#[tokio::test]
async fn a_bad_moment_costs_no_login_but_a_rejection_does() {
    let (world, home) = (world(3600).await, tempfile::tempdir().unwrap());
    let user = user(&world, home.path());
    user.manager.settled(TIMEOUT).await;
    log_in(&user).await;
    {
        let mut tokens = world.state.lock().unwrap();
        tokens.access = None;
        tokens.broken = true;
    }
    let message = call(&user).await.unwrap_err();
    assert!(message.contains("could not be renewed just now"), "{message}");
    assert_ne!(state(&user), ServerState::NeedsAuth);
    world.state.lock().unwrap().broken = false;
    user.manager.reconnect("srv").await.unwrap();
    assert_eq!(call(&user).await, Ok(String::from("hi")));

    {
        let mut tokens = world.state.lock().unwrap();
        tokens.access = None;
        tokens.refresh = None;
    }
    let message = call(&user).await.unwrap_err();
    assert!(message.contains("haft mcp login srv"), "{message}");
    assert_eq!(state(&user), ServerState::NeedsAuth);
}

#[tokio::test]
async fn a_refused_login_says_why() {
    let (world, home) = (world(3600).await, tempfile::tempdir().unwrap());
    let user = user(&world, home.path());
    user.manager.settled(TIMEOUT).await;
    let flow = user.manager.login("srv", "http://localhost:1/callback").await.unwrap();
    let refused =
        flow.finish("http://localhost:1/callback?error=access_denied&error_description=no+way").await;
    assert_eq!(refused.unwrap_err().to_string(), "the login was refused: access_denied: no way");
    let flow = user.manager.login("srv", "http://localhost:1/callback").await.unwrap();
    let forged = flow.finish("http://localhost:1/callback?code=the-code&state=forged").await;
    assert!(forged.is_err());
    assert_eq!(state(&user), ServerState::NeedsAuth);
}

#[tokio::test]
async fn a_bound_token_is_proven_for_every_request_by_everybody_who_has_the_login() {
    let (world, home) = (world(3600).await, tempfile::tempdir().unwrap());
    world.state.lock().unwrap().bound = true;
    let first = user(&world, home.path());
    first.manager.settled(TIMEOUT).await;
    log_in(&first).await;
    assert_eq!(call(&first).await, Ok(String::from("hi")));
    let second = user(&world, home.path());
    second.manager.settled(TIMEOUT).await;
    assert_eq!(call(&second).await, Ok(String::from("hi")));
    // What is renewed stays bound to the same key.
    world.state.lock().unwrap().access = Some(String::from("another"));
    assert_eq!(call(&first).await, Ok(String::from("hi")));
    assert_eq!(call(&second).await, Ok(String::from("hi")));
    let tokens = world.state.lock().unwrap();
    assert_eq!((tokens.refreshes, tokens.used_twice), (1, false));
    assert!(10 < tokens.proofs.len());
    assert!(tokens.proofs.iter().all(|(key, _)| *key == tokens.proofs[0].0), "another key was used");
}
