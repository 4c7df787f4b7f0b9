//! Pages of sessions, on this machine, for whoever has the address.

mod answers;
mod guard;
mod pages;

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

use crate::{index::LogIndex, places::LogPlaces};

/// How pages are served.
#[derive(Clone, Debug)]
pub struct ViewSetting {
    /// Where to listen; port 0 takes any that is free.
    pub listen: SocketAddr,
    /// Whether pages may take changes back.
    pub allow_undo: bool,
    /// Haft's own directory, with the record of changes.
    pub state_dir: Option<PathBuf>,
    /// Ends after so long without a page.
    pub idle: Duration,
}

/// Pages that are served.
pub struct ViewServer {
    /// Where.
    pub address: SocketAddr,
    /// What whoever asks has to know.
    pub token: String,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl ViewServer {
    /// The address of a page: of one log, or of all of them. The token is in the
    /// fragment, which no server and no log ever sees.
    pub fn url(&self, key: Option<&str>) -> String {
        let session = key.map(|key| format!("&s={key}")).unwrap_or_default();
        format!("http://{}/#t={}{session}", self.address, self.token)
    }

    /// Waits until nobody used it for long enough, or it is stopped.
    pub async fn wait(self) {
        self.task.await.ok();
    }

    /// What stops it.
    pub fn stopper(&self) -> CancellationToken {
        self.stop.clone()
    }
}

/// What requests share.
pub(crate) struct ViewShared {
    pub(crate) token: String,
    pub(crate) port: u16,
    pub(crate) listen: SocketAddr,
    pub(crate) setting: ViewSetting,
    pub(crate) places: LogPlaces,
    pub(crate) catalog: Arc<Catalog>,
    open: Mutex<HashMap<String, Arc<RwLock<LogIndex>>>>,
    used: Mutex<Instant>,
    /// Pages that follow a log now.
    following: AtomicUsize,
    pub(crate) stop: CancellationToken,
}

/// Logs whose indexes are in memory.
const MOST_OPEN: usize = 8;

/// How often it is looked whether anybody is there.
const LOOK: Duration = Duration::from_millis(500);

/// A page that follows a log.
pub(crate) struct Follower(Arc<ViewShared>);

impl Drop for Follower {
    fn drop(&mut self) {
        self.0.following.fetch_sub(1, Ordering::Relaxed);
        self.0.touch();
    }
}

impl ViewShared {
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

    /// The index of a log, read now if it is not in memory. Waits for the disk.
    pub(crate) fn index(&self, key: &str) -> io::Result<Arc<RwLock<LogIndex>>> {
        let known = self.open.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned();
        if let Some(index) = known {
            return Ok(index);
        }
        let path = self.places.path(key).ok_or(io::ErrorKind::NotFound)?;
        let index = Arc::new(RwLock::new(LogIndex::read(&path, Arc::clone(&self.catalog))?));
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if MOST_OPEN <= open.len() {
            open.clear();
        }
        open.insert(key.to_owned(), Arc::clone(&index));
        Ok(index)
    }
}

/// Serves pages of these logs.
pub async fn serve(places: LogPlaces, setting: ViewSetting, catalog: Arc<Catalog>) -> io::Result<ViewServer> {
    if setting.allow_undo && !setting.listen.ip().is_loopback() {
        let reason = "changes can be taken back only from this machine";
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, reason));
    }
    let listener = TcpListener::bind(setting.listen).await?;
    let address = listener.local_addr()?;
    let token = format!("{}{}", uuid::Uuid::new_v4().simple(), uuid::Uuid::new_v4().simple());
    let stop = CancellationToken::new();
    let shared = Arc::new(ViewShared {
        token: token.clone(),
        port: address.port(),
        listen: address,
        setting,
        places,
        catalog,
        open: Mutex::default(),
        used: Mutex::new(Instant::now()),
        following: AtomicUsize::new(0),
        stop: stop.clone(),
    });
    let app: Router = answers::router(Arc::clone(&shared));
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
