//! Limits of scopes and their current usage.

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{FleetName, JobHead, LimitScope, ScopeLimits};

/// Maximum waiting jobs of a pool without an explicit limit.
pub(super) const DEFAULT_MAX_WAITING: u64 = 200_000;

/// Half-life of a tenant's served share, for fairness.
const SERVICE_HALF_LIFE_MS: i64 = 300_000;

/// Rate limiter of a scope's starts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
struct StartPace {
    /// Time up to which starts are used up, in microseconds.
    used_up_to: i64,
}

impl StartPace {
    /// Returns when the next start is allowed; up to one second's worth may start at once.
    fn free_at(self, per_1000s: u64, now: i64) -> i64 {
        let interval = interval_us(per_1000s);
        let burst = interval.max(1_000_000);
        // A clock that was set back must not block starts for that long.
        let used = if self.used_up_to > now * 1_000 + 2 * burst { now * 1_000 } else { self.used_up_to };
        (used + interval - burst).div_euclid(1_000)
    }

    fn start(&mut self, per_1000s: u64, now: i64) {
        self.used_up_to = self.used_up_to.max(now * 1_000) + interval_us(per_1000s);
    }
}

fn interval_us(per_1000s: u64) -> i64 {
    i64::try_from(1_000_000_000 / per_1000s.max(1)).unwrap_or(i64::MAX / 4)
}

/// Recently served share of a tenant.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
struct TenantService {
    half_lives: i64,
    starts: u64,
}

impl TenantService {
    fn at(self, now: i64) -> u64 {
        let passed = now.div_euclid(SERVICE_HALF_LIFE_MS).saturating_sub(self.half_lives).clamp(0, 63);
        self.starts >> passed
    }
}

/// Limits and their usage.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub(super) struct LimitTable {
    #[serde(with = "as_pairs")]
    limits: BTreeMap<LimitScope, ScopeLimits>,
    #[serde(with = "as_pairs")]
    paces: BTreeMap<LimitScope, StartPace>,
    #[serde(with = "as_pairs")]
    served: BTreeMap<(FleetName, FleetName), TenantService>,
    /// Number of running and waiting jobs; recomputed from the jobs when a snapshot is loaded.
    #[serde(skip)]
    running: BTreeMap<LimitScope, u64>,
    #[serde(skip)]
    waiting: BTreeMap<LimitScope, u64>,
    /// Concurrency keys that are in use.
    #[serde(skip)]
    held_keys: BTreeMap<(FleetName, String), u64>,
}

/// Returns the scopes of a job.
pub(super) fn scopes(head: &JobHead) -> impl Iterator<Item = LimitScope> {
    let batch = head.batch.clone().map(|batch| LimitScope::Batch(head.tenant.clone(), batch));
    [LimitScope::Tenant(head.tenant.clone()), LimitScope::Pool(head.pool.clone())].into_iter().chain(batch)
}

/// Formats a scope for display.
fn words(scope: &LimitScope) -> String {
    match scope {
        LimitScope::Tenant(name) => format!("tenant {name}"),
        LimitScope::Pool(name) => format!("pool {name}"),
        LimitScope::Batch(_, name) => format!("batch {name}"),
    }
}

/// A scope with too many waiting jobs.
pub(super) struct QueueFull {
    pub(super) scope: String,
    pub(super) waiting: u64,
    pub(super) bound: u64,
    pub(super) retry_after: Duration,
}

impl LimitTable {
    pub(super) fn set(&mut self, scope: &LimitScope, limits: ScopeLimits) {
        if limits == ScopeLimits::default() {
            self.limits.remove(scope);
        } else {
            self.limits.insert(scope.clone(), limits);
        }
        self.paces.remove(scope);
    }

    pub(super) fn all(&self) -> Vec<(LimitScope, ScopeLimits)> {
        self.limits.iter().map(|(scope, limits)| (scope.clone(), *limits)).collect()
    }

    /// Returns when a scope may start a job (possibly in the past); `None` if one must end first.
    pub(super) fn free_at(&self, scope: &LimitScope, now: i64) -> Option<i64> {
        let Some(limits) = self.limits.get(scope) else { return Some(now) };
        let running = self.running.get(scope).copied().unwrap_or_default();
        if limits.max_running.is_some_and(|most| running >= most) {
            return None;
        }
        let pace = self.paces.get(scope).copied().unwrap_or_default();
        Some(limits.starts_per_1000s.map_or(now, |rate| pace.free_at(rate, now)))
    }

    pub(super) fn is_key_free(&self, tenant: &FleetName, key: &str) -> bool {
        !self.held_keys.contains_key(&(tenant.clone(), key.to_owned()))
    }

    /// Returns a tenant's recently served share of a pool; the lowest goes first.
    pub(super) fn served(&self, pool: &FleetName, tenant: &FleetName, now: i64) -> u64 {
        self.served.get(&(pool.clone(), tenant.clone())).map_or(0, |it| it.at(now))
    }

    pub(super) fn running_of(&self, tenant: &FleetName) -> u64 {
        self.running.get(&LimitScope::Tenant(tenant.clone())).copied().unwrap_or_default()
    }

    /// Records the start of a job.
    pub(super) fn started(&mut self, head: &JobHead, now: i64) {
        for scope in scopes(head) {
            if let Some(rate) = self.limits.get(&scope).and_then(|it| it.starts_per_1000s) {
                self.paces.entry(scope).or_default().start(rate, now);
            }
        }
        let served = self.served.entry((head.pool.clone(), head.tenant.clone())).or_default();
        let starts = served.at(now) + 1;
        *served = TenantService { half_lives: now.div_euclid(SERVICE_HALF_LIFE_MS), starts };
    }

    /// Adds or removes a job from the running count.
    pub(super) fn count_running(&mut self, head: &JobHead, is_more: bool) {
        scopes(head).for_each(|scope| count(&mut self.running, scope, is_more));
        if let Some(key) = &head.concurrency_key {
            count(&mut self.held_keys, (head.tenant.clone(), key.clone()), is_more);
        }
    }

    /// Adds or removes a job from the waiting count.
    pub(super) fn count_waiting(&mut self, head: &JobHead, is_more: bool) {
        scopes(head).for_each(|scope| count(&mut self.waiting, scope, is_more));
    }

    /// Returns the first scope in which these jobs would exceed the limit.
    pub(super) fn overfull<'a>(
        &self,
        heads: impl Iterator<Item = &'a JobHead>,
        now: i64,
    ) -> Option<QueueFull> {
        let mut more: BTreeMap<LimitScope, u64> = BTreeMap::new();
        heads.flat_map(scopes).for_each(|scope| *more.entry(scope).or_default() += 1);
        more.into_iter().find_map(|(scope, more)| {
            let usual = matches!(scope, LimitScope::Pool(_)).then_some(DEFAULT_MAX_WAITING);
            let bound = self.limits.get(&scope).and_then(|it| it.max_waiting).or(usual)?;
            let waiting = self.waiting.get(&scope).copied().unwrap_or_default();
            let over = (waiting + more).checked_sub(bound).filter(|it| *it > 0)?;
            Some(QueueFull {
                scope: words(&scope),
                waiting,
                bound,
                retry_after: self.time_for(&scope, over, now),
            })
        })
    }

    /// Estimates how long this many starts take at the recent rate.
    fn time_for(&self, scope: &LimitScope, starts: u64, now: i64) -> Duration {
        let of_scope = self.served.iter().filter(|((pool, tenant), _)| match scope {
            LimitScope::Pool(it) => it == pool,
            LimitScope::Tenant(it) | LimitScope::Batch(it, _) => it == tenant,
        });
        let lately: u64 = of_scope.map(|(_, service)| service.at(now)).sum();
        let window = u64::try_from(SERVICE_HALF_LIFE_MS / 1_000).unwrap_or_default();
        Duration::from_secs((starts.saturating_mul(window) / lately.max(1)).clamp(1, 600))
    }
}

fn count<K: Ord>(counts: &mut BTreeMap<K, u64>, key: K, is_more: bool) {
    if is_more {
        *counts.entry(key).or_default() += 1;
    } else if let Some(number) = counts.get_mut(&key) {
        *number -= 1;
        if *number == 0 {
            counts.remove(&key);
        }
    }
}

/// Serialises maps with non-string keys as lists of pairs.
pub(super) mod as_pairs {
    use std::collections::BTreeMap;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(in super::super) fn serialize<K: Serialize, V: Serialize, S: Serializer>(
        map: &BTreeMap<K, V>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.collect_seq(map)
    }

    pub(in super::super) fn deserialize<'de, K, V, D>(from: D) -> Result<BTreeMap<K, V>, D::Error>
    where
        K: Deserialize<'de> + Ord,
        V: Deserialize<'de>,
        D: Deserializer<'de>,
    {
        Ok(Vec::<(K, V)>::deserialize(from)?.into_iter().collect())
    }
}
