//! Schedules, counters and token buckets of a ledger.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{LedgerCommand, LedgerOutcome, StoredValue, limits::as_pairs};
use crate::{
    BucketDraw, CounterLimit, FiringTime, FleetName, JobHead, MissedSlots, ReserveOutcome, TokenBucket,
};

/// Converts milliseconds of the engine's clock to a timestamp.
pub(super) fn moment(ms: i64) -> Timestamp {
    Timestamp::from_millisecond(ms).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// A schedule and its next slot.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct StoredSchedule {
    pub(crate) name: FleetName,
    pub(crate) when: FiringTime,
    pub(crate) missed: MissedSlots,
    pub(crate) head: JobHead,
    pub(crate) body: StoredValue,
    pub(crate) next: Option<i64>,
    pub(crate) last: Option<i64>,
}

/// Level of a bucket in millionths of a token.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
struct BucketLevel {
    micro: i128,
    at: i64,
    frozen_until: i64,
    bucket: Option<TokenBucket>,
}

const MICRO: i128 = 1_000_000;

impl BucketLevel {
    fn fill(&mut self, now: i64) {
        if let Some(bucket) = self.bucket {
            let passed = i128::from((now - self.at).max(0));
            let full = i128::from(bucket.capacity) * MICRO;
            self.micro = (self.micro + passed * i128::from(bucket.per_minute) * MICRO / 60_000).min(full);
        }
        self.at = now;
    }

    fn draw(&mut self, now: i64, want: u64, bucket: TokenBucket) -> BucketDraw {
        if self.bucket.is_none() {
            self.micro = self.micro.saturating_add(i128::from(bucket.capacity) * MICRO);
            self.at = now;
        }
        self.fill(now);
        self.bucket = Some(bucket);
        self.micro = self.micro.min(i128::from(bucket.capacity) * MICRO);
        if self.frozen_until > now {
            let left = u64::try_from(self.frozen_until - now).unwrap_or_default();
            return BucketDraw { granted: 0, retry_after: Some(Duration::from_millis(left)) };
        }
        let there = u64::try_from((self.micro / MICRO).max(0)).unwrap_or(u64::MAX);
        let granted = want.min(there);
        self.micro -= i128::from(granted) * MICRO;
        let missing = i128::from(want.min(bucket.capacity).max(1)) * MICRO - self.micro;
        let retry_after = (granted < want).then(|| {
            let ms = missing.max(0) * 60_000 / (i128::from(bucket.per_minute.max(1)) * MICRO) + 1;
            Duration::from_millis(u64::try_from(ms).unwrap_or(u64::MAX / 1_000).min(86_400_000))
        });
        BucketDraw { granted, retry_after }
    }
}

/// State of schedules, counters and buckets.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub(super) struct ScheduleState {
    #[serde(with = "as_pairs")]
    schedules: BTreeMap<(FleetName, FleetName), StoredSchedule>,
    counters: BTreeMap<String, i64>,
    levels: BTreeMap<String, BucketLevel>,
}

impl ScheduleState {
    pub(super) fn apply(&mut self, now: i64, command: &LedgerCommand) -> LedgerOutcome {
        match command {
            LedgerCommand::Schedule { schedule } => {
                let key = (schedule.head.tenant.clone(), schedule.name.clone());
                let mut schedule = schedule.clone();
                // Declaring the same schedule again keeps its position.
                if let Some(same) = self.schedules.get(&key).filter(|it| it.when == schedule.when) {
                    (schedule.next, schedule.last) = (same.next, same.last);
                }
                self.schedules.insert(key, schedule);
                LedgerOutcome::Done
            }
            LedgerCommand::Unschedule { tenant, name } => {
                LedgerOutcome::Flag(self.schedules.remove(&(tenant.clone(), name.clone())).is_some())
            }
            LedgerCommand::Count { key, add, .. } => LedgerOutcome::Number(self.count(key, *add)),
            LedgerCommand::Reserve { amount, of, .. } => LedgerOutcome::Reserved(self.reserve(*amount, of)),
            LedgerCommand::Draw { key, want, bucket } => {
                LedgerOutcome::Drawn(self.levels.entry(key.clone()).or_default().draw(now, *want, *bucket))
            }
            LedgerCommand::Settle { key, amount } => {
                let level = self.levels.entry(key.clone()).or_default();
                level.fill(now);
                level.micro = level.micro.saturating_add(i128::from(*amount) * MICRO);
                LedgerOutcome::Done
            }
            LedgerCommand::Freeze { key, ms } => {
                let level = self.levels.entry(key.clone()).or_default();
                level.frozen_until = level.frozen_until.max(now.saturating_add_unsigned(*ms));
                LedgerOutcome::Done
            }
            _ => LedgerOutcome::Unknown,
        }
    }

    fn count(&mut self, key: &str, add: i64) -> i64 {
        let counter = self.counters.entry(key.to_owned()).or_default();
        *counter = counter.saturating_add(add);
        let is = *counter;
        if is == 0 {
            self.counters.remove(key);
        }
        is
    }

    fn reserve(&mut self, amount: i64, of: &[CounterLimit]) -> ReserveOutcome {
        for CounterLimit { key, at_most } in of {
            let is = self.counters.get(key).copied().unwrap_or_default();
            if is.saturating_add(amount) > *at_most {
                return ReserveOutcome::No { key: key.clone(), is, at_most: *at_most };
            }
        }
        ReserveOutcome::Yes(of.iter().map(|it| self.count(&it.key, amount)).collect())
    }

    /// Advances a schedule, if its next slot still is the expected one.
    pub(super) fn fire(
        &mut self,
        tenant: &FleetName,
        name: &FleetName,
        expected: i64,
        last: Option<i64>,
        next: Option<i64>,
    ) -> Option<StoredSchedule> {
        let schedule = self.schedules.get_mut(&(tenant.clone(), name.clone()))?;
        if schedule.next != Some(expected) {
            return None;
        }
        schedule.next = next;
        schedule.last = last.or(schedule.last);
        Some(schedule.clone())
    }

    pub(super) fn schedules(&self) -> impl Iterator<Item = &StoredSchedule> {
        self.schedules.values()
    }

    pub(super) fn counters(&self, prefix: &str) -> Vec<(String, i64)> {
        let from = self.counters.range(prefix.to_owned()..);
        from.take_while(|(key, _)| key.starts_with(prefix)).map(|(key, is)| (key.clone(), *is)).collect()
    }

    pub(super) fn frozen_until(&self, key: &str) -> i64 {
        self.levels.get(key).map_or(0, |it| it.frozen_until)
    }
}
