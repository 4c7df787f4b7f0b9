//! Packs long JSON values into shared blobs, to keep the ledger small.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
};

use bytes::Bytes;
use serde_json::Value;

use crate::{BlobHash, FleetName, StoreError, engine::FleetEngine, ledger::StoredValue};

/// Maximum bytes of a value stored in the ledger.
pub(super) const INLINE: usize = 1_024;

/// Approximate bytes of a blob of packed values.
const PACK: usize = 512 * 1_024;

/// Number of blobs kept in memory.
const KEPT: usize = 16;

/// Packs and unpacks values.
pub(super) struct PackedValues {
    engine: Arc<dyn FleetEngine>,
    kept: Mutex<VecDeque<((FleetName, BlobHash), Bytes)>>,
}

impl PackedValues {
    pub(super) fn new(engine: Arc<dyn FleetEngine>) -> Self {
        Self { engine, kept: Mutex::default() }
    }

    /// Stores one value.
    pub(super) async fn store(&self, tenant: &FleetName, value: Value) -> Result<StoredValue, StoreError> {
        let stored = self.store_all(tenant, vec![value], INLINE).await?;
        Ok(stored.into_iter().next().unwrap_or_default())
    }

    /// Stores values of a tenant; those longer than `inline` bytes in blobs.
    pub(super) async fn store_all(
        &self,
        tenant: &FleetName,
        values: Vec<Value>,
        inline: usize,
    ) -> Result<Vec<StoredValue>, StoreError> {
        let mut stored: Vec<StoredValue> = Vec::with_capacity(values.len());
        let mut pack = Vec::new();
        let mut packed: Vec<(usize, u64, u64)> = Vec::new();
        for value in values {
            let text = value.to_string();
            if text.len() <= inline {
                stored.push(StoredValue::Inline(value));
                continue;
            }
            if !pack.is_empty() && pack.len() + text.len() > PACK {
                self.close(tenant, &mut pack, &mut packed, &mut stored).await?;
            }
            packed.push((stored.len(), pack.len() as u64, text.len() as u64));
            pack.extend_from_slice(text.as_bytes());
            stored.push(StoredValue::default());
        }
        self.close(tenant, &mut pack, &mut packed, &mut stored).await?;
        Ok(stored)
    }

    async fn close(
        &self,
        tenant: &FleetName,
        pack: &mut Vec<u8>,
        packed: &mut Vec<(usize, u64, u64)>,
        stored: &mut [StoredValue],
    ) -> Result<(), StoreError> {
        if packed.is_empty() {
            return Ok(());
        }
        let bytes = Bytes::from(std::mem::take(pack));
        let hash = BlobHash::hash(&bytes);
        self.engine.put(tenant.clone(), hash, bytes).await?;
        for (index, at, length) in packed.drain(..) {
            stored[index] = StoredValue::Packed(hash, at, length);
        }
        Ok(())
    }

    /// Loads a value from wherever it is stored.
    pub(super) async fn load(&self, tenant: &FleetName, stored: StoredValue) -> Result<Value, StoreError> {
        let (hash, at, length) = match stored {
            StoredValue::Inline(value) => return Ok(value),
            StoredValue::Packed(hash, at, length) => (hash, at, length),
        };
        let damaged = |said: String| StoreError::Corrupt { place: format!("blob {hash}"), said };
        let pack = self.pack(tenant, hash).await?;
        let begin = usize::try_from(at).unwrap_or(usize::MAX);
        let end = begin.saturating_add(usize::try_from(length).unwrap_or(usize::MAX));
        let text = pack.get(begin..end).ok_or_else(|| damaged(String::from("it is too short")))?;
        serde_json::from_slice(text).map_err(|err| damaged(err.to_string()))
    }

    async fn pack(&self, tenant: &FleetName, hash: BlobHash) -> Result<Bytes, StoreError> {
        let key = (tenant.clone(), hash);
        {
            let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some((_, bytes)) = kept.iter().find(|it| it.0 == key) {
                return Ok(bytes.clone());
            }
        }
        let bytes = super::blobs::checked(&*self.engine, tenant, hash).await?;
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push_back((key, bytes.clone()));
        if kept.len() > KEPT {
            kept.pop_front();
        }
        Ok(bytes)
    }
}
