//! Ready jobs in starting order.

use std::collections::{BTreeMap, BTreeSet};

use crate::{FleetName, JobClass, JobHead, ResourceRequest};

/// Jobs with the same key share a lane: concurrency key and resource needs.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
struct LaneKey {
    key: Option<String>,
    machine: ResourceRequest,
}

impl LaneKey {
    fn from_head(head: &JobHead) -> Self {
        Self { key: head.concurrency_key.clone(), machine: head.needs.machine }
    }
}

/// Ready jobs of one batch (or none) of a tenant, in lanes. `fronts` has the first job of each lane, so
/// jobs behind a held key or a large job cost nothing.
#[derive(Debug, Default)]
struct BatchLanes {
    lanes: BTreeMap<LaneKey, BTreeSet<u64>>,
    fronts: BTreeSet<(u64, LaneKey)>,
}

impl BatchLanes {
    fn change(&mut self, key: &LaneKey, change: impl FnOnce(&mut BTreeSet<u64>)) {
        let lane = self.lanes.entry(key.clone()).or_default();
        if let Some(first) = lane.first() {
            self.fronts.remove(&(*first, key.clone()));
        }
        change(lane);
        match lane.first() {
            Some(first) => {
                self.fronts.insert((*first, key.clone()));
            }
            None => {
                self.lanes.remove(key);
            }
        }
    }
}

type Tenants = BTreeMap<FleetName, BTreeMap<Option<FleetName>, BatchLanes>>;

/// Jobs that are ready to start, except for limits.
#[derive(Debug, Default)]
pub(super) struct ReadyJobs {
    pools: BTreeMap<FleetName, BTreeMap<JobClass, Tenants>>,
}

impl ReadyJobs {
    pub(super) fn insert(&mut self, head: &JobHead, order: u64) {
        let tenants = self.pools.entry(head.pool.clone()).or_default().entry(head.class).or_default();
        let lanes = tenants.entry(head.tenant.clone()).or_default().entry(head.batch.clone()).or_default();
        lanes.change(&LaneKey::from_head(head), |lane| {
            lane.insert(order);
        });
    }

    pub(super) fn remove(&mut self, head: &JobHead, order: u64) {
        let Some(classes) = self.pools.get_mut(&head.pool) else { return };
        let Some(tenants) = classes.get_mut(&head.class) else { return };
        let Some(batches) = tenants.get_mut(&head.tenant) else { return };
        let Some(lanes) = batches.get_mut(&head.batch) else { return };
        lanes.change(&LaneKey::from_head(head), |lane| {
            lane.remove(&order);
        });
        if lanes.lanes.is_empty() {
            batches.remove(&head.batch);
        }
        if batches.is_empty() {
            tenants.remove(&head.tenant);
        }
    }

    /// Returns the tenants with ready jobs of a class in a pool.
    pub(super) fn tenants(&self, pool: &FleetName, class: JobClass) -> impl Iterator<Item = &FleetName> {
        self.pools.get(pool).and_then(|it| it.get(&class)).into_iter().flat_map(|it| it.keys())
    }

    /// Returns a tenant's first job that fits the machine and whose batch and concurrency key are free.
    pub(super) fn first(
        &self,
        pool: &FleetName,
        class: JobClass,
        tenant: &FleetName,
        machine: ResourceRequest,
        is_batch_free: impl Fn(&FleetName) -> bool,
        is_key_free: impl Fn(&str) -> bool,
    ) -> Option<u64> {
        let batches = self.pools.get(pool)?.get(&class)?.get(tenant)?;
        let free = batches.iter().filter(|(batch, _)| batch.as_ref().is_none_or(&is_batch_free));
        let firsts = free.filter_map(|(_, lanes)| {
            let mut fronts = lanes.fronts.iter();
            let may_start =
                |lane: &LaneKey| lane.machine.fits(machine) && lane.key.as_deref().is_none_or(&is_key_free);
            fronts.find(|(_, lane)| may_start(lane)).map(|(order, _)| *order)
        });
        firsts.min()
    }
}
