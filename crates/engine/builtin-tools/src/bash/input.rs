use std::{
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use haft_bash_analysis::SharedAnalysis;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

/// Runs a command line in bash and returns what it printed, standard output and error in the order
/// they came.
///
/// Commands run without a terminal and without input: use flags such as `-y`, `-m` or `--no-input`,
/// or `interactive` where a program has to be answered.
/// `cd` stays in effect for later calls inside the workspace; variables do not. Every result says
/// which directory is current. Quote paths with spaces. Prefer Read, Grep, Glob, Edit and Write over
/// cat, grep, find, sed and echo.
///
/// Long output is cut in the middle and kept in a file that the result names. A command that does
/// not end within the `timeout` it was given is stopped with everything it started; without one it
/// goes on in the background after two minutes. Start servers and long builds with
/// `run_in_background`: you are told when they end; do not wait with sleep.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The command line.
    #[schemars(length(min = 1))]
    pub command: String,
    /// Milliseconds until it is stopped, at most 600000. With run_in_background 1800000 unless
    /// given, at most 7200000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<u64>,
    /// What it does, in 5 to 10 words and the active voice: "Install dependencies".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Starts it and returns at once. Read its output with TaskOutput, end it with TaskStop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_in_background: Option<bool>,
    /// Runs it with a terminal of its own and returns when it waits for an answer. Answer with
    /// TaskInput.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interactive: Option<bool>,
    /// Lets what it starts live on after this session. Asks the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detach: Option<bool>,
    /// Runs it outside the sandbox. Asks the user; only when the sandbox was in the way.
    #[serde(default, rename = "dangerouslyDisableSandbox", skip_serializing_if = "Option::is_none")]
    pub dangerously_disable_sandbox: Option<bool>,
    /// Where it would run; not part of what is said.
    #[serde(skip)]
    #[schemars(skip)]
    pub(crate) cwd: PathBuf,
    /// What is known about the line, once that was asked.
    #[serde(skip)]
    #[schemars(skip)]
    pub(crate) reading: OnceLock<Arc<SharedAnalysis>>,
}

/// Programs do not expect the trailing newlines.
fn without_last_newlines<S: serde::Serializer>(text: &str, out: S) -> Result<S::Ok, S::Error> {
    out.serialize_str(text.trim_end_matches('\n'))
}

/// What came of a command.
#[derive(Clone, Debug, Default, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Output {
    /// What it printed, standard output and error in the order they came, as far as it is shown.
    #[serde(serialize_with = "without_last_newlines")]
    pub stdout: String,
    /// Always empty: both are in `stdout`, so that their order is true.
    pub stderr: String,
    /// Whether it was interrupted.
    pub interrupted: bool,
    /// The code it returned, if it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// What that code means, where it is an answer and no failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub return_code_interpretation: Option<String>,
    /// The directory of the next command.
    #[serde(serialize_with = "lossy_path")]
    pub cwd: PathBuf,
    /// How long it ran.
    pub duration_ms: u64,
    /// What it printed is a picture, as a data URL.
    pub is_image: bool,
    /// Success without a word is how it usually succeeds.
    pub no_output_expected: bool,
    /// It goes on in the background under this id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub background_task_id: Option<String>,
    /// A person sent it there.
    #[serde(skip_serializing_if = "is_false")]
    pub backgrounded_by_user: bool,
    /// Its time was up, and it was stopped with everything it had started.
    #[serde(skip_serializing_if = "is_false")]
    pub timed_out: bool,
    /// It went there after this time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timed_out_after_ms: Option<u64>,
    /// Where it runs.
    #[serde(serialize_with = "lossy", skip_serializing_if = "Option::is_none")]
    pub background_cwd_hint: Option<PathBuf>,
    /// Processes it left running.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left_running: Vec<Left>,
    /// It ran outside the sandbox because it asked to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dangerously_disable_sandbox: Option<bool>,
    /// What the sandbox kept it from.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub blocked: Vec<String>,
    /// Where all it printed is, when that is more than is shown.
    #[serde(serialize_with = "lossy", skip_serializing_if = "Option::is_none")]
    pub persisted_output_path: Option<PathBuf>,
    /// How many lines it printed, when that is more than is shown.
    #[serde(skip)]
    pub printed_lines: u64,
    /// How much that is, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub persisted_output_size: Option<u64>,
    /// Where the bytes are that are no text.
    #[serde(serialize_with = "lossy", skip_serializing_if = "Option::is_none")]
    pub raw_output_path: Option<PathBuf>,
    /// Bytes it printed that nobody keeps.
    #[serde(skip_serializing_if = "is_zero")]
    pub dropped_bytes: u64,
    /// What else there is to know, one line each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// A process a command left running.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
pub struct Left {
    /// Its number.
    pub pid: i32,
    /// Its command line.
    pub command: String,
}

/// Progress of a running command.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Progress {
    /// Time since the start in milliseconds.
    pub elapsed_ms: u64,
    /// Bytes printed so far.
    pub bytes: u64,
    /// Lines printed so far.
    pub lines: u64,
    /// The last lines printed.
    pub tail: Vec<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks this way")]
fn is_false(it: &bool) -> bool {
    !it
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks this way")]
fn is_zero(it: &u64) -> bool {
    *it == 0
}

/// Serializes a path that may not be UTF-8; failing would drop all other data.
fn lossy_path<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&path.to_string_lossy())
}

#[expect(clippy::ref_option, reason = "serde asks this way")]
fn lossy<S: Serializer>(path: &Option<PathBuf>, serializer: S) -> Result<S::Ok, S::Error> {
    path.as_deref().map(Path::to_string_lossy).serialize(serializer)
}
