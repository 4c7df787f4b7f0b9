//! `haft fleet worker`, and the in-process worker of commands with `--wait`.

use std::{path::PathBuf, process::ExitCode, sync::Arc, time::Duration};

use haft_console::{
    interrupt::Interrupt,
    stdout::{CliError, CommandExit, print_error},
};
use haft_fleet_store::{FleetName, FleetStore, ResourceRequest};
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use super::{
    FleetContext,
    args::FleetWorkerArgs,
    store::{OpenFleet, fleet_dir},
    stored_prompts,
};
use crate::{
    FleetClient, FleetWorker, JobSessions, KeyLimits, SecretRules, WorkerEvent, WorkerSettings,
    job_file::{duration_of, size_of},
};

/// Contents of a worker's configuration file.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct WorkerFile {
    secrets: SecretRules,
    keys: KeyLimits,
    tenant_usd: Option<f64>,
}

/// Interval at which stored prompts are handed over.
const LOOKS: Duration = Duration::from_secs(5);

/// Hands over the stored prompts of this machine every `LOOKS`. Errors are printed. Never returns;
/// cancel by dropping.
async fn hand_over_prompts(desk: &FleetClient, context: &FleetContext) {
    loop {
        if let Err(CliError::Message(why)) = stored_prompts::hand_over(desk, context).await {
            print_error(&format!("stored prompts: {why}"));
        }
        tokio::time::sleep(LOOKS).await;
    }
}

pub(super) async fn run(fleet: &OpenFleet, args: &FleetWorkerArgs, context: &FleetContext) -> CommandExit {
    let store = &fleet.whole;
    let settings = settings(args)?;
    let (worker, mut news) =
        FleetWorker::new(store.clone(), settings, Arc::clone(&context.program) as Arc<dyn JobSessions>);
    let interrupt = Interrupt::listen_now();
    tokio::spawn(async move {
        while let Some(news) = news.recv().await {
            print_error(&in_words(&news));
        }
    });
    let working = worker.run(interrupt.cancel.clone());
    tokio::select! {
        ended = working => ended.map_err(|err| CliError::Message(err.to_string()))?,
        () = hand_over_prompts(&fleet.desk, context), if args.cron => (),
    }
    Ok(ExitCode::SUCCESS)
}

fn in_words(news: &WorkerEvent) -> String {
    match news {
        WorkerEvent::Ready => String::from("waits for jobs"),
        WorkerEvent::Took { run, epoch } => format!("{run}: taken (epoch {epoch})"),
        WorkerEvent::Left { run, what } => format!("{run}: {what}"),
        WorkerEvent::Warns { run, text } => format!("{run}: {text}"),
        WorkerEvent::NoRoom(why) => format!("takes no jobs: {why}"),
        WorkerEvent::Trouble(why) => why.clone(),
    }
}

fn settings(args: &FleetWorkerArgs) -> Result<WorkerSettings, CliError> {
    let pool = FleetName::parse(&args.pool).map_err(|err| err.to_string())?;
    let mut settings =
        WorkerSettings::new(worker_name()?, pool, args.root.clone().map_or_else(fleet_dir, Ok)?);
    settings.slots = args.slots.max(1);
    settings.until_empty = args.drain;
    settings.lease = duration_of(&args.lease)?.max(Duration::from_secs(1));
    settings.grace = duration_of(&args.grace)?;
    settings.least_memory = size_of(&args.least_memory)?;
    settings.least_disk = size_of(&args.least_disk)?;
    settings.keep_workspaces = args.keep_workspaces;
    let has = settings.machine;
    settings.machine = ResourceRequest {
        cpu: args.cpu.unwrap_or(has.cpu),
        mem: args.mem.as_deref().map_or(Ok(has.mem), size_of)?,
        gpu: args.gpu.unwrap_or(has.gpu),
    };
    settings.program = program();
    if let Some(file) = worker_file(args.config.clone())? {
        settings.secrets = file.secrets;
        settings.key_limits = file.keys;
        settings.tenant_usd = file.tenant_usd;
    }
    Ok(settings)
}

/// Reads the worker file: the named one, or `worker.json` in the fleet directory. `None` if none was
/// named and that one does not exist.
fn worker_file(named: Option<PathBuf>) -> Result<Option<WorkerFile>, CliError> {
    let usual = fleet_dir()?.join("worker.json");
    let path = match named {
        Some(path) => path,
        None if usual.is_file() => usual,
        None => return Ok(None),
    };
    let text = std::fs::read_to_string(&path).map_err(|err| format!("{}: {err}", path.display()))?;
    let file = serde_json::from_str(&text).map_err(|err| format!("{}: {err}", path.display()))?;
    Ok(Some(file))
}

/// A unique worker name.
fn worker_name() -> Result<FleetName, CliError> {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let plain: String =
        host.trim().chars().map(|it| if it.is_ascii_alphanumeric() { it } else { '-' }).take(40).collect();
    let host = if plain.is_empty() { String::from("host") } else { plain };
    let random = uuid::Uuid::new_v4().simple().to_string();
    let name = format!("{host}-{}-{}", std::process::id(), &random[..8]);
    Ok(FleetName::parse(&name).map_err(|err| err.to_string())?)
}

fn program() -> Option<PathBuf> {
    let program = PathBuf::from("/proc/self/exe");
    if program.exists() { Some(program) } else { std::env::current_exe().ok() }
}

/// A worker in this process, for a pool that has none.
pub(super) struct InProcessWorker {
    stop: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

impl InProcessWorker {
    /// Starts a worker unless the pool already has one (`None`).
    pub(super) async fn start_unless_running(
        store: &FleetStore,
        pool: &str,
        context: &FleetContext,
    ) -> Result<Option<Self>, CliError> {
        let workers = store.queue.workers().await.map_err(|err| err.to_string())?;
        if workers.iter().any(|it| it.pool.as_str() == pool) {
            return Ok(None);
        }
        let pool = FleetName::parse(pool).map_err(|err| err.to_string())?;
        let mut settings = WorkerSettings::new(worker_name()?, pool, fleet_dir()?);
        settings.program = program();
        // The user waits for this process to exit, so running jobs get little time to stop.
        settings.patience = Duration::from_millis(100);
        if let Some(file) = worker_file(None)? {
            settings.secrets = file.secrets;
            settings.key_limits = file.keys;
            settings.tenant_usd = file.tenant_usd;
        }
        print_error("no worker is there; this process works on it");
        let (worker, mut news) =
            FleetWorker::new(store.clone(), settings, Arc::clone(&context.program) as Arc<dyn JobSessions>);
        let stop = CancellationToken::new();
        let drain = stop.clone();
        let task = tokio::spawn(async move {
            tokio::spawn(async move {
                while let Some(news) = news.recv().await {
                    match &news {
                        WorkerEvent::NoRoom(_) | WorkerEvent::Trouble(_) | WorkerEvent::Warns { .. } => {
                            print_error(&in_words(&news));
                        }
                        WorkerEvent::Ready | WorkerEvent::Took { .. } | WorkerEvent::Left { .. } => (),
                    }
                }
            });
            if let Err(err) = worker.run(drain).await {
                print_error(&err.to_string());
            }
        });
        Ok(Some(Self { stop, task }))
    }

    /// Stops the worker and waits for it. Jobs that still run go back to the queue.
    pub(super) async fn end(self) {
        self.stop.cancel();
        self.task.await.ok();
    }
}
