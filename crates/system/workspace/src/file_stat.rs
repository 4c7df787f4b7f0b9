use rustix::fs::Stat;

/// What the kernel says about a file, apart from what it holds.
///
/// A stamp answers "is this the object I looked at" and "has it surely been
/// touched". It never answers "is the content the same": times can be put back.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct FileStat {
    /// Device and inode: which object this is.
    pub id: (u64, u64),
    /// Size in bytes.
    pub len: u64,
    /// Type and permission bits.
    pub mode: u32,
    /// The user who owns the file.
    pub uid: u32,
    /// The group that owns the file.
    pub gid: u32,
    /// How many names the object has.
    pub links: u64,
    /// Last change of the content.
    pub modified: (i64, i64),
    /// Last change of content or attributes.
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

    /// Whether nobody has the right to write: a sign that people set on purpose,
    /// and that counts for root too.
    pub fn is_read_only(&self) -> bool {
        self.mode & 0o222 == 0
    }

    /// Same object, and no sign that its content was touched.
    pub(crate) fn untouched_since(&self, earlier: &Self) -> bool {
        self.id == earlier.id && self.len == earlier.len && self.modified == earlier.modified
    }
}
