//! Pool of the running servers: one per plan, started on first use.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{
        Arc, LazyLock, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use crate::{LspClient, LspError, ServerKey, ServerLauncher, ServerPlan};

/// Maximum number of remembered stop messages.
const MAX_STOPPED: usize = 1_000;

/// Limits of a pool.
#[derive(Clone, Copy, Debug)]
pub struct PoolLimits {
    /// Exits and failed starts older than this no longer count towards `ServerPlan::most_ends`.
    pub forgiven: Duration,
    /// Time without a request after which a server is stopped.
    pub idle: Duration,
    /// Maximum number of running servers; beyond it the longest idle one is stopped.
    pub most: usize,
    /// Interval of memory checks.
    pub weigh: Duration,
}

impl Default for PoolLimits {
    fn default() -> Self {
        Self {
            forgiven: Duration::from_secs(300),
            idle: Duration::from_secs(900),
            most: 8,
            weigh: Duration::from_secs(15),
        }
    }
}

/// The running servers of a process.
#[derive(Default)]
pub struct ServerPool {
    limits: PoolLimits,
    slots: Mutex<BTreeMap<ServerKey, Arc<ServerSlot>>>,
    /// Maximum bytes of memory of all servers; 0 for no limit.
    most_memory: AtomicU64,
    /// Held during a memory check, so that checks do not overlap.
    weighing: tokio::sync::Mutex<()>,
    /// Messages about servers stopped for their memory use, in order.
    stopped: Mutex<Vec<String>>,
}

/// State of one server.
#[derive(Default)]
struct ServerSlot {
    /// Locked while the server starts, so that it starts only once.
    running: tokio::sync::Mutex<SlotState>,
    /// The client, readable while `running` is locked.
    seen: Mutex<Option<Arc<LspClient>>>,
}

#[derive(Default)]
struct SlotState {
    ends: Vec<Instant>,
    last: String,
}

impl ServerPool {
    pub fn new(limits: PoolLimits) -> Arc<Self> {
        Arc::new(Self { limits, ..Self::default() })
    }

    /// The pool of this process, shared by all its sessions.
    pub fn of_process() -> Arc<Self> {
        static POOL: LazyLock<Arc<ServerPool>> = LazyLock::new(|| ServerPool::new(PoolLimits::default()));
        Arc::clone(&POOL)
    }

    fn slots(&self) -> MutexGuard<'_, BTreeMap<ServerKey, Arc<ServerSlot>>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The server with this key, if it runs.
    pub fn running(&self, key: &ServerKey) -> Option<Arc<LspClient>> {
        self.slots().get(key).and_then(|slot| slot.client())
    }

    pub fn all(&self) -> Vec<Arc<LspClient>> {
        self.slots().values().filter_map(|slot| slot.client()).collect()
    }

    /// All running servers in this sandbox.
    pub fn held_by(&self, held: &str) -> Vec<Arc<LspClient>> {
        let slots = self.slots();
        slots.iter().filter(|(key, _)| key.held == held).filter_map(|(_, slot)| slot.client()).collect()
    }

    /// The running server with this program and sandbox whose root is the nearest one above `file`.
    pub fn serving(&self, file: &Path, program: &Path, held: &str) -> Option<Arc<LspClient>> {
        let slots = self.slots();
        let fits = slots.iter().filter(|(key, _)| key.held == held).filter_map(|(_, slot)| slot.client());
        fits.filter(|it| it.plan().program == program && file.starts_with(&it.plan().root))
            .max_by_key(|it| it.plan().root.as_os_str().len())
    }

    /// Returns the server of a plan and starts it if necessary. Fails with [`LspError::Off`] if it has
    /// exited too often. Waits for a start in progress.
    pub async fn get(
        self: &Arc<Self>,
        plan: &ServerPlan,
        held: &str,
        launcher: &dyn ServerLauncher,
    ) -> Result<Arc<LspClient>, LspError> {
        let key = plan.key(held);
        let slot = Arc::clone(self.slots().entry(key.clone()).or_default());
        let mut state = slot.running.lock().await;
        if let Some(client) = slot.client() {
            return Ok(client);
        }
        if let Some(gone) = slot.take() {
            state.ended(gone.end().unwrap_or_default());
        }
        state.ends.retain(|at| at.elapsed() < self.limits.forgiven);
        if plan.most_ends as usize <= state.ends.len() {
            return Err(LspError::Off { server: plan.name.clone(), why: state.last.clone() });
        }
        self.make_room(&key);
        match LspClient::start(plan.clone(), launcher).await {
            Ok(client) => {
                slot.put(&client);
                self.watch(&key, &client);
                Ok(client)
            }
            Err(fault) => {
                state.ended(match &fault {
                    LspError::NotStarted { why, .. } => why.clone(),
                    other => other.to_string(),
                });
                Err(fault)
            }
        }
    }

    /// Sets the memory limit of all servers in bytes. Applies to the whole pool: the last caller wins.
    pub fn limit_memory(&self, most: Option<u64>) {
        self.most_memory.store(most.unwrap_or(0), Ordering::Relaxed);
    }

    /// Messages about servers stopped for their memory use, without the first `seen`.
    pub fn stopped_for_memory(&self, seen: usize) -> Vec<String> {
        let stopped = self.stopped.lock().unwrap_or_else(PoisonError::into_inner);
        stopped.get(seen..).unwrap_or_default().to_vec()
    }

    fn running_now(&self) -> Vec<(ServerKey, Arc<LspClient>)> {
        let slots = self.slots();
        slots.iter().filter_map(|(key, slot)| Some((key.clone(), slot.client()?))).collect()
    }

    /// Stops the longest idle servers until the others are within the memory limit. A server that
    /// exceeds it alone is killed and counted as an exit, so that it is not restarted forever.
    async fn keep_within_memory(&self) {
        let most = self.most_memory.load(Ordering::Relaxed);
        let Ok(_one) = self.weighing.try_lock() else { return };
        if most == 0 {
            return;
        }
        let running = self.running_now();
        let weighed = tokio::task::spawn_blocking(move || {
            running.into_iter().map(|(key, it)| (key, it.memory().unwrap_or(0), it)).collect::<Vec<_>>()
        });
        let Ok(mut weighed) = weighed.await else { return };
        weighed.sort_by_key(|it| std::cmp::Reverse(it.2.idle()));
        let mut left = weighed.len();
        let mut total: u64 = weighed.iter().map(|it| it.1).sum();
        for (key, bytes, client) in weighed {
            if total <= most {
                return;
            }
            let (total_mb, most_mb) = (total.div_ceil(1 << 20), most >> 20);
            let name = &client.plan().name;
            let took =
                format!("language servers took {total_mb} MB together, more than lsp.memoryMb ({most_mb})");
            total -= bytes;
            left -= 1;
            let words = match left {
                0 => format!(
                    "{name} was stopped: it takes {} MB, more than lsp.memoryMb ({most_mb})",
                    bytes.div_ceil(1 << 20)
                ),
                _ => format!("{name}, which was not asked for longest, was stopped: {took}"),
            };
            self.remember(words.clone());
            match left {
                0 => client.kill(&words),
                _ => {
                    self.forget(&key);
                    client.stop().await;
                }
            }
        }
    }

    fn remember(&self, stopped: String) {
        let mut all = self.stopped.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() < MAX_STOPPED {
            all.push(stopped);
        }
    }

    /// Stops the longest idle server if the pool is full.
    fn make_room(&self, but: &ServerKey) {
        let running = self.running_now();
        if running.len() < self.limits.most {
            return;
        }
        let idlest = running.into_iter().filter(|(key, _)| key != but).max_by_key(|(_, it)| it.idle());
        if let Some((key, client)) = idlest {
            self.forget(&key);
            tokio::spawn(async move { client.stop().await });
        }
    }

    fn forget(&self, key: &ServerKey) {
        self.slots().remove(key);
    }

    /// Stops the server when it has been idle for long, and checks memory periodically.
    fn watch(self: &Arc<Self>, key: &ServerKey, client: &Arc<LspClient>) {
        let (pool, key, client) = (Arc::downgrade(self), key.clone(), Arc::downgrade(client));
        let PoolLimits { idle, weigh, .. } = self.limits;
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(weigh.min(idle / 4)).await;
                let (Some(pool), Some(client)) = (pool.upgrade(), client.upgrade()) else { return };
                if client.end().is_some() {
                    return;
                }
                if idle <= client.idle() {
                    pool.forget(&key);
                    client.stop().await;
                    return;
                }
                drop(client);
                pool.keep_within_memory().await;
            }
        });
    }

    /// Stops all servers in this sandbox, or all servers. Waits until they have stopped.
    pub async fn stop(&self, held: Option<&str>) {
        let gone: Vec<Arc<ServerSlot>> = {
            let mut slots = self.slots();
            let keys: Vec<ServerKey> =
                slots.keys().filter(|key| held.is_none_or(|held| key.held == held)).cloned().collect();
            keys.iter().filter_map(|key| slots.remove(key)).collect()
        };
        let clients: Vec<Arc<LspClient>> = gone.iter().filter_map(|slot| slot.take()).collect();
        let stopping = clients.into_iter().map(|it| tokio::spawn(async move { it.stop().await }));
        for stopped in stopping.collect::<Vec<_>>() {
            stopped.await.ok();
        }
    }
}

impl ServerSlot {
    fn client(&self) -> Option<Arc<LspClient>> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.as_ref().filter(|it| it.end().is_none()).cloned()
    }

    fn take(&self) -> Option<Arc<LspClient>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn put(&self, client: &Arc<LspClient>) {
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(client));
    }
}

impl SlotState {
    fn ended(&mut self, why: String) {
        self.ends.push(Instant::now());
        self.last = why;
    }
}
