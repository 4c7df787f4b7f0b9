//! What a job is, as it is stored: everything a worker needs and no secret.

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Deserializer, Serialize, de::Error as _};
use serde_json::{Map, Value};

use super::units::{duration_of, size_of};

/// One job.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct JobBody {
    /// What is asked.
    pub prompt: String,
    /// What it works on.
    #[serde(skip_serializing_if = "CheckoutSpec::is_empty")]
    pub workspace: CheckoutSpec,
    /// Flags of `haft -p`, by their long names.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub flags: Map<String, Value>,
    /// What bounds it.
    #[serde(skip_serializing_if = "JobLimits::is_empty")]
    pub limits: JobLimits,
    /// A command whose exit code says whether the job did what it should.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub check: Option<String>,
    /// What is kept of it.
    #[serde(skip_serializing_if = "ResultsSpec::is_empty")]
    pub results: ResultsSpec,
    /// Names of secrets that become variables.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<String>,
    /// Variables.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// When it is tried again.
    pub retry: RetrySpec,
    /// What becomes of a call whose outcome nobody knows.
    pub on_unknown: OnUnknown,
    /// When its files are kept.
    pub checkpoint: CheckpointWhen,
    /// What becomes of questions that only a person can answer.
    #[serde(skip_serializing_if = "OnQuestion::is_usual")]
    pub on_question: OnQuestion,
}

impl JobBody {
    /// Whether what it says fits together; the error is for whoever wrote it.
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
    /// A repository to clone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub git: Option<String>,
    /// Which branch, tag or commit of it.
    #[serde(rename = "ref", skip_serializing_if = "Option::is_none")]
    pub git_ref: Option<String>,
    /// How many commits of its past.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub depth: Option<u32>,
    /// A bundle of a repository and a patch, made where the job was submitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bundle: Option<String>,
    /// An archive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tar: Option<String>,
    /// A directory of the worker itself, worked in as it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dir: Option<String>,
    /// A container image by digest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// A tool host: a name that the worker's settings know, or `NAME=ADDRESS`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// A command that makes it ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub setup: Option<String>,
    /// How long that may take.
    #[serde(deserialize_with = "time", skip_serializing_if = "Option::is_none")]
    pub setup_limit: Option<Duration>,
    /// Files whose content says whether what it made can be used again.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cache: Vec<String>,
}

/// Where a workspace comes from.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum WorkspaceSource<'a> {
    /// Nowhere: an empty directory.
    Empty,
    /// A repository.
    Git {
        /// Its address.
        url: &'a str,
        /// What of it.
        git_ref: Option<&'a str>,
        /// How many commits of its past.
        depth: Option<u32>,
    },
    /// A bundle.
    Bundle(&'a str),
    /// An archive.
    Tar(&'a str),
    /// A directory of the worker.
    Dir(&'a str),
    /// A container image.
    Image(&'a str),
    /// A tool host.
    Host(&'a str),
}

impl CheckoutSpec {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Where it comes from; an error where that was said twice.
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

/// What bounds a job.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct JobLimits {
    /// Dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usd: Option<f64>,
    /// Time on workers, waiting not counted.
    #[serde(deserialize_with = "time", skip_serializing_if = "Option::is_none")]
    pub time: Option<Duration>,
    /// Memory of each of its commands, in bytes.
    #[serde(deserialize_with = "size", skip_serializing_if = "Option::is_none")]
    pub memory: Option<u64>,
    /// Bytes its workspace may have.
    #[serde(deserialize_with = "size", skip_serializing_if = "Option::is_none")]
    pub disk: Option<u64>,
}

impl JobLimits {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// What is kept of a job.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct ResultsSpec {
    /// The branch its changes are pushed to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// Patterns of files.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
}

impl ResultsSpec {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// When a job is tried again.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct RetrySpec {
    /// How often at most.
    pub max: u32,
    /// After what.
    pub on: Vec<RetryOn>,
}

impl Default for RetrySpec {
    fn default() -> Self {
        Self { max: 3, on: vec![RetryOn::Lost, RetryOn::Provider] }
    }
}

/// What a job may be tried again after.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RetryOn {
    /// The worker was lost.
    Lost,
    /// The provider failed (exit code 6).
    Provider,
    /// The model stopped before it was done (exit code 1).
    Incomplete,
    /// The check failed.
    Check,
    /// The workspace could not be made.
    Setup,
}

/// What becomes of a call that began and whose outcome nobody knows.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnUnknown {
    /// The model is told.
    #[default]
    Tell,
    /// It is run again where it cannot have reached further than the workspace,
    /// which is put back first.
    UndoAndRerun,
    /// The job stops and waits for a person.
    Stop,
}

/// What becomes of questions: calls no rule allows, and what the model asks a person.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OnQuestion {
    /// The answer is no, at once.
    #[default]
    Deny,
    /// The run waits until somebody answers.
    Wait,
}

impl OnQuestion {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks with a reference")]
    fn is_usual(&self) -> bool {
        *self == Self::default()
    }
}

/// When the files of a job are kept.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckpointWhen {
    /// After every call that acts.
    Call,
    /// After every answer whose calls acted.
    #[default]
    Turn,
    /// When the job ends.
    End,
}

/// A time as a person or a program wrote it.
fn time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    match Value::deserialize(deserializer)? {
        Value::Null => Ok(None),
        Value::Number(number) => {
            number.as_u64().map(|it| Some(Duration::from_secs(it))).ok_or_else(|| D::Error::custom("no time"))
        }
        Value::String(text) => duration_of(&text).map(Some).map_err(D::Error::custom),
        // As it is stored.
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
