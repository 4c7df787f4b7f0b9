use std::path::{Path, PathBuf};

use haft_types::SessionId;
use haft_workspace::ContentHash;

/// Where pictures and documents are unpacked. They are untrusted, and the
/// libraries that read them are large.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum MediaWork {
    /// On a thread of this process: panics and slowness are contained, but a
    /// document that needs all memory takes the process with it. For programs
    /// that have no worker.
    #[default]
    Thread,
    /// In a process of its own with limits on memory and time.
    Process(MediaWorker),
}

impl MediaWork {
    /// Makes a picture small enough: at most `side` pixels on its longer side
    /// and so many bytes. Its type and data, or `None` if that is not possible.
    /// Blocks.
    pub fn shrink(&self, image: &[u8], side: usize, bytes: usize) -> Option<(String, Vec<u8>)> {
        #[cfg(feature = "media")]
        return super::media::shrunk(self, image.to_vec(), side, bytes);
        #[cfg(not(feature = "media"))]
        return {
            let _ = (image, side, bytes);
            None
        };
    }
}

/// Where a session keeps pictures of pages. Nobody else's are there, so all of it
/// may be read back.
pub fn parts_dir(state: &Path, session: Option<&SessionId>) -> PathBuf {
    let session = session.map_or("none", SessionId::as_str);
    state.join("parts").join(ContentHash::hash(session.as_bytes()).short())
}

/// A program that does one piece of work and ends: it calls [`serve_media`]
/// with its last argument.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct MediaWorker {
    /// The program.
    pub program: PathBuf,
    /// What comes before the task.
    pub args: Vec<String>,
}

/// The other end of [`MediaWork::Process`]: reads the file on standard input
/// and writes the answer to standard output, within limits.
pub fn serve_media(task: &str) -> Result<(), String> {
    #[cfg(feature = "media")]
    return super::media::serve(task);
    #[cfg(not(feature = "media"))]
    return Err(format!("this build has no pictures and documents (asked for {task})"));
}
