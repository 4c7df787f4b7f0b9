//! Follows the files that agents touch: adds memory files of subdirectories, rules about the file, and
//! skills it activates, each once per agent.

use std::{
    collections::{HashMap, HashSet},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};

use haft_agent::{MemoryFile, MemoryFiles};
use haft_hooks::{HookEvent, OtherInput};
use haft_tool::{Access, AccessSet, BoxFuture, CallContext};
use haft_tool_runtime::{AnsweredCall, BatchObserver, CallSession};
use haft_types::{AgentId, tags};
use serde_json::json;

use super::{OURS, PathRule, excludes, project_dirs, read_directory, reader::MemoryReader};
use crate::{
    agents::ParentCalls,
    build::ReadOnlyTools,
    environment::SessionEnvironment,
    extensions::{ActiveSkills, DiscoveredSkill, SKILL_TOOL},
    hook_events::run_hooks,
};

/// Follows the files that a session's agents touch.
pub(crate) struct MemoryFollower(Arc<FollowedMemory>);

/// Available and already sent memory.
struct FollowedMemory {
    premises: Arc<SessionEnvironment>,
    readers: ReadOnlyTools,
    skills: Arc<ActiveSkills>,
    /// Rules about files, as loaded at the start.
    rules: Vec<PathRule>,
    /// Memory files of the first prompt.
    first: Vec<MemoryFile>,
    /// Paths of these files.
    told_first: HashSet<PathBuf>,
    told: Mutex<HashMap<AgentId, HashSet<PathBuf>>>,
    /// Real path of the project root.
    root: PathBuf,
    /// Real path of the working directory; resolved on first use.
    here: OnceLock<PathBuf>,
}

/// A text for an agent, and the reason for it.
struct NewMemory {
    file: MemoryFile,
    reason: &'static str,
    globs: Vec<String>,
}

impl MemoryFollower {
    pub(crate) fn new(
        premises: Arc<SessionEnvironment>,
        readers: ReadOnlyTools,
        skills: Arc<ActiveSkills>,
        memory: &MemoryFiles,
        rules: Vec<PathRule>,
    ) -> Self {
        let root = project_dirs(&premises.cwd).into_iter().next().unwrap_or_else(|| premises.cwd.clone());
        Self(Arc::new(FollowedMemory {
            readers,
            skills,
            rules,
            first: memory.files.clone(),
            told_first: memory.files.iter().map(|it| it.path.clone()).collect(),
            told: Mutex::default(),
            root: root.canonicalize().unwrap_or(root),
            here: OnceLock::new(),
            premises,
        }))
    }
}

impl FollowedMemory {
    fn told(&self) -> MutexGuard<'_, HashMap<AgentId, HashSet<PathBuf>>> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether an agent receives memory; some kinds do not.
    fn is_for(&self, agent: &AgentId) -> bool {
        let agents = self.skills.agents();
        let line = agents.line_above(agent);
        let kind = line.first().and_then(|facts| agents.shelf().find(&facts.kind).cloned());
        kind.is_none_or(|kind| !kind.without_memory)
    }

    /// Records that an agent receives a file. Returns whether it is the first time.
    fn is_new(&self, agent: &AgentId, path: &Path) -> bool {
        !self.told_first.contains(path)
            && self.told().entry(agent.clone()).or_default().insert(path.to_owned())
    }

    /// Real paths of the files that calls touched.
    fn touched(calls: &CallSession, answered: &[&AnsweredCall]) -> Vec<PathBuf> {
        let pool = calls.pool.get();
        let mut cx = CallContext::detached(String::from("memory"), Arc::clone(&calls.state.cwd));
        cx.home.clone_from(&calls.state.home);
        let mut files = Vec::new();
        for AnsweredCall { call, report } in answered.iter().filter(|it| it.report.error.is_none()) {
            let Some(tool) = pool.get(&report.name) else { continue };
            let Ok(call) = Arc::clone(tool).parse(call.input.clone(), &cx) else { continue };
            let AccessSet::Declared(accesses) = call.reach(&cx) else { continue };
            for access in accesses {
                let (Access::Read(path) | Access::Write(path)) = access else { continue };
                let path = haft_paths::expand(&path, &cx.cwd, cx.home.as_deref()).unwrap_or(path);
                if !files.contains(&path) {
                    files.push(path);
                }
            }
        }
        files
    }

    /// What a touched file adds. Reads the disk.
    fn look(&self, agent: &AgentId, calls: &CallSession, file: &Path) -> (Vec<NewMemory>, Vec<String>) {
        let Ok(real) = file.canonicalize() else { return Default::default() };
        if !real.is_file() || !real.starts_with(&self.root) {
            return Default::default();
        }
        let mut found = Vec::new();
        if self.is_for(agent) {
            found = self.nested(agent, calls, &real);
            self.add_rules(agent, &real, &mut found);
        }
        let skills = if can_load_skills(calls) { self.skills.touched(&real) } else { Vec::new() };
        (found, self.told_skills(agent, &skills))
    }

    /// Like [`Self::look`], if no disk access is necessary: the path is a real path, and its directories
    /// were searched before. This is the usual case, and cheaper than switching to a blocking thread.
    fn look_at_hand(
        &self,
        agent: &AgentId,
        calls: &CallSession,
        file: &Path,
    ) -> Option<(Vec<NewMemory>, Vec<String>)> {
        let here = self.here.get()?;
        let is_itself = file.is_absolute() && haft_paths::lexical(file) == file;
        if !is_itself || !haft_workspace::is_plain_file_at_hand(file) {
            return None;
        }
        if !file.starts_with(&self.root) {
            return Some(Default::default());
        }
        let is_for = self.is_for(agent);
        if is_for {
            let told = self.told();
            let known = |dir: &PathBuf| {
                self.told_first.contains(dir) || told.get(agent).is_some_and(|it| it.contains(dir))
            };
            if !self.dirs_to(here, file).iter().all(known) {
                return None;
            }
        }
        let skills = if can_load_skills(calls) { self.skills.touched_at_hand(file)? } else { Vec::new() };
        let mut found = Vec::new();
        if is_for {
            self.add_rules(agent, file, &mut found);
        }
        Some((found, self.told_skills(agent, &skills)))
    }

    /// Rules about a file that an agent has not received.
    fn add_rules(&self, agent: &AgentId, real: &Path, found: &mut Vec<NewMemory>) {
        for rule in &self.rules {
            if let Ok(inside) = real.strip_prefix(&rule.root)
                && rule.globs.matches(inside)
                && self.is_new(agent, &rule.file.path)
            {
                let globs = rule.patterns.clone();
                found.push(NewMemory { file: rule.file.clone(), reason: "path_glob_match", globs });
            }
        }
    }

    /// A line for each skill that is new to an agent.
    fn told_skills(&self, agent: &AgentId, skills: &[DiscoveredSkill]) -> Vec<String> {
        let new = skills.iter().filter(|it| self.is_new(agent, &it.dir));
        new.map(|it| format!("- {}: {}", it.name, haft_builtin_tools::agent::flat(&it.description, 600)))
            .collect()
    }

    /// Directories between the working directory and a file, innermost first.
    fn dirs_to(&self, here: &Path, real: &Path) -> Vec<PathBuf> {
        let dirs = real.ancestors().skip(1).take_while(|it| it.starts_with(&self.root));
        dirs.filter(|it| !here.starts_with(it)).map(Path::to_owned).collect()
    }

    /// Memory files of these directories.
    fn nested(&self, agent: &AgentId, calls: &CallSession, real: &Path) -> Vec<NewMemory> {
        let here = self.premises.cwd.canonicalize().unwrap_or_else(|_| self.premises.cwd.clone());
        let mut dirs = self.dirs_to(&here, real);
        self.here.set(here).ok();
        dirs.retain(|it| self.is_new(agent, it));
        dirs.reverse();
        let mut new = Vec::new();
        for dir in dirs {
            let may_read = |path: &Path| self.readers.may_read(calls, path);
            let home = self.premises.home.as_deref();
            let mut reader = MemoryReader::new(home, &may_read, excludes(&self.premises));
            reader.root = Some(self.root.clone());
            let has_ours = dir
                .ancestors()
                .take_while(|it| it.starts_with(&self.root))
                .any(|dir| OURS.iter().any(|name| dir.join(name).is_file()));
            read_directory(&mut reader, &self.premises, &dir, has_ours);
            reader.found.refused.iter().for_each(|it| self.premises.events.notice(it.clone()));
            for file in reader.found.memory.files {
                if self.is_new(agent, &file.path) {
                    let reason = if file.imported_by.is_some() { "include" } else { "nested_traversal" };
                    new.push(NewMemory { file, reason, globs: Vec::new() });
                }
            }
            for rule in reader.found.rules {
                let inside = real.strip_prefix(&rule.root).unwrap_or(real);
                if rule.globs.matches(inside) && self.is_new(agent, &rule.file.path) {
                    new.push(NewMemory { file: rule.file, reason: "path_glob_match", globs: rule.patterns });
                }
            }
        }
        new
    }
}

impl BatchObserver for MemoryFollower {
    fn after<'a>(
        &'a self,
        calls: &'a CallSession,
        answered: &'a [&'a AnsweredCall],
    ) -> BoxFuture<'a, Vec<String>> {
        Box::pin(async move {
            let agent = &calls.agent_id;
            let mut texts = Vec::new();
            for file in FollowedMemory::touched(calls, answered) {
                let (memory, skills) = self.looked(agent, calls, file.clone()).await;
                for new in memory {
                    let about = if new.globs.is_empty() {
                        String::from("about the directory of the file you just used")
                    } else {
                        format!("about files like {}", new.globs.join(", "))
                    };
                    texts.push(tags::reminder(&format!(
                        "What {} says, {about}:\n\n{}",
                        new.file.path.display(),
                        new.file.text.trim()
                    )));
                    run_hooks(calls, loaded_event(&new.file, new.reason, &new.globs, Some(&file)).into())
                        .await;
                }
                if !skills.is_empty() {
                    texts.push(tags::reminder(&format!(
                        "These skills are known now, since they are about files you use:\n{}",
                        skills.join("\n")
                    )));
                }
            }
            texts
        })
    }

    /// Resets what was sent, because the first prompt is sent again, and runs the hooks.
    fn forget(&self, calls: &CallSession) {
        self.0.told().remove(&calls.agent_id);
        let listens = calls.pipeline.gate.hooks().get().listens(HookEvent::InstructionsLoaded);
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        if !listens || !self.0.is_for(&calls.agent_id) {
            return;
        }
        let (inner, parts) = (Arc::clone(&self.0), ParentCalls::from_calls(calls));
        let (cwd, agent) = (Arc::clone(&calls.state.cwd), calls.agent_id.clone());
        runtime.spawn(async move {
            let mut calls = parts.session(&cwd);
            calls.agent_id = agent;
            for file in &inner.first {
                run_hooks(&calls, loaded_event(file, "compact", &[], None).into()).await;
            }
        });
    }
}

impl MemoryFollower {
    /// What a touched file adds, read on a blocking thread if necessary.
    async fn looked(
        &self,
        agent: &AgentId,
        calls: &CallSession,
        file: PathBuf,
    ) -> (Vec<NewMemory>, Vec<String>) {
        if let Some(found) = self.0.look_at_hand(agent, calls, &file) {
            return found;
        }
        let (inner, agent) = (Arc::clone(&self.0), agent.clone());
        let parts = ParentCalls::from_calls(calls);
        let cwd = Arc::clone(&calls.state.cwd);
        let looked = tokio::task::spawn_blocking(move || inner.look(&agent, &parts.session(&cwd), &file));
        looked.await.unwrap_or_default()
    }
}

/// Whether the agent can load skills; otherwise they are not announced.
fn can_load_skills(calls: &CallSession) -> bool {
    calls.pool.get().get(SKILL_TOOL).is_some()
}

/// Runs the hooks about the memory files of the first prompt.
pub(crate) async fn tell_hooks(calls: &CallSession, memory: &MemoryFiles) {
    if !calls.pipeline.gate.hooks().get().listens(HookEvent::InstructionsLoaded) {
        return;
    }
    for file in &memory.files {
        let reason = if file.imported_by.is_some() { "include" } else { "session_start" };
        run_hooks(calls, loaded_event(file, reason, &[], None).into()).await;
    }
}

fn loaded_event(file: &MemoryFile, reason: &str, globs: &[String], trigger: Option<&Path>) -> OtherInput {
    let mut fields = json!({
        "file_path": file.path.to_string_lossy(), "memory_type": file.owner.word(), "load_reason": reason,
    });
    if !globs.is_empty() {
        fields["globs"] = json!(globs);
    }
    if let Some(trigger) = trigger {
        fields["trigger_file_path"] = json!(trigger.to_string_lossy());
    }
    if let Some(parent) = &file.imported_by {
        fields["parent_file_path"] = json!(parent.to_string_lossy());
    }
    OtherInput {
        event: HookEvent::InstructionsLoaded,
        subject: Some(reason.to_owned()),
        fields: fields.as_object().cloned().unwrap_or_default(),
    }
}
