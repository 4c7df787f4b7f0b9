//! `haft init`: proposes a memory file and a settings file for a project.
//!
//! **Invariant:** existing files are never overwritten, and nothing is written before the user saw
//! it and agreed.

mod project_commands;

use std::{
    io::{BufRead as _, IsTerminal as _},
    path::Path,
    process::ExitCode,
};

use haft_console::{
    GlobalArgs, create_file,
    stdout::{CliError, CommandExit, print_bytes, print_line},
    style,
};
use serde_json::json;

use self::project_commands::{ProjectCommand, commands};
use crate::{args::InitArgs, run::session_spec};

struct PlannedFile {
    path: &'static str,
    text: String,
}

/// Existing memory files. If there is one, no other is proposed.
const MEMORIES: [&str; 4] = ["CLAUDE.md", "AGENTS.md", ".claude/CLAUDE.md", ".haft/CLAUDE.md"];

pub(crate) fn run(args: &InitArgs, options: &GlobalArgs) -> CommandExit {
    let premises = session_spec::premises(options)?;
    let root = premises.store.places().project.clone();
    let found = commands(&root);
    let mut planned = Vec::new();
    let mut kept = Vec::new();
    match MEMORIES.iter().find(|name| root.join(name).exists()) {
        Some(there) => kept.push(format!("{there} is there and read by every session")),
        None => planned.push(PlannedFile { path: "AGENTS.md", text: agents_text(&root, &found) }),
    }
    if root.join(".haft/settings.json").exists() {
        kept.push(String::from(".haft/settings.json is there"))
    } else {
        planned.push(PlannedFile { path: ".haft/settings.json", text: settings_text(&found) })
    }
    let may_write = !args.dry_run && (args.yes || options.json || agreed(&root, &planned, &kept)?);
    let mut written = Vec::new();
    // With `--json` a program is calling: it gets the plan, or passes `--yes`.
    if may_write && (args.yes || !options.json) {
        for file in &planned {
            create(&root, file)?;
            written.push(file.path);
        }
    }
    if options.json {
        let files: Vec<_> = planned
            .iter()
            .map(|it| json!({"path": it.path, "text": it.text, "written": written.contains(&it.path)}))
            .collect();
        let line = json!({"project": root.to_string_lossy(), "files": files, "kept": kept});
        print_line(&line.to_string())?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.yes || args.dry_run {
        show_plan(&root, &planned, &kept)?;
    }
    print_line(&match (written.is_empty(), planned.is_empty()) {
        (false, _) if waits_for_trust(options)? => format!(
            "Written: {}.\nWhat it allows counts as soon as you trust this project: `haft trust`.",
            written.join(", ")
        ),
        (false, _) => format!("Written: {}.", written.join(", ")),
        (true, true) => String::from("Nothing to do."),
        (true, false) => String::from("Nothing was written."),
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Whether some of the project's settings wait for trust.
fn waits_for_trust(options: &GlobalArgs) -> Result<bool, CliError> {
    Ok(session_spec::premises(options)?.loaded().pending_trust.is_some())
}

fn show_plan(root: &Path, planned: &[PlannedFile], kept: &[String]) -> Result<(), CliError> {
    let mut out = format!("Project: {}\n", root.display());
    for line in kept {
        out.push_str(&format!("  {line}\n"));
    }
    for file in planned {
        out.push_str(&format!("\n--- {} (new)\n{}", file.path, file.text));
    }
    print_bytes(style::clean(&out).as_bytes())?;
    Ok(())
}

fn agreed(root: &Path, planned: &[PlannedFile], kept: &[String]) -> Result<bool, CliError> {
    show_plan(root, planned, kept)?;
    if planned.is_empty() {
        return Ok(false);
    }
    if !std::io::stdin().is_terminal() {
        let help = "nobody is there to ask; use --yes to write what is shown, --dry-run to look only";
        return Err(CliError::Message(help.to_owned()));
    }
    print_line("\nWrite this? [y]es, [n]o")?;
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line)?;
    Ok(matches!(line.trim().to_lowercase().as_str(), "y" | "yes"))
}

/// Creates a file. A file that appeared since the plan is left unchanged.
fn create(root: &Path, file: &PlannedFile) -> Result<(), CliError> {
    let path = root.join(file.path);
    create_file::create(&path, &file.text).map_err(|err| {
        let help = match err.kind() {
            std::io::ErrorKind::PermissionDenied | std::io::ErrorKind::ReadOnlyFilesystem => {
                "; --dry-run shows what would be written"
            }
            _ => "",
        };
        CliError::Message(format!("{}: {err}{help}", path.display()))
    })
}

fn agents_text(root: &Path, found: &[ProjectCommand]) -> String {
    let name =
        root.file_name().map_or_else(|| String::from("This project"), |it| it.to_string_lossy().into_owned());
    let mut out = format!(
        "# {name}\n\nWhat an agent has to know about this project. Say what it is in two sentences here.\n"
    );
    out.push_str("\n## Commands\n\n");
    if found.is_empty() {
        out.push_str("Write here how it is built, tested and checked.\n");
    }
    for it in found {
        out.push_str(&format!("- {}: `{}` (from `{}`)\n", it.purpose, it.command, it.from));
    }
    let dirs = directories(root);
    if !dirs.is_empty() {
        out.push_str("\n## Where things are\n\n");
        for dir in dirs {
            out.push_str(&format!("- `{dir}/`\n"));
        }
    }
    out.push_str(
        "\n## Rules\n\nWrite here what is not obvious: conventions, traps, what must not be touched.\n",
    );
    out
}

/// Top-level directories that are neither hidden nor build output.
fn directories(root: &Path) -> Vec<String> {
    const MADE: [&str; 7] = ["target", "node_modules", "dist", "build", "out", "vendor", "__pycache__"];
    let entries = std::fs::read_dir(root).into_iter().flatten().flatten();
    let dirs = entries.filter(|it| it.file_type().is_ok_and(|kind| kind.is_dir()));
    let mut names: Vec<String> = dirs.map(|it| it.file_name().to_string_lossy().into_owned()).collect();
    names.retain(|name| !name.starts_with('.') && !MADE.contains(&name.as_str()));
    names.sort();
    names.truncate(20);
    names
}

fn settings_text(found: &[ProjectCommand]) -> String {
    let mut allow: Vec<String> = found.iter().map(|it| format!("Bash({})", it.command)).collect();
    allow.dedup();
    let settings = json!({"permissions": {"allow": allow, "deny": ["Read(.env)", "Read(.env.*)"]}});
    format!("{settings:#}\n")
}
