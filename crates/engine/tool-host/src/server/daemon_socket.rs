//! The daemon that outlives connections: listens on a Unix socket of the user and exits when idle.

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

/// Maximum bytes of a socket path on all platforms.
const LONGEST: usize = 100;

/// Delay after `accept` failed for lack of file descriptors.
const NO_ROOM: Duration = Duration::from_millis(100);

/// Location of a user's daemon.
#[derive(Clone, Debug)]
pub struct SocketPath {
    pub socket: PathBuf,
    /// Lock file with the process id, locked while the daemon runs.
    pub lock: PathBuf,
}

impl SocketPath {
    /// Returns the location for a directory, which is created with access for its owner only. A path too
    /// long for a socket is replaced by a hash in the temporary directory.
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

    /// Connects to the daemon, if it is running.
    pub async fn connect(&self) -> io::Result<UnixStream> {
        UnixStream::connect(&self.socket).await
    }

    /// Returns the daemon's process id, if it is running.
    pub fn pid(&self) -> Option<u32> {
        let file = File::options().read(true).write(true).open(&self.lock).ok()?;
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => std::fs::read_to_string(&self.lock).ok()?.trim().parse().ok(),
            _ => None,
        }
    }
}

/// Serves clients on a socket until `stop`, or until there was no client for `idle`. Returns at once if
/// another process already does.
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
    // A stale socket: this process holds the lock.
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
    // Clients that connect from now on find no daemon and start another one when the lock is free.
    std::fs::remove_file(&place.socket).ok();
    drop(listener);
    runs.close_all().await;
    drop(lock);
    Ok(())
}
