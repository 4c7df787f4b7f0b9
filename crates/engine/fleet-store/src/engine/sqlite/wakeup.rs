//! Wakes other processes on the machine: a byte is appended to a file beside the database after a
//! commit. (The database's own files change before a commit can be read.)

use std::{
    fs::{File, OpenOptions},
    os::unix::fs::{FileExt, OpenOptionsExt as _},
    path::{Path, PathBuf},
    time::Duration,
};

use tokio::sync::watch;

use super::{beside, database::make_private_dir};

/// Polling interval, for writers that were killed before they sent a wake-up.
const GLANCE: Duration = Duration::from_millis(500);

/// Polling interval if files cannot be watched.
const POLL: Duration = Duration::from_millis(20);

/// Sends and receives wake-ups.
pub(super) struct FileWakeup {
    path: PathBuf,
    file: Option<File>,
    heard: watch::Sender<u64>,
    listener: std::sync::Mutex<Option<tokio::task::AbortHandle>>,
}

impl Drop for FileWakeup {
    fn drop(&mut self) {
        let listener = self.listener.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
        if let Some(listener) = listener {
            listener.abort();
        }
    }
}

impl FileWakeup {
    pub(super) fn beside(database: &Path) -> Self {
        let path = beside(database, "-news");
        if let Some(dir) = path.parent() {
            let _ = make_private_dir(dir);
        }
        let file = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&path).ok();
        let heard = watch::Sender::new(0);
        Self { path, file, heard, listener: std::sync::Mutex::default() }
    }

    /// Wakes all processes, best effort.
    pub(super) fn tell(&self) {
        if let Some(file) = &self.file {
            let _ = file.write_at(b"n", 0);
        }
        self.heard.send_modify(|it| *it += 1);
    }

    /// Subscribes to wake-ups.
    pub(super) fn listen(&self) -> watch::Receiver<u64> {
        let mut listener = self.listener.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if listener.is_none() {
            *listener = Some(tokio::spawn(hear(self.path.clone(), self.heard.clone())).abort_handle());
        }
        self.heard.subscribe()
    }

    /// Waits for a wake-up, or until the polling interval has passed.
    pub(super) async fn wait(heard: &mut watch::Receiver<u64>) {
        let _ = tokio::time::timeout(GLANCE, heard.changed()).await;
    }
}

#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "tokio has no safe way to wait for a descriptor")]
fn register(descriptor: std::os::fd::OwnedFd) -> Option<tokio::io::unix::AsyncFd<std::os::fd::OwnedFd>> {
    // SAFETY: the descriptor is open, owned by the `AsyncFd` and never exchanged.
    unsafe { tokio::io::unix::AsyncFd::register(descriptor) }.ok()
}

#[cfg(target_os = "linux")]
async fn hear(path: PathBuf, heard: watch::Sender<u64>) {
    use rustix::fs::inotify;
    let watched = inotify::init(inotify::CreateFlags::NONBLOCK | inotify::CreateFlags::CLOEXEC)
        .and_then(|fd| inotify::add_watch(&fd, &path, inotify::WatchFlags::MODIFY).map(|_| fd));
    let Some(watched) = watched.ok().and_then(register) else {
        return poll(heard).await;
    };
    let mut events = [0_u8; 4_096];
    while let Ok(mut ready) = watched.readable().await {
        // The content of the events does not matter.
        while rustix::io::read(watched.get_ref(), &mut events[..]).is_ok_and(|read| read > 0) {}
        ready.clear_ready();
        heard.send_modify(|it| *it += 1);
    }
    poll(heard).await;
}

#[cfg(not(target_os = "linux"))]
async fn hear(_path: PathBuf, heard: watch::Sender<u64>) {
    poll(heard).await;
}

async fn poll(heard: watch::Sender<u64>) {
    loop {
        tokio::time::sleep(POLL).await;
        heard.send_modify(|it| *it += 1);
    }
}
