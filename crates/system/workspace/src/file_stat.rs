use rustix::fs::Stat;

/// Metadata of a file.
///
/// Tells whether it is the same object and whether it was certainly modified. It cannot tell that the
/// content is equal, because timestamps can be reset.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct FileStat {
    /// Device and inode.
    pub id: (u64, u64),
    pub len: u64,
    /// Type and permission bits.
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    /// Number of hard links.
    pub links: u64,
    /// Modification time (mtime): seconds and nanoseconds.
    pub modified: (i64, i64),
    /// Change time (ctime): seconds and nanoseconds.
    pub changed: (i64, i64),
}

impl FileStat {
    pub(crate) fn new(stat: &Stat) -> Self {
        #[expect(clippy::unnecessary_cast, reason = "widths differ by platform")]
        Self {
            id: (stat.st_dev as u64, stat.st_ino as u64),
            len: stat.st_size as u64,
            mode: stat.st_mode as u32,
            uid: stat.st_uid,
            gid: stat.st_gid,
            links: stat.st_nlink as u64,
            modified: (stat.st_mtime as i64, stat.st_mtime_nsec as i64),
            changed: (stat.st_ctime as i64, stat.st_ctime_nsec as i64),
        }
    }

    /// Permission bits without the type.
    pub fn permissions(&self) -> u32 {
        self.mode & 0o7777
    }

    /// Whether no write bit is set, which users do deliberately; respected for root too.
    pub fn is_read_only(&self) -> bool {
        self.mode & 0o222 == 0
    }

    /// Same object, and no sign that its content was modified.
    pub(crate) fn untouched_since(&self, earlier: &Self) -> bool {
        self.id == earlier.id && self.len == earlier.len && self.modified == earlier.modified
    }
}
