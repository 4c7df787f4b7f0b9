//! SQLite engine: one file, for a single machine without a server.
//!
//! Uses a write-ahead log with a full sync per commit; all pending writes share one. Blobs are files
//! beside the database. Other processes are woken by a byte written to a file beside it, and poll twice
//! a second.

mod blobs;
mod command_log;
mod database;
mod run_logs;
mod wakeup;

use std::{
    path::{Path, PathBuf},
    sync::{Arc, atomic::AtomicU64},
};

use crate::{
    EngineFinding, StoreError, StoreFuture,
    engine::{FleetEngine, health_check::finding},
};
use database::SqliteDatabase;
use wakeup::FileWakeup;

/// An open store in a file.
pub(crate) struct SqliteEngine {
    database: SqliteDatabase,
    news: Arc<FileWakeup>,
    blobs: PathBuf,
    boot: Option<String>,
    snapshot_number: AtomicU64,
}

impl SqliteEngine {
    /// Opens a file; creates it if it is missing.
    pub(crate) async fn open(path: &Path) -> Result<Self, StoreError> {
        let path = path.to_owned();
        let news = Arc::new(FileWakeup::beside(&path));
        let database = SqliteDatabase::open(&path, news.clone()).await?;
        let blobs = beside(&path, ".blobs");
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok();
        let boot = boot.map(|it| it.trim().to_owned());
        Ok(Self { database, news, blobs, boot, snapshot_number: AtomicU64::new(0) })
    }
}

/// Appends a suffix to the file name.
fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

impl FleetEngine for SqliteEngine {
    fn check_health(&self) -> StoreFuture<'_, Vec<EngineFinding>> {
        Box::pin(async move {
            let place = self.database.place();
            let (version, mode, sync) = self
                .database
                .read(|db| {
                    let text = |name| db.pragma_query_value(None, name, |row| row.get::<_, String>(0));
                    let sync = db.pragma_query_value(None, "synchronous", |row| row.get::<_, i64>(0))?;
                    Ok((rusqlite::version().to_owned(), text("journal_mode")?, sync))
                })
                .await?;
            let is_safe = mode == "wal" && sync >= 2;
            let sync = finding("sync", is_safe, format!("journal {mode}, synchronous {sync}"))
                .advice("another program changed the file's settings; open it with haft only");
            let room = crate::engine::health_check::room(&place);
            Ok(vec![finding("version", true, format!("SQLite {version}")).done(), sync.done(), room])
        })
    }
}
