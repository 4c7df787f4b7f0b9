//! `haft agents` and `haft skills`: what a session here would know, where it
//! comes from, and what is wrong with files.

use std::process::ExitCode;

use haft_session::{AgentKind, SlashCommand};
use serde_json::{Value, json};

use crate::{
    args::Options,
    output::{Ended, print_bytes, print_line},
    show, spec,
};

/// Kinds of agents. A file that cannot be used is listed with its line and its
/// reason; the exit code says whether there is one.
pub(crate) fn agents(options: &Options) -> Ended {
    let premises = spec::premises(options)?;
    let (kinds, problems) = premises.agents();
    if options.json {
        let kinds: Vec<Value> = kinds.iter().map(|it| kind_json(it)).collect();
        let problems: Vec<Value> = problems
            .iter()
            .map(|it| json!({"file": it.file, "line": it.line, "reason": it.reason, "isLost": it.is_lost}))
            .collect();
        print_line(&json!({"agents": kinds, "problems": problems}).to_string())?;
    } else {
        for kind in &kinds {
            print_bytes(show::clean(&kind_text(kind)).as_bytes())?;
        }
        for problem in &problems {
            print_bytes(show::clean(&format!("! {problem}\n")).as_bytes())?;
        }
    }
    let is_any_lost = problems.iter().any(|it| it.is_lost);
    Ok(ExitCode::from(u8::from(is_any_lost)))
}

fn kind_json(kind: &AgentKind) -> Value {
    json!({
        "name": kind.name, "description": kind.description, "source": kind.source.label(), "file": kind.file,
        "tools": kind.tools, "disallowedTools": kind.disallowed, "model": kind.model, "effort": kind.effort,
        "permissionMode": kind.mode.map(|it| it.name()), "maxTurns": kind.max_turns,
        "background": kind.background, "isolation": kind.worktree.then_some("worktree"), "skills": kind.skills,
    })
}

fn kind_text(kind: &AgentKind) -> String {
    let mut about = vec![kind.source.label()];
    about.extend(kind.model.iter().map(|it| format!("model {it}")));
    about.extend(kind.mode.map(|it| format!("mode {it}")));
    about.extend(kind.max_turns.map(|it| format!("at most {it} turns")));
    let tools = match (&kind.tools, kind.disallowed.is_empty()) {
        (Some(tools), _) => format!("tools {}", tools.join(", ")),
        (None, true) => String::from("all tools"),
        (None, false) => format!("all tools but {}", kind.disallowed.join(", ")),
    };
    about.push(tools);
    let description = haft_tools::agent::flat(&kind.description, 200);
    let file = kind.file.as_ref().map(|it| format!("    {}\n", it.display())).unwrap_or_default();
    format!("{}  ({})\n    {description}\n{file}", kind.name, about.join("; "))
}

/// Skills and commands of files.
pub(crate) fn skills(options: &Options) -> Ended {
    let premises = spec::premises(options)?;
    let mut commands = premises.commands();
    commands.retain(|it| !it.is_local());
    if options.json {
        let all: Vec<Value> = commands.iter().map(skill_json).collect();
        print_line(&json!({"skills": all}).to_string())?;
        return Ok(ExitCode::SUCCESS);
    }
    for it in &commands {
        let who = match (it.skill_dir(), it.is_skill_for_model()) {
            (None, _) => "command",
            (Some(_), true) => "skill",
            (Some(_), false) => "skill, only for you",
        };
        let description = haft_types::text::one_line(&it.description, 200);
        let text = format!("/{}  ({who})\n    {description}\n", it.name);
        print_bytes(show::clean(&text).as_bytes())?;
    }
    if commands.is_empty() {
        print_line("there are no skills or commands here")?;
    }
    Ok(ExitCode::SUCCESS)
}

fn skill_json(it: &SlashCommand) -> Value {
    json!({
        "name": it.name, "description": it.description, "argumentHint": it.argument_hint,
        "isSkill": it.skill_dir().is_some(), "forModel": it.is_skill_for_model(), "directory": it.skill_dir(),
    })
}
