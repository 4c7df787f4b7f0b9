//! Installs and removes plugins and marketplaces, from local directories and git repositories. Downloads
//! nothing.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{SystemTime, UNIX_EPOCH},
};

use serde_json::{Map, Value, json};

use super::{
    super::ExtensionProblem,
    Plugin, PluginEntry,
    manifest::{JsonText, inside, is_name},
    market::{self, Marketplace},
    market_limits::MarketplacePolicy,
    options::{self, PluginOption},
};
use crate::environment::SessionEnvironment;

/// File with the known marketplaces, relative to the state directory.
const KNOWN: &str = "plugins/known_marketplaces.json";
/// File with the installed plugins, relative to the state directory.
const INSTALLED: &str = "plugins/installed_plugins.json";

impl SessionEnvironment {
    /// Validates a plugin or marketplace in a directory. Returns a description of its content and the
    /// problems found. Fails if there is neither.
    pub fn validate_plugin(&self, dir: &Path) -> Result<(String, Vec<ExtensionProblem>), String> {
        let dir = crate::environment::absolute(dir, &self.cwd);
        if dir.join(".claude-plugin/marketplace.json").exists() {
            let file = JsonText::read(&dir.join(".claude-plugin/marketplace.json"), "marketplace");
            let name = file.ok().flatten().and_then(|it| it.string("name")).unwrap_or_default();
            return Ok(match market::read(&name, &dir, String::from("the command line")) {
                Ok((market, mut problems)) => {
                    for plugin in market.plugins.iter().filter_map(|it| Some((it.dir.as_ref()?, &it.parts))) {
                        problems.extend(Plugin::read(plugin.0, &market.name, plugin.1, self).1);
                    }
                    (format!("marketplace {}: {} plugins", market.name, market.plugins.len()), problems)
                }
                Err(problem) => (format!("marketplace {name}"), vec![problem]),
            });
        }
        if !dir.is_dir() {
            return Err(format!("{} is no directory", dir.display()));
        }
        let (plugin, problems) = Plugin::read(&dir, "inline", &Map::new(), self);
        let parts: &[&str] = &[
            ".claude-plugin/plugin.json",
            "skills",
            "commands",
            "agents",
            "hooks/hooks.json",
            ".mcp.json",
            "output-styles",
            "bin",
        ];
        if !parts.iter().any(|it| dir.join(it).exists()) {
            return Err(format!("{} is neither a plugin nor a marketplace", dir.display()));
        }
        let words = plugin.map(|it| {
            let adds: Vec<String> = it.adds().iter().map(|(kind, count)| format!("{count} {kind}")).collect();
            format!(
                "plugin {}: {}",
                it.name,
                if adds.is_empty() { String::from("nothing") } else { adds.join(", ") }
            )
        });
        Ok((words.unwrap_or_else(|| String::from("plugin")), problems))
    }

    /// Adds a marketplace: a directory, which is used in place, or a local git repository, which is
    /// copied.
    pub fn add_marketplace(&self, from: &str) -> Result<Marketplace, String> {
        let place = LocalSource::parse(from, &self.cwd)?;
        let (dir, source) = match &place {
            LocalSource::Directory(dir) => {
                (dir.clone(), json!({"source": "directory", "path": dir.to_string_lossy()}))
            }
            LocalSource::Git(path) => {
                let copied = self.copied(path, None)?;
                (copied, json!({"source": "git", "url": path}))
            }
        };
        let name = JsonText::read(&dir.join(".claude-plugin/marketplace.json"), "marketplace")
            .map_err(|problem| problem.to_string())?
            .and_then(|it| it.string("name"))
            .filter(|it| is_name(it));
        let Some(name) = name else {
            self.drop_copy(&place, &dir);
            return Err(format!("{from} has no .claude-plugin/marketplace.json with a name"));
        };
        if let Err(reason) = MarketplacePolicy::from_settings(self).check(&source) {
            self.drop_copy(&place, &dir);
            return Err(format!("the marketplace {name} may not be used here: {reason}"));
        }
        let taken = market::known(self).0.into_iter().find(|it| it.name == name);
        if let Some(taken) = taken.filter(|it| it.dir != dir) {
            self.drop_copy(&place, &dir);
            return Err(format!("there is a marketplace {name} already, in {}", taken.dir.display()));
        }
        let dir = match &place {
            LocalSource::Directory(_) => dir,
            LocalSource::Git(_) => self.moved(&dir, &Path::new("plugins/marketplaces").join(&name))?,
        };
        let market =
            market::read(&name, &dir, String::from("the command line")).map_err(|it| it.to_string())?.0;
        let entry = json!({"source": source, "installLocation": dir.to_string_lossy(), "lastUpdated": now()});
        self.own_file(KNOWN, |table| drop(table.insert(name.clone(), entry)))?;
        Ok(market)
    }

    /// Removes a marketplace, and its copy if it was copied. Returns the ids of its plugins that are still
    /// enabled. Fails for one that a settings file names.
    pub fn remove_marketplace(&self, name: &str) -> Result<Vec<String>, String> {
        let known = market::known(self).0;
        let Some(market) = known.iter().find(|it| it.name == name) else {
            let all: Vec<&str> = known.iter().map(|it| it.name.as_str()).collect();
            let all = if all.is_empty() { String::from("none") } else { all.join(", ") };
            return Err(format!("there is no marketplace {name}; known are: {all}"));
        };
        let removed = self.own_file(KNOWN, |table| table.remove(name).is_some())?;
        if !removed {
            return Err(format!("{} names the marketplace {name}: take it out there", market.known_from));
        }
        let copies = self.own_dir("plugins/marketplaces")?;
        if market.dir.starts_with(&copies) {
            std::fs::remove_dir_all(&market.dir).map_err(|err| err.to_string())?;
        }
        let of_it = |it: &&PluginEntry| it.is_enabled && it.id.ends_with(&format!("@{name}"));
        Ok(self.plugins().plugins.iter().filter(of_it).map(|it| it.id.clone()).collect())
    }

    /// Copies a git marketplace again. Returns `false` for a directory, which is always read in place.
    pub fn update_marketplace(&self, name: &str) -> Result<bool, String> {
        let file = self.own_dir(KNOWN)?;
        let known = JsonText::read(&file, "marketplace").map_err(|it| it.to_string())?;
        let entry = known.and_then(|it| it.value.get(name).cloned());
        let entry = entry.ok_or_else(|| format!("there is no marketplace {name} that was added here"))?;
        let Some(url) = entry["source"]["url"].as_str() else { return Ok(false) };
        let copied = self.copied(Path::new(url), None)?;
        self.moved(&copied, &Path::new("plugins/marketplaces").join(name))?;
        Ok(true)
    }

    /// Installs a plugin of a known marketplace and returns its directory. One beside its marketplace is
    /// used in place.
    pub fn install_plugin(&self, id: &str) -> Result<PathBuf, String> {
        let (name, market_name) = id.rsplit_once('@').unwrap_or((id, ""));
        let markets = market::known(self).0;
        let market = markets.iter().find(|it| it.name == market_name);
        let listed = market.and_then(|it| it.plugins.iter().find(|it| it.name == name));
        let Some(listed) = listed else { return Err(format!("no marketplace lists {id}")) };
        let (dir, version) = match &listed.dir {
            Some(dir) => (dir.clone(), None),
            None => {
                let base = market.map_or(self.cwd.as_path(), |it| it.dir.as_path());
                self.brought(id, &listed.source, base)?
            }
        };
        let (plugin, problems) = Plugin::read(&dir, market_name, &listed.parts, self);
        if plugin.is_none() {
            let why: Vec<String> = problems.iter().map(ToString::to_string).collect();
            return Err(format!("{id} cannot be used: {}", why.join("; ")));
        }
        let version = version.or_else(|| plugin.and_then(|it| it.version));
        let entry = json!({"scope": "user", "installPath": dir.to_string_lossy(), "version": version, "installedAt": now(),
            "lastUpdated": now()});
        self.own_file(INSTALLED, |table| {
            table.insert(String::from("version"), json!(2));
            let plugins = table.entry("plugins").or_insert_with(|| json!({}));
            plugins[id] = json!([entry]);
        })?;
        Ok(dir)
    }

    /// Makes a plugin from elsewhere on this machine available: a directory in place, a git repository
    /// as a copy. Returns its directory and version.
    fn brought(&self, id: &str, source: &Value, base: &Path) -> Result<(PathBuf, Option<String>), String> {
        let (name, market) = id.rsplit_once('@').unwrap_or((id, ""));
        let is_part = source["source"] == "git-subdir";
        let url = source["url"].as_str().or_else(|| source["path"].as_str().filter(|_| !is_part));
        let Ok(place) = LocalSource::parse(url.unwrap_or_default(), base) else {
            return Err(format!(
                "{id} is at {source}: only directories and git repositories of this machine can be installed"
            ));
        };
        let part_of = |dir: &Path| match source["path"].as_str().filter(|_| is_part) {
            None => Ok(dir.to_owned()),
            Some(part) => {
                let part = format!("./{}", part.trim_start_matches("./"));
                inside(dir, &part).map_err(|why| format!("{id}: {part} {why}"))
            }
        };
        let path = match place {
            LocalSource::Directory(dir) if !dir.join(".git").exists() => return Ok((part_of(&dir)?, None)),
            LocalSource::Directory(path) | LocalSource::Git(path) => path,
        };
        let copied = self.copied(&path, source["ref"].as_str())?;
        let placed = part_of(&copied).and_then(|part| {
            let manifest = JsonText::read(&part.join(".claude-plugin/plugin.json"), "plugin");
            let manifest = manifest.map_err(|it| it.to_string())?;
            let version = manifest.and_then(|it| it.string("version")).filter(|it| is_name(it));
            let version = version.unwrap_or_else(|| String::from("latest"));
            let to = Path::new("plugins/cache").join(market).join(name).join(&version);
            Ok((self.moved(&part, &to)?, Some(version)))
        });
        std::fs::remove_dir_all(&copied).ok();
        placed
    }

    /// Removes an installed plugin. Returns whether it was installed.
    pub fn uninstall_plugin(&self, id: &str) -> Result<bool, String> {
        let known = self.own_file(INSTALLED, |table| {
            let plugins = table.get_mut("plugins").and_then(Value::as_object_mut);
            plugins.and_then(|it| it.remove(id))
        })?;
        let (name, market) = id.rsplit_once('@').unwrap_or((id, ""));
        let copies = self.own_dir("plugins/cache")?.join(market).join(name);
        let had_copies = is_name(name) && is_name(market) && copies.is_dir();
        if had_copies {
            std::fs::remove_dir_all(&copies).map_err(|err| err.to_string())?;
        }
        Ok(known.is_some() || had_copies)
    }

    /// The configuration options of an enabled plugin.
    pub fn plugin_options(&self, id: &str) -> Result<Vec<PluginOption>, String> {
        let (plugins, _) = super::found(self, &[]);
        let plugin = plugins.iter().find(|it| it.id() == id);
        plugin.map(|it| it.options.wanted().to_vec()).ok_or_else(|| format!("the plugin {id} is not on"))
    }

    /// Sets a configuration option of a plugin.
    pub fn tell_plugin(&self, id: &str, key: &str, value: &str) -> Result<(), String> {
        let wanted = self.plugin_options(id)?;
        let Some(option) = wanted.iter().find(|it| it.key == key) else {
            let all: Vec<&str> = wanted.iter().map(|it| it.key.as_str()).collect();
            let all = if all.is_empty() { String::from("nothing") } else { all.join(", ") };
            return Err(format!("{id} does not want to know `{key}`; it wants to know: {all}"));
        };
        options::tell(self, id, option, value)
    }

    fn own_dir(&self, inside: &str) -> Result<PathBuf, String> {
        let state = self.store.places().state.clone();
        state.map(|it| it.join(inside)).ok_or_else(|| String::from("there is no home to keep plugins in"))
    }

    fn own_file<T>(
        &self,
        file: &str,
        change: impl FnOnce(&mut Map<String, Value>) -> T,
    ) -> Result<T, String> {
        self.store.update_own_file(Path::new(file), change).map_err(|err| err.to_string())
    }

    /// Copies a git repository or a directory, without history, next to its destination.
    fn copied(&self, from: &Path, wanted: Option<&str>) -> Result<PathBuf, String> {
        let beside = self.own_dir("plugins")?;
        std::fs::create_dir_all(&beside).map_err(|err| format!("{}: {err}", beside.display()))?;
        let to = beside.join(format!(".new-{}", uuid::Uuid::new_v4().simple()));
        let mut git = Command::new("git");
        git.args(["-c", "core.hooksPath=/dev/null", "-c", "protocol.allow=never"])
            .args(["-c", "protocol.file.allow=always", "-c", "core.symlinks=false"])
            .args(["clone", "--quiet", "--no-hardlinks", "--no-local", "--depth", "1", "--single-branch"]);
        if let Some(wanted) = wanted.filter(|it| !it.starts_with('-')) {
            git.args(["--branch", wanted]);
        }
        git.arg("--").arg(from).arg(&to);
        git.env("GIT_TERMINAL_PROMPT", "0").env_remove("GIT_DIR").stdin(Stdio::null()).stdout(Stdio::null());
        let said = git.output().map_err(|err| format!("git cannot be run: {err}"))?;
        if !said.status.success() {
            std::fs::remove_dir_all(&to).ok();
            let why = String::from_utf8_lossy(&said.stderr);
            return Err(format!(
                "{} cannot be copied: {}",
                from.display(),
                haft_types::text::one_line(&why, 300)
            ));
        }
        std::fs::remove_dir_all(to.join(".git")).ok();
        Ok(to)
    }

    /// Moves a copy to its destination, replacing an older one.
    fn moved(&self, from: &Path, to: &Path) -> Result<PathBuf, String> {
        let to = self.own_dir(&to.to_string_lossy())?;
        let failed = |err: std::io::Error| format!("{}: {err}", to.display());
        if let Some(above) = to.parent() {
            std::fs::create_dir_all(above).map_err(failed)?;
        }
        let old = to.with_extension(format!("old-{}", uuid::Uuid::new_v4().simple()));
        let had = std::fs::rename(&to, &old).is_ok();
        match std::fs::rename(from, &to) {
            Ok(()) => {
                if had {
                    std::fs::remove_dir_all(&old).ok();
                }
                Ok(to)
            }
            Err(err) => {
                if had {
                    std::fs::rename(&old, &to).ok();
                }
                Err(failed(err))
            }
        }
    }

    fn drop_copy(&self, place: &LocalSource, dir: &Path) {
        if matches!(place, LocalSource::Git(_)) {
            std::fs::remove_dir_all(dir).ok();
        }
    }
}

/// A source on this machine.
enum LocalSource {
    /// A directory with the files.
    Directory(PathBuf),
    /// A bare git repository.
    Git(PathBuf),
}

impl LocalSource {
    fn parse(text: &str, base: &Path) -> Result<Self, String> {
        let plain = text.strip_prefix("file://").unwrap_or(text);
        let is_far = plain.contains("://") || (plain.contains(':') && !plain.starts_with(['/', '.']));
        if plain.is_empty() || is_far {
            return Err(format!("{text} is not on this machine: name a directory or a git repository"));
        }
        let dir = crate::environment::absolute(Path::new(plain), base);
        let dir = dir.canonicalize().map_err(|err| format!("{}: {err}", dir.display()))?;
        if dir.join("HEAD").is_file() && dir.join("objects").is_dir() {
            Ok(Self::Git(dir))
        } else {
            Ok(Self::Directory(dir))
        }
    }
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
