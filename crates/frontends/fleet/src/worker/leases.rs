//! Renews all leases of a worker together.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use haft_fleet_store::{FleetName, FleetStore, LeaseKey, LeaseRenewal, StoreError};
use tokio_util::sync::CancellationToken;

use crate::lease_clock::{LeaseClock, since_boot};

pub(crate) struct Leases {
    store: FleetStore,
    worker: FleetName,
    lease: Duration,
    clock: LeaseClock,
    held: Mutex<HashMap<LeaseKey, ActiveLease>>,
}

/// A lease and the signals for its run.
#[derive(Clone)]
pub(crate) struct ActiveLease {
    pub(crate) key: LeaseKey,
    /// Cancelled when another worker has the run.
    pub(crate) lost: CancellationToken,
    /// Cancelled when a cancellation of the run was requested.
    pub(crate) cancelled: CancellationToken,
    pub(crate) clock: LeaseClock,
}

impl Leases {
    pub(crate) fn new(store: FleetStore, worker: FleetName, lease: Duration) -> Self {
        Self { store, worker, lease, clock: LeaseClock::new(lease), held: Mutex::default() }
    }

    fn held(&self) -> std::sync::MutexGuard<'_, HashMap<LeaseKey, ActiveLease>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn hold(&self, key: LeaseKey) -> ActiveLease {
        let lease = ActiveLease {
            key: key.clone(),
            lost: CancellationToken::new(),
            cancelled: CancellationToken::new(),
            clock: self.clock.clone(),
        };
        self.held().insert(key, lease.clone());
        lease
    }

    pub(crate) fn let_go(&self, lease: &ActiveLease) {
        self.held().remove(&lease.key);
    }

    /// Renews all leases periodically. If the store has not confirmed them for nearly their whole
    /// duration, all runs count as lost, because other workers may have them.
    pub(crate) async fn keep(&self, over: &CancellationToken, trouble: &(dyn Fn(String) + Sync)) {
        let every = (self.lease / 4).max(Duration::from_millis(50));
        loop {
            let asked = since_boot();
            let keys: Vec<LeaseKey> = self.held().keys().cloned().collect();
            let renewing = self.store.queue.renew(self.worker.clone(), keys.clone(), self.lease);
            let answer = tokio::select! {
                () = over.cancelled() => return,
                // A missing answer is treated like an error.
                answer = tokio::time::timeout(self.clock.left().max(every), renewing) => answer,
            };
            match answer {
                Ok(Ok(renewals)) => {
                    self.clock.confirm(asked);
                    self.take(&keys, &renewals);
                }
                Ok(Err(err)) => trouble(in_words(&err)),
                Err(_) => trouble(String::from("the store does not answer")),
            }
            if !self.clock.is_fresh() {
                self.held().values().for_each(|lease| lease.lost.cancel());
            }
            let pause = every.min(self.clock.left().max(Duration::from_millis(50)));
            tokio::select! {
                () = over.cancelled() => return,
                () = tokio::time::sleep(pause) => (),
            }
        }
    }

    fn take(&self, keys: &[LeaseKey], renewals: &[LeaseRenewal]) {
        let held = self.held();
        for (key, renewal) in keys.iter().zip(renewals) {
            let Some(lease) = held.get(key) else { continue };
            match renewal {
                LeaseRenewal::Held { cancel_asked: true } => lease.cancelled.cancel(),
                LeaseRenewal::Held { cancel_asked: false } => (),
                LeaseRenewal::Lost => lease.lost.cancel(),
            }
        }
    }
}

fn in_words(err: &StoreError) -> String {
    format!("leases were not renewed: {err}")
}
