//! `haft worktrees`: lists the worktrees of sessions and their changes; keeps or removes them.

use std::process::ExitCode;

use haft_console::{
    GlobalArgs,
    stdout::{CliError, CommandExit, print_line},
    style::{clean, colours, painted},
};
use haft_session::{SessionEnvironment, worktree_keeper};
use haft_workspace::ChangeOrigin;
use haft_worktree::{RemovalBackup, WorktreeManager, WorktreeRecord, WorktreeState};
use serde_json::{Value, json};

use crate::{args::WorktreesCommand, run::session_spec};

pub(crate) fn run(command: Option<WorktreesCommand>, options: &GlobalArgs) -> CommandExit {
    let premises = session_spec::premises(options)?;
    let keeper = worktree_keeper(&premises);
    match command.unwrap_or(WorktreesCommand::List) {
        WorktreesCommand::List => list(&premises, &keeper, options),
        WorktreesCommand::Rescue { name } => rescue(&premises, &keeper, &name, options),
        WorktreesCommand::Remove { name } => remove(&premises, &keeper, &name, options),
    }
}

fn here(premises: &SessionEnvironment, keeper: &WorktreeManager) -> Result<Vec<WorktreeRecord>, CliError> {
    Ok(keeper.records_here(&premises.cwd)?)
}

/// The worktree with this name or path; the newest existing one if several have had the name.
fn named(
    premises: &SessionEnvironment,
    keeper: &WorktreeManager,
    name: &str,
) -> Result<WorktreeRecord, CliError> {
    let all = here(premises, keeper)?;
    let is_meant = |it: &&WorktreeRecord| it.name == name || it.path == premises.cwd.join(name);
    let is_left = |it: &WorktreeRecord| it.is_there() || it.is_cut_off();
    let found = all.iter().rev().find(|it| is_meant(it) && is_left(it));
    found.cloned().ok_or_else(|| {
        let there: Vec<&str> = all.iter().filter(|it| is_left(it)).map(|it| it.name.as_str()).collect();
        let there = if there.is_empty() { String::from("none") } else { there.join(", ") };
        CliError::Message(format!("there is no worktree {name} here; there are: {there}"))
    })
}

fn list(premises: &SessionEnvironment, keeper: &WorktreeManager, options: &GlobalArgs) -> CommandExit {
    let all = here(premises, keeper)?;
    let mut shown = Vec::new();
    for record in &all {
        let inside =
            if record.is_there() || record.is_cut_off() { Some(keeper.inspect(record)) } else { None };
        let state = match (&record.state, record.is_there(), record.owner.is_alive()) {
            _ if record.is_cut_off() => "cut off",
            (_, false, _) if record.state == WorktreeState::Removed => "removed",
            (_, false, _) => "gone",
            (_, true, true) => "in use",
            (_, true, false) => "left",
        };
        shown.push((record, state, inside));
    }
    if options.json {
        let all: Vec<Value> = shown
            .iter()
            .map(|(record, state, inside)| {
                let found = inside.as_ref().and_then(|it| it.as_ref().ok());
                json!({
                    "name": record.name, "path": record.path.to_string_lossy(), "branch": record.branch, "base": record.base,
                    "state": state, "session": record.session,
                    "agent": record.holder.as_ref().map(|it| it.agent.as_str()),
                    "changedFiles": found.map(|it| it.changed.len()), "commits": found.map(|it| it.commits),
                    "looseCommits": found.map(|it| it.loose.len()), "ignoredFiles": found.map(|it| it.ignored.len()),
                    "untouched": found.map(haft_worktree::UnsavedWork::is_untouched),
                    "problem": inside.as_ref().and_then(|it| it.as_ref().err()),
                    "rescued": record.rescued, "undo": record.undo,
                })
            })
            .collect();
        print_line(&json!({"worktrees": all}).to_string())?;
        return Ok(ExitCode::SUCCESS);
    }
    for (record, state, inside) in shown {
        let words = match inside {
            Some(Ok(found)) => found.words(),
            Some(Err(why)) => why,
            None => String::new(),
        };
        let name = painted(&clean(&record.name), "36", colours());
        print_line(&format!(
            "{name}  {}  {}",
            painted(state, "2", colours()),
            clean(&record.path.display().to_string())
        ))?;
        if !words.is_empty() {
            print_line(&format!("    {}", clean(&words)))?;
        }
        for kept in record.rescued.iter().map(|it| format!("kept in {it}")) {
            print_line(&format!("    {}", clean(&kept)))?;
        }
        if let Some(undo) = &record.undo {
            print_line(&format!("    haft undo {} brings it back", clean(undo)))?;
        }
    }
    if all.is_empty() {
        print_line("no session made a worktree here")?;
    }
    Ok(ExitCode::SUCCESS)
}

fn rescue(
    premises: &SessionEnvironment,
    keeper: &WorktreeManager,
    name: &str,
    options: &GlobalArgs,
) -> CommandExit {
    let record = named(premises, keeper, name)?;
    let found = keeper.inspect(&record)?;
    let kept = keeper.rescue(&record, &found)?;
    if options.json {
        print_line(&json!({"name": record.name, "rescued": kept}).to_string())?;
    } else if kept.is_empty() {
        print_line("nothing in it has to be kept: everything is in commits of branches")?;
    } else {
        for name in kept {
            print_line(&format!("kept in {}", clean(&name)))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn remove(
    premises: &SessionEnvironment,
    keeper: &WorktreeManager,
    name: &str,
    options: &GlobalArgs,
) -> CommandExit {
    let mut record = named(premises, keeper, name)?;
    let workspace = premises.workspace()?;
    let origin = ChangeOrigin {
        session: None,
        turn: None,
        call: format!("worktrees-remove-{}", record.name).as_str().into(),
        tool: String::from("worktrees"),
    };
    let removed = keeper.remove(&mut record, RemovalBackup::Everything, &workspace, &origin)?;
    if options.json {
        print_line(
            &json!({
                "name": record.name, "path": record.path.to_string_lossy(), "rescued": removed.rescued, "undo": removed.undo,
                "branchRemoved": removed.branch_removed, "notes": removed.notes,
            })
            .to_string(),
        )?;
        return Ok(ExitCode::SUCCESS);
    }
    print_line(&format!("removed {}", clean(&record.path.display().to_string())))?;
    let kept = removed.rescued.iter().map(|it| format!("kept in {it}"));
    let undo = removed.undo.iter().map(|it| format!("haft undo {it} brings it back as it was"));
    for line in kept.chain(undo).chain(removed.notes) {
        print_line(&format!("    {}", clean(&line)))?;
    }
    Ok(ExitCode::SUCCESS)
}
