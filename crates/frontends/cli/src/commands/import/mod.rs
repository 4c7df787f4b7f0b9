//! `haft import`: imports the user's setup of other agents.
//!
//! It writes to the user's own files, or to the project's if the other agent's file belongs to the
//! project. A table reports the outcome for everything that was found.
//!
//! **Invariant:** nothing is overwritten, a second run changes nothing, and no secret is copied: the
//! report names the variable that should hold it.
//!
//! **Invariant:** a rule that allows something is imported only after the user confirmed it.

mod claude;
mod codex;
mod gemini;
mod import_plan;
mod jsonc;
mod opencode;
mod rules;

use std::{
    io::{BufRead as _, IsTerminal as _},
    path::{Path, PathBuf},
    process::ExitCode,
};

use haft_console::{
    GlobalArgs,
    stdout::{CliError, CommandExit, print_bytes, print_line},
    style,
};
use serde_json::{Value, json};

use self::import_plan::{ImportPlan, PlannedStep, StepOutcome};
use crate::{
    args::{ImportArgs, ImportFrom},
    commands::models::columns,
    run::session_spec,
};

/// Where the files of other agents are.
struct ImportDirs {
    home: PathBuf,
    project: PathBuf,
    /// `$XDG_CONFIG_HOME`, default `~/.config`.
    config: PathBuf,
    /// The agent's directory, if an environment variable names one.
    own: Option<PathBuf>,
    /// An additional configuration file, if an environment variable names one.
    named: Option<PathBuf>,
}

pub(crate) fn run(args: &ImportArgs, options: &GlobalArgs) -> CommandExit {
    let premises = session_spec::premises(options)?;
    let home = premises.home.clone();
    let home = home
        .ok_or_else(|| String::from("there is no home directory to look for configurations in; set HOME"))?;
    let variable =
        |name: &str| premises.variables.os_text(name).filter(|it| !it.is_empty()).map(PathBuf::from);
    let own = match args.from {
        ImportFrom::Claude => variable("CLAUDE_CONFIG_DIR"),
        ImportFrom::Codex => variable("CODEX_HOME"),
        ImportFrom::Gemini => None,
        ImportFrom::Opencode => variable("OPENCODE_CONFIG_DIR"),
    };
    let named = (args.from == ImportFrom::Opencode).then(|| variable("OPENCODE_CONFIG")).flatten();
    let places = ImportDirs {
        config: variable("XDG_CONFIG_HOME").unwrap_or_else(|| home.join(".config")),
        project: premises.store.places().project.clone(),
        home,
        own,
        named,
    };
    let mut plan = ImportPlan::new(premises.state_dir());
    match args.from {
        ImportFrom::Claude => claude::plan(&places, &mut plan),
        ImportFrom::Codex => codex::plan(&places, &mut plan),
        ImportFrom::Gemini => gemini::plan(&places, &mut plan),
        ImportFrom::Opencode => opencode::plan(&places, &mut plan),
    }
    if plan.steps.is_empty() {
        let line = "There is nothing to bring along: no configuration of it was found.";
        if options.json {
            print_line(&json!({"steps": [], "dryRun": args.dry_run}).to_string())?;
        } else {
            print_line(line)?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    for step in &mut plan.steps {
        if step.is_done(&premises.store) {
            step.outcome = StepOutcome::AlreadyThere;
            continue;
        }
        let StepOutcome::Planned = step.outcome else { continue };
        if args.dry_run {
            continue;
        }
        if step.allows() && !args.yes && !(can_ask(options) && agreed(step)?) {
            step.outcome = StepOutcome::NotTaken(String::from("it allows something: say --yes to take it"));
            continue;
        }
        step.outcome = match step.apply(&premises.store) {
            Ok(()) => StepOutcome::Taken,
            Err(why) => StepOutcome::NotTaken(why),
        };
    }
    print_table(&plan, &places.home, args, options)?;
    Ok(ExitCode::SUCCESS)
}

fn can_ask(options: &GlobalArgs) -> bool {
    !options.json && std::io::stdin().is_terminal()
}

fn agreed(step: &PlannedStep) -> Result<bool, CliError> {
    print_line(&style::clean(&format!("{} would allow: {}. Take it? [y]es, [n]o", step.theirs, step.ours)))?;
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line)?;
    Ok(matches!(line.trim().to_lowercase().as_str(), "y" | "yes"))
}

fn print_table(
    plan: &ImportPlan,
    home: &Path,
    args: &ImportArgs,
    options: &GlobalArgs,
) -> Result<(), CliError> {
    if options.json {
        let steps: Vec<_> = plan
            .steps
            .iter()
            .map(|it| {
                let (outcome, why) = it.outcome.words();
                json!({"theirs": it.theirs, "ours": it.ours, "outcome": outcome, "why": why, "note": it.note})
            })
            .collect();
        return print_line(&json!({"steps": steps, "dryRun": args.dry_run}).to_string());
    }
    // With absolute paths the lines would be wider than a screen.
    let within_home = format!("{}/", home.display().to_string().trim_end_matches('/'));
    let heads = ["", "THEIRS", "OURS", ""].map(str::to_owned);
    let mut rows = vec![heads];
    for it in &plan.steps {
        let (outcome, why) = it.outcome.words();
        let why = if why.is_empty() { it.note.clone() } else { why };
        let [theirs, ours] = [&it.theirs, &it.ours].map(|text| text.replace(&within_home, "~/"));
        rows.push([outcome.to_owned(), theirs, ours, why]);
    }
    print_bytes(style::clean(&columns(&rows)).as_bytes())?;
    if args.dry_run {
        print_line("\nNothing was written (--dry-run).")?;
    }
    Ok(())
}

/// The text of a file; `None` if it does not exist. A file that cannot be read is reported in the plan.
fn text_of(path: &Path, plan: &mut ImportPlan) -> Option<String> {
    const LARGEST: u64 = 8 * 1024 * 1024;
    std::fs::symlink_metadata(path).ok()?;
    let text = || match std::fs::metadata(path).map_err(|err| err.to_string())? {
        about if !about.is_file() => Err(String::from("it is no file")),
        about if LARGEST < about.len() => Err(String::from("it has more than 8 MB")),
        _ => String::from_utf8(std::fs::read(path).map_err(|err| err.to_string())?)
            .map_err(|_| String::from("it is not UTF-8")),
    };
    match text() {
        Ok(text) => Some(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text)),
        Err(why) => {
            plan.add_skipped(path.display().to_string(), format!("it cannot be read: {why}"));
            None
        }
    }
}

/// Keys of an object that are not among `known`.
fn left_out(fields: &Value, known: &[&str]) -> Vec<String> {
    let fields = fields.as_object().into_iter().flatten();
    fields.map(|(name, _)| name).filter(|it| !known.contains(&it.as_str())).cloned().collect()
}

/// Files of a directory with this suffix, sorted by name.
fn files_in(dir: &Path, ending: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> =
        entries.map(|it| it.path()).filter(|it| it.extension().is_some_and(|has| has == ending)).collect();
    files.sort();
    files
}

/// Subdirectories that contain a file with this name.
fn dirs_with(dir: &Path, name: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let mut dirs: Vec<PathBuf> = entries.map(|it| it.path()).filter(|it| it.join(name).is_file()).collect();
    dirs.sort();
    dirs
}
