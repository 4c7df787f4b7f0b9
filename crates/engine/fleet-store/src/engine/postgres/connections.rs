//! Connections that reconnect, and the mapping of the server's errors.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use futures_util::stream::StreamExt;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::{Mutex, broadcast, watch},
    time::{sleep, timeout},
};
use tokio_postgres::{
    AsyncMessage, Client, Config, Connection, NoTls, Row,
    config::{Host, SslMode},
    error::SqlState,
    types::ToSql,
};

use super::tls::CheckedTls;
use crate::StoreError;

/// Version of the table layout.
const SCHEMA_VERSION: i64 = 1;

/// Oldest supported server version.
const OLDEST: i32 = 120_000;

/// Connections for logs and reads; one more writes the ledger, one listens and notifies.
const SHARED: usize = 4;

const CONNECT: Duration = Duration::from_secs(5);

/// Timeout of a statement; beyond it the connection counts as broken.
const ANSWER: Duration = Duration::from_secs(20);

/// How long statements are retried: a killed server needs seconds to restart.
const TIMEOUT: Duration = Duration::from_secs(25);

const RETRY: Duration = Duration::from_millis(100);

/// Text that marks a server that does not accept connections yet.
const STARTING: &str = "it is not ready";

pub(super) const LEDGER_CHANNEL: &str = "haft_fleet_ledger";
pub(super) const RUN_CHANNEL: &str = "haft_fleet_run";
pub(super) const LIVE_CHANNEL: &str = "haft_fleet_live";

type SqlParams<'a> = &'a [&'a (dyn ToSql + Sync)];

/// Notifications of the server.
struct PgNotifications {
    ledger: watch::Sender<u64>,
    runs: watch::Sender<u64>,
    live: broadcast::Sender<String>,
}

/// The connections of this process to a database.
pub(super) struct PgConnections {
    config: Config,
    name: String,
    shared: Vec<Mutex<Option<Client>>>,
    writer: Mutex<Option<Client>>,
    teller: Mutex<Option<Client>>,
    next: AtomicUsize,
    told: Arc<PgNotifications>,
    hears_runs: AtomicBool,
    hears_live: AtomicBool,
}

impl PgConnections {
    pub(super) async fn open(address: &str, name: String) -> Result<Arc<Self>, StoreError> {
        let mut config: Config = address
            .parse()
            .map_err(|err| StoreError::Refused(format!("not an address of PostgreSQL: {err}")))?;
        config
            .connect_timeout(CONNECT)
            .application_name("haft fleet")
            .keepalives_idle(Duration::from_secs(10));
        config.tcp_user_timeout(Duration::from_secs(15));
        let told = PgNotifications {
            ledger: watch::Sender::new(0),
            runs: watch::Sender::new(0),
            live: broadcast::Sender::new(1_024),
        };
        let connections = Arc::new(Self {
            config,
            name,
            shared: (0..SHARED).map(|_| Mutex::default()).collect(),
            writer: Mutex::default(),
            teller: Mutex::default(),
            next: AtomicUsize::new(0),
            told: Arc::new(told),
            hears_runs: AtomicBool::new(false),
            hears_live: AtomicBool::new(false),
        });
        connections.prepare().await?;
        Ok(connections)
    }

    /// Checks the server and creates the tables.
    async fn prepare(&self) -> Result<(), StoreError> {
        // The first connection is not retried, because the address may be wrong.
        let client = self.connect().await?;
        let asked = client
            .query_one(
                "select current_setting('server_version_num')::int, current_setting('server_version'), \
                 current_setting('fsync')",
                &[],
            )
            .await
            .map_err(|err| self.problem(&err))?;
        if asked.get::<_, i32>(0) < OLDEST {
            return Err(StoreError::WrongVersion {
                what: format!("PostgreSQL at {}", self.name),
                found: asked.get(1),
                needed: format!("{} or newer", OLDEST / 10_000),
                advice: String::from("use a newer server"),
            });
        }
        if asked.get::<_, String>(2) != "on" {
            let said = "runs with fsync off and would lose what it acknowledged: set fsync = on";
            return Err(StoreError::Refused(format!("PostgreSQL at {} {said}", self.name)));
        }
        let schema = format!(
            "begin; select pg_advisory_xact_lock(5746280); {}; \
             create table if not exists haft_fleet.version (number bigint primary key); \
             insert into haft_fleet.version select {SCHEMA_VERSION} \
             where not exists (select 1 from haft_fleet.version); commit;",
            include_str!("schema.sql")
        );
        let found = client.query_opt("select to_regclass('haft_fleet.version')::text", &[]).await;
        let is_there = found.ok().flatten().is_some_and(|row| row.get::<_, Option<String>>(0).is_some());
        if !is_there {
            client.batch_execute(&schema).await.map_err(|err| self.problem(&err))?;
        }
        let version = client.query_one("select max(number) from haft_fleet.version", &[]).await;
        let version: i64 = version.map_err(|err| self.problem(&err))?.get(0);
        if version != SCHEMA_VERSION {
            return Err(StoreError::WrongVersion {
                what: format!("the schema haft_fleet at {}", self.name),
                found: version.to_string(),
                needed: SCHEMA_VERSION.to_string(),
                advice: String::from("another haft made it; use that version, or another database"),
            });
        }
        *self.writer.lock().await = Some(client);
        self.hear(LEDGER_CHANNEL).await
    }

    /// Connects; waits for a server that is starting.
    async fn connect(&self) -> Result<Client, StoreError> {
        let begin = Instant::now();
        loop {
            match self.try_connect().await {
                Err(StoreError::Gone { said, .. })
                    if said.contains(STARTING) && begin.elapsed() < TIMEOUT =>
                {
                    sleep(RETRY).await;
                }
                connected => return connected,
            }
        }
    }

    async fn try_connect(&self) -> Result<Client, StoreError> {
        let is_near = |host: &Host| match host {
            Host::Tcp(name) => {
                name == "localhost" || name.parse().is_ok_and(|it: std::net::IpAddr| it.is_loopback())
            }
            Host::Unix(_) => true,
        };
        let mut config = self.config.clone();
        let mode = config.get_ssl_mode();
        let is_plain = mode == SslMode::Disable
            || mode == SslMode::Prefer && self.config.get_hosts().iter().all(is_near);
        let client = if is_plain {
            config.ssl_mode(SslMode::Disable);
            let (client, connection) = config.connect(NoTls).await.map_err(|err| self.problem(&err))?;
            self.drive(connection);
            client
        } else {
            config.ssl_mode(SslMode::Require);
            let tls = CheckedTls::of_this_machine()?;
            let (client, connection) = config.connect(tls).await.map_err(|err| self.problem(&err))?;
            self.drive(connection);
            client
        };
        // Overrides the server's default: acknowledged means on disk.
        client
            .batch_execute(
                "set synchronous_commit = on; set lock_timeout = '15s'; set statement_timeout = '18s'; \
                 set client_min_messages = warning",
            )
            .await
            .map_err(|err| self.problem(&err))?;
        Ok(client)
    }

    /// Drives a connection and receives its notifications.
    fn drive<S, T>(&self, mut connection: Connection<S, T>)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
        T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let told = self.told.clone();
        tokio::spawn(async move {
            let mut messages = futures_util::stream::poll_fn(move |cx| connection.poll_message(cx));
            while let Some(Ok(message)) = messages.next().await {
                let AsyncMessage::Notification(it) = message else { continue };
                match it.channel() {
                    LEDGER_CHANNEL => told.ledger.send_modify(|it| *it += 1),
                    RUN_CHANNEL => told.runs.send_modify(|it| *it += 1),
                    _ => drop(told.live.send(it.payload().to_owned())),
                }
            }
            // Notifications may have been missed: wake all listeners.
            told.ledger.send_modify(|it| *it += 1);
        });
    }

    pub(super) fn problem(&self, err: &tokio_postgres::Error) -> StoreError {
        let engine = format!("PostgreSQL at {}", self.name);
        let Some(code) = err.code() else {
            return StoreError::Gone {
                engine,
                said: source_of(err),
                advice: String::from("look whether it runs, and at HAFT_FLEET"),
            };
        };
        let said = err.as_db_error().map_or_else(|| err.to_string(), |it| it.message().to_owned());
        match *code {
            SqlState::CANNOT_CONNECT_NOW => {
                StoreError::Gone { engine, said: format!("{STARTING}: {said}"), advice: String::from("wait") }
            }
            SqlState::DISK_FULL | SqlState::OUT_OF_MEMORY => StoreError::Full { place: engine, said },
            SqlState::INVALID_PASSWORD
            | SqlState::INVALID_AUTHORIZATION_SPECIFICATION
            | SqlState::INSUFFICIENT_PRIVILEGE
            | SqlState::INVALID_CATALOG_NAME => StoreError::Refused(format!("{engine}: {said}")),
            SqlState::DATA_CORRUPTED | SqlState::INDEX_CORRUPTED => {
                StoreError::Corrupt { place: engine, said }
            }
            _ if said.contains("No space left") => StoreError::Full { place: engine, said },
            _ => StoreError::Gone { engine, said, advice: String::from("look at its log") },
        }
    }

    /// Runs an idempotent statement, with retries.
    async fn run(
        &self,
        slot: &Mutex<Option<Client>>,
        sql: &str,
        params: SqlParams<'_>,
    ) -> Result<Vec<Row>, StoreError> {
        let begin = Instant::now();
        let mut slot = slot.lock().await;
        loop {
            let answer = self.try_run(&mut slot, sql, params).await;
            match answer {
                Err(err @ StoreError::Gone { .. }) if begin.elapsed() < TIMEOUT => {
                    *slot = None;
                    drop(err);
                    sleep(RETRY).await;
                }
                answer => return answer,
            }
        }
    }

    async fn try_run(
        &self,
        slot: &mut Option<Client>,
        sql: &str,
        params: SqlParams<'_>,
    ) -> Result<Vec<Row>, StoreError> {
        if slot.as_ref().is_none_or(Client::is_closed) {
            *slot = Some(self.connect().await?);
        }
        let Some(client) = slot.as_ref() else { return Ok(Vec::new()) };
        match timeout(ANSWER, client.query(sql, params)).await {
            Ok(answer) => answer.map_err(|err| self.problem(&err)),
            Err(_) => Err(StoreError::Gone {
                engine: format!("PostgreSQL at {}", self.name),
                said: String::from("no answer in time"),
                advice: String::from("look whether it can be reached"),
            }),
        }
    }

    /// Reads, or writes data of one run.
    pub(super) async fn rows(&self, sql: &str, params: SqlParams<'_>) -> Result<Vec<Row>, StoreError> {
        let begin = self.next.fetch_add(1, Ordering::Relaxed);
        let free = (0..SHARED).map(|it| (begin + it) % SHARED).find(|it| self.shared[*it].try_lock().is_ok());
        self.run(&self.shared[free.unwrap_or(begin % SHARED)], sql, params).await
    }

    /// Writes to the ledger.
    pub(super) async fn write(&self, sql: &str, params: SqlParams<'_>) -> Result<Vec<Row>, StoreError> {
        self.run(&self.writer, sql, params).await
    }

    /// Sends a notification, best effort.
    pub(super) async fn tell(&self, channel: &str, payload: &str) {
        let mut slot = self.teller.lock().await;
        // A connection that listens is opened elsewhere.
        if slot.as_ref().is_none_or(Client::is_closed) {
            return;
        }
        let params: SqlParams<'_> = &[&channel, &payload];
        let told = self.try_run(&mut slot, "select pg_notify($1, $2)", params);
        if !matches!(timeout(Duration::from_secs(2), told).await, Ok(Ok(_))) {
            *slot = None;
        }
    }

    /// Listens on a channel, also after a reconnect.
    async fn hear(&self, channel: &'static str) -> Result<(), StoreError> {
        let mut slot = self.teller.lock().await;
        if slot.as_ref().is_none_or(Client::is_closed) {
            let client = self.connect().await?;
            let fast = "set synchronous_commit = off";
            client.batch_execute(fast).await.map_err(|err| self.problem(&err))?;
            *slot = Some(client);
        }
        if let Some(client) = slot.as_ref() {
            client.batch_execute(&format!("listen {channel}")).await.map_err(|err| self.problem(&err))?;
        }
        Ok(())
    }

    /// Listens again if the connection was lost.
    pub(super) async fn relisten(&self) {
        let is_lost = self.teller.try_lock().is_ok_and(|it| it.as_ref().is_none_or(Client::is_closed));
        if is_lost && self.hear(LEDGER_CHANNEL).await.is_ok() {
            for (channel, hears) in [(RUN_CHANNEL, &self.hears_runs), (LIVE_CHANNEL, &self.hears_live)] {
                if hears.load(Ordering::Relaxed) {
                    let _ = self.hear(channel).await;
                }
            }
        }
    }

    pub(super) fn ledger_news(&self) -> watch::Receiver<u64> {
        self.told.ledger.subscribe()
    }

    pub(super) async fn run_news(&self) -> watch::Receiver<u64> {
        if !self.hears_runs.swap(true, Ordering::Relaxed) {
            let _ = self.hear(RUN_CHANNEL).await;
        }
        self.told.runs.subscribe()
    }

    pub(super) async fn live_news(&self) -> broadcast::Receiver<String> {
        let heard = self.told.live.subscribe();
        if !self.hears_live.swap(true, Ordering::Relaxed) {
            let _ = self.hear(LIVE_CHANNEL).await;
        }
        heard
    }
}

/// Formats an error with its source; the outer one only says "error connecting".
fn source_of(err: &tokio_postgres::Error) -> String {
    match std::error::Error::source(err) {
        Some(source) => format!("{err}: {source}"),
        None => err.to_string(),
    }
}
