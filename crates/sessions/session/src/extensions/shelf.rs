//! The skills of a session: which ones are available to whom, and what is in force while one is active.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};

use haft_agent::AgentCommands;
use haft_hooks::{HookDefinition, HookEvent, HookSource};
use haft_model::Effort;
use haft_permission::{Behavior, Destination, PermissionUpdate, RuleList, RuleText};
use haft_tool::CallContext;
use haft_tool_runtime::CallSession;
use haft_types::AgentId;
use tokio_util::sync::CancellationToken;

use super::{
    LinkGuard, SlashCommand,
    arguments::{FilledPart, PlaceholdersIn},
    command::SkillContext,
    listing::{ListingBudget, SkillListing, listing},
    path_globs::PathGlobs,
    skill_shell::{ShellParts, whole_text},
    skill_use::SkillUses,
};
use crate::{
    AgentSource,
    agents::{ParentCalls, SubagentRegistry},
    environment::SessionEnvironment,
};

/// The skills of a session.
pub(crate) struct ActiveSkills {
    premises: Arc<SessionEnvironment>,
    agents: Arc<SubagentRegistry>,
    /// `None` before the session is built and after it is closed, because the handle refers back to this
    /// value.
    main: Mutex<Option<MainAgentHandle>>,
    state: Mutex<ActiveSkillsState>,
    /// Real path of the project; resolved when the first file is touched.
    real_project: OnceLock<PathBuf>,
}

/// What a skill of the main agent acts on.
#[derive(Clone)]
struct MainAgentHandle {
    calls: ParentCalls,
    orders: AgentCommands,
}

#[derive(Default)]
struct ActiveSkillsState {
    /// Skills from the fixed directories that models may use.
    skills: Vec<SlashCommand>,
    /// Skills of subdirectories, loaded when a file in them was touched.
    nested: Vec<SlashCommand>,
    /// Directories already searched for them.
    looked_in: HashSet<PathBuf>,
    /// Names of skills with `paths` of which a matching file was touched.
    woken: BTreeSet<String>,
    /// Skills that were loaded: agent, name, arguments.
    loaded: HashSet<(AgentId, String, String)>,
    /// Rules of the main agent that end with the turn.
    lent: Vec<(Behavior, String)>,
    /// Effort of the main agent before a skill changed it.
    effort_before: Option<Option<Effort>>,
    effort: Option<Effort>,
    /// Hooks of the main agent that end with the turn, by source.
    lent_hooks: Vec<Arc<HookSource>>,
    /// The model set by a skill, and the one before.
    lent_model: Option<SkillModelOverride>,
    model: String,
    /// Command queues of running agents.
    orders: HashMap<AgentId, AgentCommands>,
}

/// A model that is in force until the turn ends.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct SkillModelOverride {
    pub(crate) before: String,
    pub(crate) lent: String,
}

/// What skills changed during a turn: the values to restore.
#[derive(Clone, Debug, Default)]
pub(crate) struct SkillOverrides {
    pub(crate) effort: Option<Option<Effort>>,
    pub(crate) model: Option<SkillModelOverride>,
}

/// A skill discovered by touching a file.
pub(crate) struct DiscoveredSkill {
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) dir: PathBuf,
}

impl ActiveSkills {
    pub(crate) fn new(premises: Arc<SessionEnvironment>, agents: Arc<SubagentRegistry>) -> Arc<Self> {
        let (main, state) = (Mutex::default(), Mutex::default());
        Arc::new(Self { premises, agents, main, state, real_project: OnceLock::new() })
    }

    fn state(&self) -> MutexGuard<'_, ActiveSkillsState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the call state of the main agent.
    pub(crate) fn serve(&self, calls: ParentCalls, orders: AgentCommands) {
        *self.main.lock().unwrap_or_else(PoisonError::into_inner) = Some(MainAgentHandle { calls, orders });
    }

    fn main(&self) -> Option<MainAgentHandle> {
        self.main.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Releases all references to the session.
    pub(crate) fn close(&self) {
        *self.main.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// The registry of sub-agents.
    pub(crate) fn agents(&self) -> &Arc<SubagentRegistry> {
        &self.agents
    }

    /// Replaces the skills.
    pub(crate) fn set(&self, skills: Vec<SlashCommand>) {
        let below = {
            let mut state = self.state();
            state.skills = skills;
            state.nested.clear();
            std::mem::take(&mut state.looked_in)
        };
        // Subdirectories are searched again.
        let places = self.premises.store.places();
        let project = places.project.canonicalize().unwrap_or_else(|_| places.project.clone());
        let mut below: Vec<PathBuf> = below.into_iter().collect();
        below.sort();
        below.iter().for_each(|dir| self.look_below(&project, &dir.join("x")));
    }

    /// All skills that can be used now.
    pub(crate) fn all(&self) -> Vec<SlashCommand> {
        let state = self.state();
        state.skills.iter().chain(&state.nested).cloned().collect()
    }

    /// The skills listed for the model at the start.
    pub(crate) fn listed(&self) -> Vec<SlashCommand> {
        let state = self.state();
        let is_known = |it: &&SlashCommand| it.fields.paths.is_empty() || state.woken.contains(&it.name);
        state.skills.iter().chain(&state.nested).filter(is_known).cloned().collect()
    }

    /// The list of skills for the model.
    pub(crate) fn listing(&self, window: u64) -> SkillListing {
        let skills = self.listed();
        let uses = SkillUses::at(&self.premises.state_dir()).counts();
        listing(&skills.iter().collect::<Vec<_>>(), self.budget(window), &uses)
    }

    /// Counts a use of a skill, for the order in shortened lists.
    pub(crate) fn used(&self, name: &str) {
        let (uses, name) = (SkillUses::at(&self.premises.state_dir()), name.to_owned());
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(move || uses.note(&name))),
            Err(_) => uses.note(&name),
        }
    }

    fn budget(&self, window: u64) -> ListingBudget {
        let loaded = self.premises.loaded();
        let number = |name: &str| loaded.settings.get(name).and_then(|it| it.value.as_f64());
        let each = number("skillListingMaxDescChars").filter(|it| 1.0 <= *it).unwrap_or(1_536.0);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a number of characters")]
        let each = each.min(1e6) as usize;
        ListingBudget::of_window(window, number("skillListingBudgetFraction").unwrap_or(0.01), each)
    }

    /// Finds a skill by name. A plugin's skill needs its full name; the short name is an error that says
    /// so.
    pub(crate) fn find(&self, name: &str) -> Result<SlashCommand, String> {
        let all = self.all();
        if let Some(found) = all.iter().find(|it| it.name == name) {
            return Ok(found.clone());
        }
        let same = |it: &&SlashCommand| it.name.rsplit(':').next() == Some(name);
        if let Some(found) = all.iter().find(same) {
            return Err(format!("there is no skill {name}; {} is one: use its whole name", found.name));
        }
        let mut names: Vec<&str> = all.iter().map(|it| it.name.as_str()).collect();
        if names.is_empty() {
            return Err(format!("there is no skill {name}; there are none at all"));
        }
        names.sort_by_key(|it| distance(it, name));
        let more = names.len().saturating_sub(20);
        let shown = names[..names.len().min(20)].join(", ");
        let more = if 0 < more { format!(" and {more} more; `?words` searches them") } else { String::new() };
        Err(format!("there is no skill {name}; there are: {shown}{more}"))
    }

    /// Whether an agent may use a skill: the definitions of the agent and its ancestors can restrict
    /// them, and a skill cannot run inside itself.
    pub(crate) fn admits(&self, agent: &AgentId, skill: &SlashCommand) -> Result<(), String> {
        let only = |names: Vec<String>| {
            if names.contains(&skill.name) {
                Ok(())
            } else {
                Err(format!("this agent may only use these skills: {}", names.join(", ")))
            }
        };
        self.agents.skills_of_main().map_or(Ok(()), only)?;
        for facts in self.agents.line_above(agent) {
            if facts.skill.as_deref() == Some(skill.name.as_str()) {
                return Err(format!(
                    "this agent was started by the skill {}: do what it says, and do not load it again",
                    skill.name
                ));
            }
            self.agents.skills_of_kind(&facts.kind).map_or(Ok(()), only)?;
        }
        Ok(())
    }

    /// Records that a skill was loaded. Returns whether it was loaded before with the same arguments.
    pub(crate) fn is_again(&self, agent: &AgentId, skill: &str, args: &str) -> bool {
        !self.state().loaded.insert((agent.clone(), skill.to_owned(), args.to_owned()))
    }

    /// Removes the record of a load that failed.
    pub(crate) fn forget_load(&self, agent: &AgentId, skill: &str, args: &str) {
        self.state().loaded.remove(&(agent.clone(), skill.to_owned(), args.to_owned()));
    }

    /// Resets the state for a new conversation of the main agent.
    pub(crate) fn reset_conversation(&self) {
        self.state().loaded.retain(|(agent, _, _)| !agent.is_main());
    }

    fn setting(&self) -> SkillContext {
        let everywhere = self.premises.variable("HAFT_SKILL_PLACEHOLDERS").as_deref() == Some("everywhere");
        SkillContext {
            placeholders: if everywhere { PlaceholdersIn::Everything } else { PlaceholdersIn::Prose },
            session: self.premises.session_id.to_string(),
            project: self.premises.store.places().project.clone(),
        }
    }

    fn shell_parts(&self) -> ShellParts {
        let loaded = self.premises.loaded();
        let off = loaded.settings.get("disableSkillShellExecution");
        if off.and_then(|it| it.value.as_bool()) == Some(true) { ShellParts::Stay } else { ShellParts::Run }
    }

    /// The text of a skill with its arguments, without the output of its commands.
    pub(crate) fn render_skill(&self, skill: &SlashCommand, args: &str) -> String {
        let parts = skill.parts(args, &self.setting()).ok().flatten().unwrap_or_default();
        let words = parts.into_iter().filter_map(|part| match part {
            FilledPart::Text(text) => Some(text),
            FilledPart::Command(_) => None,
        });
        words.collect()
    }

    /// The call state of an agent.
    fn calls_of(&self, agent: &AgentId) -> Option<ParentCalls> {
        match agent {
            AgentId::Main => self.main().map(|it| it.calls),
            child => self.agents.calls_of(child),
        }
    }

    /// The text of a skill with its arguments and the output of its commands, which run as calls of the
    /// agent.
    pub(crate) async fn text(
        &self,
        skill: &SlashCommand,
        args: &str,
        cx: &CallContext,
    ) -> Result<String, String> {
        let failed = |why: String| format!("the skill {} was not loaded: {why}", skill.name);
        let parts = skill.parts(args, &self.setting()).map_err(failed)?.unwrap_or_default();
        let calls = self.calls_of(&cx.agent_id);
        let mut calls: CallSession =
            calls.ok_or_else(|| failed(String::from("its agent has ended")))?.session(&cx.cwd);
        calls.agent_id = cx.agent_id.clone();
        calls.state.home.clone_from(&cx.home);
        whole_text(parts, &mut calls, self.shell_parts(), &cx.cancel).await.map_err(failed)
    }

    /// Like [`Self::text`], for an agent that starts with a skill.
    pub(crate) async fn text_at(
        &self,
        skill: &SlashCommand,
        agent: &AgentId,
        cwd: &Path,
        cancel: &CancellationToken,
    ) -> Result<String, String> {
        let mut cx = CallContext::detached(String::from("skill"), cwd);
        cx.agent_id = agent.clone();
        cx.home = self.premises.home.as_deref().map(Arc::from);
        cx.cancel = cancel.clone();
        self.text(skill, "", &cx).await
    }

    /// Applies the rules of a skill: for the main agent until the turn ends, for a sub-agent until it
    /// ends, where it can only deny.
    pub(crate) fn activate(&self, skill: &SlashCommand, agent: &AgentId, grants: SkillGrants) {
        let Some(calls) = self.calls_of(agent) else { return };
        let of = |list: &[String], behavior: Behavior| {
            list.iter().map(|it| (behavior, it.clone())).collect::<Vec<_>>()
        };
        let mut rules = of(&skill.fields.disallowed, Behavior::Deny);
        if grants == SkillGrants::Agreed {
            rules.extend(of(&skill.fields.allowed, Behavior::Allow));
        }
        if grants == SkillGrants::Agreed {
            self.lend_hooks(skill, agent, &calls);
        }
        let permissions = calls.pipeline.gate.permissions();
        if !agent.is_main() {
            if let Some(effort) = skill.fields.effort.as_deref().and_then(crate::agents::effort_of)
                && let Some(orders) = self.state().orders.get(agent)
            {
                orders.give(haft_agent::SettingsChange::Effort(Some(effort)));
            }
            let rules = rules.into_iter().map(|(behavior, text)| (behavior, Arc::from(text.as_str())));
            permissions.add_own(rules.collect());
            return;
        }
        let policy = permissions.policy();
        rules.retain(|(behavior, text)| {
            !policy.source_rules().iter().any(|it| it.behavior == *behavior && *it.text == **text)
        });
        drop(policy);
        for (behavior, text) in rules {
            permissions.apply(&PermissionUpdate::AddRules(rule_list(behavior, &text)));
            self.state().lent.push((behavior, text));
        }
        if let Some(effort) = skill.fields.effort.as_deref().and_then(crate::agents::effort_of)
            && let Some(main) = self.main()
        {
            main.orders.give(haft_agent::SettingsChange::Effort(Some(effort)));
            let mut state = self.state();
            let before = state.effort;
            state.effort_before.get_or_insert(before);
        }
    }

    /// Activates the hooks of a skill: for the main agent and its sub-agents until the turn ends, for a
    /// sub-agent until it ends.
    fn lend_hooks(&self, skill: &SlashCommand, agent: &AgentId, calls: &ParentCalls) {
        if !self.premises.runs_hooks_of(&skill.source) {
            return;
        }
        let mut new = skill.hooks();
        let Some(source) = new.first().map(|it| Arc::clone(&it.source)) else { return };
        if let Some(child) = agent.child() {
            new = of_child(new);
            new.iter_mut().for_each(|it| it.agent = Some(child.clone()));
        } else {
            self.state().lent_hooks.push(source);
        }
        let of = agent.child().cloned();
        calls.pipeline.gate.hooks().change(|hooks| {
            // A skill loaded twice adds its hooks once.
            let is_old = |it: &HookDefinition| {
                it.agent == of && new.iter().any(|new| new.source == it.source && new.id == it.id)
            };
            hooks.without(is_old).and(new.clone())
        });
    }

    /// Hooks of a skill that runs in its own sub-agent.
    pub(crate) fn hooks_of_fork(&self, skill: &str) -> Vec<HookDefinition> {
        match self.find(skill) {
            Ok(skill) if self.premises.runs_hooks_of(&skill.source) => of_child(skill.hooks()),
            _ => Vec::new(),
        }
    }

    /// Applies the model of a skill: for the main agent until the turn ends, for a sub-agent until it
    /// ends.
    pub(crate) fn override_model(&self, skill: &SlashCommand, agent: &AgentId) {
        let Some(lent) = skill.model.as_deref().and_then(|it| self.agents.model_named(it)) else { return };
        let order = haft_agent::SettingsChange::Model(lent.clone());
        let mut state = self.state();
        if !agent.is_main() {
            if let Some(orders) = state.orders.get(agent) {
                orders.give(order);
            }
            return;
        }
        let before = state.lent_model.take().map_or_else(|| state.model.clone(), |it| it.before);
        state.lent_model = Some(SkillModelOverride { before, lent: lent.clone() });
        drop(state);
        if let Some(main) = self.main() {
            main.orders.give(order);
            self.agents.follow_model(&lent);
        }
    }

    /// Registers a running agent.
    pub(crate) fn agent_began(&self, agent: &AgentId, orders: AgentCommands) {
        self.state().orders.insert(agent.clone(), orders);
    }

    /// Removes an agent that has ended, and what skills changed for it.
    pub(crate) fn agent_ended(&self, agent: &AgentId) {
        self.state().orders.remove(agent);
        let Some(main) = self.main() else { return };
        let hooks = main.calls.pipeline.gate.hooks();
        let is_its = |it: &HookDefinition| it.agent.as_ref() == Some(agent);
        if hooks.get().definitions().any(is_its) {
            hooks.change(|hooks| hooks.without(is_its));
        }
    }

    /// Applies the active rules again after settings were reloaded.
    pub(crate) fn reapply_overrides(&self) {
        let Some(main) = self.main() else { return };
        let permissions = main.calls.pipeline.gate.permissions();
        for (behavior, text) in &self.state().lent {
            permissions.apply(&PermissionUpdate::AddRules(rule_list(*behavior, text)));
        }
    }

    /// Records the start of a turn of the main agent.
    pub(crate) fn begin_turn(&self, effort: Option<Effort>, model: &str) {
        let mut state = self.state();
        state.effort = effort;
        model.clone_into(&mut state.model);
    }

    /// Ends the turn: removes rules and hooks of skills, and returns the values to restore.
    pub(crate) fn end_turn(&self) -> SkillOverrides {
        let Some(main) = self.main() else { return SkillOverrides::default() };
        let gate = &main.calls.pipeline.gate;
        let permissions = gate.permissions();
        let (lent, sources) = {
            let mut state = self.state();
            (std::mem::take(&mut state.lent), std::mem::take(&mut state.lent_hooks))
        };
        for (behavior, text) in lent {
            permissions.apply(&PermissionUpdate::RemoveRules(rule_list(behavior, &text)));
        }
        if !sources.is_empty() {
            let is_lent = |it: &HookDefinition| it.agent.is_none() && sources.contains(&it.source);
            gate.hooks().change(|hooks| hooks.without(is_lent));
        }
        let mut state = self.state();
        SkillOverrides { effort: state.effort_before.take(), model: state.lent_model.take() }
    }

    /// Whether typing a skill grants what it allows: yes for the user's own files; for project files
    /// only if the embedding program vouches for the project.
    pub(crate) fn grants_of_typed(&self, skill: &SlashCommand) -> SkillGrants {
        match skill.source {
            AgentSource::Project if !self.premises.trusts_project() => SkillGrants::NotAgreed,
            _ => SkillGrants::Agreed,
        }
    }

    /// Skills that a touched file activates: those with matching `paths`, and those of directories
    /// between the working directory and the file.
    pub(crate) fn touched(&self, file: &Path) -> Vec<DiscoveredSkill> {
        let places = self.premises.store.places();
        let project = places.project.canonicalize().unwrap_or_else(|_| places.project.clone());
        if file.starts_with(&project) {
            self.look_below(&project, file);
        }
        let found = self.about(&project, file);
        self.real_project.set(project).ok();
        found
    }

    /// Like [`Self::touched`], but `None` if directories must be read first.
    pub(crate) fn touched_at_hand(&self, file: &Path) -> Option<Vec<DiscoveredSkill>> {
        let project = self.real_project.get()?;
        let is_looked_into = self.below(project, file).iter().all(|dir| self.state().looked_in.contains(dir));
        is_looked_into.then(|| self.about(project, file))
    }

    /// Known skills whose `paths` match a file.
    fn about(&self, project: &Path, file: &Path) -> Vec<DiscoveredSkill> {
        let Ok(inside) = file.strip_prefix(project) else { return Vec::new() };
        let mut state = self.state();
        let ActiveSkillsState { skills, nested, woken, .. } = &mut *state;
        let mut found = Vec::new();
        for (skill, is_nested) in
            skills.iter().map(|it| (it, false)).chain(nested.iter().map(|it| (it, true)))
        {
            let is_about = match skill.fields.paths.as_slice() {
                // `sub/.claude/skills/name` applies to files below `sub`.
                [] => {
                    is_nested
                        && skill
                            .skill_dir()
                            .and_then(|it| it.ancestors().nth(3))
                            .is_some_and(|it| file.starts_with(it))
                }
                paths => PathGlobs::new(paths).0.matches(inside),
            };
            if let (true, Some(dir)) = (is_about, skill.skill_dir()) {
                woken.insert(skill.name.clone());
                let (name, description) = (skill.name.clone(), skill.description.clone());
                found.push(DiscoveredSkill { name, description, dir: dir.to_owned() });
            }
        }
        found
    }

    /// Directories between the working directory and a file that may contain skills, innermost first.
    fn below(&self, project: &Path, file: &Path) -> Vec<PathBuf> {
        if !self.premises.reads(haft_config::SettingsLayer::Project) {
            return Vec::new();
        }
        let cwd = &self.premises.cwd;
        let dirs = file.ancestors().skip(1).take_while(|it| it.starts_with(project));
        dirs.filter(|it| !cwd.starts_with(it)).map(Path::to_owned).collect()
    }

    /// Loads the skills of the directories between the working directory and a file.
    fn look_below(&self, project: &Path, file: &Path) {
        let below = self.below(project, file);
        if below.is_empty() {
            return;
        }
        let fence = LinkGuard::around(project, "the project");
        for dir in below.into_iter().rev() {
            if !self.state().looked_in.insert(dir.clone()) {
                continue;
            }
            for name in [".claude", ".haft"] {
                let (skills, problems) = super::skills_in(&dir.join(name), &AgentSource::Project, &fence);
                problems.iter().for_each(|it| self.premises.events.notice(it.to_string()));
                let inside = dir.strip_prefix(project).unwrap_or(&dir).display().to_string();
                for mut skill in skills.into_iter().filter(|it| it.is_for_model) {
                    let mut state = self.state();
                    let is_taken =
                        |name: &str| state.skills.iter().chain(&state.nested).any(|it| it.name == name);
                    if is_taken(&skill.name) {
                        skill.name = format!("{}:{}", inside.replace('/', ":"), skill.name);
                    }
                    if !is_taken(&skill.name) {
                        state.nested.push(skill);
                    }
                }
            }
        }
    }
}

/// Whether the rules a skill wants to allow were approved.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum SkillGrants {
    Agreed,
    NotAgreed,
}

/// In a sub-agent, a Stop hook is run as SubagentStop.
fn of_child(mut hooks: Vec<HookDefinition>) -> Vec<HookDefinition> {
    for hook in hooks.iter_mut().filter(|it| it.event == HookEvent::Stop) {
        hook.event = HookEvent::SubagentStop;
    }
    hooks
}

fn rule_list(behavior: Behavior, text: &str) -> RuleList {
    let (tool, content) = match text.split_once('(') {
        Some((tool, rest)) => (tool, Some(rest.strip_suffix(')').unwrap_or(rest).to_owned())),
        None => (text, None),
    };
    let rule = RuleText { tool_name: tool.trim().to_owned(), rule_content: content };
    RuleList { rules: vec![rule], behavior, destination: Destination::Session }
}

/// Distance of two names: number of letters that are not in both.
fn distance(a: &str, b: &str) -> usize {
    let count = |text: &str, other: &str| text.chars().filter(|it| !other.contains(*it)).count();
    let shared = a.chars().zip(b.chars()).take_while(|(a, b)| a == b).count();
    (count(a, b) + count(b, a) + 2).saturating_sub(shared)
}
