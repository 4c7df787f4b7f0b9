//! `haft plugins`: lists plugins with their sources and errors; enables and disables them.

use std::{io::Read as _, path::Path, process::ExitCode};

use haft_config::SettingsScope;
use haft_console::{
    GlobalArgs,
    stdout::{CliError, CommandExit, print_bytes, print_line},
    style,
};
use haft_session::{ExtensionProblem, PluginEntry, PluginList};
use serde_json::{Map, Value, json};

use crate::{
    args::{MarketplaceCommand, PluginScope, PluginsCommand},
    run::session_spec,
};

pub(crate) fn run(command: Option<PluginsCommand>, options: &GlobalArgs) -> CommandExit {
    match command.unwrap_or(PluginsCommand::List) {
        PluginsCommand::List => list(options),
        PluginsCommand::Enable { id, scope } => switch(&id, scope, true, options),
        PluginsCommand::Disable { id, scope } => switch(&id, scope, false, options),
        PluginsCommand::Validate { path } => validate(&path, options),
        PluginsCommand::Install { id, scope } => install(&id, scope, options),
        PluginsCommand::Uninstall { id, scope } => uninstall(&id, scope, options),
        PluginsCommand::Configure { id, values } => configure(&id, &values, options),
        PluginsCommand::Marketplace { command } => marketplace(&command, options),
    }
}

/// Lists plugins and marketplaces. Exit code 1 if an enabled plugin cannot be loaded because of an
/// error.
fn list(options: &GlobalArgs) -> CommandExit {
    let found = session_spec::premises(options)?.plugins();
    if options.json {
        print_line(&list_json(&found).to_string())?;
    } else {
        for plugin in &found.plugins {
            print_bytes(style::clean(&plugin_text(plugin)).as_bytes())?;
        }
        for market in &found.marketplaces {
            let text = format!(
                "marketplace {}  ({} plugins; {})\n    {}\n",
                market.name,
                market.plugins.len(),
                market.known_from,
                market.dir.display()
            );
            print_bytes(style::clean(&text).as_bytes())?;
        }
        for problem in &found.problems {
            print_bytes(style::clean(&format!("! {problem}\n")).as_bytes())?;
        }
        if found.plugins.is_empty() && found.marketplaces.is_empty() && found.problems.is_empty() {
            print_line("there are no plugins here")?;
        }
    }
    Ok(ExitCode::from(u8::from(found.problems.iter().any(|it| it.is_lost))))
}

fn plugin_text(plugin: &PluginEntry) -> String {
    let mut about = vec![String::from(if plugin.is_enabled { "on" } else { "off" })];
    about.extend(plugin.version.iter().map(|it| format!("version {it}")));
    about.extend(plugin.adds.iter().map(|(kind, count)| format!("{count} {kind}")));
    about.extend(plugin.said_by.clone());
    let dir = match &plugin.dir {
        Some(dir) => dir.display().to_string(),
        None => String::from("not on this machine"),
    };
    let description = haft_builtin_tools::agent::flat(&plugin.description, 200);
    let description = if description.is_empty() { String::new() } else { format!("    {description}\n") };
    format!("{}  ({})\n{description}    {dir}\n", plugin.id, about.join("; "))
}

fn list_json(found: &PluginList) -> Value {
    let plugin = |it: &PluginEntry| {
        let adds: Map<String, Value> =
            it.adds.iter().map(|(kind, count)| ((*kind).to_owned(), json!(count))).collect();
        json!({
            "id": it.id, "enabled": it.is_enabled, "saidBy": it.said_by,
            "directory": it.dir.as_deref().map(std::path::Path::to_string_lossy),
            "version": it.version, "description": it.description, "adds": adds,
        })
    };
    let plugins: Vec<Value> = found.plugins.iter().map(plugin).collect();
    let markets = found.marketplaces.iter().map(|it| {
        let names: Vec<&str> = it.plugins.iter().map(|it| it.name.as_str()).collect();
        json!({"name": it.name, "directory": it.dir.to_string_lossy(), "knownFrom": it.known_from, "plugins": names})
    });
    json!({
        "plugins": plugins, "marketplaces": markets.collect::<Vec<_>>(),
        "problems": found.problems.iter().map(problem_json).collect::<Vec<_>>(),
    })
}

pub(crate) fn problem_json(it: &ExtensionProblem) -> Value {
    json!({"what": it.what, "file": it.file.to_string_lossy(), "line": it.line, "reason": it.reason, "isLost": it.is_lost})
}

/// The full id (`name@marketplace`) of an installed plugin. An error if the name is ambiguous.
fn known_id(found: &PluginList, id: &str) -> Result<Option<String>, CliError> {
    let matches = |it: &&PluginEntry| it.id == id || it.id.split('@').next() == Some(id);
    let known: Vec<&PluginEntry> = found.plugins.iter().filter(matches).collect();
    match known.as_slice() {
        [one] => Ok(Some(one.id.clone())),
        [] => Ok(None),
        several => match several.iter().find(|it| it.id == id) {
            Some(one) => Ok(Some(one.id.clone())),
            None => {
                let ids: Vec<&str> = several.iter().map(|it| it.id.as_str()).collect();
                Err(CliError::Message(format!("{id} can be {}: say which", ids.join(" or "))))
            }
        },
    }
}

fn unknown(found: &PluginList, id: &str) -> CliError {
    let all: Vec<&str> = found.plugins.iter().map(|it| it.id.as_str()).collect();
    let all = if all.is_empty() { String::from("none") } else { all.join(", ") };
    CliError::Message(format!("there is no plugin {id}; known are: {all}"))
}

fn scope_of(scope: PluginScope) -> (SettingsScope, &'static str) {
    match scope {
        PluginScope::User => (SettingsScope::User, "user"),
        PluginScope::Project => (SettingsScope::Project, "project"),
        PluginScope::Local => (SettingsScope::Local, "local"),
    }
}

/// Enables or disables a plugin in a settings file. Fails for an unknown plugin: a misspelled name would
/// stay in the file unnoticed.
fn switch(id: &str, scope: PluginScope, on: bool, options: &GlobalArgs) -> CommandExit {
    let premises = session_spec::premises(options)?;
    let found = premises.plugins();
    let id = known_id(&found, id)?.ok_or_else(|| unknown(&found, id))?;
    let (scope, name) = scope_of(scope);
    premises.switch_plugin(scope, &id, on).map_err(CliError::Message)?;
    let state = if on { "on" } else { "off" };
    if options.json {
        print_line(&json!({"id": id, "enabled": on, "scope": name}).to_string())?
    } else {
        print_line(&format!("{id} is {state} now ({name} settings)"))?
    }
    Ok(ExitCode::SUCCESS)
}

/// Checks a plugin's files and prints the problems. Exit code 1 if there are any.
fn validate(path: &Path, options: &GlobalArgs) -> CommandExit {
    let (what, problems) =
        session_spec::premises(options)?.validate_plugin(path).map_err(CliError::Message)?;
    if options.json {
        let problems: Vec<Value> = problems.iter().map(problem_json).collect();
        print_line(&json!({"what": what, "problems": problems}).to_string())?;
    } else {
        print_bytes(style::clean(&format!("{what}\n")).as_bytes())?;
        for problem in &problems {
            print_bytes(style::clean(&format!("! {problem}\n")).as_bytes())?;
        }
    }
    Ok(ExitCode::from(u8::from(!problems.is_empty())))
}

fn install(id: &str, scope: PluginScope, options: &GlobalArgs) -> CommandExit {
    let premises = session_spec::premises(options)?;
    let found = premises.plugins();
    let id = known_id(&found, id)?.ok_or_else(|| unknown(&found, id))?;
    let dir = premises.install_plugin(&id).map_err(CliError::Message)?;
    let (scope, name) = scope_of(scope);
    premises.switch_plugin(scope, &id, true).map_err(CliError::Message)?;
    if options.json {
        print_line(
            &json!({"id": id, "directory": dir.to_string_lossy(), "enabled": true, "scope": name})
                .to_string(),
        )?
    } else {
        print_line(&format!("{id} is installed and on ({name} settings): {}", dir.display()))?
    }
    let wanted = session_spec::premises(options)?.plugin_options(&id).unwrap_or_default();
    for option in wanted.iter().filter(|it| it.is_required && !it.is_set) {
        haft_console::stdout::print_error(&format!(
            "it needs `{0}` ({1}): haft plugins configure {id} {0}=VALUE",
            option.key, option.description
        ));
    }
    Ok(ExitCode::SUCCESS)
}

fn uninstall(id: &str, scope: PluginScope, options: &GlobalArgs) -> CommandExit {
    let premises = session_spec::premises(options)?;
    let found = premises.plugins();
    let id = known_id(&found, id)?.ok_or_else(|| unknown(&found, id))?;
    let was_here = premises.uninstall_plugin(&id).map_err(CliError::Message)?;
    let (scope, name) = scope_of(scope);
    premises.switch_plugin(scope, &id, false).map_err(CliError::Message)?;
    if !was_here {
        return Err(CliError::Message(format!(
            "{id} was not installed here; it is off now ({name} settings)"
        )));
    }
    if options.json {
        print_line(&json!({"id": id, "enabled": false, "scope": name}).to_string())?
    } else {
        print_line(&format!("{id} is gone and off ({name} settings)"))?
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints a plugin's options without secret values, or sets them.
fn configure(id: &str, values: &[String], options: &GlobalArgs) -> CommandExit {
    let premises = session_spec::premises(options)?;
    let found = premises.plugins();
    let id = known_id(&found, id)?.ok_or_else(|| unknown(&found, id))?;
    for value in values {
        let (key, value) = match value.split_once('=') {
            Some((key, value)) => (key, value.to_owned()),
            None => {
                let mut text = String::new();
                std::io::stdin()
                    .read_to_string(&mut text)
                    .map_err(|err| CliError::Message(err.to_string()))?;
                (value.as_str(), text.trim_end_matches(['\n', '\r']).to_owned())
            }
        };
        premises.tell_plugin(&id, key, &value).map_err(CliError::Message)?;
    }
    let wanted = session_spec::premises(options)?.plugin_options(&id).map_err(CliError::Message)?;
    if options.json {
        let all = wanted.iter().map(|it| {
            json!({"key": it.key, "description": it.description, "secret": it.is_secret,
                "required": it.is_required, "set": it.is_set, "value": it.value})
        });
        print_line(&Value::Array(all.collect()).to_string())?;
        return Ok(ExitCode::SUCCESS);
    }
    for it in &wanted {
        let value = match (&it.value, it.is_set, it.is_required) {
            (Some(value), _, _) => value.clone(),
            (None, true, _) => String::from("(a secret)"),
            (None, false, true) => String::from("(missing)"),
            (None, false, false) => String::from("(not set)"),
        };
        print_bytes(style::clean(&format!("{} = {value}\n    {}\n", it.key, it.description)).as_bytes())?;
    }
    if wanted.is_empty() {
        print_line(&format!("{id} wants to know nothing"))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn marketplace(command: &MarketplaceCommand, options: &GlobalArgs) -> CommandExit {
    let premises = session_spec::premises(options)?;
    let words = match command {
        MarketplaceCommand::Add { from } => {
            let market = premises.add_marketplace(from).map_err(CliError::Message)?;
            let names: Vec<&str> = market.plugins.iter().map(|it| it.name.as_str()).collect();
            format!("marketplace {} is known now; it has: {}", market.name, names.join(", "))
        }
        MarketplaceCommand::Remove { name } => {
            let left = premises.remove_marketplace(name).map_err(CliError::Message)?;
            for id in left {
                haft_console::stdout::print_error(&format!(
                    "{id} is still switched on: haft plugins uninstall {id}"
                ));
            }
            format!("marketplace {name} is not known any more")
        }
        MarketplaceCommand::Update { name } => {
            if premises.update_marketplace(name).map_err(CliError::Message)? {
                format!("marketplace {name} is copied anew")
            } else {
                format!("marketplace {name} is a directory: it is read where it is")
            }
        }
    };
    if options.json {
        print_line(&json!({"done": words}).to_string())?
    } else {
        print_line(&style::clean(&words))?
    }
    Ok(ExitCode::SUCCESS)
}
