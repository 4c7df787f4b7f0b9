//! Web server for session pages, on loopback and protected by a token.

mod handlers;
mod request_guard;
mod static_assets;

use std::{
    collections::HashMap,
    io,
    net::SocketAddr,
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError, RwLock,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use axum::Router;
use haft_mcp_server::{AcceptLimits, accept};
use haft_model::Catalog;
use tokio::{net::TcpListener, task::JoinHandle};
use tokio_util::sync::CancellationToken;

use crate::{log_index::LogIndex, log_locations::LogLocations};

/// Settings of the server.
#[derive(Clone, Debug)]
pub struct ViewerConfig {
    /// Address to listen on; port 0 selects a free one.
    pub listen: SocketAddr,
    /// Whether pages may undo changes.
    pub allow_undo: bool,
    /// Haft's state directory, with the undo journal.
    pub state_dir: Option<PathBuf>,
    /// Time without a page after which the server exits.
    pub idle: Duration,
}

/// A running server.
pub struct ViewServer {
    pub address: SocketAddr,
    /// Token that requests must present.
    pub token: String,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl ViewServer {
    /// Returns the URL of a log's page, or of the overview. The token is in the fragment, which browsers
    /// do not send.
    pub fn url(&self, key: Option<&str>) -> String {
        let session = key.map(|key| format!("&s={key}")).unwrap_or_default();
        format!("http://{}/#t={}{session}", self.address, self.token)
    }

    /// Waits until the server is idle for long enough, or stopped.
    pub async fn wait(self) {
        self.task.await.ok();
    }

    /// Returns a token that stops the server when cancelled.
    pub fn stopper(&self) -> CancellationToken {
        self.stop.clone()
    }
}

/// State shared by requests.
pub(crate) struct ViewerState {
    pub(crate) token: String,
    pub(crate) port: u16,
    pub(crate) listen: SocketAddr,
    pub(crate) setting: ViewerConfig,
    pub(crate) places: LogLocations,
    pub(crate) catalog: Arc<Catalog>,
    open: Mutex<HashMap<String, Arc<RwLock<LogIndex>>>>,
    /// Serialises reading of logs.
    reading: Mutex<()>,
    used: Mutex<Instant>,
    /// Number of pages that follow a log.
    following: AtomicUsize,
    pub(crate) stop: CancellationToken,
}

/// Maximum indexes in memory.
const MAX_OPEN: usize = 8;

/// Maximum unindexed bytes of a log that are read before responding.
const QUICKLY_READ: u64 = 8 << 20;

/// How often idleness is checked.
const LOOK: Duration = Duration::from_millis(500);

/// Counts a page that follows a log while it exists.
pub(crate) struct Follower(Arc<ViewerState>);

impl Drop for Follower {
    fn drop(&mut self) {
        self.0.following.fetch_sub(1, Ordering::Relaxed);
        self.0.touch();
    }
}

impl ViewerState {
    pub(crate) fn touch(&self) {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    pub(crate) fn follow(self: &Arc<Self>) -> Follower {
        self.following.fetch_add(1, Ordering::Relaxed);
        Follower(Arc::clone(self))
    }

    fn is_unused(&self) -> bool {
        let used = *self.used.lock().unwrap_or_else(PoisonError::into_inner);
        self.following.load(Ordering::Relaxed) == 0 && self.setting.idle < used.elapsed()
    }

    fn known(&self, key: &str) -> Option<Arc<RwLock<LogIndex>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    /// Returns the directory for cached summaries and indexes.
    pub(crate) fn cache_dir(&self) -> Option<PathBuf> {
        let dir = self.setting.state_dir.as_ref().map(|it| it.join("view"));
        dir.filter(|it| std::fs::create_dir_all(it).is_ok())
    }

    /// Returns the end of a log, if reading all of it would take long.
    pub(crate) fn tail(&self, key: &str) -> io::Result<Option<LogIndex>> {
        let path = self.places.path(key).ok_or(io::ErrorKind::NotFound)?;
        let is_quick = self.known(key).is_some()
            || LogIndex::unindexed(&path, self.cache_dir().as_deref()) <= QUICKLY_READ;
        if is_quick { Ok(None) } else { LogIndex::tail(&path, &self.catalog).map(Some) }
    }

    /// Returns the index of a log, reading it if it is not in memory. Blocks.
    pub(crate) fn index(&self, key: &str) -> io::Result<Arc<RwLock<LogIndex>>> {
        if let Some(index) = self.known(key) {
            return Ok(index);
        }
        let path = self.places.path(key).ok_or(io::ErrorKind::NotFound)?;
        let _one = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(index) = self.known(key) {
            return Ok(index);
        }
        let kept = self.cache_dir();
        let index = LogIndex::open(&path, Arc::clone(&self.catalog), kept.as_deref())?;
        let index = Arc::new(RwLock::new(index));
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if MAX_OPEN <= open.len() {
            open.clear();
        }
        open.insert(key.to_owned(), Arc::clone(&index));
        Ok(index)
    }
}

/// Starts a server for these logs.
pub async fn serve(
    places: LogLocations,
    setting: ViewerConfig,
    catalog: Arc<Catalog>,
) -> io::Result<ViewServer> {
    if setting.allow_undo && !setting.listen.ip().is_loopback() {
        let reason = "changes can be taken back only from this machine";
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, reason));
    }
    let listener = TcpListener::bind(setting.listen).await?;
    let address = listener.local_addr()?;
    let token = format!("{}{}", uuid::Uuid::new_v4().simple(), uuid::Uuid::new_v4().simple());
    let stop = CancellationToken::new();
    let shared = Arc::new(ViewerState {
        token: token.clone(),
        port: address.port(),
        listen: address,
        setting,
        places,
        catalog,
        open: Mutex::default(),
        reading: Mutex::default(),
        used: Mutex::new(Instant::now()),
        following: AtomicUsize::new(0),
        stop: stop.clone(),
    });
    let app: Router = handlers::router(Arc::clone(&shared));
    let watched = Arc::clone(&shared);
    tokio::spawn(async move {
        loop {
            tokio::select! {
                () = watched.stop.cancelled() => return,
                () = tokio::time::sleep(LOOK) => (),
            }
            if watched.is_unused() {
                watched.stop.cancel();
            }
        }
    });
    let limits = AcceptLimits { connections: 256, header: Duration::from_secs(15) };
    let task = tokio::spawn(accept(listener, app, limits, stop.clone()));
    Ok(ViewServer { address, token, stop, task })
}
