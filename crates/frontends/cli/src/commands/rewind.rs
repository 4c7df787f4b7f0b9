//! `haft rewind`: rewinds a session to before a prompt.

use std::process::ExitCode;

use haft_console::{
    GlobalArgs,
    stdout::{CliError, CommandExit, print_error, print_line, print_untrusted},
};
use haft_session::{
    PastPrompt, RewindOutcome, RewindReport, RewindScope, SessionEnvironment, SessionLogs, rewind_preview,
    rewind_session, said_prompts,
};
use haft_types::{SessionId, text};
use serde_json::{Value, json};

use crate::{args::RewindArgs, commands::sessions::resolve_session, run::session_spec};

pub(crate) fn run(args: &RewindArgs, options: &GlobalArgs) -> CommandExit {
    let logs = session_spec::logs(options)?;
    let id = SessionId::from(resolve_session(&logs, args.session.as_deref())?);
    let premises = session_spec::premises(options)?;
    let log = logs.path(id.as_str());
    let said = said_prompts(&log).map_err(|err| format!("{}: {err}", log.display()))?;
    let Some(number) = args.to else { return list(&premises, &logs, &id, &said, options) };
    let prompt = number.checked_sub(1).and_then(|at| said.get(at)).ok_or_else(|| {
        CliError::Message(format!("there is no message {number}; `haft rewind` lists {}", said.len()))
    })?;
    let scope = match (args.files, args.talk) {
        (true, _) => RewindScope::Files,
        (_, true) => RewindScope::Talk,
        _ => RewindScope::Both,
    };
    let rewound = rewind_session(&premises, &logs, &id, prompt, scope)?;
    tell(&rewound, scope, options)
}

/// Lists the prompts with the files changed since each.
fn list(
    premises: &SessionEnvironment,
    logs: &SessionLogs,
    id: &SessionId,
    said: &[PastPrompt],
    options: &GlobalArgs,
) -> CommandExit {
    for (at, prompt) in said.iter().enumerate() {
        let (files, lines) = match rewind_preview(premises, logs, id, prompt) {
            Ok(RewindReport::Preview { files, insertions, deletions, .. }) => {
                (files, (insertions, deletions))
            }
            _ => (Vec::new(), (0, 0)),
        };
        if options.json {
            let line = json!({
                "number": at + 1, "uuid": prompt.uuid, "text": prompt.text, "files": files,
                "insertions": lines.0, "deletions": lines.1, "session": id.as_str(),
            });
            print_line(&line.to_string())?;
            continue;
        }
        let since = match files.len() {
            0 => String::from("no files"),
            count => format!("{count} files, +{} -{}", lines.0, lines.1),
        };
        print_untrusted(&format!("{:>3}  {}  ({since})", at + 1, text::one_line(&prompt.text, 80)))?;
    }
    if !options.json && !said.is_empty() {
        print_error("`haft rewind --to NUMBER` goes back to before that message: files and talk");
    }
    Ok(ExitCode::SUCCESS)
}

fn tell(rewound: &RewindOutcome, scope: RewindScope, options: &GlobalArgs) -> CommandExit {
    let kept: &[String] = match &rewound.files {
        Some(RewindReport::Done(kept)) => kept,
        _ => &[],
    };
    if options.json {
        let session = rewound.session.as_ref().map_or(Value::Null, |it| json!(it.as_str()));
        print_line(&json!({"files": rewound.files.is_some(), "kept": kept, "session": session}).to_string())?;
    } else {
        if rewound.files.is_some() {
            print_line("files are as they were then")?;
        }
        match (&rewound.session, scope) {
            (_, RewindScope::Files) => (),
            (Some(id), _) => print_line(&format!("go on there with: haft -p --resume {}", id.as_str()))?,
            (None, _) => print_line("nothing was said before that: begin a new session")?,
        }
    }
    for line in kept {
        print_error(&format!("left as it is: {line}"));
    }
    Ok(if kept.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
