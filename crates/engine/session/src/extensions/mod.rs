//! What users and plugins add: commands, skills, agents.

mod command;
mod front;
mod main_agent;
mod markdown;
mod mentions;
mod plugin;
mod skill_tool;

use std::{path::PathBuf, sync::Arc};

use haft_config::Layer;

use haft_hooks::HookDefinition;
use haft_mcp_client::ServerConfig;

pub(crate) use self::{
    command::{ExpandedCommand, SlashKind},
    main_agent::ModelIs,
    mentions::{attachments, names_something},
};
pub use command::{LocalCommand, SlashCommand};
pub(crate) use front::FrontMatter;
pub use front::LineProblem;
pub use main_agent::HostAgent;
use markdown::{Page, pages};
use plugin::Plugin;
use skill_tool::SkillTool;

use crate::{AgentSource, HostedServers, PluginDir, PluginFacts, agents::AgentFiles, premises::Premises};

/// The name of the tool by which a model uses skills.
pub(crate) const SKILL_TOOL: &str = <SkillTool as haft_tool::Tool>::NAME;

/// Everything that was found.
#[derive(Clone, Default)]
pub(crate) struct Extensions {
    pub(crate) commands: Vec<SlashCommand>,
    /// Files that describe agents.
    pub(crate) agents: AgentFiles,
    plugins: Vec<Plugin>,
}

/// A directory that may hold extensions, and whose it is.
struct ExtensionDir {
    dir: PathBuf,
    /// Told after descriptions.
    owner: &'static str,
}

impl Extensions {
    /// Looks for them where the sources of settings allow.
    pub(crate) fn load(premises: &Premises, plugins: &[PluginDir]) -> Self {
        let mut found = Self::default();
        found.plugins.extend(plugins.iter().filter_map(|plugin| Plugin::read(plugin, &premises.cwd)));
        for ExtensionDir { dir, owner } in places(premises) {
            found.take(&dir, None, owner);
        }
        for plugin in found.plugins.clone() {
            found.take(&plugin.dir, Some(&plugin.name), "");
        }
        // The first of a name wins: what is nearer comes first.
        let mut seen = std::collections::HashSet::new();
        found.commands.retain(|it| seen.insert(it.name.clone()));
        found.commands.extend(LocalCommand::ALL.into_iter().map(SlashCommand::of_haft));
        found
    }

    /// Plugins alone.
    pub(crate) fn load_plugins(premises: &Premises, plugins: &[PluginDir]) -> Self {
        let plugins = plugins.iter().filter_map(|plugin| Plugin::read(plugin, &premises.cwd));
        Self { plugins: plugins.collect(), ..Self::default() }
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
            self.commands.push(SlashCommand::skill(named(&name), description, entry.path(), &page));
        }
        for (inside, path) in pages(&dir.join("commands")) {
            let Some(page) = Page::read(&path) else { continue };
            let parts: Vec<String> =
                inside.with_extension("").iter().map(|it| it.to_string_lossy().into_owned()).collect();
            self.commands.push(SlashCommand::typed(named(&parts.join(":")), told(page.description()), &page));
        }
        let source = match (plugin, owner) {
            (Some(plugin), _) => AgentSource::Plugin(plugin.to_owned()),
            (None, "project") => AgentSource::Project,
            (None, "managed") => AgentSource::Managed,
            (None, _) => AgentSource::User,
        };
        self.agents.take(pages(&dir.join("agents")), &source);
    }

    /// The command of this name.
    pub(crate) fn find(&self, name: &str) -> Option<&SlashCommand> {
        self.commands.iter().find(|it| it.name == name || it.aliases.contains(&name))
    }

    pub(crate) fn command_names(&self) -> Vec<String> {
        self.commands.iter().filter(|it| it.is_for_person).map(|it| it.name.clone()).collect()
    }

    /// Skills, all of them or those the host wants.
    pub(crate) fn skills(&self, wanted: Option<&[String]>) -> Vec<SlashCommand> {
        let is_wanted = |it: &&SlashCommand| {
            let plain = it.name.rsplit(':').next().unwrap_or_default();
            wanted.is_none_or(|list| list.iter().any(|name| *name == it.name || *name == plain))
        };
        self.commands
            .iter()
            .filter(|it| it.is_skill() && it.is_for_model)
            .filter(is_wanted)
            .cloned()
            .collect()
    }

    pub(crate) fn plugins(&self) -> Vec<PluginFacts> {
        self.plugins.iter().map(Plugin::facts).collect()
    }

    /// Hooks of plugins.
    pub(crate) fn hooks(&self) -> Vec<HookDefinition> {
        self.plugins.iter().flat_map(Plugin::hooks).collect()
    }

    /// MCP servers of plugins.
    pub(crate) fn servers(&self, hosted: Option<&HostedServers>, premises: &Premises) -> Vec<ServerConfig> {
        self.plugins.iter().flat_map(|plugin| plugin.servers(hosted, premises)).collect()
    }
}

/// Directories of the user and the project, from the nearest.
fn places(premises: &Premises) -> Vec<ExtensionDir> {
    let known = premises.store.places();
    let mut places = Vec::new();
    for dir in &known.managed {
        for dir in [dir.clone(), dir.join(".claude")] {
            places.push(ExtensionDir { dir, owner: "managed" });
        }
    }
    if premises.reads(Layer::Project) {
        let mut roots = vec![premises.cwd.clone()];
        if known.project != premises.cwd {
            roots.push(known.project.clone());
        }
        for root in roots {
            for name in [".claude", ".haft"] {
                places.push(ExtensionDir { dir: root.join(name), owner: "project" });
            }
        }
    }
    if premises.reads(Layer::User) {
        places.extend(known.user.iter().map(|dir| ExtensionDir { dir: dir.clone(), owner: "user" }));
    }
    let mut seen = std::collections::HashSet::new();
    places.retain(|place| seen.insert(place.dir.clone()));
    places
}

/// The tool that loads skills, if there are any.
pub(crate) fn skill_tool(skills: Vec<SlashCommand>) -> Option<Arc<dyn haft_tool::DynTool>> {
    (!skills.is_empty()).then(|| haft_tool::erase(SkillTool::new(skills)))
}
