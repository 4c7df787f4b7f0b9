//! Marketplaces on disk: `.claude-plugin/marketplace.json`.

use std::path::{Path, PathBuf};

use haft_config::SettingsLayer;
use serde_json::{Map, Value};

use super::{
    super::ExtensionProblem,
    manifest::{COMPONENTS, JsonText, inside, is_name},
    market_limits::MarketplacePolicy,
};
use crate::environment::SessionEnvironment;

/// A marketplace (a list of plugins) on this machine.
#[derive(Clone, Debug)]
pub struct Marketplace {
    /// Name of the marketplace.
    pub name: String,
    /// Directory of the marketplace.
    pub dir: PathBuf,
    /// Where it is configured: a settings file, or the list of known ones.
    pub known_from: String,
    /// The plugins it lists.
    pub plugins: Vec<ListedPlugin>,
}

/// A plugin in a marketplace.
#[derive(Clone, Debug)]
pub struct ListedPlugin {
    /// Name of the plugin.
    pub name: String,
    /// Description of the plugin.
    pub description: String,
    /// Its directory, if it is beside the marketplace file.
    pub dir: Option<PathBuf>,
    /// Its source otherwise, as listed.
    pub(super) source: Value,
    /// Manifest keys set by the marketplace.
    pub(super) parts: Map<String, Value>,
}

/// The known marketplaces, and problems with others.
pub(super) fn known(premises: &SessionEnvironment) -> (Vec<Marketplace>, Vec<ExtensionProblem>) {
    let (mut found, mut problems): (Vec<Marketplace>, Vec<ExtensionProblem>) = (Vec::new(), Vec::new());
    let limits = MarketplacePolicy::from_settings(premises);
    let mut take = |name: &str, dir: PathBuf, source: &Value, known_from: String| {
        if found.iter().any(|it| it.name == name) {
            return;
        }
        if let Err(reason) = limits.check(source) {
            let reason = format!("the marketplace {name} is not used: {reason}");
            let file = dir.join(".claude-plugin/marketplace.json");
            problems.push(ExtensionProblem { what: "marketplace", file, line: 1, reason, is_lost: true });
            return;
        }
        match read(name, &dir, known_from) {
            Ok((market, wrong)) => {
                found.push(market);
                problems.extend(wrong);
            }
            Err(problem) => problems.push(problem),
        }
    };
    let loaded = premises.loaded();
    let places = premises.store.places();
    let named = ["extraKnownMarketplaces", "additionalMarketplaces"];
    for extra in named.into_iter().filter_map(|name| loaded.settings.get(name)) {
        let from = extra.origin.source.place.to_string();
        for (name, entry) in extra.value.as_object().into_iter().flatten() {
            let source = &entry["source"];
            // Other sources would have to be downloaded, which Haft does not do.
            if let (Some("directory"), Some(path)) = (source["source"].as_str(), source["path"].as_str()) {
                take(
                    name,
                    crate::environment::absolute(Path::new(path), &places.project),
                    source,
                    from.clone(),
                );
            }
        }
    }
    if premises.reads(SettingsLayer::User) {
        for user in &places.user {
            let file = user.join("plugins/known_marketplaces.json");
            let Ok(Some(list)) = JsonText::read(&file, "marketplace") else { continue };
            for (name, entry) in &list.value {
                let at = entry["installLocation"].as_str().or_else(|| entry["source"]["path"].as_str());
                if let Some(at) = at {
                    take(name, PathBuf::from(at), &entry["source"], file.display().to_string());
                }
            }
        }
    }
    (found, problems)
}

/// Reads a marketplace file.
pub(super) fn read(
    name: &str,
    dir: &Path,
    known_from: String,
) -> Result<(Marketplace, Vec<ExtensionProblem>), ExtensionProblem> {
    let file = dir.join(".claude-plugin/marketplace.json");
    let lost = |line: usize, reason: String| ExtensionProblem {
        what: "marketplace",
        file: file.clone(),
        line,
        reason,
        is_lost: true,
    };
    let Some(list) = JsonText::read(&file, "marketplace")? else {
        return Err(lost(1, format!("it is not there, although {known_from} names the marketplace {name}")));
    };
    let Some(plugins) = list.value.get("plugins").and_then(Value::as_array) else {
        return Err(lost(list.line_of("plugins"), String::from("`plugins` is missing, or is no list")));
    };
    let mut problems = Vec::new();
    if let Some(own) = list.string("name").filter(|it| it != name) {
        let reason = format!("it calls itself {own:?}, and is known as {name:?}");
        problems.push(list.problem("marketplace", list.line_of("name"), reason));
    }
    let root = list.value.get("metadata").and_then(|it| it["pluginRoot"].as_str());
    let mut found = Vec::new();
    for entry in plugins {
        let Some(plugin) = entry["name"].as_str().filter(|it| is_name(it)) else {
            let text = entry["name"].as_str().unwrap_or_default();
            let reason = format!("a plugin without a name that fits: {text:?}");
            problems.push(list.problem("marketplace", list.line_of_text(text), reason));
            continue;
        };
        let at = match (&entry["source"], root) {
            (Value::String(path), None) => Some(path.clone()),
            (Value::String(path), Some(root)) => {
                let rest = path.trim_start_matches("./");
                Some(format!("./{}/{rest}", root.trim_start_matches("./").trim_end_matches('/')))
            }
            _ => None,
        };
        let at = match at.map(|path| inside(dir, &path).map_err(|why| (path, why))) {
            None => None,
            Some(Ok(path)) => Some(path),
            Some(Err((path, why))) => {
                let reason = format!("the source {path:?} of {plugin} {why}");
                problems.push(list.problem("marketplace", list.line_of_text(plugin), reason));
                None
            }
        };
        let table = entry.as_object().cloned().unwrap_or_default();
        found.push(ListedPlugin {
            name: plugin.to_owned(),
            description: entry["description"].as_str().unwrap_or_default().to_owned(),
            dir: at,
            source: entry["source"].clone(),
            parts: table.into_iter().filter(|(key, _)| COMPONENTS.contains(&key.as_str())).collect(),
        });
    }
    Ok((Marketplace { name: name.to_owned(), dir: dir.to_owned(), known_from, plugins: found }, problems))
}
