//! Runs git operations through the git binary.

mod branch_delete;
mod commit;
mod conflict_markers;
mod equivalent_command;
mod input;
mod lock_holder;
mod push_target;
mod read_operations;
mod repository_cache;
mod run_git;
mod signing;
mod undo_scope;
mod write_operations;

use std::{sync::Arc, time::SystemTime};

use haft_git::RepositoryConfig;
use haft_shell::run::TaskRegistry;
use haft_tool::{
    Access, AccessSet, CallContext, CallEffect, CommandLine, Content, Exposure, LineStyle, Outcome, Rendered,
    RenderedLine, Stage, Tool, ToolContext, ToolError, Traits, Verdict,
};
use serde::Serialize;

pub use input::{GitAction, Input, Operation, Output, ResetMode};

use self::{
    repository_cache::RepositoryCache,
    run_git::{GitRun, directory},
};
use crate::bash::{CommandConfiner, CommandSnapshots, NoConfiner, NoSnapshots, PendingCommand, UndoCoverage};

/// Branches others build on: force-pushing to one asks in every mode.
const SHARED: &[&str] = &["main", "master", "trunk", "develop", "release", "production"];

pub struct Git {
    tasks: Arc<TaskRegistry>,
    confine: Arc<dyn CommandConfiner>,
    snapshots: Arc<dyn CommandSnapshots>,
    known: Arc<RepositoryCache>,
    /// Serializes operations that change a repository.
    changing: tokio::sync::Mutex<()>,
}

/// Progress of an operation.
#[derive(Clone, Debug, Serialize)]
pub struct GitProgress {
    /// What undo will not cover, reported before the operation runs.
    pub note: String,
}

impl Git {
    /// Creates the tool. Git runs as commands of this session.
    pub fn new(tasks: Arc<TaskRegistry>) -> Self {
        Self {
            tasks,
            confine: Arc::new(NoConfiner),
            snapshots: Arc::new(NoSnapshots),
            known: Arc::default(),
            changing: tokio::sync::Mutex::default(),
        }
    }

    /// Runs git in a sandbox.
    pub fn with_confinement(mut self, confine: Arc<dyn CommandConfiner>) -> Self {
        self.confine = confine;
        self
    }

    /// Takes a snapshot before git changes something, so that it can be undone.
    pub fn with_snapshots(mut self, snapshots: Arc<dyn CommandSnapshots>) -> Self {
        self.snapshots = snapshots;
        self
    }

    /// Returns the location and configuration of the repository, from the cache if it is still valid.
    async fn facts(&self, run: &GitRun<'_>) -> Result<RepositoryConfig, ToolError> {
        let (known, dir) = (Arc::clone(&self.known), run.dir.clone());
        let found = tokio::task::spawn_blocking(move || known.get(&dir)).await;
        if let Ok(Some(facts)) = found {
            return Ok(facts);
        }
        let began = SystemTime::now();
        let facts = run.facts().await?;
        let (known, dir, home) = (Arc::clone(&self.known), run.dir.clone(), run.cx.home.clone());
        let kept = facts.clone();
        let keeping = move || known.put(&dir, home.as_deref(), &kept, began);
        tokio::task::spawn_blocking(keeping).await.ok();
        Ok(facts)
    }

    /// Runs an operation that changes something, with a snapshot before and after.
    async fn changed(
        &self,
        run: &GitRun<'_>,
        facts: &RepositoryConfig,
        input: &Input,
        cx: &ToolContext<GitProgress>,
    ) -> Result<Output, ToolError> {
        let _one = self.changing.lock().await;
        let cwd = Arc::clone(&cx.cwd);
        let (hooked, operation) = (facts.clone(), input.operation);
        let hooks = tokio::task::spawn_blocking(move || write_operations::runs_a_hook(&hooked, operation));
        let touches_files = input.touches_files() || hooks.await.unwrap_or(true);
        let line = undo_scope::line(facts, touches_files, |top| top == &*cwd);
        let about = PendingCommand {
            call: &cx.call_id,
            tool: Self::NAME,
            command: &line,
            cwd: &cx.cwd,
            reading: None,
            reads_only: false,
        };
        let coverage = self.snapshots.before(about).await?;
        if let UndoCoverage::Partial(note) = &coverage {
            cx.progress(&GitProgress { note: note.clone() });
        }
        let done = write_operations::change(run, facts, input).await;
        self.snapshots.after(&cx.call_id).await;
        let mut output = done?;
        if let UndoCoverage::Partial(note) = coverage {
            output.text.push_str(&format!("\n[{note}]"));
        }
        if input.operation == Operation::Push {
            output.text.push_str("\n[A push cannot be taken back with haft undo.]");
        }
        Ok(output)
    }
}

impl Tool for Git {
    type Input = Input;
    type Output = Output;
    type Progress = GitProgress;
    const NAME: &'static str = "Git";

    fn output_schema(&self) -> Option<serde_json::Value> {
        Some(haft_tool::schema_of::<Output>())
    }

    fn traits(&self) -> Traits {
        Traits {
            search_hint: "git status diff log commit branch stash merge rebase push blame",
            exposure: Exposure::Direct,
            max_result_chars: None,
            timeout: None,
            feature: Some("git"),
            ..Traits::default()
        }
    }

    fn foreseen(&self) {
        self.tasks.shell().warm_up();
    }

    fn is_read_only(&self, input: &Input) -> bool {
        input.reads()
    }

    fn is_concurrency_safe(&self, input: &Input) -> bool {
        input.reads()
    }

    fn is_destructive(&self, input: &Input) -> bool {
        input.operation == Operation::Push
    }

    fn reach(&self, input: &Input, cx: &CallContext) -> AccessSet {
        let dir = directory(input.dir.as_deref(), &cx.cwd, cx.home.as_deref());
        let line = CommandLine::new(equivalent_command::judged(input, &dir));
        // Reading operations run only git itself, no programs that the repository configures.
        AccessSet::Declared(vec![Access::Command(if input.reads() { line.guarded() } else { line })])
    }

    fn validate(&self, input: &Input, _cx: &CallContext) -> Result<(), ToolError> {
        input.check()
    }

    fn check_permissions(&self, input: &Input, _cx: &CallContext) -> Verdict {
        let branch = input.branch.as_deref().unwrap_or_default().rsplit(':').next().unwrap_or_default();
        let shared = SHARED.iter().any(|it| branch == *it || branch.starts_with(&format!("{it}/")));
        if input.operation == Operation::Push && input.force && shared {
            Verdict::Insist(format!("This overwrites {branch}, which others build on"))
        } else {
            Verdict::Passthrough
        }
    }

    fn describe(&self, input: &Input) -> String {
        haft_types::text::one_line(&equivalent_command::equivalent(input), 300)
    }

    async fn call(&self, input: Input, cx: &ToolContext<GitProgress>) -> Result<Outcome<Output>, ToolError> {
        let dir = directory(input.dir.as_deref(), &cx.cwd, cx.home.as_deref());
        if !dir.is_dir() {
            return Err(ToolError::failed(format!("{} is no directory.", dir.display())));
        }
        let mut run = GitRun { shell: self.tasks.shell(), confine: &self.confine, cx, dir, ssh: None };
        let facts = self.facts(&run).await?;
        run.ssh.clone_from(&facts.ssh.own);
        if input.reads() {
            return Ok(read_operations::look(&run, &facts, &input).await?.into());
        }
        if input.is_network() {
            cx.progress(&GitProgress { note: String::from("talking to the remote") });
        }
        let output = self.changed(&run, &facts, &input, cx).await?;
        let mut outcome = Outcome::from(output);
        for path in input.paths.iter().filter(|_| input.touches_files()) {
            outcome = outcome.with_trace(CallEffect::FileChanged(run.dir.join(haft_git::path_named(path))));
        }
        Ok(outcome)
    }

    fn to_content(&self, output: &Output) -> Content {
        Content::text(output.text.trim_end().to_owned())
    }

    fn render(&self, stage: Stage<'_, Input, Output>) -> Rendered {
        match stage {
            Stage::Running(input) => Rendered::headline(self.describe(input)),
            Stage::Failed(error) => Rendered::error(&error.message),
            Stage::Done(output) => {
                let style = |line: &str| match line.as_bytes().first() {
                    Some(b'+') => LineStyle::Added,
                    Some(b'-') => LineStyle::Removed,
                    Some(b'@') => LineStyle::Hunk,
                    Some(b'[') => LineStyle::Dim,
                    _ => LineStyle::Plain,
                };
                let lines = output.text.lines().map(|it| RenderedLine::new(style(it), it)).collect();
                Rendered { headline: format!("git {}", output.operation), lines, ..Rendered::default() }
            }
        }
    }

    fn classifier_input(&self, input: &Input) -> String {
        self.describe(input)
    }
}
