use std::{fs::File, io, os::unix::fs::MetadataExt as _, path::PathBuf, time::Duration};

use rustix::fs::{FlockOperation, flock};

/// Attempts to lock a file that another process holds or has just removed, with `PAUSE` between them. A
/// starting process holds each registry briefly to see whether it is left over.
const TRIES: u32 = 40;
const PAUSE: Duration = Duration::from_millis(5);

/// Opens a session's file and locks it exclusively until the returned handle is dropped. Opens it again
/// if the path was removed or replaced before the lock was taken. Fails if another process keeps the
/// lock for about 200 ms. Blocks up to that long.
pub fn lock_session_file(session: &str, open: impl Fn() -> io::Result<(File, PathBuf)>) -> io::Result<File> {
    let attempt = || {
        let (file, path) = open()?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        let (held, there) = (file.metadata()?, std::fs::metadata(path)?);
        if (held.dev(), held.ino()) == (there.dev(), there.ino()) {
            Ok(file)
        } else {
            Err(io::Error::from(io::ErrorKind::NotFound))
        }
    };
    for _ in 0..TRIES {
        match attempt() {
            Err(err) if matches!(err.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::NotFound) => {
                std::thread::sleep(PAUSE);
            }
            done => return done,
        }
    }
    attempt().map_err(|err| match err.kind() {
        io::ErrorKind::WouldBlock => {
            io::Error::other(format!("session {session} is in use by another process ({err})"))
        }
        _ => err,
    })
}

/// Maps an id to a file name: keeps letters, digits, `-` and `_`, replaces everything else by `_`, and
/// cuts it to 100 characters.
pub fn file_name_of_id(id: &str) -> String {
    let mut name: String = id
        .chars()
        .map(|it| if it.is_ascii_alphanumeric() || matches!(it, '-' | '_') { it } else { '_' })
        .take(100)
        .collect();
    if name.is_empty() {
        name.push('_');
    }
    name
}
