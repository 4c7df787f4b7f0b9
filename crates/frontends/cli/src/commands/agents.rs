//! `haft agents` and `haft skills`: lists what a session in this directory would have, the files it
//! comes from, and errors in them.

use std::process::ExitCode;

use haft_console::{
    GlobalArgs,
    stdout::{CommandExit, print_bytes, print_line},
    style,
};
use haft_session::{AgentDefinition, SlashCommand};
use serde_json::{Value, json};

use crate::{commands::plugins, run::session_spec};

/// Lists the agent types. A definition file that cannot be used is listed with line and reason; exit
/// code 1 if there is one.
pub(crate) fn agents(options: &GlobalArgs) -> CommandExit {
    let premises = session_spec::premises(options)?;
    let (kinds, problems) = premises.agents();
    let usual = premises.usual_agent_model();
    if options.json {
        let kinds: Vec<Value> = kinds.iter().map(|it| kind_json(it, usual.as_deref())).collect();
        let problems: Vec<Value> = problems
            .iter()
            .map(|it| json!({"file": it.file.to_string_lossy(), "line": it.line, "reason": it.reason, "isLost": it.is_lost}))
            .collect();
        print_line(&json!({"agents": kinds, "problems": problems}).to_string())?;
    } else {
        for kind in &kinds {
            print_bytes(style::clean(&kind_text(kind, usual.as_deref())).as_bytes())?;
        }
        for problem in &problems {
            print_bytes(style::clean(&format!("! {problem}\n")).as_bytes())?;
        }
    }
    let is_any_lost = problems.iter().any(|it| it.is_lost);
    Ok(ExitCode::from(u8::from(is_any_lost)))
}

fn kind_json(kind: &AgentDefinition, usual: Option<&str>) -> Value {
    let (model, from) = kind.model_named(usual).unzip();
    json!({
        "name": kind.name, "description": kind.description, "source": kind.source.label(), "file": kind.file.as_deref().map(std::path::Path::to_string_lossy),
        "tools": kind.tools, "disallowedTools": kind.disallowed, "model": model, "modelFrom": from,
        "effort": kind.effort,
        "permissionMode": kind.mode.map(|it| it.name()), "maxTurns": kind.max_turns,
        "background": kind.background, "isolation": kind.worktree.then_some("worktree"), "skills": kind.skills,
    })
}

fn kind_text(kind: &AgentDefinition, usual: Option<&str>) -> String {
    let mut about = vec![kind.source.label()];
    about.push(match kind.model_named(usual) {
        // The full path of the file is printed below.
        Some((model, from)) => format!("model {model} from {}", from.split(" (").next().unwrap_or(&from)),
        None => String::from("the model of who starts it"),
    });
    about.extend(kind.mode.map(|it| format!("mode {it}")));
    about.extend(kind.max_turns.map(|it| format!("at most {it} turns")));
    let tools = match (&kind.tools, kind.disallowed.is_empty()) {
        (Some(tools), _) => format!("tools {}", tools.join(", ")),
        (None, true) => String::from("all tools"),
        (None, false) => format!("all tools but {}", kind.disallowed.join(", ")),
    };
    about.push(tools);
    let description = haft_builtin_tools::agent::flat(&kind.description, 200);
    let file = kind.file.as_ref().map(|it| format!("    {}\n", it.display())).unwrap_or_default();
    format!("{}  ({})\n    {description}\n{file}", kind.name, about.join("; "))
}

/// Lists skills and file-based commands with the errors in their files. Exit code 1 if one of them is
/// unusable because of an error.
pub(crate) fn skills(options: &GlobalArgs) -> CommandExit {
    let premises = session_spec::premises(options)?;
    let (mut commands, problems) = premises.commands();
    commands.retain(|it| !it.is_local());
    let lost = ExitCode::from(u8::from(problems.iter().any(|it| it.is_lost)));
    if options.json {
        let all: Vec<Value> = commands.iter().map(skill_json).collect();
        let problems: Vec<Value> = problems.iter().map(plugins::problem_json).collect();
        print_line(&json!({"skills": all, "problems": problems}).to_string())?;
        return Ok(lost);
    }
    for it in &commands {
        let description = haft_types::text::one_line(&it.description, 200);
        let mut text = format!("/{}  ({})\n    {description}\n", it.name, skill_about(it).join("; "));
        if let Some(file) = &it.file {
            text.push_str(&format!("    {}\n", file.display()));
        }
        print_bytes(style::clean(&text).as_bytes())?;
    }
    if commands.is_empty() {
        print_line("there are no skills or commands here")?;
    }
    for problem in &problems {
        print_bytes(style::clean(&format!("! {problem}\n")).as_bytes())?;
    }
    Ok(lost)
}

fn skill_about(it: &SlashCommand) -> Vec<String> {
    let who = match (it.skill_dir(), it.is_skill_for_model()) {
        (None, _) => "command",
        (Some(_), true) => "skill",
        (Some(_), false) => "skill, only for you",
    };
    let mut about = vec![who.to_owned(), it.source.label()];
    about.extend(it.forks().map(|kind| format!("runs in an agent {kind}")));
    if !it.allowed_tools().is_empty() {
        about.push(format!("uses {}", it.allowed_tools().join(", ")));
    }
    if !it.paths().is_empty() {
        about.push(format!("for {}", it.paths().join(", ")));
    }
    about
}

fn skill_json(it: &SlashCommand) -> Value {
    json!({
        "name": it.name, "description": it.description, "argumentHint": it.argument_hint,
        "isSkill": it.skill_dir().is_some(), "forModel": it.is_skill_for_model(), "directory": it.skill_dir().map(std::path::Path::to_string_lossy),
        "source": it.source.label(), "file": it.file.as_deref().map(std::path::Path::to_string_lossy), "allowedTools": it.allowed_tools(), "paths": it.paths(),
        "agent": it.forks(),
    })
}
