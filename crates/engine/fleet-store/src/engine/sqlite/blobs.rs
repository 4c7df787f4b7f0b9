//! Blobs as files beside the database, one directory per tenant.

use std::{
    fs::{self, File},
    io::Write as _,
    path::{Path, PathBuf},
};

use bytes::Bytes;
use uuid::Uuid;

use super::{
    SqliteEngine,
    database::{blocking, io_problem, make_private_dir},
};
use crate::{BlobHash, FleetName, StoreError, StoreFuture, engine::RawBlobs};

impl SqliteEngine {
    fn blob(&self, tenant: &FleetName, hash: BlobHash) -> PathBuf {
        let name = hash.to_string();
        self.blobs.join(tenant.as_str()).join(&name[..2]).join(name)
    }
}

/// Writes a temporary file, syncs it and renames it.
fn write(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    if path.exists() {
        return Ok(());
    }
    let dir = path.parent().unwrap_or(path);
    let told = |err: std::io::Error| io_problem(dir, &err);
    if !dir.is_dir() {
        make_private_dir(dir).map_err(told)?;
        // Sync the parents too, because they contain the names of new directories.
        let above = dir.ancestors().skip(1).take(3);
        above.filter_map(|it| File::open(it).ok()).try_for_each(|it| it.sync_all()).map_err(told)?;
    }
    let beside = dir.join(format!(".{}", Uuid::new_v4().simple()));
    let written = File::create(&beside).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&beside, path)?;
        File::open(dir)?.sync_all()
    });
    if written.is_err() {
        let _ = fs::remove_file(&beside);
    }
    written.map_err(told)
}

impl RawBlobs for SqliteEngine {
    fn put(&self, tenant: FleetName, hash: BlobHash, bytes: Bytes) -> StoreFuture<'_, ()> {
        let path = self.blob(&tenant, hash);
        Box::pin(blocking(move || write(&path, &bytes)))
    }

    fn get(&self, tenant: FleetName, hash: BlobHash) -> StoreFuture<'_, Option<Bytes>> {
        let path = self.blob(&tenant, hash);
        Box::pin(blocking(move || match fs::read(&path) {
            Ok(bytes) => Ok(Some(bytes.into())),
            Err(err) if err.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(err) => Err(io_problem(&path, &err)),
        }))
    }

    fn has(&self, tenant: FleetName, hashes: Vec<BlobHash>) -> StoreFuture<'_, Vec<bool>> {
        let paths: Vec<PathBuf> = hashes.into_iter().map(|hash| self.blob(&tenant, hash)).collect();
        Box::pin(blocking(move || Ok(paths.iter().map(|it| it.is_file()).collect())))
    }
}
