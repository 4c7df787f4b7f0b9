//! The stored description of a job: everything a worker needs except secrets.

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Deserializer, Serialize, de::Error as _};
use serde_json::{Map, Value};

use super::units::{duration_of, size_of};

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct JobBody {
    pub prompt: String,
    /// What it works on.
    #[serde(skip_serializing_if = "CheckoutSpec::is_empty")]
    pub workspace: CheckoutSpec,
    /// Flags of `haft -p`, by long name.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub flags: Map<String, Value>,
    #[serde(skip_serializing_if = "JobLimits::is_empty")]
    pub limits: JobLimits,
    /// A command whose exit code says whether the job succeeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub check: Option<String>,
    /// What is stored as results.
    #[serde(skip_serializing_if = "ResultsSpec::is_empty")]
    pub results: ResultsSpec,
    /// Names of secrets that become environment variables.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<String>,
    /// Environment variables.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// When it is retried.
    pub retry: RetrySpec,
    /// Handling of calls whose outcome is unknown after a takeover.
    pub on_unknown: OnUnknown,
    /// When checkpoints are made.
    pub checkpoint: CheckpointWhen,
    /// Handling of questions to the user.
    #[serde(skip_serializing_if = "OnQuestion::is_usual")]
    pub on_question: OnQuestion,
}

impl JobBody {
    /// Checks consistency; the error is for the author of the job.
    pub fn check_sense(&self) -> Result<(), String> {
        let WorkspaceSource::Host(host) = self.workspace.source()? else { return Ok(()) };
        let elsewhere = [
            (self.workspace.setup.is_some(), "setup"),
            (!self.workspace.cache.is_empty(), "cache"),
            (self.check.is_some(), "check"),
            (!self.results.is_empty(), "results"),
            (self.limits.disk.is_some(), "limits.disk"),
        ];
        match elsewhere.into_iter().find(|it| it.0) {
            Some((_, what)) => Err(format!(
                "`{what}` is about the worker's own files, and those of this job are on the tool host {host}: leave it \
                 out, and let the prompt ask for it"
            )),
            None => Ok(()),
        }
    }
}

/// What a job works on.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct CheckoutSpec {
    /// URL of a git repository to clone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub git: Option<String>,
    /// Branch, tag or commit.
    #[serde(rename = "ref", skip_serializing_if = "Option::is_none")]
    pub git_ref: Option<String>,
    /// Depth of a shallow clone, in commits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub depth: Option<u32>,
    /// A git bundle with a patch, created when the job was submitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bundle: Option<String>,
    /// An archive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tar: Option<String>,
    /// A directory of the worker, used in place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dir: Option<String>,
    /// A container image by digest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// A tool host: a name in the worker's settings, or `NAME=ADDRESS`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Setup command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub setup: Option<String>,
    /// Timeout of the setup command.
    #[serde(deserialize_with = "time", skip_serializing_if = "Option::is_none")]
    pub setup_limit: Option<Duration>,
    /// Files that the setup's result depends on; if they are unchanged, a cached result is used.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cache: Vec<String>,
}

/// Origin of a workspace.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum WorkspaceSource<'a> {
    /// An empty directory.
    Empty,
    /// A git repository.
    Git {
        url: &'a str,
        /// Branch, tag or commit.
        git_ref: Option<&'a str>,
        /// Depth of a shallow clone, in commits.
        depth: Option<u32>,
    },
    Bundle(&'a str),
    Tar(&'a str),
    /// A directory of the worker.
    Dir(&'a str),
    Image(&'a str),
    Host(&'a str),
}

impl CheckoutSpec {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the origin; an error if there is more than one.
    pub fn source(&self) -> Result<WorkspaceSource<'_>, String> {
        let named = [
            self.git.as_deref().map(|url| WorkspaceSource::Git {
                url,
                git_ref: self.git_ref.as_deref(),
                depth: self.depth,
            }),
            self.bundle.as_deref().map(WorkspaceSource::Bundle),
            self.tar.as_deref().map(WorkspaceSource::Tar),
            self.dir.as_deref().map(WorkspaceSource::Dir),
            self.image.as_deref().map(WorkspaceSource::Image),
            self.host.as_deref().map(WorkspaceSource::Host),
        ];
        let mut named = named.into_iter().flatten();
        let first = named.next().unwrap_or(WorkspaceSource::Empty);
        if named.next().is_some() {
            return Err(String::from("a workspace is one of git, bundle, tar, dir, image and host"));
        }
        if self.git.is_none() && (self.git_ref.is_some() || self.depth.is_some()) {
            return Err(String::from("`ref` and `depth` belong to `git`"));
        }
        Ok(first)
    }
}

/// Limits of a job.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct JobLimits {
    /// Budget in US dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usd: Option<f64>,
    /// Time on workers; time in the queue is not counted.
    #[serde(deserialize_with = "time", skip_serializing_if = "Option::is_none")]
    pub time: Option<Duration>,
    /// Memory of each of its commands, in bytes.
    #[serde(deserialize_with = "size", skip_serializing_if = "Option::is_none")]
    pub memory: Option<u64>,
    /// Disk usage of its workspace, in bytes.
    #[serde(deserialize_with = "size", skip_serializing_if = "Option::is_none")]
    pub disk: Option<u64>,
}

impl JobLimits {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// What is stored as results of a job.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct ResultsSpec {
    /// The branch its changes are pushed to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// Glob patterns of files.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
}

impl ResultsSpec {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// When a job is retried.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct RetrySpec {
    /// Maximum number of retries.
    pub max: u32,
    /// Failures that are retried.
    pub on: Vec<RetryOn>,
}

impl Default for RetrySpec {
    fn default() -> Self {
        Self { max: 3, on: vec![RetryOn::Lost, RetryOn::Provider] }
    }
}

/// A kind of failure that can be retried.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RetryOn {
    /// The worker was lost.
    Lost,
    /// A provider error (exit code 6).
    Provider,
    /// The model stopped before it was done (exit code 1).
    Incomplete,
    /// The check failed.
    Check,
    /// The workspace could not be created.
    Setup,
}

/// Handling of a call that was started and whose outcome is unknown.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnUnknown {
    /// Report it to the model.
    #[default]
    Tell,
    /// Restore the workspace and run the call again, if its effects were limited to the workspace;
    /// otherwise report it to the model.
    UndoAndRerun,
    /// Park the job until a person decides.
    Stop,
}

/// Handling of permission prompts and questions to the user.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OnQuestion {
    /// Deny at once.
    #[default]
    Deny,
    /// Wait for a remote answer.
    Wait,
}

impl OnQuestion {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks with a reference")]
    fn is_usual(&self) -> bool {
        *self == Self::default()
    }
}

/// When checkpoints are made.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckpointWhen {
    /// After every call with side effects.
    Call,
    /// After every answer whose calls had side effects.
    #[default]
    Turn,
    /// When the job ends.
    End,
}

/// Deserialises a duration from text, a number or its stored form.
fn time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    match Value::deserialize(deserializer)? {
        Value::Null => Ok(None),
        Value::Number(number) => {
            number.as_u64().map(|it| Some(Duration::from_secs(it))).ok_or_else(|| D::Error::custom("no time"))
        }
        Value::String(text) => duration_of(&text).map(Some).map_err(D::Error::custom),
        // The stored form.
        Value::Object(fields) => {
            let seconds = fields.get("secs").and_then(Value::as_u64);
            Ok(seconds.map(Duration::from_secs))
        }
        _ => Err(D::Error::custom("no time; write 90s, 45m or 1h30m")),
    }
}

fn size<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    match Value::deserialize(deserializer)? {
        Value::Null => Ok(None),
        Value::Number(number) => number.as_u64().map(Some).ok_or_else(|| D::Error::custom("no size")),
        Value::String(text) => size_of(&text).map(Some).map_err(D::Error::custom),
        _ => Err(D::Error::custom("no size; write 512M or 6G")),
    }
}
