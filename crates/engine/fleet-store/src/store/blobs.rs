//! Blobs: verified when read, fenced when written with a lease.

use std::sync::Arc;

use bytes::Bytes;

use super::StoreCore;
use crate::{
    BlobHash, BlobStore, FleetName, LeaseKey, StoreError, StoreFuture, engine::RawBlobs, engine::stale,
};

/// Reads a blob and verifies its hash.
pub(super) async fn checked<E: RawBlobs + ?Sized>(
    engine: &E,
    tenant: &FleetName,
    hash: BlobHash,
) -> Result<Bytes, StoreError> {
    let unknown = || StoreError::Unknown { what: "blob", name: hash.to_string() };
    let bytes = engine.get(tenant.clone(), hash).await?.ok_or_else(unknown)?;
    if BlobHash::hash(&bytes) == hash {
        Ok(bytes)
    } else {
        let said = String::from("its bytes are not those it is named after");
        Err(StoreError::Corrupt { place: format!("blob {hash}"), said })
    }
}

/// [`BlobStore`] on an engine.
pub(crate) struct CheckedBlobs(pub(crate) Arc<StoreCore>);

impl BlobStore for CheckedBlobs {
    fn put(&self, tenant: FleetName, bytes: Bytes, by: Option<LeaseKey>) -> StoreFuture<'_, BlobHash> {
        Box::pin(async move {
            if let Some(key) = by {
                let mirror = self.0.up_to_date().await?;
                if !mirror.read(|ledger| ledger.is_held(&key)) {
                    return Err(stale(&key));
                }
            }
            let hash = BlobHash::hash(&bytes);
            self.0.engine.put(tenant, hash, bytes).await?;
            Ok(hash)
        })
    }

    fn get(&self, tenant: FleetName, hash: BlobHash) -> StoreFuture<'_, Bytes> {
        Box::pin(async move { checked(&*self.0.engine, &tenant, hash).await })
    }

    fn has(&self, tenant: FleetName, hashes: Vec<BlobHash>) -> StoreFuture<'_, Vec<bool>> {
        self.0.engine.has(tenant, hashes)
    }
}
