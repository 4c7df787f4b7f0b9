//! Schedules, counters and buckets on top of the ledger.

use std::{sync::Arc, time::Duration};

use haft_schedule::CronSpec;
use jiff::{Timestamp, tz::TimeZone};

use super::{StoreCore, unexpected};
use crate::{
    BucketDraw, CounterLimit, FiredSlot, FiringTime, FleetName, LeaseKey, MissedSlots, NewSchedule,
    ReserveOutcome, RunId, ScheduleRecord, ScheduleStore, StoreError, StoreFuture, TokenBucket,
    engine::stale,
    ledger::{LedgerCommand, LedgerOutcome, StoredSchedule},
};

/// Age in milliseconds from which a slot counts as missed.
const LATE_MS: i64 = 60_000;

/// Maximum missed slots that fire.
const SLOTS_AT_MOST: usize = 100;

/// Returns the first slot at or after a time.
fn slot_from(when: &FiringTime, from: i64) -> Result<Option<i64>, StoreError> {
    match when {
        FiringTime::At(moment) => Ok(Some(moment.as_millisecond()).filter(|it| *it >= from)),
        FiringTime::Every { from: first, seconds } => {
            let step = i64::try_from(*seconds).ok().and_then(|it| it.checked_mul(1_000)).filter(|it| *it > 0);
            let step = step.ok_or_else(|| {
                StoreError::Refused(String::from("a schedule repeats after a second or more"))
            })?;
            let first = first.as_millisecond();
            let steps = (from - first).max(0).div_euclid(step) + i64::from((from - first).max(0) % step != 0);
            Ok(first.checked_add(steps.saturating_mul(step)))
        }
        FiringTime::Cron { expression, zone } => {
            let spec = CronSpec::parse(expression).map_err(|err| StoreError::Refused(err.to_string()))?;
            let zone = if zone.is_empty() { Ok(TimeZone::UTC) } else { TimeZone::get(zone) };
            let zone = zone.map_err(|err| StoreError::Refused(err.to_string()))?;
            let before = Timestamp::from_millisecond(from.saturating_sub(1)).unwrap_or(Timestamp::UNIX_EPOCH);
            Ok(spec.next_after(before, &zone).map(Timestamp::as_millisecond))
        }
    }
}

/// Slots that fire now, and the one after them.
struct DueSlots {
    fire: Vec<i64>,
    next: Option<i64>,
}

/// Returns the due slots of a schedule.
fn due_slots(schedule: &StoredSchedule, now: i64) -> Result<Option<DueSlots>, StoreError> {
    let Some(first) = schedule.next.filter(|it| *it <= now) else { return Ok(None) };
    let mut slots = std::collections::VecDeque::from([first]);
    let mut next = slot_from(&schedule.when, first + 1)?;
    if let FiringTime::Every { seconds, .. } = schedule.when {
        // After years, skip ahead instead of iterating over all slots.
        let span =
            i64::try_from(seconds).unwrap_or(i64::MAX / 2_000).saturating_mul(1_000 * SLOTS_AT_MOST as i64);
        next = next.map(|it| {
            it.max(slot_from(&schedule.when, now.saturating_sub(span)).ok().flatten().unwrap_or(it))
        });
    }
    while let Some(slot) = next.filter(|it| *it <= now) {
        slots.push_back(slot);
        if slots.len() > SLOTS_AT_MOST {
            slots.pop_front();
        }
        next = slot_from(&schedule.when, slot + 1)?;
    }
    let newest = slots.back().copied();
    let fire = match schedule.missed {
        MissedSlots::All => slots.into(),
        MissedSlots::Once => newest.into_iter().collect(),
        MissedSlots::Skip => newest.filter(|it| now - it < LATE_MS).into_iter().collect(),
    };
    Ok(Some(DueSlots { fire, next }))
}

impl StoreCore {
    async fn tick(&self) -> Result<Vec<FiredSlot>, StoreError> {
        let mirror = self.up_to_date().await?;
        let now = mirror.engine_now();
        let due: Vec<StoredSchedule> = mirror.read(|it| {
            it.schedules().filter(|it| it.next.is_some_and(|next| next <= now)).cloned().collect()
        });
        let mut fired = Vec::new();
        for schedule in due {
            let Some(due) = due_slots(&schedule, now)? else { continue };
            let command = LedgerCommand::Fire {
                tenant: schedule.head.tenant.clone(),
                name: schedule.name.clone(),
                expected: schedule.next.unwrap_or_default(),
                slots: due.fire.into_iter().map(|slot| (slot, RunId::random())).collect(),
                next: due.next,
            };
            match self.ask(command).await? {
                LedgerOutcome::Fired(slots) => fired.extend(slots),
                other => return Err(unexpected(&other)),
            }
        }
        Ok(fired)
    }
}

/// [`ScheduleStore`] on a ledger.
pub(crate) struct LedgerSchedules(pub(crate) Arc<StoreCore>);

impl ScheduleStore for LedgerSchedules {
    fn schedule(&self, schedule: NewSchedule) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            let begin = match schedule.when {
                FiringTime::Cron { .. } => self.0.mirror.engine_now() + 1,
                FiringTime::At(_) | FiringTime::Every { .. } => i64::MIN / 4,
            };
            let next = slot_from(&schedule.when, begin)?;
            if next.is_none() {
                return Err(StoreError::Refused(format!("schedule {} never fires", schedule.name)));
            }
            let body = self.0.values.store(&schedule.head.tenant, schedule.body).await?;
            let NewSchedule { name, when, missed, head, .. } = schedule;
            let schedule = StoredSchedule { name, when, missed, head, body, next, last: None };
            self.0.order(LedgerCommand::Schedule { schedule }).await
        })
    }

    fn unschedule(&self, tenant: FleetName, name: FleetName) -> StoreFuture<'_, bool> {
        Box::pin(async move {
            match self.0.ask(LedgerCommand::Unschedule { tenant, name }).await? {
                LedgerOutcome::Flag(was_there) => Ok(was_there),
                other => Err(unexpected(&other)),
            }
        })
    }

    fn schedules(&self) -> StoreFuture<'_, Vec<ScheduleRecord>> {
        Box::pin(async move {
            let stored: Vec<StoredSchedule> =
                self.0.up_to_date().await?.read(|it| it.schedules().cloned().collect());
            let mut records = Vec::with_capacity(stored.len());
            for it in stored {
                let body = self.0.values.load(&it.head.tenant, it.body).await?;
                let schedule =
                    NewSchedule { name: it.name, when: it.when, missed: it.missed, head: it.head, body };
                let moment = |ms: i64| Timestamp::from_millisecond(ms).ok();
                records.push(ScheduleRecord {
                    schedule,
                    next: it.next.and_then(moment),
                    last: it.last.and_then(moment),
                });
            }
            Ok(records)
        })
    }

    fn tick(&self) -> StoreFuture<'_, Vec<FiredSlot>> {
        Box::pin(self.0.tick())
    }

    fn count(&self, key: String, add: i64, by: Option<LeaseKey>) -> StoreFuture<'_, i64> {
        Box::pin(async move {
            match (self.0.ask(LedgerCommand::Count { key, add, by: by.clone() }).await?, by) {
                (LedgerOutcome::Number(is), _) => Ok(is),
                (LedgerOutcome::Stale, Some(key)) => Err(stale(&key)),
                (other, _) => Err(unexpected(&other)),
            }
        })
    }

    fn counters(&self, prefix: String) -> StoreFuture<'_, Vec<(String, i64)>> {
        Box::pin(async move { Ok(self.0.up_to_date().await?.read(|it| it.counters(&prefix))) })
    }

    fn reserve(
        &self,
        amount: i64,
        of: Vec<CounterLimit>,
        by: Option<LeaseKey>,
    ) -> StoreFuture<'_, ReserveOutcome> {
        Box::pin(async move {
            match (self.0.ask(LedgerCommand::Reserve { amount, of, by: by.clone() }).await?, by) {
                (LedgerOutcome::Reserved(reserved), _) => Ok(reserved),
                (LedgerOutcome::Stale, Some(key)) => Err(stale(&key)),
                (other, _) => Err(unexpected(&other)),
            }
        })
    }

    fn draw(&self, key: String, want: u64, bucket: TokenBucket) -> StoreFuture<'_, BucketDraw> {
        Box::pin(async move {
            match self.0.ask(LedgerCommand::Draw { key, want, bucket }).await? {
                LedgerOutcome::Drawn(draw) => Ok(draw),
                other => Err(unexpected(&other)),
            }
        })
    }

    fn settle(&self, key: String, amount: i64) -> StoreFuture<'_, ()> {
        Box::pin(self.0.order(LedgerCommand::Settle { key, amount }))
    }

    fn freeze(&self, key: String, time: Duration) -> StoreFuture<'_, ()> {
        let ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Box::pin(self.0.order(LedgerCommand::Freeze { key, ms }))
    }

    fn frozen(&self, key: String) -> StoreFuture<'_, Option<Duration>> {
        Box::pin(async move {
            let mirror = self.0.up_to_date().await?;
            let left = mirror.read(|it| it.frozen_until(&key)) - mirror.engine_now();
            Ok(u64::try_from(left).ok().filter(|it| *it > 0).map(Duration::from_millis))
        })
    }
}
