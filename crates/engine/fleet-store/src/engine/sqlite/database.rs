//! The connections: one thread that writes in groups, and readers.

use std::{
    fs::OpenOptions,
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use rusqlite::{Connection, ErrorCode};
use tokio::sync::{mpsc, oneshot};

use super::{beside, wakeup::FileWakeup};
use crate::StoreError;

/// The form of the tables.
const SCHEMA_VERSION: i64 = 1;

/// How long one process waits for another's transaction.
const BUSY: Duration = Duration::from_secs(30);

/// At most so many requests share a sync.
const GROUP: usize = 512;

const SCHEMA: &str = "
create table if not exists ledger(number integer primary key, at integer not null, id text not null, commands blob not null);
create table if not exists snapshot(one integer primary key check (one = 1), number integer not null, bytes blob not null);
create table if not exists log_head(run text primary key, epoch integer not null, lines integer not null, lines_at_own integer not null, stalled integer not null) without rowid;
create table if not exists log_line(run text not null, number integer not null, epoch integer not null, text text not null, primary key (run, number)) without rowid;
create table if not exists control(run text not null, number integer not null, id text not null, body text not null, primary key (run, number), unique (run, id)) without rowid;
";

const LIVE_SCHEMA: &str = "
create table if not exists live(number integer primary key autoincrement, run text not null, text text not null);
create index if not exists live_run on live(run, number);
";

/// What is told to whoever wrote, when the group is on disk or is not.
type CommitReply = Box<dyn FnOnce(Result<(), StoreError>) + Send>;
type GroupWork = Box<dyn FnOnce(&Connection) -> CommitReply + Send>;

/// A file with one writer and many readers in this process.
#[derive(Clone)]
pub(super) struct SqliteDatabase {
    path: Arc<PathBuf>,
    works: mpsc::Sender<GroupWork>,
    readers: Arc<Mutex<Vec<Connection>>>,
    live: Arc<Mutex<Connection>>,
}

impl SqliteDatabase {
    pub(super) async fn open(path: &Path, news: Arc<FileWakeup>) -> Result<Self, StoreError> {
        let path = Arc::new(path.to_owned());
        let file = path.clone();
        let (writer, live) = blocking(move || {
            if let Some(dir) = file.parent() {
                make_private_dir(dir).map_err(|err| io_problem(dir, &err))?;
            }
            for path in [file.as_path(), &beside(&file, "-live")] {
                make_private_file(path).map_err(|err| io_problem(path, &err))?;
            }
            let writer = open_writer(&file)?;
            let live = open_live(&file).map_err(|err| problem(&file, &err))?;
            Ok((writer, live))
        })
        .await?;
        let (works, inbox) = mpsc::channel(4_096);
        let file = path.clone();
        std::thread::Builder::new()
            .name(String::from("fleet-writer"))
            .spawn(move || write_groups(&file, &writer, inbox, &news))
            .map_err(|err| io_problem(&path, &err))?;
        Ok(Self { path, works, readers: Arc::default(), live: Arc::new(Mutex::new(live)) })
    }

    pub(super) fn place(&self) -> PathBuf {
        self.path.as_ref().clone()
    }

    /// Writes; answers when it is on disk, together with what others wrote.
    pub(super) async fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, WriteProblem> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (answer, answered) = oneshot::channel();
        let path = self.path.clone();
        let work: GroupWork = Box::new(move |db| {
            let done = within_savepoint(db, work).map_err(|err| err.into_store(&path));
            Box::new(move |kept| drop(answer.send(kept.and(done))))
        });
        let closed = || StoreError::Refused(String::from("the store was closed"));
        self.works.send(work).await.map_err(|_| closed())?;
        answered.await.map_err(|_| closed())?
    }

    /// Reads what is on disk.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        look: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (path, readers) = (self.path.clone(), self.readers.clone());
        blocking(move || {
            let kept = readers.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let db = kept.map_or_else(|| connect(&path), Ok).map_err(|err| problem(&path, &err))?;
            let found = look(&db).map_err(|err| problem(&path, &err));
            let mut readers = readers.lock().unwrap_or_else(PoisonError::into_inner);
            if readers.len() < 8 {
                readers.push(db);
            }
            found
        })
        .await
    }

    /// Uses the file for what nobody keeps.
    pub(super) async fn live<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (path, live) = (self.path.clone(), self.live.clone());
        blocking(move || {
            let db = live.lock().unwrap_or_else(PoisonError::into_inner);
            work(&db).map_err(|err| problem(&path, &err))
        })
        .await
    }
}

/// Why a write was not made.
pub(super) enum WriteProblem {
    Sqlite(rusqlite::Error),
    Store(StoreError),
}

impl From<rusqlite::Error> for WriteProblem {
    fn from(err: rusqlite::Error) -> Self {
        Self::Sqlite(err)
    }
}

impl From<StoreError> for WriteProblem {
    fn from(err: StoreError) -> Self {
        Self::Store(err)
    }
}

impl WriteProblem {
    fn into_store(self, path: &Path) -> StoreError {
        match self {
            Self::Sqlite(err) => problem(path, &err),
            Self::Store(err) => err,
        }
    }
}

pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|err| {
        Err(StoreError::Corrupt {
            place: String::from("the store"),
            said: format!("a task broke off: {err}"),
        })
    })
}

/// A directory for its owner, where there is none.
pub(super) fn make_private_dir(dir: &Path) -> std::io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

/// A file for its owner, where there is none: prompts and logs stand in it. What the engine
/// puts beside it gets the same rights. Whoever shares a store widens them.
fn make_private_file(path: &Path) -> std::io::Result<()> {
    match OpenOptions::new().create_new(true).write(true).mode(0o600).open(path) {
        Err(err) if err.kind() != std::io::ErrorKind::AlreadyExists => Err(err),
        _ => Ok(()),
    }
}

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let db = Connection::open(path)?;
    db.busy_timeout(BUSY)?;
    db.pragma_update(None, "synchronous", "full")?;
    Ok(db)
}

/// Of two processes that switch a new file over at the same moment one hears "busy" at
/// once, however long it would wait: it tries again.
fn use_write_ahead_log(db: &Connection) -> rusqlite::Result<()> {
    let until = Instant::now() + BUSY;
    loop {
        match db.pragma_update(None, "journal_mode", "wal") {
            Err(err)
                if err.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) && Instant::now() < until =>
            {
                std::thread::sleep(Duration::from_millis(5));
            }
            done => return done,
        }
    }
}

fn open_writer(path: &Path) -> Result<Connection, StoreError> {
    let told = |err: rusqlite::Error| problem(path, &err);
    let mut db = connect(path).map_err(told)?;
    use_write_ahead_log(&db).map_err(told)?;
    let version = |db: &Connection| db.pragma_query_value(None, "user_version", |row| row.get::<_, i64>(0));
    if version(&db).map_err(told)? == 0 {
        let changes = db.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate).map_err(told)?;
        changes.execute_batch(SCHEMA).map_err(told)?;
        changes.pragma_update(None, "user_version", SCHEMA_VERSION).map_err(told)?;
        changes.commit().map_err(told)?;
    }
    let found = version(&db).map_err(told)?;
    if found == SCHEMA_VERSION {
        return Ok(db);
    }
    Err(StoreError::WrongVersion {
        what: format!("the file {}", path.display()),
        found: found.to_string(),
        needed: SCHEMA_VERSION.to_string(),
        advice: String::from("another haft made it; use that version, or name another file"),
    })
}

fn open_live(path: &Path) -> rusqlite::Result<Connection> {
    let db = Connection::open(beside(path, "-live"))?;
    db.busy_timeout(BUSY)?;
    use_write_ahead_log(&db)?;
    db.pragma_update(None, "synchronous", "off")?;
    db.execute_batch(LIVE_SCHEMA)?;
    Ok(db)
}

fn within_savepoint<T>(
    db: &Connection,
    work: impl FnOnce(&Connection) -> Result<T, WriteProblem>,
) -> Result<T, WriteProblem> {
    db.execute_batch("savepoint work")?;
    let done = work(db);
    // A full disk ends the whole transaction; there is no savepoint any more then.
    if !db.is_autocommit() {
        if done.is_err() {
            db.execute_batch("rollback to work")?;
        }
        db.execute_batch("release work")?;
    }
    done
}

fn write_groups(path: &Path, db: &Connection, mut inbox: mpsc::Receiver<GroupWork>, news: &FileWakeup) {
    let mut works = Vec::new();
    while inbox.blocking_recv_many(&mut works, GROUP) > 0 {
        let begun = db.execute_batch("begin immediate");
        let tellers: Vec<CommitReply> = works.drain(..).map(|work| work(db)).collect();
        let kept = begun
            .and_then(|()| if db.is_autocommit() { Err(ended_early()) } else { db.execute_batch("commit") });
        if !db.is_autocommit() {
            let _ = db.execute_batch("rollback");
        }
        let kept = kept.map_err(|err| problem(path, &err));
        if kept.is_ok() {
            news.tell();
        }
        tellers.into_iter().for_each(|tell| tell(kept.clone()));
    }
}

fn ended_early() -> rusqlite::Error {
    let full = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_FULL);
    rusqlite::Error::SqliteFailure(full, Some(String::from("the transaction was ended by the disk")))
}

/// What an error of SQLite means for whoever asked.
fn problem(path: &Path, err: &rusqlite::Error) -> StoreError {
    let place = path.display().to_string();
    let said = err.to_string();
    match err.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => StoreError::Full { place, said },
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => StoreError::Corrupt { place, said },
        Some(ErrorCode::SystemIoFailure) if is_without_room(path) => StoreError::Full { place, said },
        _ => StoreError::Gone {
            engine: format!("SQLite at {place}"),
            said,
            advice: String::from("look whether the file and its directory can be written"),
        },
    }
}

/// The log's index is mapped: where it cannot grow, the error says nothing of room.
fn is_without_room(path: &Path) -> bool {
    let dir = path.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."));
    rustix::fs::statvfs(dir).is_ok_and(|stat| stat.f_bavail * stat.f_frsize < 64 * 1_024)
}

pub(super) fn io_problem(path: &Path, err: &std::io::Error) -> StoreError {
    let place = path.display().to_string();
    if matches!(err.kind(), std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded) {
        StoreError::Full { place, said: err.to_string() }
    } else {
        StoreError::Gone {
            engine: format!("the directory {place}"),
            said: err.to_string(),
            advice: String::from("look whether it can be written"),
        }
    }
}
