//! Flags of `haft replay`.

use std::path::PathBuf;

use super::OutputFormat;

/// Flags of `haft replay`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ReplayArgs {
    /// Format: text (a transcript), json (one object) or stream-json (one object per line)
    #[arg(long = "output-format", id = "replay_output_format", value_enum, value_name = "FORMAT")]
    pub(crate) output_format: Option<OutputFormat>,
    /// The file that `--record` wrote
    pub(crate) file: PathBuf,
    /// Where results come from; `real` runs the tools in the working directory, under the rules of this run
    #[arg(long, value_enum, default_value_t)]
    pub(crate) tools: ReplayTools,
    /// Replay this many answers, then continue with the model of this run
    #[arg(long, value_name = "K")]
    pub(crate) fork_at: Option<usize>,
}

/// Where results come from.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, clap::ValueEnum)]
pub(crate) enum ReplayTools {
    /// The recorded results
    #[default]
    Recorded,
    /// The tools run
    Real,
}
