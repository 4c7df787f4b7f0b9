//! The process that outlives connections: it listens at a socket of the person's
//! own, and ends by itself.

use std::{
    fs::{DirBuilder, File, TryLockError},
    io,
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use tokio::net::{UnixListener, UnixStream};
use tokio_util::sync::CancellationToken;

use super::{client_connection, run_registry::HostRunRegistry};
use crate::line_pipe::LinePipe;

/// The longest path that a socket may have everywhere.
const LONGEST: usize = 100;

/// How long to wait when the machine has no connection left for us.
const NO_ROOM: Duration = Duration::from_millis(100);

/// Where the process of a person is found.
#[derive(Clone, Debug)]
pub struct SocketPath {
    /// The socket.
    pub socket: PathBuf,
    /// Held by the process as long as it lives; its pid is in it.
    pub lock: PathBuf,
}

impl SocketPath {
    /// The place that belongs to a directory, which only its owner sees into.
    pub fn below(dir: &Path) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        let (usual, lock) = (dir.join("socket"), dir.join("lock"));
        if usual.as_os_str().len() <= LONGEST {
            return Ok(Self { socket: usual, lock });
        }
        let user = std::fs::metadata(dir)?.uid();
        let short = std::env::temp_dir().join(format!("haft-{user}"));
        DirBuilder::new().recursive(true).mode(0o700).create(&short)?;
        let about = std::fs::symlink_metadata(&short)?;
        if !about.is_dir() || about.uid() != user || about.mode() & 0o077 != 0 {
            let reason = format!("{} is not a directory of yours alone", short.display());
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, reason));
        }
        let name = blake3::hash(dir.as_os_str().as_encoded_bytes()).to_hex()[..16].to_owned();
        Ok(Self { socket: short.join(name), lock })
    }

    /// Connects to the process, if it is there.
    pub async fn connect(&self) -> io::Result<UnixStream> {
        UnixStream::connect(&self.socket).await
    }

    /// The process, if it is there.
    pub fn pid(&self) -> Option<u32> {
        let file = File::options().read(true).write(true).open(&self.lock).ok()?;
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => std::fs::read_to_string(&self.lock).ok()?.trim().parse().ok(),
            _ => None,
        }
    }
}

/// Serves callers at a socket until `stop`, or until nobody was there for
/// `idle`. Returns at once where another process does so already.
pub async fn serve_socket(
    place: &SocketPath,
    runs: Arc<HostRunRegistry>,
    idle: Duration,
    stop: CancellationToken,
) -> io::Result<()> {
    let lock = File::options().write(true).create(true).truncate(false).mode(0o600).open(&place.lock)?;
    match lock.try_lock() {
        Err(TryLockError::WouldBlock) => return Ok(()),
        Err(TryLockError::Error(err)) => return Err(err),
        Ok(()) => (),
    }
    lock.set_len(0)?;
    std::fs::write(&place.lock, std::process::id().to_string())?;
    // The one that listened there is gone: we have its lock.
    std::fs::remove_file(&place.socket).ok();
    let listener = UnixListener::bind(&place.socket)?;
    let mut busy = runs.busy.subscribe();
    loop {
        let is_idle = *busy.borrow_and_update() == 0;
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    let (from, to) = stream.into_split();
                    tokio::spawn(client_connection::serve(LinePipe::of_streams(from, to), Arc::clone(&runs)));
                }
                Err(_) => tokio::time::sleep(NO_ROOM).await,
            },
            _ = busy.changed() => (),
            () = tokio::time::sleep(idle), if is_idle => break,
            () = stop.cancelled() => break,
        }
    }
    // Who connects from now on finds nobody, and starts another one when the lock is free.
    std::fs::remove_file(&place.socket).ok();
    drop(listener);
    runs.close_all().await;
    drop(lock);
    Ok(())
}
