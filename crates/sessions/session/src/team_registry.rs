//! Teams of agents: a name, a lead, members, and a task list.

use std::{
    fs::DirBuilder,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{SystemTime, UNIX_EPOCH},
};

use haft_builtin_tools::{
    agent::SubagentSpawner as _,
    task_list::TaskLists,
    team::{CreateTeam, CreatedTeam, EndedTeam, Teams},
};
use haft_paths::{Durability, ModeOnReplace, replace_file};
use haft_tool::{BoxFuture, CallContext};
use haft_types::AgentId;
use serde::{Deserialize, Serialize};

use crate::agents::{ChildIdentity, SubagentRegistry};

/// Name of the agent that leads a team.
const LEAD: &str = "team-lead";

/// The file of a team.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
struct TeamFile {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    created_at: u64,
    lead_agent_id: String,
    lead_session_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    lead_agent_type: Option<String>,
    members: Vec<TeamMember>,
}

impl TeamFile {
    /// A unique identifier of the team, which differs from that of a later team with the same name.
    fn word(&self) -> String {
        format!("{}@{}", self.name, self.created_at)
    }
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
struct TeamMember {
    agent_id: String,
    name: String,
    agent_type: String,
    joined_at: u64,
}

/// The team that a session leads, if any.
pub(crate) struct TeamRegistry {
    agents: Arc<SubagentRegistry>,
    lists: Arc<TaskLists>,
    /// The session's own task list.
    own_list: String,
    dir: PathBuf,
    session: String,
    team: Mutex<Option<TeamFile>>,
}

impl TeamRegistry {
    /// Opens the teams of a state directory. A resumed session leads the same team as before.
    pub(crate) fn open(
        agents: &Arc<SubagentRegistry>,
        lists: &Arc<TaskLists>,
        state: &Path,
        session: &str,
    ) -> Arc<Self> {
        let desk = Arc::new(Self {
            agents: Arc::clone(agents),
            own_list: lists.current(),
            lists: Arc::clone(lists),
            dir: state.join("teams"),
            session: session.to_owned(),
            team: Mutex::default(),
        });
        let files = std::fs::read_dir(&desk.dir).into_iter().flatten().flatten();
        // Ended teams are renamed to names with a leading dot.
        let led = files.filter(|entry| !entry.file_name().as_encoded_bytes().starts_with(b"."));
        let left = led.filter_map(|entry| read_team(&entry.path().join("config.json")));
        if let Some(team) = left.into_iter().find(|it| it.lead_session_id == session) {
            desk.lists.switch_to(&team.name);
            desk.agents.set_led_team(&team.name, team.word());
            *desk.team() = Some(team);
        }
        let joining = Arc::downgrade(&desk);
        agents.when_begun(move |facts| {
            if let Some(desk) = joining.upgrade() {
                desk.join(facts);
            }
        });
        desk
    }

    fn team(&self) -> MutexGuard<'_, Option<TeamFile>> {
        self.team.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dir.join(name).join("config.json")
    }

    fn write(&self, team: &TeamFile) -> Result<(), String> {
        let file = self.file(&team.name);
        let written = || {
            if let Some(dir) = file.parent() {
                DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
            }
            let bytes = serde_json::to_vec_pretty(team).map_err(std::io::Error::other)?;
            replace_file(&file, &bytes, ModeOnReplace::KeptOr(0o600), Durability::Content)
        };
        written().map_err(|err| format!("the team could not be written down: {err}"))
    }

    /// Adds a named agent started by the lead as a member.
    fn join(&self, facts: &ChildIdentity) {
        let Some(name) = &facts.name else { return };
        let mut team = self.team();
        let Some(team) = team.as_mut().filter(|_| facts.parent.is_main()) else { return };
        let id = facts.id.to_string();
        if team.members.iter().any(|it| it.agent_id == id) {
            return;
        }
        team.members.push(TeamMember {
            agent_id: id,
            name: name.clone(),
            agent_type: facts.kind.clone(),
            joined_at: now(),
        });
        // The members are known without the file, which is for external readers.
        self.write(team).ok();
    }

    /// Completes the end of a team of this name that a killed process has started.
    fn finish_ending(&self, name: &str) -> std::io::Result<()> {
        let prefix = format!(".{name}.ended-");
        let entries = std::fs::read_dir(&self.dir).into_iter().flatten().flatten();
        let ended = entries.filter_map(|entry| Some(entry.file_name().to_str()?.to_owned()));
        let moments = ended.filter_map(|it| it.strip_prefix(&prefix)?.parse::<u64>().ok());
        let Some(last) = moments.max() else { return Ok(()) };
        let put_away = format!("{name}.ended-{last}");
        if self.lists.path(&put_away).exists() { Ok(()) } else { self.lists.put_away(name, &put_away) }
    }

    fn create_now(&self, order: CreateTeam, cx: &CallContext) -> Result<CreatedTeam, String> {
        if !cx.agent_id.is_main() {
            return Err(String::from("only the main agent leads a team"));
        }
        let mut team = self.team();
        if let Some(team) = team.as_ref() {
            return Err(format!("you lead the team {} already: end it with TeamDelete first", team.name));
        }
        let file = self.file(&order.name);
        if file.exists() {
            return Err(format!("there is a team {} already: choose another name", order.name));
        }
        self.finish_ending(&order.name)
            .map_err(|err| format!("the list of an earlier team {} is in the way: {err}", order.name))?;
        let made = TeamFile {
            name: order.name,
            description: order.description,
            created_at: now(),
            lead_agent_id: format!("{LEAD}@{}", self.session),
            lead_session_id: self.session.clone(),
            lead_agent_type: order.agent_type,
            members: Vec::new(),
        };
        self.write(&made)?;
        self.lists.switch_to(&made.name);
        self.agents.set_led_team(&made.name, made.word());
        let (name, lead) = (made.name.clone(), made.lead_agent_id.clone());
        *team = Some(made);
        Ok(CreatedTeam { name, file, lead })
    }

    fn delete_now(&self) -> EndedTeam {
        let mut team = self.team();
        let Some(held) = team.as_ref() else {
            let message = String::from("you lead no team, so nothing was ended");
            return EndedTeam { success: false, message, name: None };
        };
        let name = held.name.clone();
        let refused = |message: String| EndedTeam { success: false, message, name: Some(name.clone()) };
        let working: Vec<&str> = held
            .members
            .iter()
            .filter(|it| self.agents.works(&AgentId::new(it.agent_id.as_str())))
            .map(|it| it.name.as_str())
            .collect();
        if !working.is_empty() {
            return refused(format!(
                "these members still work: {}. Ask them to end with SendMessage and {{\"type\": \"shutdown_request\"}}, then try again",
                working.join(", ")
            ));
        }
        let put_away = format!("{name}.ended-{}", now());
        if let Err(err) = std::fs::rename(self.dir.join(&name), self.dir.join(format!(".{put_away}"))) {
            return refused(format!("the team could not be ended: {err}"));
        }
        let kept = self.lists.put_away(&name, &put_away);
        self.lists.switch_to(&self.own_list);
        let mail = self.agents.end_team();
        *team = None;
        let mut list = match kept {
            Ok(()) => format!("its task list is kept as {put_away}"),
            Err(err) => format!("its task list stays where it was ({err})"),
        };
        if let Err(err) = mail {
            list.push_str(&format!("; that its mail is for nobody could not be written down ({err})"));
        }
        EndedTeam {
            success: true,
            message: format!("The team {name} has ended; {list}."),
            name: Some(name.clone()),
        }
    }
}

impl Teams for TeamRegistry {
    fn is_open(&self) -> bool {
        self.agents.is_available()
    }

    fn create<'a>(
        &'a self,
        order: CreateTeam,
        cx: &'a CallContext,
    ) -> BoxFuture<'a, Result<CreatedTeam, String>> {
        Box::pin(async move { self.create_now(order, cx) })
    }

    fn delete<'a>(&'a self, _cx: &'a CallContext) -> BoxFuture<'a, EndedTeam> {
        Box::pin(async move { self.delete_now() })
    }
}

fn read_team(file: &Path) -> Option<TeamFile> {
    serde_json::from_slice(&std::fs::read(file).ok()?).ok()
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
