//! Extensions by users and plugins: commands, skills, agents, output styles.

mod arguments;
mod command;
mod front;
mod link_fence;
mod listing;
mod main_agent;
mod markdown;
mod mentions;
mod path_globs;
mod plugins;
mod problem;
mod shelf;
mod skill_shell;
mod skill_tool;
mod skill_use;
mod styles;

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
    sync::Arc,
};

use haft_config::SettingsLayer;

use haft_hooks::HookDefinition;
use haft_mcp_client::ServerConfig;

pub(crate) use self::{
    command::SlashKind,
    front::FrontMatter,
    link_fence::LinkGuard,
    listing::SkillListing,
    main_agent::ModelIs,
    markdown::pages,
    mentions::{NamedBy, attachments, from_editor, names_something},
    path_globs::PathGlobs,
    shelf::{ActiveSkills, DiscoveredSkill, SkillGrants},
    skill_tool::forked_order,
    styles::StyleFile,
};
pub use self::{
    command::{LocalCommand, SlashCommand},
    front::LineProblem,
    main_agent::HostAgent,
    mentions::{as_context, with_piped},
    plugins::{ListedPlugin, Marketplace, PluginEntry, PluginList, PluginOption},
    problem::ExtensionProblem,
};
use plugins::Plugin;
use skill_tool::SkillTool;

use crate::{
    AgentSource, HostedServers, PluginDir, PluginInfo, agents::AgentFiles, environment::SessionEnvironment,
};

/// Name of the Skill tool.
pub(crate) const SKILL_TOOL: &str = <SkillTool as haft_tool::Tool>::NAME;

/// All extensions that were found.
#[derive(Clone, Default)]
pub(crate) struct Extensions {
    pub(crate) commands: Vec<SlashCommand>,
    /// Files with agent definitions.
    pub(crate) agents: AgentFiles,
    pub(crate) styles: Vec<StyleFile>,
    /// Problems in all other files.
    pub(crate) problems: Vec<ExtensionProblem>,
    pub(crate) plugin_list: PluginList,
    plugins: Vec<Plugin>,
}

/// A directory that can contain extensions, and its owner.
struct ExtensionDir {
    dir: PathBuf,
    owner: AgentSource,
    fence: LinkGuard,
}

impl Extensions {
    /// Loads the extensions from the enabled settings layers.
    pub(crate) fn load(premises: &SessionEnvironment, given: &[PluginDir]) -> Self {
        let (plugins, plugin_list) = plugins::found(premises, given);
        let mut found =
            Self { plugins, problems: plugin_list.problems.clone(), plugin_list, ..Self::default() };
        let places = places(premises);
        // Order of skills: managed, user's, project's from the nearest directory, those of added
        // directories.
        let rank = |it: &&ExtensionDir| match it.owner {
            AgentSource::Managed => 0,
            AgentSource::User => 1,
            _ => 2,
        };
        let mut by_rank: Vec<&ExtensionDir> = places.iter().collect();
        by_rank.sort_by_key(rank);
        for ExtensionDir { dir, owner, fence } in by_rank {
            found.take_skills(&skills_in(dir, owner, fence), None);
        }
        for dir in &premises.extra_dirs {
            let fence = LinkGuard::around(dir, "the added directory");
            found.take_skills(&skills_in(&dir.join(".claude"), &AgentSource::Project, &fence), None);
        }
        for plugin in found.plugins.clone() {
            let (source, fence) = (AgentSource::Plugin(plugin.name.clone()), plugin.fence());
            for place in &plugin.skills {
                found.take_skills(&skills_at(place, &source, &fence), Some(&plugin));
            }
        }
        for place @ ExtensionDir { dir, owner, fence } in &places {
            found.take_commands(&dir.join("commands"), place, None);
            found.agents.take(pages(&dir.join("agents"), fence), owner, fence);
            found.take_styles(&dir.join("output-styles"), fence, None);
        }
        for plugin in found.plugins.clone() {
            let (owner, fence) = (AgentSource::Plugin(plugin.name.clone()), plugin.fence());
            let of = ExtensionDir { dir: plugin.dir.clone(), owner, fence };
            let ExtensionDir { owner, fence, .. } = &of;
            plugin.commands.iter().for_each(|it| found.take_commands(it, &of, Some(&plugin)));
            plugin.agents.iter().for_each(|it| found.agents.take(pages_at(it, fence), owner, fence));
            plugin.styles.iter().for_each(|it| found.take_styles(it, fence, Some(&plugin.name)));
        }
        found.styles.extend(styles::builtin_styles());
        // The first with a name wins: skills before commands, then the nearer one.
        let mut seen = HashSet::new();
        found.commands.retain(|it| seen.insert(it.name.clone()));
        found.commands.extend(LocalCommand::ALL.into_iter().map(SlashCommand::of_haft));
        found
    }

    /// Loads plugins only.
    pub(crate) fn load_plugins(premises: &SessionEnvironment, given: &[PluginDir]) -> Self {
        let (mut plugins, plugin_list) = plugins::found(premises, given);
        plugins.retain(Plugin::is_given);
        Self { plugins, plugin_list, ..Self::default() }
    }

    fn take_skills(
        &mut self,
        (skills, problems): &(Vec<SlashCommand>, Vec<ExtensionProblem>),
        plugin: Option<&Plugin>,
    ) {
        self.problems.extend(problems.iter().cloned());
        let placed = skills.iter().cloned().map(|it| owned_by(it, plugin));
        self.commands.extend(placed);
    }

    fn take_commands(&mut self, place: &Path, of: &ExtensionDir, plugin: Option<&Plugin>) {
        for (inside, file) in pages_at(place, &of.fence) {
            let mut front = match of.fence.read(&file) {
                Ok(front) => front,
                Err(reason) => {
                    let reason = format!("it cannot be read: {reason}");
                    self.problems.push(ExtensionProblem {
                        what: "command",
                        file,
                        line: 1,
                        reason,
                        is_lost: true,
                    });
                    continue;
                }
            };
            let parts: Vec<String> =
                inside.with_extension("").iter().map(|it| it.to_string_lossy().into_owned()).collect();
            let kind = SlashKind::Prompt(front.body.clone());
            let mut command = SlashCommand::of_front(&mut front, parts.join(":"), kind, of.owner.clone());
            command.file = Some(file.clone());
            self.commands.push(owned_by(command, plugin));
            self.problems.extend(ExtensionProblem::of_lines("command", &file, front.problems));
        }
    }

    fn take_styles(&mut self, place: &Path, fence: &LinkGuard, plugin: Option<&str>) {
        let (styles, problems) = styles::styles_at(place, fence, plugin);
        self.styles.extend(styles);
        self.problems.extend(problems);
    }

    /// The style with this name, or the one that a plugin forces.
    pub(crate) fn style(&self, name: &str) -> Option<&StyleFile> {
        let forced = || self.styles.iter().find(|it| it.is_forced);
        let named = self.styles.iter().find(|it| it.style.name.eq_ignore_ascii_case(name));
        if name.eq_ignore_ascii_case("default") { forced() } else { named }
    }

    /// The command with this name.
    pub(crate) fn find(&self, name: &str) -> Option<&SlashCommand> {
        self.commands.iter().find(|it| it.name == name || it.aliases.contains(&name))
    }

    pub(crate) fn command_names(&self) -> Vec<String> {
        self.commands.iter().filter(|it| it.is_for_person).map(|it| it.name.clone()).collect()
    }

    /// The skills, limited to `wanted` if the host named some.
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

    pub(crate) fn plugins(&self) -> Vec<PluginInfo> {
        self.plugins.iter().map(Plugin::facts).collect()
    }

    /// Number of plugins given by flags or the host.
    pub(crate) fn explicit_plugin_count(&self) -> usize {
        self.plugins.iter().filter(|it| it.is_given()).count()
    }

    /// Directories with programs of plugins.
    pub(crate) fn bins(&self) -> Vec<PathBuf> {
        self.plugins.iter().filter_map(Plugin::bin).collect()
    }

    /// Hooks of plugins.
    pub(crate) fn hooks(&self) -> Vec<HookDefinition> {
        self.plugins.iter().flat_map(Plugin::hooks).collect()
    }

    /// Language servers of plugins.
    pub(crate) fn language_servers(&self, premises: &SessionEnvironment) -> Vec<haft_lsp::ConfiguredServer> {
        self.plugins.iter().flat_map(|plugin| plugin.language_servers(premises)).collect()
    }

    /// MCP servers of plugins.
    pub(crate) fn servers(
        &self,
        hosted: Option<&HostedServers>,
        premises: &SessionEnvironment,
    ) -> Vec<ServerConfig> {
        self.plugins.iter().flat_map(|plugin| plugin.servers(hosted, premises)).collect()
    }
}

/// Names a command after its plugin, and adds the plugin to its description.
fn owned_by(mut command: SlashCommand, plugin: Option<&Plugin>) -> SlashCommand {
    match (plugin, &command.source) {
        (Some(plugin), _) => {
            command.name = format!("{}:{}", plugin.name, command.name);
            command.description = format!("({}) {}", plugin.name, command.description);
            command.fields.plugin_root = Some(plugin.dir.clone());
            command.fields.plugin_told = plugin.told();
        }
        (None, source) => command.description = format!("{} ({})", command.description, source.label()),
    }
    command
}

/// The skills in a directory such as `.claude`.
fn skills_in(
    dir: &Path,
    source: &AgentSource,
    fence: &LinkGuard,
) -> (Vec<SlashCommand>, Vec<ExtensionProblem>) {
    skills_at(&dir.join("skills"), source, fence)
}

/// Skill directories: the subdirectories of a directory, or the directory itself.
fn skill_dirs(place: &Path, fence: &LinkGuard) -> Vec<PathBuf> {
    if place.join("SKILL.md").is_file() || (place.is_dir() && fence.is_left_by(place)) {
        return vec![place.to_owned()];
    }
    let mut dirs: Vec<PathBuf> = std::fs::read_dir(place)
        .into_iter()
        .flatten()
        .flatten()
        .map(|it| it.path())
        .filter(|it| it.is_dir())
        .collect();
    dirs.sort();
    dirs
}

/// The skills at a path. Problems are reported; readable parts of a broken file are used.
fn skills_at(
    place: &Path,
    source: &AgentSource,
    fence: &LinkGuard,
) -> (Vec<SlashCommand>, Vec<ExtensionProblem>) {
    let (mut skills, mut problems) = (Vec::new(), Vec::new());
    for dir in skill_dirs(place, fence) {
        // A directory outside of the permitted one is reported itself.
        let file = if fence.is_left_by(&dir) { dir.clone() } else { dir.join("SKILL.md") };
        let folder = dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if folder.starts_with('.') {
            continue;
        }
        let mut front = match fence.read(&file) {
            Ok(front) => front,
            Err(reason) => {
                let reason = format!("it cannot be read: {reason}");
                problems.push(ExtensionProblem { what: "skill", file, line: 1, reason, is_lost: true });
                continue;
            }
        };
        let name = front.text("name").filter(|it| !it.contains(char::is_whitespace)).unwrap_or(folder);
        let kind = SlashKind::Skill { body: front.body.clone(), dir };
        let mut skill = SlashCommand::of_front(&mut front, name, kind, source.clone());
        skill.file = Some(file.clone());
        for wrong in PathGlobs::new(&skill.fields.paths).1 {
            let line = front.line_of("paths");
            front.problem(line, format!("the glob {wrong:?} makes no sense; it is passed over"));
        }
        problems.extend(ExtensionProblem::of_lines("skill", &file, front.problems));
        skills.push(skill);
    }
    (skills, problems)
}

/// Markdown files at a path: below a directory, or a single file.
fn pages_at(place: &Path, fence: &LinkGuard) -> Vec<(PathBuf, PathBuf)> {
    if place.is_file() {
        vec![(place.file_name().map(PathBuf::from).unwrap_or_default(), place.to_owned())]
    } else {
        pages(place, fence)
    }
}

/// Extension directories of user and project, nearest first.
fn places(premises: &SessionEnvironment) -> Vec<ExtensionDir> {
    let known = premises.store.places();
    let mut places = Vec::new();
    let of = |owner: AgentSource, dir: PathBuf| ExtensionDir {
        fence: LinkGuard::new(&owner, premises, &dir),
        dir,
        owner,
    };
    for dir in &known.managed {
        for dir in [dir.clone(), dir.join(".claude")] {
            places.push(of(AgentSource::Managed, dir));
        }
    }
    if premises.reads(SettingsLayer::Project) {
        let roots = premises.cwd.ancestors().take_while(|it| it.starts_with(&known.project));
        let mut roots: Vec<PathBuf> = roots.map(Path::to_owned).collect();
        if roots.is_empty() {
            roots.push(premises.cwd.clone());
        }
        for root in roots {
            for name in [".claude", ".haft"] {
                places.push(of(AgentSource::Project, root.join(name)));
            }
        }
    }
    if premises.reads(SettingsLayer::User) {
        places.extend(known.user.iter().map(|dir| of(AgentSource::User, dir.clone())));
    }
    let mut seen = HashSet::new();
    places.retain(|place| seen.insert(place.dir.clone()));
    places
}

/// Hash of names, sizes and times of all extension files, to detect changes without reading them.
pub(crate) fn fingerprint(premises: &SessionEnvironment) -> u64 {
    use std::hash::{DefaultHasher, Hash as _, Hasher as _};
    let mut hasher = DefaultHasher::new();
    for ExtensionDir { dir, fence, .. } in places(premises) {
        let skills = skill_dirs(&dir.join("skills"), &fence).into_iter().map(|it| it.join("SKILL.md"));
        let pages =
            ["commands", "agents", "output-styles"].into_iter().flat_map(|it| pages(&dir.join(it), &fence));
        for file in skills.chain(pages.map(|it| it.1)) {
            let Ok(about) = std::fs::metadata(&file) else { continue };
            file.hash(&mut hasher);
            about.len().hash(&mut hasher);
            about.modified().ok().hash(&mut hasher);
        }
    }
    hasher.finish()
}

/// Creates the Skill tool.
pub(crate) fn skill_tool(shelf: Arc<ActiveSkills>, listing: &SkillListing) -> Arc<dyn haft_tool::DynTool> {
    haft_tool::erase(SkillTool::new(shelf, listing))
}
