//! Flags of `haft replay`.

use std::path::PathBuf;

use super::OutputFormat;

/// Flags of `haft replay`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ReplayArgs {
    /// What is printed: a transcript, one object at the end, or one per line.
    #[arg(long = "output-format", id = "replay_output_format", value_enum, value_name = "FORMAT")]
    pub(crate) output_format: Option<OutputFormat>,
    /// The file `--record` wrote.
    pub(crate) file: PathBuf,
    /// Where results come from: recorded, or real (run in the working directory, under the rules of
    /// this run: a file gives no permissions).
    #[arg(long, value_enum, default_value_t)]
    pub(crate) tools: ReplayTools,
    /// Play only so many answers; then the model of this run goes on.
    #[arg(long, value_name = "K")]
    pub(crate) fork_at: Option<usize>,
}

/// Where results come from.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, clap::ValueEnum)]
pub(crate) enum ReplayTools {
    /// What the calls returned then.
    #[default]
    Recorded,
    /// The tools run.
    Real,
}
