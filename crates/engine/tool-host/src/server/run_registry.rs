//! All runs of one far process.

use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{Arc, Weak},
    time::SystemTime,
};

use tokio::sync::{Mutex, watch};

use super::{
    HostLimits, RunRequest, SessionFactory,
    call_journal::{JournalClaimError, JournalError, RunJournal},
    host_run::HostRun,
    questions::RemoteApprover,
};
use crate::protocol::{AdmissionErrorKind, Hello, PROTOCOL, Welcome};

/// The runs of a far process: sessions that callers use.
pub struct HostRunRegistry {
    dir: PathBuf,
    lender: Arc<dyn SessionFactory>,
    version: String,
    pub(crate) limits: HostLimits,
    runs: Mutex<HashMap<String, Arc<HostRun>>>,
    /// How many connections and runs there are.
    pub(crate) busy: watch::Sender<usize>,
}

/// Why a caller is not let in.
pub(crate) type AdmissionError = (AdmissionErrorKind, String);

/// Counts somebody as long as it lives.
pub(crate) struct ActivityGuard(Arc<HostRunRegistry>);

impl Drop for ActivityGuard {
    fn drop(&mut self) {
        self.0.busy.send_modify(|it| *it -= 1);
    }
}

impl HostRunRegistry {
    /// Keeps journals below `dir`. `version` is what callers are told.
    pub fn new(
        dir: PathBuf,
        lender: Arc<dyn SessionFactory>,
        version: &str,
        limits: HostLimits,
    ) -> Arc<Self> {
        let runs = Self {
            dir,
            lender,
            version: version.to_owned(),
            limits,
            runs: Mutex::default(),
            busy: watch::Sender::new(0),
        };
        runs.forget_old();
        Arc::new(runs)
    }

    /// Removes journals that nobody used for long.
    fn forget_old(&self) {
        let entries = std::fs::read_dir(self.dir.join("runs")).into_iter().flatten().flatten();
        for entry in entries {
            let used = entry.metadata().and_then(|it| it.modified()).ok();
            let age = used.and_then(|it| SystemTime::now().duration_since(it).ok()).unwrap_or_default();
            if self.limits.journals < age && RunJournal::open(&entry.path()).is_ok() {
                std::fs::remove_file(entry.path()).ok();
            }
        }
    }

    pub(crate) fn mark(self: &Arc<Self>) -> ActivityGuard {
        self.busy.send_modify(|it| *it += 1);
        ActivityGuard(Arc::clone(self))
    }

    /// Lets a caller in: its run, and what it is told.
    pub(crate) async fn admit(
        self: &Arc<Self>,
        hello: &Hello,
    ) -> Result<(Arc<HostRun>, Welcome), AdmissionError> {
        if hello.protocol != PROTOCOL {
            return Err((AdmissionErrorKind::Version, self.other_language(hello)));
        }
        let dir = self.lender.directory(&hello.dir).map_err(|why| (AdmissionErrorKind::Place, why))?;
        let name = run_name(&hello.session, &dir.to_string_lossy());
        let mut runs = self.runs.lock().await;
        let run = match runs.get(&name).filter(|it| !it.closed.is_cancelled()) {
            Some(run) => Arc::clone(run),
            None => {
                if self.limits.runs <= runs.len() {
                    let reason =
                        format!("{} sessions use this tool host already; try again later", runs.len());
                    return Err((AdmissionErrorKind::Busy, reason));
                }
                Arc::new(HostRun::new(name.clone(), self.journal(&name)?))
            }
        };
        let epoch = run.journal.claim(&hello.instance, hello.epoch).map_err(|why| match why {
            JournalClaimError::Fenced(fenced) => (
                AdmissionErrorKind::Fenced,
                format!(
                    "another process has taken this session over (turn {}): what this one does no longer counts",
                    fenced.epoch
                ),
            ),
            JournalClaimError::Disk(err) => (AdmissionErrorKind::Busy, disk(&err)),
        })?;
        if run.lent.get().is_none() {
            let wanted = RunRequest { id: session_id(&name).into(), dir };
            let ask = Arc::new(RemoteApprover(Arc::downgrade(&run)));
            let lent = self.lender.lend(wanted, ask).await.map_err(|why| (AdmissionErrorKind::Place, why))?;
            run.lent.set(lent).ok();
            runs.insert(name, Arc::clone(&run));
            tokio::spawn(Arc::clone(&run).watch_news());
            tokio::spawn(Arc::clone(self).keep(Arc::downgrade(&run)));
        }
        let Some(lent) = run.lent.get() else {
            return Err((AdmissionErrorKind::Busy, String::from("the session could not be opened")));
        };
        let welcome = Welcome {
            protocol: PROTOCOL,
            version: self.version.clone(),
            epoch,
            ping_ms: u64::try_from(self.limits.ping.as_millis()).unwrap_or(u64::MAX),
            place: lent.place.clone(),
            tools: lent.pool.get().names().map(str::to_owned).collect(),
        };
        drop(runs);
        Ok((run, welcome))
    }

    fn journal(&self, name: &str) -> Result<RunJournal, AdmissionError> {
        RunJournal::open(&self.dir.join("runs").join(format!("{name}.jsonl"))).map_err(|why| match why {
            JournalError::TakenOrder => (
                AdmissionErrorKind::Busy,
                String::from("another tool host of this machine has this session; end it, or use that one"),
            ),
            JournalError::Disk(err) => (AdmissionErrorKind::Busy, disk(&err)),
        })
    }

    fn other_language(&self, hello: &Hello) -> String {
        let (older, newer) = if hello.protocol < PROTOCOL {
            ("the calling machine", "the tool host")
        } else {
            ("the tool host", "the calling machine")
        };
        format!(
            "the tool host runs haft {} (protocol {PROTOCOL}), the caller haft {} (protocol {}): update haft on {older} \
             to the version of {newer}; a tool host that still runs the old program ends with `haft tool-host --stop`",
            self.version, hello.version, hello.protocol
        )
    }

    /// Ends a run that its caller left, after a while.
    async fn keep(self: Arc<Self>, run: Weak<HostRun>) {
        let _mark = self.mark();
        loop {
            let Some(watched) = run.upgrade() else { return };
            let (mut visits, closed) = (watched.visits.subscribe(), watched.closed.clone());
            let visit = *visits.borrow_and_update();
            drop(watched);
            tokio::select! {
                () = closed.cancelled() => return,
                _ = visits.changed() => continue,
                () = tokio::time::sleep(self.limits.linger) => (),
            }
            let Some(left) = run.upgrade() else { return };
            if left.is_left_since(visit) {
                tracing::debug!(run = left.name, "nobody came back");
                return self.close(&left).await;
            }
        }
    }

    /// Ends a run: what it has running, then its session.
    pub(crate) async fn close(&self, run: &Arc<HostRun>) {
        run.closed.cancel();
        {
            let mut runs = self.runs.lock().await;
            if runs.get(&run.name).is_some_and(|it| Arc::ptr_eq(it, run)) {
                // Until its session is closed nobody may open it again.
                if let Some(lent) = run.lent.get() {
                    lent.hands.close().await;
                }
                runs.remove(&run.name);
            }
        }
    }

    /// Ends all runs.
    pub async fn close_all(&self) {
        let all: Vec<Arc<HostRun>> = self.runs.lock().await.values().cloned().collect();
        for run in all {
            self.close(&run).await;
        }
    }
}

fn disk(err: &std::io::Error) -> String {
    format!("the tool host cannot keep its journal: {err}")
}

/// The name of a caller's session in one directory.
fn run_name(session: &str, dir: &str) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(session.as_bytes());
    hasher.update(b"\0");
    hasher.update(dir.as_bytes());
    hasher.finalize().to_hex()[..32].to_owned()
}

/// The id of the session that is lent: of the usual form, and never the caller's
/// own, which may be on this very machine.
fn session_id(name: &str) -> String {
    let part = |from: usize, to: usize| name.get(from..to).unwrap_or_default();
    format!("{}-{}-{}-{}-{}", part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32))
}
