use std::{
    io,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::{ConnectInfo, DefaultBodyLimit, State},
    http::{HeaderMap, Method, Response, StatusCode, Uri},
};
use base64::Engine as _;
use serde_json::{Value, json};
use tokio::{net::TcpListener, sync::Notify, task::JoinHandle};

use crate::{
    Form, Recorded, Script, Turn,
    connection::{Breakable, Breaker},
    forms::{self, Asked},
    route::{Ask, Route},
    rules::{self, ForceCounts, Issued, Judge, Refusal},
    script::{ErrorReply, Matcher, Piece},
    select::{self, Seen},
    signature_of, sigv4,
    steps::{self, End, Step},
};

/// A scripted model server on loopback. Dropping it stops it.
#[derive(Debug)]
pub struct MockModel {
    shared: Arc<Shared>,
    address: SocketAddr,
    task: JoinHandle<io::Result<()>>,
}

#[derive(Debug)]
struct Shared {
    script: Script,
    started: Instant,
    state: Mutex<Live>,
    issued: Issued,
    forced: ForceCounts,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Live {
    turns: Vec<Turn>,
    used: Vec<usize>,
    requests: Vec<Recorded>,
    count: usize,
}

impl MockModel {
    /// Serves the script on a free port of 127.0.0.1.
    pub async fn start(script: Script) -> io::Result<Self> {
        Self::bind(SocketAddr::from(([127, 0, 0, 1], 0)), script).await
    }

    /// Serves the script on an address.
    pub async fn bind(address: SocketAddr, script: Script) -> io::Result<Self> {
        check_patterns(&script)?;
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let state = Live { turns: script.turns.clone(), ..Live::default() };
        let shared = Arc::new(Shared {
            script,
            started: Instant::now(),
            state: Mutex::new(state),
            issued: Issued::default(),
            forced: ForceCounts::default(),
            changed: Notify::new(),
        });
        let app = Router::new()
            .fallback(handle)
            .layer(DefaultBodyLimit::disable())
            .with_state(Arc::clone(&shared))
            .into_make_service_with_connect_info::<Breaker>();
        let task = tokio::spawn(async move { axum::serve(Breakable(listener), app).await });
        Ok(Self { shared, address, task })
    }

    /// Where it listens: `http://127.0.0.1:PORT`, without a slash.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Every request so far (the last ones, if the script says so).
    pub fn requests(&self) -> Vec<Recorded> {
        self.shared.state().requests.clone()
    }

    /// The words of every refusal by the rules so far.
    pub fn refusals(&self) -> Vec<String> {
        self.shared.state().requests.iter().filter_map(|request| request.refusal.clone()).collect()
    }

    /// How many requests came so far.
    pub fn count(&self) -> usize {
        self.shared.state().count
    }

    /// Adds a turn at the end of the script.
    pub fn push(&self, turn: Turn) {
        self.shared.state().turns.push(turn);
    }

    /// How many turns were never used.
    pub fn unused(&self) -> usize {
        let state = self.shared.state();
        let used = state.used.iter().filter(|used| **used > 0).count();
        state.turns.len() - used
    }

    /// Waits until a condition on the requests so far holds. Wrap it in a
    /// timeout.
    pub async fn wait_until(&self, holds: impl Fn(&[Recorded]) -> bool) {
        loop {
            let changed = self.shared.changed.notified();
            if holds(&self.shared.state().requests) {
                return;
            }
            changed.await;
        }
    }

    /// Serves until the server fails, for a server that is a whole program.
    pub async fn serve(mut self) -> io::Result<()> {
        (&mut self.task).await.unwrap_or_else(|err| Err(io::Error::other(err)))
    }
}

impl Drop for MockModel {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn check_patterns(script: &Script) -> io::Result<()> {
    for turn in &script.turns {
        let when = &turn.when;
        for matcher in [&when.last_user, &when.tool_result, &when.system, &when.model].into_iter().flatten() {
            if let Matcher::Regex(pattern) = matcher {
                regex::Regex::new(pattern).map_err(|err| io::Error::new(io::ErrorKind::InvalidInput, err))?;
            }
        }
    }
    Ok(())
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, Live> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a request and numbers it.
    fn record(&self, mut request: Recorded) -> usize {
        let mut state = self.state();
        let index = state.count;
        request.index = index;
        state.count += 1;
        state.requests.push(request);
        if let Some(keep) = self.script.keep_requests {
            let over = state.requests.len().saturating_sub(keep);
            state.requests.drain(..over);
        }
        drop(state);
        self.changed.notify_waiters();
        index
    }

    fn update(&self, index: usize, change: impl FnOnce(&mut Recorded)) {
        let mut state = self.state();
        if let Some(request) = state.requests.iter_mut().rev().find(|request| request.index == index) {
            change(request);
        }
    }
}

/// What a request is answered with.
enum Reply {
    Refused(Refusal),
    Error(ErrorReply),
    Json(Value),
    Stream { content_type: &'static str, steps: Vec<Step> },
    Drop,
}

async fn handle(
    State(shared): State<Arc<Shared>>,
    ConnectInfo(breaker): ConnectInfo<Breaker>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Response<Body> {
    let received = shared.started.elapsed();
    let route = Route::parse(method.as_str(), uri.path());
    let form = route.as_ref().map(|route| route.form);
    let body = axum::body::to_bytes(body, usize::MAX).await.unwrap_or_default();
    let header_list = headers.iter().map(|(name, value)| {
        (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned())
    });
    let request = Recorded {
        index: 0,
        form,
        path: uri.path().to_owned(),
        headers: header_list.collect(),
        body,
        turn: None,
        status: 200,
        refusal: None,
        received,
        answered: None,
        abandoned: false,
    };
    let index = shared.record(request.clone());
    let Some(route) = route else {
        shared.update(index, |request| request.status = 404);
        return plain(
            StatusCode::NOT_FOUND,
            "application/json",
            json!({"error": "no such path"}).to_string(),
        );
    };
    let (reply, turn) = answer(&shared, &route, &request, index);
    if let Some(turn) = &turn
        && turn.delay_ms > 0
    {
        tokio::time::sleep(Duration::from_millis(turn.delay_ms)).await;
    }
    respond(&shared, route.form, index, reply, &breaker)
}

/// Judges a request and picks its turn.
fn answer(shared: &Shared, route: &Route, request: &Recorded, index: usize) -> (Reply, Option<Turn>) {
    match judged(shared, route, request) {
        Err(refusal) => (Reply::Refused(refusal), None),
        Ok(_) if route.ask == Ask::Models => {
            (Reply::Json(json!({"data": [{"type": "model", "id": "mock"}], "has_more": false})), None)
        }
        Ok((_, _, count)) if route.ask == Ask::Count => {
            let name = if route.form == Form::Bedrock { "inputTokens" } else { "input_tokens" };
            (Reply::Json(json!({name: count})), None)
        }
        Ok((model, body, count)) => played(shared, route, index, &model, &body, count),
    }
}

/// The model, the body and its tokens, if the request is right.
fn judged(shared: &Shared, route: &Route, request: &Recorded) -> Result<(String, Value, u64), Refusal> {
    check_key(shared, route, request)?;
    if route.ask == Ask::Models {
        return Ok((String::new(), Value::Null, 0));
    }
    let mut body = rules::parse(&shared.script, &request.body)?;
    if route.ask == Ask::Count && route.form == Form::Bedrock {
        let inner = body["input"]["invokeModel"]["body"].as_str().unwrap_or_default();
        let inner = base64::engine::general_purpose::STANDARD.decode(inner).unwrap_or_default();
        body = rules::parse(&shared.script, &inner)?;
    }
    let model = match (&route.model, body["model"].as_str()) {
        (Some(model), None) => model.clone(),
        (None, Some(model)) => model.to_owned(),
        (Some(_), Some(_)) => return rules::refuse("model", "Extra inputs are not permitted"),
        (None, None) => String::new(),
    };
    let judge = Judge { script: &shared.script, issued: &shared.issued, forced: &shared.forced };
    let count = judge.judge(route.form, &model, &body)?;
    if shared.script.strict && route.ask == Ask::Answer && route.form == Form::Messages {
        if request.header("anthropic-version").is_none() {
            return rules::refuse("anthropic-version", "header is required");
        }
        if body.get("max_tokens").is_none() {
            return rules::refuse("max_tokens", "Field required");
        }
    }
    Ok((model, body, count))
}

fn check_key(shared: &Shared, route: &Route, request: &Recorded) -> Result<(), Refusal> {
    if let (Form::Bedrock, Some(key)) = (route.form, &shared.script.aws) {
        return sigv4::check(key, request);
    }
    let Some(key) = &shared.script.api_key else { return Ok(()) };
    let bearer = request.header("authorization").and_then(|it| it.strip_prefix("Bearer "));
    let given = request.header("x-api-key").or(request.header("api-key")).or(bearer);
    if given == Some(key.as_str()) {
        return Ok(());
    }
    Err(Refusal { status: 401, kind: "authentication_error", message: "invalid x-api-key".to_owned() })
}

fn played(
    shared: &Shared,
    route: &Route,
    index: usize,
    model: &str,
    body: &Value,
    count: u64,
) -> (Reply, Option<Turn>) {
    let seen = Seen::of(route.form, model, body);
    let mut state = shared.state();
    let Live { turns, used, .. } = &mut *state;
    let Some(at) = select::take(turns, used, &seen) else {
        let message =
            format!("mock-model: no turn left for request {index} (last user text: {:?})", seen.last_user);
        return (Reply::Refused(Refusal::invalid(message)), None);
    };
    let turn = turns[at].clone();
    drop(state);
    shared.update(index, |request| request.turn = Some(at));
    remember_thinking(shared, &turn, model, body);
    let asked = Asked {
        index,
        model,
        input_tokens: count,
        bytes_per_token: shared.script.bytes_per_token,
        delta_chars: shared.script.delta_chars,
    };
    let streamed = match route.ask {
        Ask::Stream => true,
        Ask::Answer => body["stream"] == true,
        _ => false,
    };
    (reply_of(&turn, route.form, &asked, streamed), Some(turn))
}

fn reply_of(turn: &Turn, form: Form, asked: &Asked<'_>, streamed: bool) -> Reply {
    if turn.drop {
        return Reply::Drop;
    }
    if let Some(error) = &turn.error {
        return Reply::Error(error.clone());
    }
    let content_type = match form {
        _ if !streamed => "application/json",
        Form::Bedrock => "application/vnd.amazon.eventstream",
        _ => "text/event-stream; charset=utf-8",
    };
    let steps = match (&turn.raw, form) {
        (Some(raw), _) => vec![Step::Bytes(raw.clone().into_bytes())],
        (None, Form::Messages) if streamed => forms::messages::stream(turn, asked),
        (None, Form::Bedrock) if streamed => forms::bedrock::stream(turn, asked),
        (None, Form::Chat) if streamed => forms::chat::stream(turn, asked),
        (None, Form::Responses) if streamed => forms::responses::stream(turn, asked),
        (None, form) => {
            let whole = match form {
                Form::Messages | Form::Bedrock => forms::messages::whole(turn, asked),
                Form::Chat => forms::chat::whole(turn, asked),
                Form::Responses => forms::responses::whole(turn, asked),
            };
            vec![Step::Bytes(whole.to_string().into_bytes())]
        }
    };
    Reply::Stream { content_type, steps: steps::with_faults(steps, turn) }
}

/// What was signed, and what stood before it.
fn remember_thinking(shared: &Shared, turn: &Turn, model: &str, body: &Value) {
    let length = body["messages"].as_array().map_or(0, Vec::len);
    for piece in &turn.reply {
        if let Piece::Thinking(text) = piece {
            shared.issued.add(signature_of(text, model), rules::prefix(body, length));
        }
    }
}

fn respond(
    shared: &Arc<Shared>,
    form: Form,
    index: usize,
    reply: Reply,
    breaker: &Breaker,
) -> Response<Body> {
    match reply {
        Reply::Drop => {
            shared.update(index, |request| request.status = 0);
            breaker.trip();
            plain(StatusCode::OK, "text/plain", String::new())
        }
        Reply::Refused(Refusal { status, kind, message }) => {
            shared.update(index, |request| {
                request.status = status;
                request.refusal = Some(message.clone());
            });
            error_response(form, status, kind, &message)
        }
        Reply::Error(error) => {
            shared.update(index, |request| request.status = error.status);
            let mut response = error_response(form, error.status, &error.kind, &error.message);
            for (name, value) in &error.headers {
                let name = axum::http::HeaderName::try_from(name.as_str());
                if let (Ok(name), Ok(value)) = (name, value.parse()) {
                    response.headers_mut().insert(name, value);
                }
            }
            response
        }
        Reply::Json(value) => plain(StatusCode::OK, "application/json", value.to_string()),
        Reply::Stream { content_type, steps } => {
            let shared = Arc::clone(shared);
            let tell = move |end: End| {
                let now = shared.started.elapsed();
                shared.update(index, |request| match end {
                    End::Played => request.answered = Some(now),
                    End::Abandoned => request.abandoned = true,
                });
                shared.changed.notify_waiters();
            };
            let body = steps::body(steps, tell);
            with_type(Response::new(body), content_type)
        }
    }
}

fn error_response(form: Form, status: u16, kind: &str, message: &str) -> Response<Body> {
    let body = match form {
        Form::Messages => forms::messages::error_body(kind, message),
        Form::Bedrock => json!({"message": message}),
        Form::Chat | Form::Responses => forms::chat::error_body(kind, message),
    };
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = plain(status, "application/json", body.to_string());
    if form == Form::Bedrock
        && let Ok(value) = forms::bedrock::exception_type(kind).parse()
    {
        response.headers_mut().insert("x-amzn-errortype", value);
    }
    response
}

fn plain(status: StatusCode, content_type: &'static str, body: String) -> Response<Body> {
    let mut response = Response::new(Body::from(Bytes::from(body)));
    *response.status_mut() = status;
    with_type(response, content_type)
}

fn with_type(mut response: Response<Body>, content_type: &'static str) -> Response<Body> {
    response.headers_mut().insert("content-type", axum::http::HeaderValue::from_static(content_type));
    response
}
