//! Opens a store by its address.

use std::{fmt, path::PathBuf, sync::Arc, time::Instant};

use url::Url;

use crate::{
    EngineFinding, FleetName, FleetStore, StoreError,
    engine::{
        FleetEngine, health_check::finding, nats::NatsEngine, postgres::PostgresEngine, sqlite::SqliteEngine,
    },
    store::{BigLineLogs, CheckedBlobs, LedgerQueue, LedgerSchedules, StoreCore, scoped},
};

/// Engine and location of a store.
#[derive(Clone, PartialEq, Eq)]
pub enum FleetAddress {
    /// A local file.
    Sqlite(PathBuf),
    /// Servers of one NATS cluster, with credentials if the URLs contain any.
    Nats(Vec<Url>),
    /// URL of a PostgreSQL database.
    Postgres(String),
}

impl FleetAddress {
    /// Parses `sqlite:PATH`, `nats://a,b,c` (or `tls://…`) or `postgres://…`.
    ///
    /// # Errors
    /// [`StoreError::Refused`] for anything else; the message contains no credentials.
    pub fn parse(text: &str) -> Result<Self, StoreError> {
        let refused = |why: &str| StoreError::Refused(format!("not the address of a fleet: {why}"));
        if let Some(path) = text.strip_prefix("sqlite:") {
            let path = path.strip_prefix("//").unwrap_or(path);
            return if path.is_empty() {
                Err(refused("sqlite: needs a file"))
            } else {
                Ok(Self::Sqlite(path.into()))
            };
        }
        if text.starts_with("postgres://") || text.starts_with("postgresql://") {
            return Ok(Self::Postgres(text.to_owned()));
        }
        let Some((scheme @ ("nats" | "tls"), servers)) = text.split_once("://") else {
            return Err(refused("it begins with sqlite:, nats://, tls:// or postgres://"));
        };
        // Credentials in front of the first server apply to all.
        let (user, servers) =
            servers.rsplit_once('@').map_or((None, servers), |(user, rest)| (Some(user), rest));
        let urls = servers.trim_end_matches('/').split(',').map(|server| {
            let server = server.trim().trim_start_matches("nats://").trim_start_matches("tls://");
            let user = user.map(|it| format!("{it}@")).unwrap_or_default();
            Url::parse(&format!("{scheme}://{user}{server}")).map_err(|err| refused(&err.to_string()))
        });
        let urls: Vec<Url> = urls.collect::<Result<_, _>>()?;
        if urls.iter().any(|it| it.host_str().is_none_or(str::is_empty)) {
            return Err(refused("a server has no host"));
        }
        Ok(Self::Nats(urls))
    }
}

/// Omits credentials.
impl fmt::Display for FleetAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(path) => write!(f, "sqlite:{}", path.display()),
            Self::Nats(urls) => {
                let hosts = urls.iter().map(|it| {
                    let port = it.port().map(|port| format!(":{port}")).unwrap_or_default();
                    format!("{}{port}", it.host_str().unwrap_or_default())
                });
                write!(f, "nats://{}", hosts.collect::<Vec<_>>().join(","))
            }
            Self::Postgres(text) => {
                let rest = text.split_once("://").map_or(text.as_str(), |it| it.1);
                let rest = rest.split('?').next().unwrap_or(rest);
                let rest = rest.rsplit_once('@').map_or(rest, |it| it.1);
                write!(f, "postgres://{rest}")
            }
        }
    }
}

impl fmt::Debug for FleetAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FleetStore {
    /// Opens a store with full access; creates missing tables and streams.
    ///
    /// # Errors
    /// The engine cannot be reached, has no space left, or has an unsupported version.
    pub async fn open(address: &FleetAddress) -> Result<Self, StoreError> {
        let engine: Arc<dyn FleetEngine> = match address {
            FleetAddress::Sqlite(path) => Arc::new(SqliteEngine::open(path).await?),
            FleetAddress::Nats(urls) => Arc::new(NatsEngine::open(urls, address.to_string()).await?),
            FleetAddress::Postgres(text) => Arc::new(PostgresEngine::open(text, address.to_string()).await?),
        };
        let core = StoreCore::start(engine.clone()).await?;
        Ok(Self {
            queue: Arc::new(LedgerQueue(core.clone())),
            log: Arc::new(BigLineLogs::new(core.clone())),
            blobs: Arc::new(CheckedBlobs(core.clone())),
            clockwork: Arc::new(LedgerSchedules(core)),
            engine,
        })
    }

    /// Returns the store restricted to one tenant: its own jobs, logs and blobs; all others appear not
    /// to exist. It can submit, read, send control entries and cancel, but not take jobs.
    #[must_use]
    pub fn for_tenant(&self, tenant: FleetName) -> Self {
        scoped(self, tenant)
    }

    /// Checks the engine: version, settings, free space, clock, round-trip time.
    ///
    /// # Errors
    /// The engine cannot be reached.
    pub async fn check_health(&self) -> Result<Vec<EngineFinding>, StoreError> {
        let mut findings = self.engine.check_health().await?;
        let begin = Instant::now();
        self.clockwork.count(String::from("haft/examined"), 1, None).await?;
        let took = begin.elapsed();
        let said = format!("a write and its sync took {:.1} ms", took.as_secs_f64() * 1_000.0);
        let round_trip = finding("round trip", took.as_millis() < 250, said);
        findings.push(round_trip.advice("the engine is far away or its disk is slow").done());
        Ok(findings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn store_addresses_parse_and_hide_credentials() {
        for (text, shown) in [
            ("sqlite:/tmp/a.db", "sqlite:/tmp/a.db"),
            ("sqlite:///tmp/a.db", "sqlite:/tmp/a.db"),
            ("nats://a,b:4223,c", "nats://a,b:4223,c"),
            ("nats://me:secret@a,b", "nats://a,b"),
            ("tls://token@a:4222", "nats://a:4222"),
            ("postgres://me:p@ss@db/fleet?sslmode=require", "postgres://db/fleet"),
            ("postgresql://db/fleet", "postgres://db/fleet"),
        ] {
            assert_eq!(FleetAddress::parse(text).map(|it| format!("{it:?}")).as_deref(), Ok(shown), "{text}");
        }
        for text in ["", "sqlite:", "http://x", "nats://", "nats://a,,b", "/tmp/x.db"] {
            assert!(FleetAddress::parse(text).is_err(), "{text}");
        }
    }
}
