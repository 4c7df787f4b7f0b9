//! Journal of a run: started calls and their reports, on disk.
//!
//! The line for a started call is synced before the call runs. So a call with a line may have had its
//! effect and is never run again; a call without one had none.

use std::{
    collections::{HashMap, HashSet},
    fs::{DirBuilder, File, TryLockError},
    io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _},
    os::unix::fs::{DirBuilderExt as _, FileExt as _, OpenOptionsExt as _},
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use serde::{Deserialize, Serialize};

use crate::protocol::{CallFrame, CallKey, ReportFrame};

/// Journal of one run, locked by one process.
pub(crate) struct RunJournal(Mutex<OpenJournal>);

struct OpenJournal {
    file: File,
    /// File offset of the next line.
    end: u64,
    owner: EpochHolder,
    earlier: HashSet<String>,
    calls: HashMap<CallKey, JournaledCall>,
}

/// Owner of the current epoch.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
struct EpochHolder {
    epoch: u64,
    instance: String,
}

/// A call in the journal.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct JournaledCall {
    /// Hash of tool and input, to detect a different call with the same id.
    pub(crate) digest: String,
    /// Offset and length of its report, if it has ended.
    done: Option<(u64, usize)>,
}

#[derive(Deserialize, Serialize)]
#[serde(tag = "k", rename_all = "snake_case")]
enum JournalLine {
    Owner(EpochHolder),
    Started { key: CallKey, epoch: u64, tool: String, digest: String },
    Done { key: CallKey, report: Arc<ReportFrame> },
}

/// Why a journal cannot be opened.
#[derive(Debug)]
pub(crate) enum JournalError {
    /// Another process has locked it.
    TakenOrder,
    Disk(io::Error),
}

/// The epoch belongs to another client process.
#[derive(Debug, Eq, PartialEq)]
pub(crate) struct StaleEpoch {
    pub(crate) epoch: u64,
}

/// Why the start of a call was not recorded.
#[derive(Debug)]
pub(crate) enum NotStarted {
    /// The epoch is outdated; the current one.
    Fenced(u64),
    /// The call was recorded before.
    Again,
    Disk(io::Error),
}

impl RunJournal {
    /// Opens and locks the journal of a run.
    pub(crate) fn open(path: &Path) -> Result<Self, JournalError> {
        if let Some(dir) = path.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(JournalError::Disk)?;
        }
        let file = File::options().read(true).write(true).create(true).truncate(false).mode(0o600).open(path);
        let file = file.map_err(JournalError::Disk)?;
        file.try_lock().map_err(|err| match err {
            TryLockError::WouldBlock => JournalError::TakenOrder,
            TryLockError::Error(err) => JournalError::Disk(err),
        })?;
        let mut open = OpenJournal {
            file,
            end: 0,
            owner: EpochHolder::default(),
            earlier: HashSet::new(),
            calls: HashMap::new(),
        };
        open.read().map_err(JournalError::Disk)?;
        Ok(Self(Mutex::new(open)))
    }

    fn lock(&self) -> MutexGuard<'_, OpenJournal> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Assigns an epoch to a client process. A process that reconnects keeps its epoch; one that was
    /// replaced is rejected permanently.
    pub(crate) fn claim(&self, instance: &str, wanted: Option<u64>) -> Result<u64, JournalClaimError> {
        let mut open = self.lock();
        let current = open.owner.clone();
        let fenced = Err(JournalClaimError::Fenced(StaleEpoch { epoch: current.epoch }));
        let epoch = match wanted {
            _ if open.earlier.contains(instance) => return fenced,
            None if current.instance == instance => return Ok(current.epoch),
            None => current.epoch + 1,
            Some(epoch) if epoch == current.epoch && current.instance == instance => return Ok(epoch),
            Some(epoch) if epoch <= current.epoch && !current.instance.is_empty() => return fenced,
            Some(epoch) => epoch,
        };
        let owner = EpochHolder { epoch, instance: instance.to_owned() };
        open.write(&JournalLine::Owner(owner.clone())).map_err(JournalClaimError::Disk)?;
        open.file.sync_data().map_err(JournalClaimError::Disk)?;
        open.take_owner(owner);
        Ok(epoch)
    }

    /// Returns the current epoch.
    pub(crate) fn epoch(&self) -> u64 {
        self.lock().owner.epoch
    }

    /// Returns the record of a call.
    pub(crate) fn call(&self, key: &CallKey) -> Option<JournaledCall> {
        self.lock().calls.get(key).cloned()
    }

    /// Records the start of a call. On success the record is synced to disk.
    pub(crate) fn start(
        &self,
        key: &CallKey,
        epoch: u64,
        tool: &str,
        digest: &str,
    ) -> Result<(), NotStarted> {
        let mut open = self.lock();
        if epoch != open.owner.epoch {
            return Err(NotStarted::Fenced(open.owner.epoch));
        }
        if open.calls.contains_key(key) {
            return Err(NotStarted::Again);
        }
        let (tool, digest) = (tool.to_owned(), digest.to_owned());
        let line = JournalLine::Started { key: key.clone(), epoch, tool, digest: digest.clone() };
        // After a failed write the line may or may not be there; treat it as present.
        open.calls.insert(key.clone(), JournaledCall { digest, done: None });
        open.write(&line).map_err(NotStarted::Disk)?;
        open.file.sync_data().map_err(NotStarted::Disk)
    }

    /// Records the end of a call.
    pub(crate) fn end(&self, key: &CallKey, report: &Arc<ReportFrame>) -> io::Result<()> {
        let mut open = self.lock();
        if !open.calls.contains_key(key) {
            return Ok(());
        }
        let line = JournalLine::Done { key: key.clone(), report: Arc::clone(report) };
        let place = open.write(&line)?;
        if let Some(call) = open.calls.get_mut(key) {
            call.done = Some(place);
        }
        Ok(())
    }

    /// Returns the report of a call; `None` if it has none.
    pub(crate) fn report(&self, call: &JournaledCall) -> Option<Arc<ReportFrame>> {
        let (at, length) = call.done?;
        let mut bytes = vec![0; length];
        self.lock().file.read_exact_at(&mut bytes, at).ok()?;
        match serde_json::from_slice(&bytes) {
            Ok(JournalLine::Done { report, .. }) => Some(report),
            _ => None,
        }
    }
}

/// Why a process gets no epoch.
#[derive(Debug)]
pub(crate) enum JournalClaimError {
    /// It was replaced by a later process.
    Fenced(StaleEpoch),
    Disk(io::Error),
}

impl OpenJournal {
    /// Reads the journal. A truncated last line is ignored, because nothing starts before its line is
    /// complete.
    fn read(&mut self) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(0))?;
        let mut lines = BufReader::new(self.file.try_clone()?);
        let (mut line, mut at) = (Vec::new(), 0_u64);
        loop {
            line.clear();
            let length = lines.by_ref().read_until(b'\n', &mut line)?;
            if length == 0 || line.last() != Some(&b'\n') {
                break;
            }
            match serde_json::from_slice(&line) {
                Ok(JournalLine::Owner(owner)) => self.take_owner(owner),
                Ok(JournalLine::Started { key, digest, .. }) => {
                    self.calls.insert(key, JournaledCall { digest, done: None });
                }
                Ok(JournalLine::Done { key, .. }) => {
                    if let Some(call) = self.calls.get_mut(&key) {
                        call.done = Some((at, length - 1));
                    }
                }
                // A line of a later version is ignored.
                Err(_) => (),
            }
            at += length as u64;
        }
        self.file.set_len(at)?;
        self.end = at;
        Ok(())
    }

    fn take_owner(&mut self, owner: EpochHolder) {
        let before = std::mem::replace(&mut self.owner, owner);
        if !before.instance.is_empty() && before.instance != self.owner.instance {
            self.earlier.insert(before.instance);
        }
    }

    /// Writes a whole line, or nothing on failure. Returns its position.
    fn write(&mut self, line: &JournalLine) -> io::Result<(u64, usize)> {
        let mut bytes = serde_json::to_vec(line).map_err(io::Error::other)?;
        bytes.push(b'\n');
        let at = self.end;
        self.file.seek(SeekFrom::Start(at))?;
        if let Err(err) = self.file.write_all(&bytes) {
            // Remove a partial write, so that the next line does not continue it.
            self.file.set_len(at).ok();
            return Err(err);
        }
        self.end = at + bytes.len() as u64;
        Ok((at, bytes.len() - 1))
    }
}

/// Hashes tool and input of a call.
pub(crate) fn digest(frame: &CallFrame) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(frame.tool.as_bytes());
    hasher.update(b"\0");
    serde_json::to_writer(&mut hasher, &frame.input).ok();
    hasher.finalize().to_hex()[..24].to_owned()
}

#[cfg(test)]
mod tests {
    use haft_tool::ErrorKind;
    use haft_types::AgentId;

    use super::*;

    fn key(call: &str) -> CallKey {
        CallKey { agent: AgentId::Main, call: call.into() }
    }

    #[test]
    fn journal_epoch_only_increases() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("calls.jsonl");
        let journal = RunJournal::open(&path).unwrap();
        let mut said = Vec::new();
        for (instance, wanted) in [
            ("a", None),
            ("a", None),
            ("b", None),
            ("a", None),
            ("c", Some(2)),
            ("c", Some(9)),
            ("c", Some(9)),
            ("d", Some(9)),
            ("b", None),
            ("d", None),
        ] {
            said.push(journal.claim(instance, wanted).ok());
        }
        let want = [Some(1), Some(1), Some(2), None, None, Some(9), Some(9), None, None, Some(10)];
        assert_eq!(said, want);
        assert!(matches!(RunJournal::open(&path), Err(JournalError::TakenOrder)));
        drop(journal);
        let again = RunJournal::open(&path).unwrap();
        assert_eq!(again.epoch(), 10);
        assert!(again.claim("c", None).is_err());
        assert_eq!(again.claim("d", None).ok(), Some(10));
    }

    #[test]
    fn started_calls_survive_truncation_of_journal() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("calls.jsonl");
        let report = Arc::new(ReportFrame::failure("Bash", ErrorKind::Failed, "no"));
        {
            let journal = RunJournal::open(&path).unwrap();
            let epoch = journal.claim("a", None).unwrap();
            journal.start(&key("1"), epoch, "Bash", "x").unwrap();
            assert!(matches!(journal.start(&key("1"), epoch, "Bash", "x"), Err(NotStarted::Again)));
            assert!(matches!(journal.start(&key("2"), epoch - 1, "Bash", "x"), Err(NotStarted::Fenced(1))));
            journal.end(&key("1"), &report).unwrap();
        }
        let whole = std::fs::read(&path).unwrap();
        for cut in 0..=whole.len() {
            std::fs::write(&path, &whole[..cut]).unwrap();
            let journal = RunJournal::open(&path).unwrap();
            let lines = whole[..cut].iter().filter(|it| **it == b'\n').count();
            let call = journal.call(&key("1"));
            assert_eq!(call.is_some(), 2 <= lines, "{cut}");
            let found = call.and_then(|it| journal.report(&it));
            assert_eq!(found.as_ref(), (lines == 3).then_some(&report), "{cut}");
            let epoch = journal.claim("b", None).unwrap();
            journal.start(&key("3"), epoch, "Bash", "y").unwrap();
            journal.end(&key("3"), &report).unwrap();
            drop(journal);
            let journal = RunJournal::open(&path).unwrap();
            let call = journal.call(&key("3")).unwrap();
            assert_eq!(journal.report(&call).as_ref(), Some(&report), "{cut}");
        }
    }
}
