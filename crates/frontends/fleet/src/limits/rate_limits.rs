//! Rate limits per provider key, drawn from the store in chunks for all sessions of a worker.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex as StdMutex, PoisonError},
    time::{Duration, Instant},
};

use haft_fleet_store::{FleetStore, TokenBucket};
use serde::Deserialize;
use tokio::sync::Mutex;

/// Limits of a key per minute; `None` is unlimited.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub struct KeyLimit {
    /// Requests.
    pub requests: Option<u64>,
    /// Uncached input tokens.
    pub input: Option<u64>,
    /// Output tokens.
    pub output: Option<u64>,
}

/// Limits by `provider` or `provider/model`; the longer match wins, `*` matches any.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(transparent)]
pub struct KeyLimits(pub std::collections::BTreeMap<String, KeyLimit>);

impl KeyLimits {
    fn of(&self, provider: &str, model: &str) -> KeyLimit {
        let names = [format!("{provider}/{model}"), provider.to_owned(), String::from("*")];
        names.iter().find_map(|name| self.0.get(name)).copied().unwrap_or_default()
    }
}

/// Seconds' worth of tokens drawn from the store at once.
const CHUNK_SECONDS: u64 = 5;
/// Percentage of a minute's requests that may be sent as a burst; the rest is spread evenly. So any 60
/// seconds contain hardly more requests than the limit.
const BURST_PERCENT: u64 = 3;
/// How long a cached answer about a frozen key is used.
const FROZEN_COUNTS: Duration = Duration::from_millis(500);
/// Maximum delay before an empty bucket is tried again; well below the time it takes to fill.
const ASKS_AGAIN: Duration = Duration::from_millis(250);
/// Maximum delay before a frozen key is checked again.
const MAX_PAUSE: Duration = Duration::from_secs(1);
/// Maximum wait inside a session; beyond it the job is returned to the queue.
pub(crate) const MAX_WAIT: Duration = Duration::from_secs(90);

/// Draws tokens for all sessions of a worker. Requests queue in FIFO order, and only the first one asks
/// the store.
pub(crate) struct RateLimiter {
    store: FleetStore,
    limits: KeyLimits,
    lines: StdMutex<HashMap<String, Arc<Mutex<DrawnTokens>>>>,
    frozen: Mutex<HashMap<String, ThrottledKey>>,
}

/// Tokens of a bucket that were drawn but not used yet.
#[derive(Default)]
struct DrawnTokens {
    left: u64,
    /// Earliest time at which the store has tokens again.
    empty_until: Option<Instant>,
}

/// Cached state of a key that may be frozen.
#[derive(Default)]
struct ThrottledKey {
    until: Option<Instant>,
    asked_at: Option<Instant>,
}

/// Amounts granted to a request, by bucket.
#[derive(Debug, Default)]
pub(crate) struct KeyGrant(Vec<(String, u64)>);

impl RateLimiter {
    pub(crate) fn new(store: &FleetStore, limits: KeyLimits) -> Arc<Self> {
        let (lines, frozen) = (StdMutex::default(), Mutex::default());
        Arc::new(Self { store: store.clone(), limits, lines, frozen })
    }

    /// Returns how long a key is still frozen. A store error counts as not frozen.
    pub(crate) async fn frozen(&self, key: &str) -> Option<Duration> {
        let name = frozen_key(key);
        let mut all = self.frozen.lock().await;
        let known = all.entry(name.clone()).or_default();
        let now = Instant::now();
        if let Some(until) = known.until.filter(|until| now < *until) {
            return Some(until - now);
        }
        if known.asked_at.is_some_and(|at| now - at < FROZEN_COUNTS) {
            return None;
        }
        known.asked_at = Some(now);
        let left = self.store.clockwork.frozen(name).await.ok().flatten();
        known.until = left.map(|left| now + left);
        left
    }

    /// Freezes a key for all workers, after the provider asked for a delay.
    pub(crate) async fn freeze(&self, key: &str, time: Duration) {
        let name = frozen_key(key);
        self.frozen.lock().await.entry(name.clone()).or_default().until = Some(Instant::now() + time);
        self.store.clockwork.freeze(name, time).await.ok();
    }

    /// Waits until a request may be sent and draws its tokens. `(input, output)` are estimated tokens;
    /// `waits` is called with the expected delay. Fails with the remaining time if a key is frozen for
    /// longer than [`MAX_WAIT`].
    pub(crate) async fn draw(
        &self,
        key: &str,
        (provider, model): (&str, &str),
        (input, output): (u64, u64),
        waits: &(dyn Fn(Duration) + Sync),
    ) -> Result<KeyGrant, Duration> {
        let limit = self.limits.of(provider, model);
        let wanted = [
            ("requests", limit.requests, 1),
            ("input", limit.input, input),
            ("output", limit.output, output),
        ];
        let mut grant = KeyGrant::default();
        self.thawed(key, waits).await?;
        for (kind, per_minute, amount) in wanted {
            let Some(per_minute) = per_minute.filter(|it| 0 < *it) else { continue };
            let name = format!("key/{key}/{kind}");
            // A bucket never holds more than one minute's worth: a larger request takes all of it.
            let amount = amount.min(per_minute);
            self.draw_one(&name, bucket_of(kind, per_minute, amount), amount, waits).await;
            grant.0.push((name, amount));
        }
        // The key may have been frozen while this request was queued.
        match self.thawed(key, waits).await {
            Ok(()) => Ok(grant),
            Err(wait) => {
                self.give_back(grant).await;
                Err(wait)
            }
        }
    }

    /// Waits while a key is frozen.
    async fn thawed(&self, key: &str, waits: &(dyn Fn(Duration) + Sync)) -> Result<(), Duration> {
        while let Some(left) = self.frozen(key).await {
            if MAX_WAIT < left {
                return Err(left);
            }
            waits(left);
            // Jitter, so that not all requests are sent at once.
            let jitter = Duration::from_millis(fastrand::u64(0..50));
            tokio::time::sleep(left.min(MAX_PAUSE) + jitter).await;
        }
        Ok(())
    }

    fn line(&self, name: &str) -> Arc<Mutex<DrawnTokens>> {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(lines.entry(name.to_owned()).or_default())
    }

    async fn draw_one(
        &self,
        name: &str,
        bucket: TokenBucket,
        amount: u64,
        waits: &(dyn Fn(Duration) + Sync),
    ) {
        let line = self.line(name);
        let mut at_hand = match line.try_lock() {
            Ok(at_hand) => at_hand,
            Err(_) => {
                waits(ASKS_AGAIN);
                line.lock().await
            }
        };
        while at_hand.left < amount {
            let pause = at_hand.empty_until.and_then(|until| until.checked_duration_since(Instant::now()));
            if let Some(pause) = pause.filter(|it| !it.is_zero()) {
                waits(pause);
                tokio::time::sleep(pause).await;
            }
            let want = (amount - at_hand.left).max(bucket.capacity);
            let drawn = self.store.clockwork.draw(name.to_owned(), want, bucket).await;
            // A store that does not answer is asked again too.
            let (granted, pause) = drawn.map_or((0, None), |it| (it.granted, it.retry_after));
            at_hand.left += granted;
            let pause = pause.unwrap_or(ASKS_AGAIN).clamp(Duration::from_millis(20), ASKS_AGAIN);
            at_hand.empty_until = (granted < want).then(|| Instant::now() + pause);
        }
        at_hand.left -= amount;
    }

    async fn give_back(&self, grant: KeyGrant) {
        for (name, amount) in grant.0 {
            self.line(&name).lock().await.left += amount;
        }
    }

    /// Corrects the token buckets after a request: returns the surplus of the reservation, or withdraws
    /// the shortfall (a bucket may go below zero). The request bucket is not touched. A store error is
    /// ignored; the bucket then keeps the reserved amount.
    pub(crate) async fn settle(&self, grant: KeyGrant, (input, output): (u64, u64)) {
        for (name, drawn) in grant.0 {
            let used = match name.rsplit('/').next() {
                Some("input") => input,
                Some("output") => output,
                _ => continue,
            };
            let difference =
                i64::try_from(drawn).unwrap_or_default() - i64::try_from(used).unwrap_or_default();
            if difference != 0 {
                self.store.clockwork.settle(name, difference).await.ok();
            }
        }
    }
}

fn frozen_key(key: &str) -> String {
    format!("key/{key}/frozen")
}

/// Returns the size and fill rate of a bucket for a draw of `amount`.
fn bucket_of(kind: &str, per_minute: u64, amount: u64) -> TokenBucket {
    match kind {
        "requests" => {
            let burst = (per_minute * BURST_PERCENT / 100).max(1);
            TokenBucket { capacity: burst, per_minute: per_minute.saturating_sub(burst).max(1) }
        }
        // The bucket must hold a whole request, also after an idle period.
        _ => TokenBucket { capacity: (per_minute * CHUNK_SECONDS / 60).max(amount).max(1), per_minute },
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "test code")]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

    use haft_fleet_store::FleetAddress;

    use super::*;

    async fn desks(dir: &std::path::Path, requests: u64) -> Vec<Arc<RateLimiter>> {
        let address = FleetAddress::parse(&format!("sqlite:{}", dir.join("fleet.db").display())).unwrap();
        let limits = KeyLimits(
            [(String::from("*"), KeyLimit { requests: Some(requests), ..KeyLimit::default() })].into(),
        );
        let mut desks = Vec::new();
        for _ in 0..2 {
            desks.push(RateLimiter::new(&FleetStore::open(&address).await.unwrap(), limits.clone()));
        }
        desks
    }

    #[test]
    fn any_minute_stays_close_below_rate_limit() {
        for per_minute in [20, 100, 1_000, 50_000] {
            let bucket = bucket_of("requests", per_minute, 1);
            assert!(bucket.capacity + bucket.per_minute <= per_minute, "{bucket:?}");
            assert!(per_minute * 95 / 100 <= bucket.per_minute, "{bucket:?}");
        }
    }

    /// Five hundred sessions of two workers together use the key's limit.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn five_hundred_sessions_use_full_rate_limit() {
        const PER_MINUTE: u64 = 1_200;
        let dir = tempfile::tempdir().unwrap();
        let mut seen = Vec::new();
        for attempt in 0..10 {
            let desks = desks(&dir.path().join(attempt.to_string()), PER_MINUTE).await;
            let (sent, over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
            let sessions: Vec<_> = (0..500)
                .map(|number| {
                    let (desk, sent, over) = (desks[number % 2].clone(), sent.clone(), over.clone());
                    tokio::spawn(async move {
                        while !over.load(Ordering::Relaxed) {
                            desk.draw("k", ("p", "m"), (1, 1), &|_| ()).await.unwrap();
                            sent.fetch_add(1, Ordering::Relaxed);
                        }
                    })
                })
                .collect();
            while sent.load(Ordering::Relaxed) < 50 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            let (begin, before) = (Instant::now(), sent.load(Ordering::Relaxed));
            // The store's latency during the test: a bucket fills up in about two seconds.
            let mut slowest = Duration::ZERO;
            while begin.elapsed() < Duration::from_secs(5) {
                let asked = Instant::now();
                desks[0].store.clockwork.count(String::from("probe"), 1, None).await.unwrap();
                tokio::time::sleep(Duration::from_millis(100)).await;
                slowest = slowest.max(asked.elapsed());
            }
            let (took, were) =
                (begin.elapsed().as_millis(), u128::from(sent.load(Ordering::Relaxed) - before));
            over.store(true, Ordering::Relaxed);
            sessions.iter().for_each(tokio::task::JoinHandle::abort);
            let ideal = took * u128::from(PER_MINUTE) / 60_000;
            // The chunks drawn by two workers, and a burst.
            assert!(were <= ideal + 3 * 36, "{were} sent where {ideal} may be");
            if ideal * 95 / 100 <= were {
                return;
            }
            seen.push((were, ideal, slowest));
        }
        let in_time = seen.iter().filter(|it| it.2 < Duration::from_millis(600)).count();
        assert_eq!(in_time, 0, "sent, ideal, slowest answer of the store: {seen:?}");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn frozen_key_is_frozen_for_all_workers() {
        let dir = tempfile::tempdir().unwrap();
        let desks = desks(dir.path(), 60_000).await;
        for desk in &desks {
            desk.draw("k", ("p", "m"), (1, 1), &|_| ()).await.unwrap();
        }
        desks[0].freeze("k", Duration::from_secs(600)).await;
        assert!(desks[0].draw("k", ("p", "m"), (1, 1), &|_| ()).await.is_err());
        // Wait until the other worker's cached state has expired.
        tokio::time::sleep(FROZEN_COUNTS).await;
        let wait = desks[1].draw("k", ("p", "m"), (1, 1), &|_| ()).await.unwrap_err();
        assert!(wait <= Duration::from_secs(600), "{wait:?}");
    }
}
