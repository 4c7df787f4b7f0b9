//! What users and plugins add: commands, skills, agents.

mod command;
mod markdown;
mod plugin;
mod skill_tool;

use std::{path::PathBuf, sync::Arc};

use haft_hooks::HookDefinition;
use haft_mcp_client::ServerConfig;
use serde_json::{Value, json};

pub(super) use command::{Builtin, Command, Expanded, Kind};
use markdown::{Page, pages};
use plugin::Plugin;
pub(super) use skill_tool::SkillTool;

use super::main_agent::Wanted;
use crate::{args::RunArgs, wiring::Setup};

/// Everything that was found.
#[derive(Clone, Default)]
pub(super) struct Extensions {
    pub(super) commands: Vec<Command>,
    /// Names and descriptions.
    pub(super) agents: Vec<(String, String)>,
    /// What they are, one for one.
    agent_pages: Vec<Page>,
    plugins: Vec<Plugin>,
}

/// A directory that may hold extensions, and whose it is.
struct Place {
    dir: PathBuf,
    /// Told after descriptions.
    owner: &'static str,
}

impl Extensions {
    /// Looks for them where the sources of settings allow.
    pub(super) fn load(setup: &Setup, run: &RunArgs) -> Self {
        let mut found = Self::default();
        for plugin_dir in &run.sdk.plugin_dir {
            found.plugins.extend(Plugin::read(&setup.cwd.join(plugin_dir)));
        }
        for plugin_dir in &run.sdk.plugin_dir_no_mcp {
            let plugin = Plugin::read(&setup.cwd.join(plugin_dir));
            found.plugins.extend(plugin.map(Plugin::without_servers));
        }
        for Place { dir, owner } in places(setup) {
            found.take(&dir, None, owner);
        }
        for plugin in found.plugins.clone() {
            found.take(&plugin.dir, Some(&plugin.name), "");
        }
        // The first of a name wins: what is nearer comes first.
        let mut seen = std::collections::HashSet::new();
        found.commands.retain(|it| seen.insert(it.name.clone()));
        found.commands.extend(Builtin::ALL.into_iter().map(Command::of_haft));
        found
    }

    fn take(&mut self, dir: &std::path::Path, plugin: Option<&str>, owner: &str) {
        let named = |name: &str| plugin.map_or_else(|| name.to_owned(), |plugin| format!("{plugin}:{name}"));
        let told = |text: String| match (plugin, owner) {
            (Some(plugin), _) => format!("({plugin}) {text}"),
            (None, "") => text,
            (None, owner) => format!("{text} ({owner})"),
        };
        for entry in std::fs::read_dir(dir.join("skills")).into_iter().flatten().flatten() {
            let Some(page) = Page::read(&entry.path().join("SKILL.md")) else { continue };
            let folder = entry.file_name().to_string_lossy().into_owned();
            let name = page.head.get("name").cloned().filter(|it| !it.is_empty()).unwrap_or(folder);
            let description = told(page.description());
            self.commands.push(Command::skill(named(&name), description, entry.path(), &page));
        }
        for (inside, path) in pages(&dir.join("commands")) {
            let Some(page) = Page::read(&path) else { continue };
            let parts: Vec<String> =
                inside.with_extension("").iter().map(|it| it.to_string_lossy().into_owned()).collect();
            self.commands.push(Command::typed(named(&parts.join(":")), told(page.description()), &page));
        }
        for (_, path) in pages(&dir.join("agents")) {
            let Some(page) = Page::read(&path) else { continue };
            let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let name = page.head.get("name").cloned().filter(|it| !it.is_empty()).unwrap_or(stem);
            self.agents.push((named(&name), page.description()));
            self.agent_pages.push(page);
        }
    }

    /// The agent of this name.
    pub(super) fn agent(&self, name: &str) -> Option<Wanted> {
        let at = self.agents.iter().position(|(known, _)| known == name)?;
        let page = self.agent_pages.get(at)?;
        let told = |key: &str| page.head.get(key).cloned().filter(|it| !it.is_empty());
        let tools = told("tools").map(|list| list.split(',').map(|it| it.trim().to_owned()).collect());
        Some(Wanted { prompt: page.body.clone(), tools, model: told("model") })
    }

    /// The command of this name.
    pub(super) fn find(&self, name: &str) -> Option<&Command> {
        self.commands.iter().find(|it| it.name == name || it.aliases.contains(&name))
    }

    pub(super) fn command_names(&self) -> Vec<String> {
        self.commands.iter().map(|it| it.name.clone()).collect()
    }

    /// Skills, all of them or those the host wants.
    pub(super) fn skills(&self, wanted: Option<&[String]>) -> Vec<Command> {
        let is_wanted = |it: &&Command| {
            let plain = it.name.rsplit(':').next().unwrap_or_default();
            wanted.is_none_or(|list| list.iter().any(|name| *name == it.name || *name == plain))
        };
        self.commands.iter().filter(|it| it.is_skill()).filter(is_wanted).cloned().collect()
    }

    /// For `initialize`.
    pub(super) fn commands_json(&self) -> Vec<Value> {
        let shown = self.commands.iter().map(|it| {
            let mut command =
                json!({"name": it.name, "description": it.description, "argumentHint": it.argument_hint});
            if !it.aliases.is_empty() {
                command["aliases"] = json!(it.aliases);
            }
            if matches!(it.kind, Kind::Builtin(_)) {
                command["builtin"] = json!(true);
            }
            command
        });
        shown.collect()
    }

    pub(super) fn plugins_json(&self) -> Vec<Value> {
        self.plugins.iter().map(Plugin::json).collect()
    }

    /// Hooks of plugins.
    pub(super) fn hooks(&self) -> Vec<HookDefinition> {
        self.plugins.iter().flat_map(Plugin::hooks).collect()
    }

    /// MCP servers of plugins.
    pub(super) fn servers(&self, servers: &haft_sdk::HostServers) -> Vec<ServerConfig> {
        self.plugins.iter().flat_map(|plugin| plugin.servers(servers)).collect()
    }
}

/// Directories of the user and the project, from the nearest.
fn places(setup: &Setup) -> Vec<Place> {
    let sources = setup.options.setting_sources.as_deref();
    let reads = |name: &str| sources.is_none_or(|list| list.split(',').any(|it| it.trim() == name));
    let known = setup.store.places();
    let mut places = Vec::new();
    if reads("project") {
        let mut roots = vec![setup.cwd.clone()];
        if known.project != setup.cwd {
            roots.push(known.project.clone());
        }
        for root in roots {
            for name in [".claude", ".haft"] {
                places.push(Place { dir: root.join(name), owner: "project" });
            }
        }
    }
    if reads("user") {
        places.extend(known.user.iter().map(|dir| Place { dir: dir.clone(), owner: "user" }));
    }
    let mut seen = std::collections::HashSet::new();
    places.retain(|place| seen.insert(place.dir.clone()));
    places
}

/// The tool that loads skills, if there are any.
pub(super) fn skill_tool(skills: Vec<Command>) -> Option<Arc<dyn haft_tool::DynTool>> {
    (!skills.is_empty()).then(|| haft_tool::erase(SkillTool::new(skills)))
}
