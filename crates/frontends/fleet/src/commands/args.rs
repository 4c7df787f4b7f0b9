//! Flags of `haft fleet`.

use std::{net::SocketAddr, path::PathBuf};

use clap::Subcommand;

/// What is done with a fleet.
#[derive(Debug, Subcommand)]
pub enum FleetCommand {
    /// Make a store ready: a file, or the configuration of NATS servers, which are started where the program is installed.
    Up {
        /// So many NATS servers instead of a file.
        #[arg(long, value_name = "NUMBER")]
        nodes: Option<u16>,
        /// Where their data and configuration are.
        #[arg(long, value_name = "DIR")]
        dir: Option<PathBuf>,
        /// The first port; each server takes two.
        #[arg(long, default_value_t = 4222)]
        port: u16,
        /// Only write the configuration.
        #[arg(long)]
        print: bool,
    },
    /// Work on jobs until the process is asked to end; then what runs goes on elsewhere.
    Worker(FleetWorkerArgs),
    /// Queue one job and print its id.
    Submit(FleetSubmitArgs),
    /// Queue the jobs of a file (YAML, JSON, JSON lines, CSV): all of them, or none and what is wrong with it.
    Map(FleetMapArgs),
    /// Show how many jobs are where; of one batch, or of all.
    Status {
        /// A batch or a job.
        name: Option<String>,
        /// Go on showing it until everything has ended.
        #[arg(long)]
        watch: bool,
        /// Which of the jobs.
        #[command(flatten)]
        which: FleetWhere,
    },
    /// Print the log of a run.
    Logs {
        /// The job.
        id: String,
        /// Go on until the run has ended.
        #[arg(short, long)]
        follow: bool,
        /// From this line on.
        #[arg(long, default_value_t = 0)]
        from: u64,
    },
    /// Show everything about a job, or a large result that a log names.
    Show {
        /// The job, or blob:HASH.
        id: String,
    },
    /// Follow a run, and say to it what is typed.
    Attach {
        /// The job.
        id: String,
    },
    /// Say something to a run: it hears it with its next request, or takes it as the answer where it waits for one.
    Say {
        /// The job.
        id: String,
        /// What.
        text: String,
    },
    /// End jobs.
    Cancel(FleetWhich),
    /// Put ended jobs back into the queue, from where they stopped.
    Retry {
        /// Which jobs.
        #[command(flatten)]
        which: FleetWhich,
        /// From the beginning.
        #[arg(long)]
        fresh: bool,
    },
    /// Keep jobs from starting; what runs, runs on. A paused batch pauses what is added to it, too.
    Pause(FleetWhich),
    /// Let paused jobs start.
    Resume(FleetWhich),
    /// Show what came of jobs.
    Results {
        /// A batch or a job.
        name: String,
        /// Write every patch into this directory.
        #[arg(long, value_name = "DIR")]
        patches: Option<PathBuf>,
        /// Write every kept file into this directory, below the id of its job.
        #[arg(long, value_name = "DIR")]
        files: Option<PathBuf>,
        /// Print a table for spreadsheets.
        #[arg(long)]
        csv: bool,
        /// Apply the patch of this job to the working directory.
        #[arg(long, value_name = "ID")]
        apply: Option<String>,
        /// Which of the jobs.
        #[command(flatten)]
        which: FleetWhere,
    },
    /// Show what jobs cost.
    Cost {
        /// A batch or a job; all of them when nothing is named.
        name: Option<String>,
        /// Add up by these: labels, `model`, `state`, `batch`.
        #[arg(long, value_delimiter = ',', default_value = "batch")]
        by: Vec<String>,
        /// Which of the jobs.
        #[command(flatten)]
        which: FleetWhere,
    },
    /// Look whether the store is as it should be.
    Doctor,
    /// Carry queued jobs and their logs over to another store.
    Move {
        /// The other store.
        #[arg(long, value_name = "URL")]
        to: String,
    },
    /// Take jobs and signed webhooks over HTTP; every answer says nothing but the id.
    Serve {
        /// Listen here.
        #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8787")]
        http: SocketAddr,
        /// A file with the token that may submit jobs; without it only webhooks are taken.
        #[arg(long, value_name = "FILE")]
        token_file: Option<PathBuf>,
    },
    /// Submit a job again and again: at the times of a cron expression, each time once for all workers.
    Schedule {
        /// The name of the schedule.
        name: Option<String>,
        /// When: five fields.
        #[arg(long, value_name = "EXPRESSION", conflicts_with_all = ["every", "from_cron"])]
        cron: Option<String>,
        /// The zone of the expression.
        #[arg(long, value_name = "ZONE", default_value = "")]
        zone: String,
        /// Or every so often: 90s, 45m, 1h.
        #[arg(long, value_name = "TIME")]
        every: Option<String>,
        /// What becomes of times nobody was there for.
        #[arg(long, value_enum, default_value_t)]
        missed: FleetMissed,
        /// Let the prompts that `haft cron list` shows go by the clock of the store: no timer of this machine runs them then.
        #[arg(long, conflicts_with_all = ["every", "name"])]
        from_cron: bool,
        /// Remove the schedule.
        #[arg(long, conflicts_with_all = ["cron", "every", "from_cron"])]
        remove: bool,
        /// The job.
        #[command(flatten)]
        job: FleetJobArgs,
    },
}

/// What becomes of missed times.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, clap::ValueEnum)]
pub enum FleetMissed {
    /// They are gone.
    Skip,
    /// The newest fires.
    #[default]
    Once,
    /// All fire.
    All,
}

/// How a worker works.
#[derive(Clone, Debug, clap::Args)]
pub struct FleetWorkerArgs {
    /// Jobs of this pool.
    #[arg(long, default_value = "default")]
    pub pool: String,
    /// So many sessions at once.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..))]
    pub slots: u32,
    /// End when nothing waits any more.
    #[arg(long)]
    pub drain: bool,
    /// How long others wait for a sign of life before they take over.
    #[arg(long, value_name = "TIME", default_value = "30s")]
    pub lease: String,
    /// How long running calls may take when the worker is asked to end.
    #[arg(long, value_name = "TIME", default_value = "60s")]
    pub grace: String,
    /// Where workspaces are made; `~/.haft/fleet` when nobody says.
    #[arg(long, value_name = "DIR")]
    pub root: Option<PathBuf>,
    /// Keep workspaces of jobs that ended.
    #[arg(long)]
    pub keep_workspaces: bool,
    /// Let the prompts that are stored on this machine (`haft cron list`), also later, go by the clock of the store.
    #[arg(long)]
    pub cron: bool,
    /// Take nothing while the machine has less memory left.
    #[arg(long, value_name = "SIZE", default_value = "256M")]
    pub least_memory: String,
    /// Take nothing while there is less room for workspaces.
    #[arg(long, value_name = "SIZE", default_value = "512M")]
    pub least_disk: String,
    /// Processors for jobs that ask for some (`needs`); those of the machine when nobody says.
    #[arg(long, value_name = "NUMBER")]
    pub cpu: Option<u64>,
    /// Memory for jobs that ask for some; the machine's when nobody says.
    #[arg(long, value_name = "SIZE")]
    pub mem: Option<String>,
    /// Graphics processors for jobs that ask for some; those of the machine when nobody says.
    #[arg(long, value_name = "NUMBER")]
    pub gpu: Option<u64>,
    /// A JSON file: `secrets` (`sources`, `allow`), `keys` (limits of providers), `tenant_usd`.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// What a job is made of.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct FleetJobArgs {
    /// What is asked.
    #[arg(short = 'p', long = "prompt", value_name = "PROMPT", allow_hyphen_values = true)]
    pub prompt: Option<String>,
    /// Work on a clone of this repository: URL or URL@ref.
    #[arg(long, value_name = "URL[@REF]")]
    pub repo: Option<String>,
    /// Work in this directory of the worker itself.
    #[arg(long, value_name = "DIR", conflicts_with = "repo")]
    pub dir: Option<PathBuf>,
    /// Work on this repository as it is here, with what is not committed.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["repo", "dir"])]
    pub bundle: Option<PathBuf>,
    /// Work on the files of this archive.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["repo", "dir", "bundle"])]
    pub tar: Option<PathBuf>,
    /// A command that makes the workspace ready.
    #[arg(long, value_name = "COMMAND")]
    pub setup: Option<String>,
    /// A command whose exit code says whether it worked.
    #[arg(long, value_name = "COMMAND")]
    pub check: Option<String>,
    /// Push changes to this branch.
    #[arg(long, value_name = "NAME")]
    pub branch: Option<String>,
    /// Keep files of this pattern; may be given again.
    #[arg(long = "keep", value_name = "PATTERN")]
    pub keep: Vec<String>,
    /// Which workers.
    #[arg(long)]
    pub pool: Option<String>,
    /// urgent, normal or bulk.
    #[arg(long)]
    pub class: Option<String>,
    /// Jobs with the same words never run at the same time.
    #[arg(long, value_name = "WORDS")]
    pub concurrency_key: Option<String>,
    /// Processors that a worker must have left for it.
    #[arg(long, value_name = "NUMBER")]
    pub cpu: Option<u64>,
    /// Memory that a worker must have left for it: 512M, 8G.
    #[arg(long, value_name = "SIZE")]
    pub mem: Option<String>,
    /// Graphics processors that a worker must have left for it.
    #[arg(long, value_name = "NUMBER")]
    pub gpu: Option<u64>,
    /// A secret of the worker, by name; may be given again.
    #[arg(long = "secret", value_name = "NAME")]
    pub secrets: Vec<String>,
    /// Wait for whoever answers with `say` or `attach`, instead of taking no for an answer.
    #[arg(long)]
    pub ask: bool,
    /// Which model.
    #[arg(long)]
    pub model: Option<String>,
    /// Requests to the model at most.
    #[arg(long)]
    pub max_turns: Option<u32>,
    /// Dollars at most, for one job.
    #[arg(long, value_name = "USD")]
    pub max_usd: Option<f64>,
    /// Time at most, for one job: 45m, 2h.
    #[arg(long, value_name = "TIME")]
    pub max_time: Option<String>,
    /// Bytes of the workspace at most, for one job: 500M, 6G.
    #[arg(long, value_name = "SIZE")]
    pub max_disk: Option<String>,
    /// Another flag of `haft -p`: name or name=value; may be given again.
    #[arg(long = "flag", value_name = "NAME[=VALUE]", allow_hyphen_values = true)]
    pub flags: Vec<String>,
}

/// Flags of `haft fleet submit`.
#[derive(Clone, Debug, clap::Args)]
pub struct FleetSubmitArgs {
    /// The job.
    #[command(flatten)]
    pub job: FleetJobArgs,
    /// The name of its batch.
    #[arg(long)]
    pub batch: Option<String>,
    /// A job that must be done before; may be given again.
    #[arg(long = "needs", value_name = "ID")]
    pub needs: Vec<String>,
    /// A second submit with the same words is the same job.
    #[arg(long, value_name = "WORDS")]
    pub key: Option<String>,
    /// Wait until it has ended, print the answer, and exit as `haft -p` would.
    #[arg(long)]
    pub wait: bool,
}

/// Flags of `haft fleet map`.
#[derive(Clone, Debug, clap::Args)]
pub struct FleetMapArgs {
    /// The file with the jobs.
    pub file: PathBuf,
    /// The job.
    #[command(flatten)]
    pub job: FleetJobArgs,
    /// The name of the batch; the file and its content when nobody says.
    #[arg(long)]
    pub batch: Option<String>,
    /// Only the first so many: a rehearsal.
    #[arg(long, value_name = "NUMBER")]
    pub first: Option<usize>,
    /// These first, and the others only if all of them worked.
    #[arg(long, value_name = "NUMBER-OR-PERCENT", conflicts_with = "first")]
    pub canary: Option<String>,
    /// So many at the same time.
    #[arg(long, value_name = "NUMBER")]
    pub max_running: Option<u32>,
    /// Dollars at most, for all of them.
    #[arg(long, value_name = "USD")]
    pub budget_usd: Option<f64>,
    /// Wait until all have ended: 0 when all worked, 1 when some did not.
    #[arg(long)]
    pub wait: bool,
    /// Only check the file and say what it means.
    #[arg(long)]
    pub dry_run: bool,
}

/// Which jobs of those that were named.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct FleetWhere {
    /// Only jobs that fit: `state=parked repo=x`.
    #[arg(long = "where", value_name = "CONDITIONS")]
    pub conditions: Option<String>,
}

/// Jobs that something is done with.
#[derive(Clone, Debug, clap::Args)]
pub struct FleetWhich {
    /// A batch or a job.
    #[arg(required_unless_present = "conditions")]
    pub name: Option<String>,
    /// Which of the jobs.
    #[command(flatten)]
    pub which: FleetWhere,
}
