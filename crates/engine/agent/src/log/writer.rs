//! Writes a log that may be temporarily unwritable.

use std::{
    collections::VecDeque,
    io,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use super::{LogEntry, LogFile, RemoteLogFuture};

/// Maximum bytes of lines that wait for an unwritable log; smaller in tests.
const MAX_WAITING: usize = if cfg!(test) { 64 << 10 } else { 32 << 20 };

/// The log of a conversation, shared with the component that logs calls before they run. Clones share
/// the log.
///
/// **Invariant:** lines are written completely and in order. Lines that cannot be written wait, up
/// to a limit, and are written before later ones.
///
/// A line counts as written when the kernel has accepted it: it survives the end of the process, but not
/// a power failure.
#[derive(Clone, Default)]
pub(crate) struct LogWriter(Arc<Mutex<LogQueue>>);

/// A weak reference, which does not keep the log open.
#[derive(Clone)]
pub(crate) struct WeakLogWriter(Weak<Mutex<LogQueue>>);

impl WeakLogWriter {
    /// The log, unless its conversation was dropped.
    pub(crate) fn upgrade(&self) -> Option<LogWriter> {
        self.0.upgrade().map(LogWriter)
    }
}

#[derive(Default)]
struct LogQueue {
    file: Option<LogFile>,
    /// Line about the writer, written after the first lines.
    introduction: Option<LogEntry>,
    /// Entries as written, for mirroring.
    mirror: Option<Vec<LogEntry>>,
    /// Complete lines that are not in the file yet.
    waiting: VecDeque<Vec<u8>>,
    waiting_bytes: usize,
    /// Number of bytes of the first waiting line that were written, and the length of the file then.
    begun: Option<(usize, u64)>,
    /// Whether the file ends with a partial line that will not be continued.
    is_torn: bool,
    /// Number of lines dropped because the queue was full.
    lost: usize,
    trouble: LogWriteError,
    /// Calls that did not run because their line could not be written.
    refused: Vec<UnloggedCall>,
}

/// A call that did not run because the log was not writable.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct UnloggedCall {
    pub(crate) tool: String,
    /// Prefix of its input's hash.
    pub(crate) input: String,
}

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum LogWriteError {
    #[default]
    None,
    /// The log is not writable, and this was not reported.
    Untold,
    /// The log is not writable, and the user was told.
    Told,
    /// The log is writable again, and this was not reported.
    Over { lost: usize },
}

impl LogWriter {
    fn queue(&self) -> MutexGuard<'_, LogQueue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A weak reference to the log.
    pub(crate) fn downgrade(&self) -> WeakLogWriter {
        WeakLogWriter(Arc::downgrade(&self.0))
    }

    /// Sets the file to write to.
    pub(crate) fn attach(&self, file: LogFile, introduction: LogEntry) {
        let mut queue = self.queue();
        let (mirror, refused) = (queue.mirror.take(), std::mem::take(&mut queue.refused));
        *queue = LogQueue {
            file: Some(file),
            introduction: Some(introduction),
            mirror,
            refused,
            ..LogQueue::default()
        };
    }

    /// Collects entries from now on, after these.
    pub(crate) fn mirror(&self, first: &[LogEntry]) {
        self.queue().mirror.get_or_insert_with(|| first.to_vec());
    }

    pub(crate) fn is_mirrored(&self) -> bool {
        self.queue().mirror.is_some()
    }

    pub(crate) fn take_mirrored(&self) -> Vec<LogEntry> {
        self.queue().mirror.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Appends entries with one write. Entries that cannot be written wait. Only the first failure is
    /// returned as an error, for the user.
    pub(crate) fn append(&self, entries: Vec<LogEntry>) -> io::Result<()> {
        let mut queue = self.queue();
        let written = if queue.file.is_some() { queue.append(&entries) } else { Ok(()) };
        if let Some(mirror) = &mut queue.mirror {
            mirror.extend(entries);
        }
        written
    }

    /// Appends entries that were mirrored already. A failure is reported with the next line.
    pub(crate) fn write_down(&self, entries: &[LogEntry]) {
        let mut queue = self.queue();
        if queue.append(entries).is_err() {
            queue.trouble = LogWriteError::Untold;
        }
    }

    /// Appends an entry after everything that waits. If that fails, the entry is dropped: the call it
    /// announces must not run. With a remote store, the returned future must be awaited.
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

    /// Records a call that does not run because its line was not written.
    pub(crate) fn refuse(&self, call: UnloggedCall) {
        self.queue().refused.push(call);
    }

    /// Removes a call from the refused ones, because it runs now.
    pub(crate) fn runs_now(&self, call: &UnloggedCall) {
        self.queue().refused.retain(|it| it != call);
    }

    /// A text about the calls refused since the last time that have not run.
    pub(crate) fn take_refused(&self) -> Option<String> {
        let mut queue = self.queue();
        let refused = std::mem::take(&mut queue.refused);
        let mut tools: Vec<&str> = refused.iter().map(|it| it.tool.as_str()).collect();
        tools.dedup();
        let place = queue.file.as_ref().map(|it| it.path().display().to_string()).unwrap_or_default();
        (!refused.is_empty()).then(|| {
            format!(
                "calls that may change something did not run ({}), because the session log {place} could not be \
                 written: make room there, or set HAFT_CONFIG_DIR to another directory, and run this again",
                tools.join(", ")
            )
        })
    }

    /// Reports once that the log is writable again, if the user was told that it was not.
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

    /// Sends lines to the remote store, even if the local file is not writable.
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

    /// Prepares the file for the next line: it exists, ends with a complete line, and nothing waits.
    fn ready(&mut self) -> io::Result<()> {
        let Some(file) = &mut self.file else { return Ok(()) };
        if file.is_deleted() {
            *file = file.reopened()?;
            (self.begun, self.is_torn) = (None, false);
        }
        if self.waiting.is_empty() && !self.is_torn {
            return Ok(());
        }
        if let Some((_, length)) = self.begun
            && file.length()? != length
        {
            // Another writer appended after the partial line, so the line is written again completely.
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

    /// Writes lines to a prepared file. The rest waits.
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
            // After a dropped line, later ones are dropped too, so that the log has a gap only at its
            // end.
            if 0 < self.lost || MAX_WAITING < self.waiting_bytes + line.len() {
                self.lost += 1;
            } else {
                self.waiting_bytes += line.len();
                self.waiting.push_back(line.to_vec());
            }
        }
    }

    /// Writes bytes. Returns how many were written, and the error if not all.
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
