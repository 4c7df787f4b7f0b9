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
use serde_json::json;
use tokio::{net::TcpListener, sync::Notify, task::JoinHandle};

use crate::{
    MockForm, Recorded, Script, Turn,
    connection::{Breakable, ConnectionBreaker},
    mock_reply::{MockReply, answer},
    route::Route,
    rules::{ForceCounts, IssuedThinking, MockRefusal},
    stream_steps::{self, StreamEnd},
    turn::TextMatcher,
    wire,
};

/// A scripted model server on loopback. Dropping it stops it.
#[derive(Debug)]
pub struct MockModel {
    shared: Arc<ServerShared>,
    address: SocketAddr,
    task: JoinHandle<io::Result<()>>,
}

#[derive(Debug)]
pub(crate) struct ServerShared {
    pub(crate) script: Script,
    started: Instant,
    state: Mutex<Live>,
    pub(crate) issued: IssuedThinking,
    pub(crate) forced: ForceCounts,
    changed: Notify,
}

#[derive(Debug, Default)]
pub(crate) struct Live {
    pub(crate) turns: Vec<Turn>,
    pub(crate) used: Vec<usize>,
    requests: Vec<Recorded>,
    count: usize,
}

impl MockModel {
    /// Starts a server on a free port of 127.0.0.1.
    pub async fn start(script: Script) -> io::Result<Self> {
        Self::bind(SocketAddr::from(([127, 0, 0, 1], 0)), script).await
    }

    /// Starts a server on an address.
    pub async fn bind(address: SocketAddr, script: Script) -> io::Result<Self> {
        check_patterns(&script)?;
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let state = Live { turns: script.turns.clone(), ..Live::default() };
        let shared = Arc::new(ServerShared {
            script,
            started: Instant::now(),
            state: Mutex::new(state),
            issued: IssuedThinking::default(),
            forced: ForceCounts::default(),
            changed: Notify::new(),
        });
        let app = Router::new()
            .fallback(handle)
            .layer(DefaultBodyLimit::disable())
            .with_state(Arc::clone(&shared))
            .into_make_service_with_connect_info::<ConnectionBreaker>();
        let task = tokio::spawn(async move { axum::serve(Breakable(listener), app).await });
        Ok(Self { shared, address, task })
    }

    /// Returns its URL, `http://127.0.0.1:PORT`, without a slash.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the requests so far (or the last ones, if the script limits them).
    pub fn requests(&self) -> Vec<Recorded> {
        self.shared.state().requests.clone()
    }

    /// Returns the error texts of all rejections so far.
    pub fn refusals(&self) -> Vec<String> {
        self.shared.state().requests.iter().filter_map(|request| request.refusal.clone()).collect()
    }

    /// Returns the number of requests so far.
    pub fn count(&self) -> usize {
        self.shared.state().count
    }

    /// Appends a turn to the script.
    pub fn push(&self, turn: Turn) {
        self.shared.state().turns.push(turn);
    }

    /// Returns the number of turns that were never used.
    pub fn unused(&self) -> usize {
        let state = self.shared.state();
        let used = state.used.iter().filter(|used| **used > 0).count();
        state.turns.len() - used
    }

    /// Waits until a condition on the requests so far holds. Has no timeout of its own.
    pub async fn wait_until(&self, holds: impl Fn(&[Recorded]) -> bool) {
        loop {
            let changed = self.shared.changed.notified();
            if holds(&self.shared.state().requests) {
                return;
            }
            changed.await;
        }
    }

    /// Serves until the server fails, for a server that is a program of its own.
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
            if let TextMatcher::Regex(pattern) = matcher {
                regex::Regex::new(pattern).map_err(|err| io::Error::new(io::ErrorKind::InvalidInput, err))?;
            }
        }
    }
    Ok(())
}

impl ServerShared {
    pub(crate) fn state(&self) -> MutexGuard<'_, Live> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a request; returns its number.
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

    /// Records the status of a non-streamed response.
    fn answered(&self, index: usize, status: u16) {
        let now = self.started.elapsed();
        self.update(index, |request| {
            request.status = status;
            request.answered = Some(now);
        });
        self.changed.notify_waiters();
    }

    pub(crate) fn update(&self, index: usize, change: impl FnOnce(&mut Recorded)) {
        let mut state = self.state();
        if let Some(request) = state.requests.iter_mut().rev().find(|request| request.index == index) {
            change(request);
        }
    }
}

async fn handle(
    State(shared): State<Arc<ServerShared>>,
    ConnectInfo(breaker): ConnectInfo<ConnectionBreaker>,
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
        shared.answered(index, 404);
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

fn respond(
    shared: &Arc<ServerShared>,
    form: MockForm,
    index: usize,
    reply: MockReply,
    breaker: &ConnectionBreaker,
) -> Response<Body> {
    match reply {
        MockReply::Drop => {
            shared.update(index, |request| request.status = 0);
            breaker.trip();
            plain(StatusCode::OK, "text/plain", String::new())
        }
        MockReply::Refused(MockRefusal { status, kind, message }) => {
            shared.update(index, |request| {
                request.status = status;
                request.refusal = Some(message.clone());
            });
            error_response(form, status, kind, &message)
        }
        MockReply::Error(error) => {
            shared.answered(index, error.status);
            let mut response = error_response(form, error.status, &error.kind, &error.message);
            for (name, value) in &error.headers {
                let name = axum::http::HeaderName::try_from(name.as_str());
                if let (Ok(name), Ok(value)) = (name, value.parse()) {
                    response.headers_mut().insert(name, value);
                }
            }
            response
        }
        MockReply::Json(value) => {
            shared.answered(index, 200);
            plain(StatusCode::OK, "application/json", value.to_string())
        }
        MockReply::Stream { content_type, steps } => {
            let shared = Arc::clone(shared);
            let tell = move |end: StreamEnd| {
                let now = shared.started.elapsed();
                shared.update(index, |request| match end {
                    StreamEnd::Played => request.answered = Some(now),
                    StreamEnd::Abandoned => request.abandoned = true,
                });
                shared.changed.notify_waiters();
            };
            let body = stream_steps::body(steps, tell);
            with_type(Response::new(body), content_type)
        }
    }
}

fn error_response(form: MockForm, status: u16, kind: &str, message: &str) -> Response<Body> {
    let body = match form {
        MockForm::Messages => wire::messages::error_body(kind, message),
        MockForm::Bedrock => json!({"message": message}),
        MockForm::Chat | MockForm::Responses => wire::chat::error_body(kind, message),
        MockForm::Gemini => wire::gemini::error_body(status, kind, message),
    };
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = plain(status, "application/json", body.to_string());
    if form == MockForm::Bedrock
        && let Ok(value) = wire::bedrock::exception_type(kind).parse()
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
