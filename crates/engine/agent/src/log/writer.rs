//! Writing a log that may not be writable for a while.

use std::{
    collections::VecDeque,
    io,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use super::{LogEntry, LogFile, RemoteLogFuture};

/// So many bytes of lines wait for a log that cannot be written; tests need
/// less to reach the bound.
const MAX_WAITING: usize = if cfg!(test) { 64 << 10 } else { 32 << 20 };

/// The log of a conversation, shared with who writes down calls before they
/// run. Clones are the same log.
///
/// **Invariant:** lines reach the file whole and in order. Lines that cannot be
/// written wait, up to a bound, and are written before all later ones.
///
/// A line counts as written when the kernel has it: it survives the end of this
/// process, however that comes, but not a power cut.
#[derive(Clone, Default)]
pub(crate) struct LogWriter(Arc<Mutex<LogQueue>>);

/// A log that is let go of when its conversation is.
#[derive(Clone)]
pub(crate) struct WeakLogWriter(Weak<Mutex<LogQueue>>);

impl WeakLogWriter {
    /// The log, unless its conversation is gone.
    pub(crate) fn upgrade(&self) -> Option<LogWriter> {
        self.0.upgrade().map(LogWriter)
    }
}

#[derive(Default)]
struct LogQueue {
    file: Option<LogFile>,
    /// Who writes, said behind the first lines.
    introduction: Option<LogEntry>,
    /// Entries as they were written, for whoever mirrors the log.
    mirror: Option<Vec<LogEntry>>,
    /// Whole lines that are not in the file yet.
    waiting: VecDeque<Vec<u8>>,
    waiting_bytes: usize,
    /// How much of the first of them is, and how long the file was then.
    begun: Option<(usize, u64)>,
    /// The file ends with a part of a line that will not be continued.
    is_torn: bool,
    /// Lines there was no room for.
    lost: usize,
    trouble: LogWriteError,
}

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum LogWriteError {
    #[default]
    None,
    /// The log cannot be written, and nobody was told.
    Untold,
    /// The log cannot be written, and the person knows.
    Told,
    /// The log can be written again, and nobody was told.
    Over { lost: usize },
}

impl LogWriter {
    fn queue(&self) -> MutexGuard<'_, LogQueue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same log, for those who must not keep it open.
    pub(crate) fn downgrade(&self) -> WeakLogWriter {
        WeakLogWriter(Arc::downgrade(&self.0))
    }

    /// Writes to this file from now on.
    pub(crate) fn attach(&self, file: LogFile, introduction: LogEntry) {
        let mut queue = self.queue();
        let mirror = queue.mirror.take();
        *queue =
            LogQueue { file: Some(file), introduction: Some(introduction), mirror, ..LogQueue::default() };
    }

    /// Keeps what is written from now on, behind these.
    pub(crate) fn mirror(&self, first: &[LogEntry]) {
        self.queue().mirror.get_or_insert_with(|| first.to_vec());
    }

    pub(crate) fn is_mirrored(&self) -> bool {
        self.queue().mirror.is_some()
    }

    pub(crate) fn take_mirrored(&self) -> Vec<LogEntry> {
        self.queue().mirror.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Appends entries in one write. Those that cannot be written wait. The first
    /// failure is an error, for the person; those that follow are not.
    pub(crate) fn append(&self, entries: Vec<LogEntry>) -> io::Result<()> {
        let mut queue = self.queue();
        let written = if queue.file.is_some() { queue.append(&entries) } else { Ok(()) };
        if let Some(mirror) = &mut queue.mirror {
            mirror.extend(entries);
        }
        written
    }

    /// Appends entries that the mirror has already. A failure is left to be told
    /// by the next line.
    pub(crate) fn write_down(&self, entries: &[LogEntry]) {
        let mut queue = self.queue();
        if queue.append(entries).is_err() {
            queue.trouble = LogWriteError::Untold;
        }
    }

    /// Appends one entry, and everything that waits before it. An entry that
    /// cannot be written is forgotten: what it says does not happen. Where lines
    /// go to a store as well, what comes back is to be waited for.
    pub(crate) fn acknowledge(
        &self,
        entry: LogEntry,
    ) -> Result<Option<RemoteLogFuture>, (PathBuf, io::Error)> {
        let mut queue = self.queue();
        let Some(path) = queue.file.as_ref().map(|file| file.path().to_owned()) else { return Ok(None) };
        queue.acknowledge(&entry).map_err(|err| (path, err))?;
        if let Some(mirror) = &mut queue.mirror {
            mirror.push(entry);
        }
        Ok(queue.file.as_ref().and_then(LogFile::fence).map(super::RemoteLogHandle::settled))
    }

    /// Says once that the log is written again after the person was told that it
    /// is not.
    pub(crate) fn take_recovery(&self) -> Option<String> {
        let mut queue = self.queue();
        let LogWriteError::Over { lost } = queue.trouble else { return None };
        queue.trouble = LogWriteError::None;
        Some(match lost {
            0 => String::from("the session log is written again; nothing is missing in it"),
            lost => format!("the session log is written again; {lost} lines are missing in it"),
        })
    }
}

impl LogQueue {
    fn append(&mut self, entries: &[LogEntry]) -> io::Result<()> {
        if entries.is_empty() {
            return Ok(());
        }
        let mut bytes = Vec::new();
        for entry in entries.iter().chain(self.introduction.take().as_ref()) {
            serde_json::to_writer(&mut bytes, entry).map_err(io::Error::other)?;
            bytes.push(b'\n');
        }
        self.hand_over(&bytes);
        let ready = self.ready();
        let written = match ready {
            Ok(()) => self.write(&bytes),
            Err(err) => {
                self.wait(&bytes);
                Err(err)
            }
        };
        match written {
            Ok(()) => {
                self.is_over();
                Ok(())
            }
            Err(err) => match std::mem::replace(&mut self.trouble, LogWriteError::Told) {
                LogWriteError::Told => Ok(()),
                _ => Err(err),
            },
        }
    }

    fn acknowledge(&mut self, entry: &LogEntry) -> io::Result<()> {
        let mut bytes = serde_json::to_vec(entry).map_err(io::Error::other)?;
        bytes.push(b'\n');
        if let Some(introduction) = self.introduction.take() {
            self.append(&[introduction])?;
        }
        let written = self.ready().and_then(|()| {
            let (written, failed) = self.write_some(&bytes);
            self.is_torn |= failed.is_some() && 0 < written;
            failed.map_or(Ok(()), Err)
        });
        match &written {
            Ok(()) => {
                self.hand_over(&bytes);
                self.is_over();
            }
            Err(_) if self.trouble != LogWriteError::Told => self.trouble = LogWriteError::Untold,
            Err(_) => (),
        }
        written
    }

    /// Lines go to the store even where this machine cannot write them.
    fn hand_over(&self, lines: &[u8]) {
        if let Some(fence) = self.file.as_ref().and_then(LogFile::fence) {
            fence.take(lines);
        }
    }

    fn is_over(&mut self) {
        self.trouble = match self.trouble {
            LogWriteError::Told => LogWriteError::Over { lost: std::mem::take(&mut self.lost) },
            LogWriteError::Untold => LogWriteError::None,
            trouble => trouble,
        };
    }

    /// Makes the file ready for the next line: it is there, ends with a whole
    /// line, and nothing waits any more.
    fn ready(&mut self) -> io::Result<()> {
        let Some(file) = &mut self.file else { return Ok(()) };
        if file.is_deleted() {
            *file = file.again()?;
            (self.begun, self.is_torn) = (None, false);
        }
        if self.waiting.is_empty() && !self.is_torn {
            return Ok(());
        }
        if let Some((_, length)) = self.begun
            && file.length()? != length
        {
            // Somebody else appended behind the part: the line comes again, whole.
            self.begun = None;
            self.is_torn = file.ends_torn()?;
        }
        if self.is_torn {
            let (_, failed) = self.write_some(b"\n");
            failed.map_or(Ok(()), Err)?;
            self.is_torn = false;
        }
        while let Some(line) = self.waiting.pop_front() {
            self.waiting_bytes -= line.len();
            let sent = self.begun.take().map_or(0, |(sent, _)| sent);
            let (written, failed) = self.write_some(&line[sent..]);
            if let Some(err) = failed {
                self.begin(sent + written);
                self.waiting_bytes += line.len();
                self.waiting.push_front(line);
                return Err(err);
            }
        }
        Ok(())
    }

    fn begin(&mut self, sent: usize) {
        let length = self.file.as_ref().and_then(|file| file.length().ok());
        self.begun = length.filter(|_| 0 < sent).map(|length| (sent, length));
        self.is_torn |= 0 < sent && self.begun.is_none();
    }

    /// Writes lines to a file that is ready; what is left of them waits.
    fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        let (written, failed) = self.write_some(lines);
        let Some(err) = failed else { return Ok(()) };
        let start = lines[..written].iter().rposition(|it| *it == b'\n').map_or(0, |at| at + 1);
        self.wait(&lines[start..]);
        self.begin(written - start);
        Err(err)
    }

    fn wait(&mut self, lines: &[u8]) {
        for line in lines.split_inclusive(|it| *it == b'\n') {
            // Once a line is lost, later ones are too: what is kept has no holes
            // but the one at its end.
            if 0 < self.lost || MAX_WAITING < self.waiting_bytes + line.len() {
                self.lost += 1;
            } else {
                self.waiting_bytes += line.len();
                self.waiting.push_back(line.to_vec());
            }
        }
    }

    /// How much was written, and why not more.
    fn write_some(&mut self, bytes: &[u8]) -> (usize, Option<io::Error>) {
        let Some(file) = &mut self.file else { return (bytes.len(), None) };
        let mut written = 0;
        while written < bytes.len() {
            match file.write(&bytes[written..]) {
                Ok(0) => return (written, Some(io::ErrorKind::WriteZero.into())),
                Ok(more) => written += more,
                Err(err) if err.kind() == io::ErrorKind::Interrupted => (),
                Err(err) => return (written, Some(err)),
            }
        }
        (written, None)
    }
}

#[cfg(test)]
#[path = "writer_tests.rs"]
mod tests;
