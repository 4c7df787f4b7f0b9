//! `haft plugins`: which there are, where each comes from, what is wrong with
//! their files; and switching them on and off.

use std::process::ExitCode;

use haft_config::Scope;
use haft_session::{ExtensionProblem, PluginEntry, PluginList};
use serde_json::{Map, Value, json};

use crate::{
    args::{Options, PluginScope, PluginsCommand},
    output::{Ended, Failure, print_bytes, print_line},
    show, spec,
};

pub(crate) fn run(command: Option<PluginsCommand>, options: &Options) -> Ended {
    match command.unwrap_or(PluginsCommand::List) {
        PluginsCommand::List => list(options),
        PluginsCommand::Enable { id, scope } => switch(&id, scope, true, options),
        PluginsCommand::Disable { id, scope } => switch(&id, scope, false, options),
    }
}

/// Lists plugins and marketplaces. The exit code says whether something that is
/// switched on is not there because of a mistake.
fn list(options: &Options) -> Ended {
    let found = spec::premises(options)?.plugins();
    if options.json {
        print_line(&list_json(&found).to_string())?;
    } else {
        for plugin in &found.plugins {
            print_bytes(show::clean(&plugin_text(plugin)).as_bytes())?;
        }
        for market in &found.marketplaces {
            let text = format!(
                "marketplace {}  ({} plugins; {})\n    {}\n",
                market.name,
                market.plugins.len(),
                market.known_from,
                market.dir.display()
            );
            print_bytes(show::clean(&text).as_bytes())?;
        }
        for problem in &found.problems {
            print_bytes(show::clean(&format!("! {problem}\n")).as_bytes())?;
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
    let description = haft_tools::agent::flat(&plugin.description, 200);
    let description = if description.is_empty() { String::new() } else { format!("    {description}\n") };
    format!("{}  ({})\n{description}    {dir}\n", plugin.id, about.join("; "))
}

fn list_json(found: &PluginList) -> Value {
    let plugin = |it: &PluginEntry| {
        let adds: Map<String, Value> =
            it.adds.iter().map(|(kind, count)| ((*kind).to_owned(), json!(count))).collect();
        json!({
            "id": it.id, "enabled": it.is_enabled, "saidBy": it.said_by, "directory": it.dir,
            "version": it.version, "description": it.description, "adds": adds,
        })
    };
    let plugins: Vec<Value> = found.plugins.iter().map(plugin).collect();
    let markets = found.marketplaces.iter().map(|it| {
        let names: Vec<&str> = it.plugins.iter().map(|it| it.name.as_str()).collect();
        json!({"name": it.name, "directory": it.dir, "knownFrom": it.known_from, "plugins": names})
    });
    json!({
        "plugins": plugins, "marketplaces": markets.collect::<Vec<_>>(),
        "problems": found.problems.iter().map(problem_json).collect::<Vec<_>>(),
    })
}

pub(crate) fn problem_json(it: &ExtensionProblem) -> Value {
    json!({"what": it.what, "file": it.file, "line": it.line, "reason": it.reason, "isLost": it.is_lost})
}

/// Switches a plugin on or off in a settings file. One that is not known is not
/// switched on: a name with a mistake in it would wait there for ever.
fn switch(id: &str, scope: PluginScope, on: bool, options: &Options) -> Ended {
    let premises = spec::premises(options)?;
    let found = premises.plugins();
    let matches = |it: &&PluginEntry| it.id == id || it.id.split('@').next() == Some(id);
    let known: Vec<&PluginEntry> = found.plugins.iter().filter(matches).collect();
    let id = match known.as_slice() {
        [one] => one.id.clone(),
        [] if on => {
            let all: Vec<&str> = found.plugins.iter().map(|it| it.id.as_str()).collect();
            let all = if all.is_empty() { String::from("none") } else { all.join(", ") };
            return Err(Failure::Message(format!("there is no plugin {id}; known are: {all}")));
        }
        [] => id.to_owned(),
        several => match several.iter().find(|it| it.id == id) {
            Some(one) => one.id.clone(),
            None => {
                let ids: Vec<&str> = several.iter().map(|it| it.id.as_str()).collect();
                return Err(Failure::Message(format!("{id} can be {}: say which", ids.join(" or "))));
            }
        },
    };
    let (scope, name) = match scope {
        PluginScope::User => (Scope::User, "user"),
        PluginScope::Project => (Scope::Project, "project"),
        PluginScope::Local => (Scope::Local, "local"),
    };
    premises.switch_plugin(scope, &id, on).map_err(|err| Failure::Message(err.to_string()))?;
    let state = if on { "on" } else { "off" };
    match options.json {
        true => print_line(&json!({"id": id, "enabled": on, "scope": name}).to_string())?,
        false => print_line(&format!("{id} is {state} now ({name} settings)"))?,
    }
    Ok(ExitCode::SUCCESS)
}
