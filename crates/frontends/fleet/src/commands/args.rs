//! Flags of `haft fleet`.

use std::{net::SocketAddr, path::PathBuf};

use clap::Subcommand;

/// What is done with a fleet.
#[derive(Debug, Subcommand)]
pub enum FleetCommand {
    /// Create a store, or configure and start NATS servers
    Up {
        /// Number of NATS servers to use instead of a file
        #[arg(long, value_name = "NUMBER")]
        nodes: Option<u16>,
        /// Directory of their data and configuration
        #[arg(long, value_name = "DIR")]
        dir: Option<PathBuf>,
        /// First port; each server uses two
        #[arg(long, default_value_t = 4222)]
        port: u16,
        /// Only write the configuration
        #[arg(long)]
        print: bool,
    },
    /// Run jobs until told to stop; running jobs then continue elsewhere
    Worker(FleetWorkerArgs),
    /// Submit one job and print its id
    Submit(FleetSubmitArgs),
    /// Submit the jobs of a file (YAML, JSON, JSON lines, CSV): all, or none if the file has problems
    Map(FleetMapArgs),
    /// Count jobs by state
    Status {
        /// Batch or job
        name: Option<String>,
        /// Update until all jobs have ended
        #[arg(long)]
        watch: bool,
        /// Which of the jobs.
        #[command(flatten)]
        which: FleetWhere,
    },
    /// Print a job's log
    Logs {
        /// Job id
        id: String,
        /// Follow the log until the job has ended
        #[arg(short, long)]
        follow: bool,
        /// First line to print
        #[arg(long, default_value_t = 0)]
        from: u64,
    },
    /// Show a job, or a stored result (`blob:HASH`)
    Show {
        /// Job id, or blob:HASH
        id: String,
    },
    /// Follow a job and send it messages
    Attach {
        /// Job id
        id: String,
    },
    /// Send a job one message or an answer
    ///
    /// It reads the message with its next model request, or takes it as the answer it waits for.
    Say {
        /// Job id
        id: String,
        /// The message
        text: String,
    },
    /// Cancel jobs
    Cancel(FleetWhich),
    /// Requeue ended jobs from where they stopped
    Retry {
        /// Which jobs.
        #[command(flatten)]
        which: FleetWhich,
        /// Start from the beginning
        #[arg(long)]
        fresh: bool,
    },
    /// Hold jobs in the queue; running jobs continue
    ///
    /// A paused batch also holds jobs that are added to it.
    Pause(FleetWhich),
    /// Release paused jobs
    Resume(FleetWhich),
    /// Show results; export patches and files
    Results {
        /// Batch or job
        name: String,
        /// Write every patch to this directory
        #[arg(long, value_name = "DIR")]
        patches: Option<PathBuf>,
        /// Write every kept file to this directory, below the id of its job
        #[arg(long, value_name = "DIR")]
        files: Option<PathBuf>,
        /// Print CSV
        #[arg(long)]
        csv: bool,
        /// Apply the patch of this job to the working directory
        #[arg(long, value_name = "ID")]
        apply: Option<String>,
        /// Which of the jobs.
        #[command(flatten)]
        which: FleetWhere,
    },
    /// Show cost by batch, label, model or state
    Cost {
        /// Batch or job; all if none is given
        name: Option<String>,
        /// Group by these: labels, `model`, `state`, `batch`
        #[arg(long, value_delimiter = ',', default_value = "batch")]
        by: Vec<String>,
        /// Which of the jobs.
        #[command(flatten)]
        which: FleetWhere,
    },
    /// Check the store
    Doctor,
    /// Move queued jobs and their logs to another store
    Move {
        /// URL of the other store
        #[arg(long, value_name = "URL")]
        to: String,
    },
    /// Accept jobs and signed webhooks over HTTP; responses contain only the job id
    Serve {
        /// Address to listen on
        #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8787")]
        http: SocketAddr,
        /// File with the token for submitting jobs; without it only webhooks are accepted
        #[arg(long, value_name = "FILE")]
        token_file: Option<PathBuf>,
    },
    /// Submit a job on a schedule, each time once for all workers
    Schedule {
        /// Name of the schedule; without one, list schedules
        name: Option<String>,
        /// Cron expression of five fields
        #[arg(long, value_name = "EXPRESSION", conflicts_with_all = ["every", "from_cron"])]
        cron: Option<String>,
        /// Time zone of the expression
        #[arg(long, value_name = "ZONE", default_value = "")]
        zone: String,
        /// Interval instead of an expression: 90s, 45m, 1h
        #[arg(long, value_name = "TIME")]
        every: Option<String>,
        /// What happens to missed times
        #[arg(long, value_enum, default_value_t)]
        missed: FleetMissed,
        /// Schedule the prompts of `haft cron list` with the store instead of this machine's timer
        #[arg(long, conflicts_with_all = ["every", "name"])]
        from_cron: bool,
        /// Remove the schedule
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
    /// Missed times are skipped
    Skip,
    /// Only the latest missed time runs
    #[default]
    Once,
    /// Every missed time runs
    All,
}

/// How a worker works.
#[derive(Clone, Debug, clap::Args)]
pub struct FleetWorkerArgs {
    /// Pool whose jobs it runs
    #[arg(long, default_value = "default")]
    pub pool: String,
    /// Maximum number of sessions at once
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..))]
    pub slots: u32,
    /// Exit when the queue is empty
    #[arg(long)]
    pub drain: bool,
    /// How long other workers wait for a sign of life before they take over
    #[arg(long, value_name = "TIME", default_value = "30s")]
    pub lease: String,
    /// How long running calls may take when the worker is told to stop
    #[arg(long, value_name = "TIME", default_value = "60s")]
    pub grace: String,
    /// Directory of workspaces (default: ~/.haft/fleet)
    #[arg(long, value_name = "DIR")]
    pub root: Option<PathBuf>,
    /// Keep the workspaces of ended jobs
    #[arg(long)]
    pub keep_workspaces: bool,
    /// Schedule the prompts of `haft cron list`, also later ones, with the store
    #[arg(long)]
    pub cron: bool,
    /// Take no jobs while less memory is free
    #[arg(long, value_name = "SIZE", default_value = "256M")]
    pub least_memory: String,
    /// Take no jobs while less disk space is free for workspaces
    #[arg(long, value_name = "SIZE", default_value = "512M")]
    pub least_disk: String,
    /// CPUs for jobs that ask for some with `needs` (default: all of the machine)
    #[arg(long, value_name = "NUMBER")]
    pub cpu: Option<u64>,
    /// Memory for jobs that ask for some (default: all of the machine)
    #[arg(long, value_name = "SIZE")]
    pub mem: Option<String>,
    /// GPUs for jobs that ask for some (default: all of the machine)
    #[arg(long, value_name = "NUMBER")]
    pub gpu: Option<u64>,
    /// JSON file with `secrets` (`sources`, `allow`), `keys` (limits of providers) and `tenant_usd`
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// The flags of a job.
#[derive(Clone, Debug, Default, clap::Args)]
#[group(skip)]
#[command(next_help_heading = "Job options")]
pub struct FleetJobArgs {
    /// The prompt
    #[arg(short = 'p', long = "prompt", value_name = "PROMPT", allow_hyphen_values = true)]
    pub prompt: Option<String>,
    /// Name of a secret of the worker; may be repeated
    #[arg(long = "secret", value_name = "NAME")]
    pub secrets: Vec<String>,
    /// Wait for an answer (`say`, `attach`) to permission prompts instead of denying them
    #[arg(long)]
    pub ask: bool,
    /// Model to use
    #[arg(long, value_name = "MODEL")]
    pub model: Option<String>,
    /// Another flag of `haft -p`; may be repeated
    #[arg(long = "flag", value_name = "NAME[=VALUE]", allow_hyphen_values = true)]
    pub flags: Vec<String>,
    /// Where a job works, and what it leaves there.
    #[command(flatten)]
    pub checkout: CheckoutArgs,
    /// Which workers run a job, and when.
    #[command(flatten)]
    pub placement: PlacementArgs,
    /// Where a job ends.
    #[command(flatten)]
    pub limits: JobLimitArgs,
}

/// Where a job works, and what it leaves there.
#[derive(Clone, Debug, Default, clap::Args)]
#[group(skip)]
#[command(next_help_heading = "Workspace and result")]
pub struct CheckoutArgs {
    /// Work on a clone of this repository
    #[arg(long, value_name = "URL[@REF]")]
    pub repo: Option<String>,
    /// Work in this directory of the worker
    #[arg(long, value_name = "DIR", conflicts_with = "repo")]
    pub dir: Option<PathBuf>,
    /// Work on a copy of this local repository, with uncommitted changes
    #[arg(long, value_name = "DIR", conflicts_with_all = ["repo", "dir"])]
    pub bundle: Option<PathBuf>,
    /// Work on the files of this archive
    #[arg(long, value_name = "FILE", conflicts_with_all = ["repo", "dir", "bundle"])]
    pub tar: Option<PathBuf>,
    /// Command that prepares the workspace
    #[arg(long, value_name = "COMMAND")]
    pub setup: Option<String>,
    /// Command whose exit code decides whether the job succeeded
    #[arg(long, value_name = "COMMAND")]
    pub check: Option<String>,
    /// Push changes to this branch
    #[arg(long, value_name = "NAME")]
    pub branch: Option<String>,
    /// Keep files that match this pattern; may be repeated
    #[arg(long = "keep", value_name = "PATTERN")]
    pub keep: Vec<String>,
}

/// Which workers run a job, and when.
#[derive(Clone, Debug, Default, clap::Args)]
#[group(skip)]
#[command(next_help_heading = "Placement")]
pub struct PlacementArgs {
    /// Pool of workers
    #[arg(long)]
    pub pool: Option<String>,
    /// Priority: urgent, normal or bulk
    #[arg(long)]
    pub class: Option<String>,
    /// Jobs with the same key never run at the same time
    #[arg(long, value_name = "KEY")]
    pub concurrency_key: Option<String>,
    /// CPUs that the job needs
    #[arg(long, value_name = "NUMBER")]
    pub cpu: Option<u64>,
    /// Memory that the job needs: 512M, 8G
    #[arg(long, value_name = "SIZE")]
    pub mem: Option<String>,
    /// GPUs that the job needs
    #[arg(long, value_name = "NUMBER")]
    pub gpu: Option<u64>,
}

/// Where a job ends.
#[derive(Clone, Debug, Default, clap::Args)]
#[group(skip)]
#[command(next_help_heading = "Job limits")]
pub struct JobLimitArgs {
    /// Maximum number of model requests
    #[arg(long, value_name = "N")]
    pub max_turns: Option<u32>,
    /// Maximum cost of one job in US dollars
    #[arg(long, value_name = "USD")]
    pub max_usd: Option<f64>,
    /// Maximum time of one job: 45m, 2h
    #[arg(long, value_name = "TIME")]
    pub max_time: Option<String>,
    /// Maximum size of the workspace of one job: 500M, 6G
    #[arg(long, value_name = "SIZE")]
    pub max_disk: Option<String>,
}

/// Flags of `haft fleet submit`.
#[derive(Clone, Debug, clap::Args)]
pub struct FleetSubmitArgs {
    /// Name of its batch
    #[arg(long)]
    pub batch: Option<String>,
    /// Job that must be done first; may be repeated
    #[arg(long = "needs", value_name = "ID")]
    pub needs: Vec<String>,
    /// Submitting again with the same key returns the same job
    #[arg(long, value_name = "KEY")]
    pub key: Option<String>,
    /// Wait for the end, print the answer and exit as `haft -p` does
    #[arg(long)]
    pub wait: bool,
    /// The job.
    #[command(flatten)]
    pub job: FleetJobArgs,
}

/// Flags of `haft fleet map`.
#[derive(Clone, Debug, clap::Args)]
pub struct FleetMapArgs {
    /// File with the jobs
    pub file: PathBuf,
    /// Name of the batch (default: from the file and its content)
    #[arg(long)]
    pub batch: Option<String>,
    /// Submit only the first N jobs
    #[arg(long, value_name = "NUMBER")]
    pub first: Option<usize>,
    /// Run these first, and the others only if all of them succeed
    #[arg(long, value_name = "NUMBER-OR-PERCENT", conflicts_with = "first")]
    pub canary: Option<String>,
    /// Maximum number of running jobs
    #[arg(long, value_name = "NUMBER")]
    pub max_running: Option<u32>,
    /// Maximum cost of all jobs in US dollars
    #[arg(long, value_name = "USD")]
    pub budget_usd: Option<f64>,
    /// Wait until all have ended; exit with 0 if all succeeded, with 1 if not
    #[arg(long)]
    pub wait: bool,
    /// Check the file and print the jobs without submitting them
    #[arg(long)]
    pub dry_run: bool,
    /// The job.
    #[command(flatten)]
    pub job: FleetJobArgs,
}

/// Which jobs of those that were named.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct FleetWhere {
    /// Only jobs that match: `state=parked repo=x`
    #[arg(long = "where", value_name = "CONDITIONS")]
    pub conditions: Option<String>,
}

/// Jobs that something is done with.
#[derive(Clone, Debug, clap::Args)]
pub struct FleetWhich {
    /// Batch or job
    #[arg(required_unless_present = "conditions")]
    pub name: Option<String>,
    /// Which of the jobs.
    #[command(flatten)]
    pub which: FleetWhere,
}
