//! Scheduled prompts that live as long as the session. Each is a background task whose output lines
//! reach the model.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use haft_schedule::{CronJobId, CronSpec, ScheduleClock};
use haft_shell::{
    own::{Lifetime, until_wall_clock},
    run::{FeedJob, JobSpec, TaskAbout, TaskKind, TaskRegistry, TerminalMode},
};
use haft_tool::{CallContext, ToolError};
use jiff::Timestamp;

use super::MAX_IN_SESSION;

/// Maximum lifetime of a job; then it ends.
pub(crate) const LIFE: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// A scheduled prompt of the session.
#[derive(Clone, Debug)]
pub(crate) struct SessionJob {
    pub(crate) id: String,
    /// Id of its background task.
    pub(crate) task: String,
    pub(crate) when: FireTime,
    pub(crate) prompt: String,
    pub(crate) recurring: bool,
}

/// When a job runs.
#[derive(Clone, Debug)]
pub(crate) enum FireTime {
    /// Repeatedly, by a cron expression.
    Cron(CronSpec),
    /// Once, at this time.
    At(Timestamp),
}

/// The scheduled prompts of one session.
pub(crate) struct SessionJobs {
    tasks: Arc<TaskRegistry>,
    clock: Arc<dyn ScheduleClock>,
    jobs: Arc<Mutex<BTreeMap<String, SessionJob>>>,
}

impl SessionJobs {
    pub(super) fn new(tasks: Arc<TaskRegistry>, clock: Arc<dyn ScheduleClock>) -> Self {
        Self { tasks, clock, jobs: Arc::default() }
    }

    /// Returns the running jobs, ordered by id.
    pub(crate) fn list(&self) -> Vec<SessionJob> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// Returns when the job runs next; `None` if never.
    pub(crate) fn next(&self, job: &SessionJob) -> Option<Timestamp> {
        next(&job.when, self.clock.now(), self.clock.as_ref())
    }

    /// Starts a job. Fails if the session already has [`MAX_IN_SESSION`].
    pub(crate) fn start(
        &self,
        when: FireTime,
        prompt: String,
        recurring: bool,
        cx: &CallContext,
    ) -> Result<SessionJob, ToolError> {
        if MAX_IN_SESSION <= self.list().len() {
            return Err(ToolError::failed(format!(
                "This session has {MAX_IN_SESSION} scheduled prompts, which is all it may have. Delete one with CronDelete."
            )));
        }
        let id = CronJobId::random().to_string();
        let description = match &when {
            FireTime::Cron(spec) => format!("scheduled {}", spec.text()),
            FireTime::At(_) => String::from("wake-up"),
        };
        let (job, feed) = self.tasks.shell().feed(JobSpec {
            call: cx.call_id.clone(),
            agent: cx.agent_id.clone(),
            command: format!("{description}: {}", haft_types::text::one_line(&prompt, 200)),
            cwd: cx.cwd.to_path_buf(),
            limit: LIFE,
            variables: Vec::new(),
            lifetime: Lifetime::Session,
            confinement: None,
            reading: None,
            precious: Vec::new(),
            channel: None,
            terminal: TerminalMode::None,
        })?;
        let about = TaskAbout { kind: TaskKind::Watch, description, agent: cx.agent_id.clone() };
        let task = self.tasks.watch(job, about);
        let started = SessionJob { id: id.clone(), task, when, prompt, recurring };
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner).insert(id.clone(), started.clone());
        let (jobs, clock, job) = (Arc::clone(&self.jobs), Arc::clone(&self.clock), started.clone());
        let tasks = Arc::clone(&self.tasks);
        tokio::spawn(async move {
            carry(&job, feed, &tasks, clock).await;
            jobs.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
        });
        Ok(started)
    }

    /// Ends a job. Returns whether it existed.
    pub(crate) async fn stop(&self, id: &str) -> bool {
        let job = self.jobs.lock().unwrap_or_else(PoisonError::into_inner).remove(id);
        match job {
            Some(job) => self.tasks.stop(&job.task).await.is_some(),
            None => false,
        }
    }
}

fn next(when: &FireTime, after: Timestamp, clock: &dyn ScheduleClock) -> Option<Timestamp> {
    match when {
        FireTime::Cron(spec) => spec.next_after(after, &clock.zone()),
        FireTime::At(at) => (after < *at).then_some(*at),
    }
}

/// Delivers the prompt each time it is due. Due times that passed while the machine slept count as one.
/// The same holds while an earlier prompt waits for a turn to end; the next prompt says how many were
/// skipped.
async fn carry(job: &SessionJob, feed: FeedJob, tasks: &TaskRegistry, clock: Arc<dyn ScheduleClock>) {
    let mut after = clock.now();
    let (mut said, mut passed) = (0, 0_u64);
    let ended = loop {
        let Some(due) = next(&job.when, after, clock.as_ref()) else {
            break Ok(String::from("it has no further time"));
        };
        let wait = async {
            loop {
                let left = due.duration_since(clock.now());
                match Duration::try_from(left) {
                    Ok(left) if !left.is_zero() && clock.is_the_system() => {
                        until_wall_clock(due.into()).await
                    }
                    Ok(left) if !left.is_zero() => tokio::time::sleep(left.min(clock.glance())).await,
                    _ => return,
                }
            }
        };
        tokio::select! {
            why = feed.asked_to_stop() => break Err(why),
            () = wait => {}
        }
        if tasks.has_unheard(&job.task, said) {
            passed += 1;
        } else {
            let prompt = job.prompt.replace(['\r', '\n'], " ");
            let passed = match std::mem::take(&mut passed) {
                0 => String::new(),
                count => format!("; its time came {count} times while the one before waited"),
            };
            feed.write(format!("Scheduled prompt {} (due {due}{passed}): {prompt}\n", job.id).as_bytes());
            said += 1;
        }
        if !job.recurring {
            break Ok(String::from("it ran, as it was to run once"));
        }
        after = clock.now().max(due);
    };
    match ended {
        Ok(how) => feed.end(how, None),
        Err(why) => feed.end(String::from("it was ended"), Some(why)),
    }
}
