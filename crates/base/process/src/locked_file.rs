use std::{fs::File, io, os::unix::fs::MetadataExt as _, path::PathBuf, time::Duration};

use rustix::fs::{FlockOperation, flock};

/// How often, and how long after each other, a file is taken that another
/// process looks at or has just removed: a process that starts looks whether the
/// file is left over.
const TRIES: u32 = 40;
const PAUSE: Duration = Duration::from_millis(5);

/// Opens a file of a session and locks it for as long as the returned handle
/// lives. What was removed between the two does not count: the file is opened
/// again. Fails if another process keeps the lock. Blocks, a fifth of a second
/// at most.
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

/// The name of a file for an id, which may be any text: letters, digits, `-`
/// and `_` stay, everything else becomes `_`, and 100 characters are enough.
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
