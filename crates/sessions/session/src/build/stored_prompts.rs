//! Scheduled prompts. Only the user's own are run, never those a project contains.

use haft_builtin_tools::cron::CronServices;
use serde_json::Value;

use crate::environment::SessionEnvironment;

/// File in which other programs keep a project's scheduled prompts.
const FOREIGN: &str = ".claude/scheduled_tasks.json";

/// Maximum size in bytes of such a file; larger ones are ignored.
const LARGEST: u64 = 1 << 20;

/// Where scheduled prompts are stored. Reports that those of the project are not run.
pub(super) fn schedule_services(premises: &SessionEnvironment) -> CronServices {
    let file = premises.cwd.join(FOREIGN);
    let brought = std::fs::metadata(&file)
        .ok()
        .filter(|it| it.is_file() && it.len() <= LARGEST)
        .and_then(|_| serde_json::from_slice::<Value>(&std::fs::read(&file).ok()?).ok())
        .and_then(|it| it["tasks"].as_array().map(Vec::len))
        .filter(|it| *it != 0);
    if let Some(count) = brought {
        premises.events.notice(format!(
            "{count} scheduled prompts of this project ({FOREIGN}) do not run: a project never starts prompts by itself"
        ));
    }
    CronServices::at(&premises.state_dir(), Some(premises.session_id.as_str().to_owned()))
}
