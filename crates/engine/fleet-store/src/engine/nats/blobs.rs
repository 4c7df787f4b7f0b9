//! Blobs as messages of half a megabyte, and a final message that marks the blob complete.

use async_nats::HeaderMap;
use bytes::{Bytes, BytesMut};
use futures_util::{StreamExt, TryStreamExt, stream};
use serde_json::json;

use super::{
    NatsEngine,
    streams::{BLOBS, token},
};
use crate::{BlobHash, FleetName, StoreError, StoreFuture, engine::RawBlobs};

const PART: usize = 512 * 1_024;

/// Maximum parts in flight.
const AT_ONCE: usize = 8;

fn subject(tenant: &FleetName, hash: BlobHash, part: &str) -> String {
    format!("haft.blob.of.{}.{hash}.{part}", token(tenant.as_str()))
}

impl NatsEngine {
    /// Returns the number of parts of a complete blob.
    async fn parts(&self, tenant: &FleetName, hash: BlobHash) -> Result<Option<usize>, StoreError> {
        let end = self.connection.newest(BLOBS, &subject(tenant, hash, "end")).await?;
        Ok(end.and_then(|it| std::str::from_utf8(&it.payload).ok()?.parse().ok()))
    }

    pub(super) async fn remove_blob(&self, tenant: &FleetName, hash: BlobHash) -> Result<(), StoreError> {
        // Delete the end marker first, so that nobody finds an incomplete blob.
        for part in ["end", "*"] {
            self.connection.purge(BLOBS, &json!({ "filter": subject(tenant, hash, part) })).await?;
        }
        Ok(())
    }

    async fn put_part(&self, subject: String, bytes: Bytes) -> Result<(), StoreError> {
        let id = uuid::Uuid::new_v4().simple().to_string();
        let stored = self.connection.store(&subject, &id, None, HeaderMap::new(), bytes).await;
        stored.map(drop).map_err(|failure| self.connection.problem(failure))
    }
}

impl RawBlobs for NatsEngine {
    fn put(&self, tenant: FleetName, hash: BlobHash, bytes: Bytes) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            if self.parts(&tenant, hash).await?.is_some() {
                return Ok(());
            }
            let parts = bytes.len().div_ceil(PART);
            let puts = (0..parts).map(|part| {
                let slice = bytes.slice(part * PART..((part + 1) * PART).min(bytes.len()));
                self.put_part(subject(&tenant, hash, &part.to_string()), slice)
            });
            stream::iter(puts).buffer_unordered(AT_ONCE).try_collect::<()>().await?;
            self.put_part(subject(&tenant, hash, "end"), Bytes::from(parts.to_string())).await
        })
    }

    fn get(&self, tenant: FleetName, hash: BlobHash) -> StoreFuture<'_, Option<Bytes>> {
        Box::pin(async move {
            let Some(parts) = self.parts(&tenant, hash).await? else { return Ok(None) };
            let gets = (0..parts).map(|part| {
                let subject = subject(&tenant, hash, &part.to_string());
                async move { self.connection.newest(BLOBS, &subject).await }
            });
            let parts: Vec<_> = stream::iter(gets).buffered(AT_ONCE).try_collect().await?;
            let mut bytes = BytesMut::new();
            for part in parts {
                let Some(part) = part else { return Ok(None) };
                bytes.extend_from_slice(&part.payload);
            }
            Ok(Some(bytes.freeze()))
        })
    }

    fn has(&self, tenant: FleetName, hashes: Vec<BlobHash>) -> StoreFuture<'_, Vec<bool>> {
        Box::pin(async move {
            let asks = hashes.into_iter().map(|hash| self.parts(&tenant, hash));
            stream::iter(asks).buffered(AT_ONCE).map_ok(|it| it.is_some()).try_collect().await
        })
    }
}
