use std::{
    fs::File,
    io,
    ops::Range,
    os::unix::fs::{FileExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::output::SpoolQuota;

/// Limits for the output of one command.
#[derive(Clone, Copy, Debug)]
pub struct SpoolLimits {
    /// Bytes kept in memory before the output goes to disk.
    pub memory: usize,
    /// Maximum bytes kept: the first half from the beginning of the output, the rest as a ring of the
    /// newest bytes.
    pub cap: u64,
    /// Maximum bytes a command may print; it is then stopped.
    pub total: u64,
}

impl Default for SpoolLimits {
    fn default() -> Self {
        Self::with_cap(32 << 20)
    }
}

impl SpoolLimits {
    /// Default proportions for a cap.
    pub fn with_cap(cap: u64) -> Self {
        Self { memory: 64 << 10, cap, total: cap.saturating_mul(64).min(5 << 30) }
    }
}

/// Disk space is reserved from the quota in steps of this many bytes.
const STEP: u64 = 256 << 10;
/// Bytes of the end that stay in memory for a live tail.
const RECENT: usize = 8 << 10;

/// The output of one command: complete while it is small, beginning and end when it is large, with an
/// exact count of the bytes in between.
///
/// Positions refer to the stream the command wrote, also for bytes that were dropped.
///
/// **Invariant:** writing never fails. If the disk is full or the quota exhausted, the current size is final, and its second half becomes the ring.
#[derive(Debug)]
pub struct Spool {
    path: PathBuf,
    limits: SpoolLimits,
    quota: Arc<SpoolQuota>,
    store: SpoolStore,
    /// Bytes reserved from the quota.
    taken: u64,
    /// Start of the ring.
    head: u64,
    /// Size of the ring.
    ring: u64,
    /// Bytes written by the command.
    total: u64,
    /// Bytes of it that were stored; less than `total` only if the ring failed.
    stored: u64,
    newlines: u64,
    recent: Vec<u8>,
    trouble: Option<String>,
}

#[derive(Debug)]
enum SpoolStore {
    Memory(Vec<u8>),
    Disk(File),
    /// Closed, on disk, with the ring in order after a note of this length.
    Settled {
        note: u64,
    },
}

/// Result of an attempt to store bytes.
enum StoreStep {
    Stored(usize),
    /// The layout changed; try the same bytes again.
    Again,
    /// Nothing can be stored any more.
    Broken,
}

impl Spool {
    /// An empty spool that moves to the file `path` when it grows.
    pub fn new(path: impl Into<PathBuf>, limits: SpoolLimits, quota: Arc<SpoolQuota>) -> Self {
        let cap = limits.cap.max(limits.memory as u64).max(2);
        Self {
            path: path.into(),
            limits,
            quota,
            store: SpoolStore::Memory(Vec::new()),
            taken: 0,
            head: cap / 2,
            ring: cap - cap / 2,
            total: 0,
            stored: 0,
            newlines: 0,
            recent: Vec::new(),
            trouble: None,
        }
    }

    /// Appends bytes.
    pub fn write(&mut self, bytes: &[u8]) {
        let whole = self.stored == self.total;
        self.total += bytes.len() as u64;
        self.newlines += memchr::memchr_iter(b'\n', bytes).count() as u64;
        self.remember(bytes);
        let mut rest = if whole { bytes } else { &[] };
        while !rest.is_empty() {
            match self.store_some(rest) {
                StoreStep::Stored(done) => {
                    self.stored += done as u64;
                    rest = &rest[done..];
                }
                StoreStep::Again => {}
                StoreStep::Broken => break,
            }
        }
    }

    /// Bytes written so far.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Line breaks written so far.
    pub fn newlines(&self) -> u64 {
        self.newlines
    }

    /// Exact number of bytes that were written but not kept.
    pub fn dropped(&self) -> u64 {
        self.hole().map_or(0, |hole| hole.end - hole.start) + (self.total - self.stored)
    }

    /// Why less is kept than the limits allow, if so.
    pub fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    /// Whether the command exceeded [`SpoolLimits::total`].
    pub fn is_over_limit(&self) -> bool {
        self.limits.total < self.total
    }

    /// The newest few kilobytes.
    pub fn recent(&self) -> &[u8] {
        &self.recent
    }

    /// The file, if the output is on disk.
    pub fn file(&self) -> Option<&Path> {
        (!matches!(self.store, SpoolStore::Memory(_))).then_some(self.path.as_path())
    }

    /// The range in the middle that was dropped.
    pub fn hole(&self) -> Option<Range<u64>> {
        let note = if let SpoolStore::Settled { note } = self.store { note } else { 0 };
        (self.head + self.ring < self.stored).then(|| self.head..self.stored - self.ring + note)
    }

    /// End of the stored range.
    pub fn end(&self) -> u64 {
        self.stored
    }

    /// Reads at a position. Returns fewer bytes at a gap and at the end.
    pub fn read_at(&self, at: u64, buf: &mut [u8]) -> io::Result<usize> {
        let (place, room) = match self.hole() {
            _ if self.stored <= at => return Ok(0),
            None => (at, self.stored - at),
            Some(hole) if at < hole.start => (at, hole.start - at),
            Some(hole) if at < hole.end => return Ok(0),
            Some(_) if matches!(self.store, SpoolStore::Settled { .. }) => {
                (self.head + (at - (self.stored - self.ring)), self.stored - at)
            }
            Some(_) => {
                let place = self.head + (at - self.head) % self.ring;
                (place, (self.stored - at).min(self.head + self.ring - place))
            }
        };
        let want = buf.len().min(usize::try_from(room).unwrap_or(usize::MAX));
        match &self.store {
            SpoolStore::Memory(kept) => {
                let place = usize::try_from(place).unwrap_or(usize::MAX);
                let from = kept.get(place..).unwrap_or_default();
                let len = want.min(from.len());
                buf[..len].copy_from_slice(&from[..len]);
                Ok(len)
            }
            SpoolStore::Disk(file) => file.read_at(&mut buf[..want], place),
            SpoolStore::Settled { .. } => File::open(&self.path)?.read_at(&mut buf[..want], place),
        }
    }

    /// All kept bytes of a range.
    pub fn read_range(&self, range: Range<u64>) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        let mut at = range.start;
        let end = range.end.min(self.stored);
        while at < end {
            if let Some(hole) = self.hole()
                && hole.contains(&at)
            {
                at = hole.end;
                continue;
            }
            let start = out.len();
            out.resize(start + usize::try_from((end - at).min(1 << 20)).unwrap_or(0), 0);
            let got = self.read_at(at, &mut out[start..])?;
            out.truncate(start + got);
            if got == 0 {
                break;
            }
            at += got as u64;
        }
        Ok(out)
    }

    /// Writes the output to disk regardless of its size and returns the file.
    pub fn persist(&mut self) -> io::Result<&Path> {
        if let SpoolStore::Memory(kept) = &self.store {
            let size = kept.len() as u64;
            let file = self.create(size)?;
            let SpoolStore::Memory(kept) = &self.store else { return Ok(&self.path) };
            let written = file.write_all_at(kept, 0);
            if let Err(err) = written {
                std::fs::remove_file(&self.path).ok();
                return Err(err);
            }
            self.store = SpoolStore::Disk(file);
        }
        Ok(&self.path)
    }

    /// Call when the command has ended: closes the file, with the ring in order after a line that says
    /// how many bytes are missing, so that it reads from top to bottom.
    pub fn settle(&mut self) {
        let SpoolStore::Disk(file) = &self.store else { return };
        let mut note = 0;
        if self.head + self.ring < self.stored {
            match self.unroll(file) {
                Ok(len) => note = len,
                Err(err) => {
                    self.trouble.get_or_insert(err.to_string());
                    return;
                }
            }
        }
        let size = file.metadata().map_or(self.taken, |meta| meta.len());
        self.quota.settle(&self.path, self.taken, size);
        self.taken = 0;
        self.store = SpoolStore::Settled { note };
    }

    fn unroll(&self, file: &File) -> io::Result<u64> {
        let start = self.stored - self.ring;
        let missing = start - self.head;
        // The note replaces the oldest bytes of the ring and counts them, so its length depends on
        // itself; almost always one iteration suffices.
        let line = |count: u64| format!("\n[{count} bytes are missing here]\n");
        let mut note = line(missing);
        for _ in 0..3 {
            note = line(missing + note.len() as u64);
        }
        let note = &note.as_bytes()[..note.len().min(usize::try_from(self.ring).unwrap_or(usize::MAX))];
        let newest = self.read_range(start + note.len() as u64..self.stored)?;
        file.write_all_at(note, self.head)?;
        file.write_all_at(&newest, self.head + note.len() as u64)?;
        Ok(note.len() as u64)
    }

    fn remember(&mut self, bytes: &[u8]) {
        let new = &bytes[bytes.len().saturating_sub(RECENT)..];
        let surplus = (self.recent.len() + new.len()).saturating_sub(RECENT);
        self.recent.drain(..surplus);
        self.recent.extend_from_slice(new);
    }

    fn store_some(&mut self, bytes: &[u8]) -> StoreStep {
        let size = self.head + self.ring;
        let place =
            if self.stored < size { self.stored } else { self.head + (self.stored - self.head) % self.ring };
        let len = bytes.len().min(usize::try_from(size - place).unwrap_or(usize::MAX));
        let wanted = &bytes[..len];
        match &mut self.store {
            SpoolStore::Memory(kept) if self.stored < size => {
                let room = self.limits.memory.saturating_sub(kept.len()).min(len);
                if room == 0 {
                    return match self.persist() {
                        Ok(_) => StoreStep::Again,
                        Err(err) => self.fix_size(err.to_string()),
                    };
                }
                kept.extend_from_slice(&wanted[..room]);
                StoreStep::Stored(room)
            }
            SpoolStore::Memory(kept) => {
                let place = usize::try_from(place).unwrap_or(0);
                kept[place..place + len].copy_from_slice(wanted);
                StoreStep::Stored(len)
            }
            SpoolStore::Disk(_) => self.store_on_disk(wanted, place),
            SpoolStore::Settled { .. } => StoreStep::Broken,
        }
    }

    fn store_on_disk(&mut self, wanted: &[u8], place: u64) -> StoreStep {
        let end = place + wanted.len() as u64;
        if self.taken < end {
            let step = (end - self.taken).max(STEP).min(self.head + self.ring - self.taken);
            self.taken += self.quota.take(step);
        }
        let room = usize::try_from(self.taken.saturating_sub(place)).unwrap_or(usize::MAX).min(wanted.len());
        if room == 0 {
            return self.fix_size(quota_message(&self.quota));
        }
        let SpoolStore::Disk(file) = &self.store else { return StoreStep::Broken };
        match file.write_at(&wanted[..room], place) {
            Ok(0) => self.fix_size(String::from("the disk takes no more")),
            Ok(done) => StoreStep::Stored(done),
            Err(err) if err.kind() == io::ErrorKind::Interrupted => StoreStep::Again,
            Err(err) => self.fix_size(err.to_string()),
        }
    }

    /// Makes the current size final.
    fn fix_size(&mut self, why: String) -> StoreStep {
        self.trouble.get_or_insert(why);
        let size = self.stored;
        if self.head + self.ring <= size || size < 2 {
            return StoreStep::Broken;
        }
        self.head = size / 2;
        self.ring = size - size / 2;
        StoreStep::Again
    }

    fn create(&mut self, size: u64) -> io::Result<File> {
        self.taken += self.quota.take(size.saturating_sub(self.taken));
        if self.taken < size {
            return Err(io::Error::new(io::ErrorKind::QuotaExceeded, quota_message(&self.quota)));
        }
        let mut options = File::options();
        options.read(true).write(true).create_new(true).mode(0o600);
        options.open(&self.path)
    }
}

fn quota_message(quota: &SpoolQuota) -> String {
    format!("the session's quota of {} bytes for output is used up", quota.limit())
}
