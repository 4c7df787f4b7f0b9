//! What is told when a file is touched: memory files of directories below, rules
//! about the file, skills it makes known. Each once for every agent.

use std::{
    collections::{HashMap, HashSet},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use haft_agent::{Memory, MemoryFile};
use haft_hooks::{HookEvent, OtherInput};
use haft_runtime::{BatchCompanion, CallSession, Report};
use haft_tool::{Access, BoxFuture, CallContext, Reach};
use haft_types::AgentId;
use serde_json::{Value, json};

use super::{OURS, PathRule, excludes, project_dirs, read_directory, reader::MemoryReader};
use crate::{
    agents::ParentCalls,
    assembly::Readers,
    extensions::{SKILL_TOOL, SkillShelf},
    hooks::run_hooks,
    premises::Premises,
};

/// Follows what the agents of a session touch.
pub(crate) struct MemoryFollower(Arc<FollowedMemory>);

/// What is told, and what was.
struct FollowedMemory {
    premises: Arc<Premises>,
    readers: Readers,
    skills: Arc<SkillShelf>,
    /// Rules about files, as they were at the beginning.
    rules: Vec<PathRule>,
    /// Files that everybody was told at the beginning.
    told_first: HashSet<PathBuf>,
    told: Mutex<HashMap<AgentId, HashSet<PathBuf>>>,
    /// The root of the project, as the kernel knows it.
    root: PathBuf,
}

/// Something an agent is told, and why.
struct NewMemory {
    file: MemoryFile,
    reason: &'static str,
    globs: Vec<String>,
}

impl MemoryFollower {
    pub(crate) fn new(
        premises: Arc<Premises>,
        readers: Readers,
        skills: Arc<SkillShelf>,
        memory: &Memory,
        rules: Vec<PathRule>,
    ) -> Self {
        let root = project_dirs(&premises.cwd).into_iter().next().unwrap_or_else(|| premises.cwd.clone());
        Self(Arc::new(FollowedMemory {
            readers,
            skills,
            rules,
            told_first: memory.files.iter().map(|it| it.path.clone()).collect(),
            told: Mutex::default(),
            root: root.canonicalize().unwrap_or(root),
            premises,
        }))
    }
}

impl FollowedMemory {
    fn told(&self) -> MutexGuard<'_, HashMap<AgentId, HashSet<PathBuf>>> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether an agent wants to be told: some kinds are not.
    fn is_for(&self, agent: &AgentId) -> bool {
        let agents = self.skills.agents();
        let line = agents.line_above(agent);
        let kind = line.first().and_then(|facts| agents.shelf().find(&facts.kind).cloned());
        kind.is_none_or(|kind| !kind.without_memory)
    }

    /// Whether an agent hears of this for the first time.
    fn is_new(&self, agent: &AgentId, path: &Path) -> bool {
        !self.told_first.contains(path)
            && self.told().entry(agent.clone()).or_default().insert(path.to_owned())
    }

    /// Files that calls touched, as the kernel knows them.
    fn touched(calls: &CallSession, inputs: &[Value], reports: &[Report]) -> Vec<PathBuf> {
        let pool = calls.pool.get();
        let mut cx = CallContext::detached(String::from("memory"), Arc::clone(&calls.state.cwd));
        cx.home.clone_from(&calls.state.home);
        let mut files = Vec::new();
        for (input, report) in inputs.iter().zip(reports).filter(|(_, report)| report.error.is_none()) {
            let Some(tool) = pool.get(&report.name) else { continue };
            let Ok(call) = Arc::clone(tool).parse(input.clone(), &cx) else { continue };
            let Reach::Declared(accesses) = call.reach(&cx) else { continue };
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

    /// What a touched file brings. Looks at the disk.
    fn look(&self, agent: &AgentId, calls: &CallSession, file: &Path) -> (Vec<NewMemory>, Vec<String>) {
        let Ok(real) = file.canonicalize() else { return Default::default() };
        if !real.is_file() || !real.starts_with(&self.root) {
            return Default::default();
        }
        let mut found = Vec::new();
        if self.is_for(agent) {
            found = self.nested(agent, calls, &real);
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
        // Nobody hears of what they cannot use.
        let can_load = calls.pool.get().get(SKILL_TOOL).is_some();
        let skills = if can_load { self.skills.touched(&real) } else { Vec::new() };
        let skills = skills
            .iter()
            .filter(|it| self.is_new(agent, &it.dir))
            .map(|it| format!("- {}: {}", it.name, haft_tools::agent::flat(&it.description, 600)));
        (found, skills.collect())
    }

    /// Memory files of the directories between here and a file.
    fn nested(&self, agent: &AgentId, calls: &CallSession, real: &Path) -> Vec<NewMemory> {
        let here = self.premises.cwd.canonicalize().unwrap_or_else(|_| self.premises.cwd.clone());
        let dirs = real.ancestors().skip(1).take_while(|it| it.starts_with(&self.root));
        let mut dirs: Vec<PathBuf> = dirs.filter(|it| !here.starts_with(it)).map(Path::to_owned).collect();
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

impl BatchCompanion for MemoryFollower {
    fn after<'a>(
        &'a self,
        calls: &'a CallSession,
        inputs: &'a [Value],
        reports: &'a [Report],
    ) -> BoxFuture<'a, Vec<String>> {
        Box::pin(async move {
            let agent = &calls.agent_id;
            let mut texts = Vec::new();
            for file in FollowedMemory::touched(calls, inputs, reports) {
                let (memory, skills) = self.looked(agent, calls, file.clone()).await;
                for new in memory {
                    let about = match new.globs.is_empty() {
                        true => String::from("about the directory of the file you just used"),
                        false => format!("about files like {}", new.globs.join(", ")),
                    };
                    texts.push(format!(
                        "<system-reminder>\nWhat {} says, {about}:\n\n{}\n</system-reminder>",
                        new.file.path.display(),
                        new.file.text.trim()
                    ));
                    run_hooks(calls, loaded_event(&new.file, new.reason, &new.globs, Some(&file)).into())
                        .await;
                }
                if !skills.is_empty() {
                    texts.push(format!(
                        "<system-reminder>\nThese skills are known now, since they are about files you use:\n{}\n</system-reminder>",
                        skills.join("\n")
                    ));
                }
            }
            texts
        })
    }

    fn forget(&self, agent: &AgentId) {
        self.0.told().remove(agent);
    }
}

impl MemoryFollower {
    /// What a touched file brings, found where waiting for a disk harms nobody.
    async fn looked(
        &self,
        agent: &AgentId,
        calls: &CallSession,
        file: PathBuf,
    ) -> (Vec<NewMemory>, Vec<String>) {
        let (inner, agent) = (Arc::clone(&self.0), agent.clone());
        let parts = ParentCalls::of(calls);
        let cwd = Arc::clone(&calls.state.cwd);
        let looked = tokio::task::spawn_blocking(move || inner.look(&agent, &parts.session(&cwd), &file));
        looked.await.unwrap_or_default()
    }
}

/// Hooks hear what was read at the beginning.
pub(crate) async fn tell_hooks(calls: &CallSession, memory: &Memory) {
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
        "file_path": file.path, "memory_type": file.owner.word(), "load_reason": reason,
    });
    if !globs.is_empty() {
        fields["globs"] = json!(globs);
    }
    if let Some(trigger) = trigger {
        fields["trigger_file_path"] = json!(trigger);
    }
    if let Some(parent) = &file.imported_by {
        fields["parent_file_path"] = json!(parent);
    }
    OtherInput {
        event: HookEvent::InstructionsLoaded,
        subject: Some(reason.to_owned()),
        fields: fields.as_object().cloned().unwrap_or_default(),
    }
}
