//! `haft bug`: writes one archive with what a developer needs to look into a problem. Secrets are
//! masked, the contents are listed, and nothing is sent.

use std::{io::Write as _, os::unix::fs::OpenOptionsExt as _, path::PathBuf, process::ExitCode};

use haft_agent::Masker;
use haft_console::{
    GlobalArgs,
    stdout::{CliError, CommandExit, print_line},
};
use jiff::Timestamp;
use serde_json::json;

use crate::{
    args::BugArgs,
    commands::{doctor, sessions, update::InstallChannel},
    run::session_spec,
};

/// Maximum bytes of a log in the archive; the beginning of a longer one is left out.
const MAX_LOG_BYTES: usize = 8 * 1024 * 1024;

struct BugFile {
    name: String,
    text: String,
    /// Description of the file for the user.
    about: String,
}

pub(crate) fn run(args: &BugArgs, options: &GlobalArgs) -> CommandExit {
    let masker = Masker::of_env(variables());
    let masked = |text: String| masker.mask(&text).unwrap_or(text);
    let mut files = vec![version_file(), doctor_file(options)];
    if let Ok(premises) = session_spec::premises(options) {
        let loaded = premises.loaded();
        let list = loaded.problems.iter().chain(&loaded.warnings);
        let text: String = list.map(|it| format!("{it}\n")).collect();
        let about = String::from("mistakes in settings files, not the files");
        files.push(BugFile { name: String::from("settings-problems.txt"), text, about });
    }
    if let Some(session) = &args.session {
        files.push(session_file(session, options)?);
    }
    let home = std::env::var("HOME").unwrap_or_default();
    for file in &mut files {
        let text = masked(std::mem::take(&mut file.text));
        // The home directory contains the user name.
        file.text = if home.len() > 1 { text.replace(&home, "~") } else { text };
    }
    let path = args.out.clone().unwrap_or_else(|| {
        PathBuf::from(format!("haft-bug-{}.tar", Timestamp::now().strftime("%Y%m%d-%H%M%S")))
    });
    let path = options.cwd.clone().unwrap_or_default().join(path);
    let failed = |err: std::io::Error| CliError::Message(format!("{}: {err}", path.display()));
    let mut out =
        std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path).map_err(failed)?;
    out.write_all(&archive(&files)).and_then(|()| out.sync_all()).map_err(failed)?;
    if options.json {
        let list: Vec<_> = files
            .iter()
            .map(|it| json!({"name": it.name, "bytes": it.text.len(), "about": it.about}))
            .collect();
        print_line(&json!({"archive": path.to_string_lossy(), "files": list}).to_string())?;
        return Ok(ExitCode::SUCCESS);
    }
    print_line(&format!("{} holds, with secrets masked:", path.display()))?;
    for file in &files {
        print_line(&format!("  {}  {} ({} bytes)", file.name, file.about, file.text.len()))?;
    }
    print_line(
        "Nothing was sent. Look into it before you give it to somebody: a mask knows only what looks secret.",
    )?;
    Ok(ExitCode::SUCCESS)
}

fn variables() -> Vec<(String, String)> {
    let all = haft_types::EnvVars::of_process();
    let text = |it: &std::ffi::OsStr| it.to_str().map(str::to_owned);
    all.iter().filter_map(|(name, value)| Some((text(name)?, text(value)?))).collect()
}

fn version_file() -> BugFile {
    let (channel, program) = InstallChannel::here();
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let system: String = read("/etc/os-release").lines().filter(|it| it.starts_with("PRETTY_NAME")).collect();
    let text = format!(
        "haft {} ({} {})\nchannel {}\nprogram {}\nkernel {}{system}\n",
        env!("CARGO_PKG_VERSION"),
        std::env::consts::OS,
        std::env::consts::ARCH,
        channel.name,
        program.display(),
        read("/proc/sys/kernel/osrelease"),
    );
    BugFile { name: String::from("version.txt"), text, about: String::from("version, channel, system") }
}

fn doctor_file(options: &GlobalArgs) -> BugFile {
    let checks = doctor::findings(options, false);
    let text = format!("{:#}\n", json!({"checks": checks}));
    BugFile { name: String::from("doctor.json"), text, about: String::from("what `haft doctor` found") }
}

fn session_file(named: &str, options: &GlobalArgs) -> Result<BugFile, CliError> {
    let logs = session_spec::logs(options)?;
    let id = sessions::resolve_session(&logs, Some(named))?;
    let path = logs.path(&id);
    let mut text = std::fs::read_to_string(&path).map_err(|err| format!("{}: {err}", path.display()))?;
    let mut about = String::from("the whole conversation of that session");
    if text.len() > MAX_LOG_BYTES {
        let from = text.len() - MAX_LOG_BYTES;
        let from =
            text.as_bytes()[from..].iter().position(|it| *it == b'\n').map_or(text.len(), |it| from + it + 1);
        text.drain(..from);
        about = format!("the end of that session; {from} bytes before it are left out");
    }
    Ok(BugFile { name: format!("session-{id}.jsonl"), text, about })
}

/// Packs the files into an uncompressed tar archive (ustar).
fn archive(files: &[BugFile]) -> Vec<u8> {
    const BLOCK: usize = 512;
    let mut out = Vec::new();
    for file in files {
        let mut head = [0_u8; BLOCK];
        let mut put = |at: usize, text: &str| {
            for (slot, byte) in head[at..].iter_mut().zip(text.bytes()) {
                *slot = byte;
            }
        };
        put(0, &file.name);
        put(100, "0000600\0");
        put(108, "0000000\0");
        put(116, "0000000\0");
        put(124, &format!("{:011o}\0", file.text.len()));
        put(136, "00000000000\0");
        put(148, "        ");
        put(156, "0");
        put(257, "ustar\0");
        put(263, "00");
        let sum: u32 = head.iter().map(|byte| u32::from(*byte)).sum();
        for (slot, byte) in head[148..].iter_mut().zip(format!("{sum:06o}\0 ").bytes()) {
            *slot = byte;
        }
        out.extend_from_slice(&head);
        out.extend_from_slice(file.text.as_bytes());
        out.resize(out.len().next_multiple_of(BLOCK), 0);
    }
    out.resize(out.len() + 2 * BLOCK, 0);
    out
}
