//! Blobs as rows of one megabyte, and a final row that marks the blob complete.

use bytes::{Bytes, BytesMut};

use super::PostgresEngine;
use crate::{BlobHash, FleetName, StoreError, StoreFuture, engine::RawBlobs};

const PART: usize = 1_048_576;

impl RawBlobs for PostgresEngine {
    fn put(&self, tenant: FleetName, hash: BlobHash, bytes: Bytes) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            if RawBlobs::has(self, tenant.clone(), vec![hash]).await? == [true] {
                return Ok(());
            }
            let (tenant, hash) = (tenant.as_str(), hash.to_string());
            let insert = "insert into haft_fleet.blob_part (tenant, hash, part, bytes) values ($1, $2, $3, $4) \
                          on conflict do nothing";
            let mut parts = 0_i32;
            for part in bytes.chunks(PART) {
                self.connections.rows(insert, &[&tenant, &hash, &parts, &part]).await?;
                parts += 1;
            }
            let insert = "insert into haft_fleet.blob (tenant, hash, parts) values ($1, $2, $3) on conflict do nothing";
            self.connections.rows(insert, &[&tenant, &hash, &parts]).await.map(drop)
        })
    }

    fn get(&self, tenant: FleetName, hash: BlobHash) -> StoreFuture<'_, Option<Bytes>> {
        Box::pin(async move {
            let (tenant, hash) = (tenant.as_str(), hash.to_string());
            let select = "select parts from haft_fleet.blob where tenant = $1 and hash = $2";
            let rows = self.connections.rows(select, &[&tenant, &hash]).await?;
            let Some(parts) = rows.first().map(|row| row.get::<_, i32>(0)) else { return Ok(None) };
            let mut bytes = BytesMut::new();
            let select =
                "select bytes from haft_fleet.blob_part where tenant = $1 and hash = $2 and part = $3";
            for part in 0..parts {
                let rows = self.connections.rows(select, &[&tenant, &hash, &part]).await?;
                let missing = || StoreError::Corrupt {
                    place: format!("blob {hash}"),
                    said: format!("part {part} of {parts} is missing"),
                };
                bytes.extend_from_slice(rows.first().ok_or_else(missing)?.get(0));
            }
            Ok(Some(bytes.freeze()))
        })
    }

    fn has(&self, tenant: FleetName, hashes: Vec<BlobHash>) -> StoreFuture<'_, Vec<bool>> {
        Box::pin(async move {
            let names: Vec<String> = hashes.iter().map(ToString::to_string).collect();
            let select = "select hash from haft_fleet.blob where tenant = $1 and hash = any($2)";
            let rows = self.connections.rows(select, &[&tenant.as_str(), &names]).await?;
            let there: std::collections::HashSet<&str> = rows.iter().map(|row| row.get(0)).collect();
            Ok(names.iter().map(|it| there.contains(it.as_str())).collect())
        })
    }
}
