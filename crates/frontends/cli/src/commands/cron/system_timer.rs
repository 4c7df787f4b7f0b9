//! The system timer that runs `haft cron run-due` every minute: a systemd user timer, launchd or
//! crontab. One per user, so that no Haft process has to stay in the background.

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
};

use haft_console::stdout::{CliError, CommandExit, print_bytes, print_line};

/// Marks Haft's line in the crontab.
const MARK: &str = "# haft cron";
const UNIT: &str = "haft-cron";
const AGENT: &str = "dev.haft.cron";

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum TimerKind {
    Systemd,
    Launchd,
    Crontab,
}

impl TimerKind {
    fn here() -> Self {
        if cfg!(target_os = "macos") {
            return Self::Launchd;
        }
        if quiet("systemctl", &["--user", "show-environment"]) { Self::Systemd } else { Self::Crontab }
    }
}

/// Runs a program without output and returns whether it succeeded.
fn quiet(program: &str, words: &[&str]) -> bool {
    let ran = Command::new(program)
        .args(words)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    ran.is_ok_and(|it| it.success())
}

fn home() -> Result<PathBuf, CliError> {
    std::env::var_os("HOME")
        .map(PathBuf::from)
        .ok_or_else(|| CliError::Message(String::from("there is no home directory")))
}

fn unit_dir() -> Result<PathBuf, CliError> {
    match std::env::var_os("XDG_CONFIG_HOME") {
        Some(dir) => Ok(PathBuf::from(dir).join("systemd/user")),
        None => Ok(home()?.join(".config/systemd/user")),
    }
}

fn agent_file() -> Result<PathBuf, CliError> {
    Ok(home()?.join("Library/LaunchAgents").join(format!("{AGENT}.plist")))
}

fn crontab() -> String {
    let read = Command::new("crontab").arg("-l").stdin(Stdio::null()).stderr(Stdio::null()).output();
    read.ok()
        .filter(|it| it.status.success())
        .map(|it| String::from_utf8_lossy(&it.stdout).into_owned())
        .unwrap_or_default()
}

/// Whether a timer of any kind is installed.
pub(super) fn is_installed() -> bool {
    let there = |path: Result<PathBuf, CliError>| path.is_ok_and(|it| it.exists());
    there(unit_dir().map(|it| it.join(format!("{UNIT}.timer"))))
        || there(agent_file())
        || crontab().contains(MARK)
}

/// The files of a timer: path and content.
fn files(kind: TimerKind, program: &Path) -> Result<Vec<(PathBuf, String)>, CliError> {
    let program = program.display();
    Ok(match kind {
        TimerKind::Systemd => {
            let dir = unit_dir()?;
            let service = format!(
                "[Unit]\nDescription=Prompts stored for Haft\n\n[Service]\nType=oneshot\nExecStart=\"{program}\" cron run-due\n"
            );
            let timer = String::from(
                "[Unit]\nDescription=Looks every minute whether a stored prompt is due\n\n[Timer]\nOnCalendar=*-*-* *:*:00\nAccuracySec=10s\nPersistent=true\n\n[Install]\nWantedBy=timers.target\n",
            );
            vec![(dir.join(format!("{UNIT}.service")), service), (dir.join(format!("{UNIT}.timer")), timer)]
        }
        TimerKind::Launchd => {
            let program = program.to_string().replace('&', "&amp;").replace('<', "&lt;");
            let text = format!(
                "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<plist version=\"1.0\"><dict>\n<key>Label</key><string>{AGENT}</string>\n<key>ProgramArguments</key><array><string>{program}</string><string>cron</string><string>run-due</string></array>\n<key>StartInterval</key><integer>60</integer>\n</dict></plist>\n"
            );
            vec![(agent_file()?, text)]
        }
        TimerKind::Crontab => {
            let line = format!(
                "* * * * * '{}' cron run-due {MARK}\n",
                program.to_string().replace('\'', "'\\''").replace('%', "\\%")
            );
            vec![(PathBuf::from("crontab"), line)]
        }
    })
}

/// Installs the timer, or prints what would be installed.
pub(super) fn install(only_print: bool) -> CommandExit {
    let program = std::env::current_exe()?;
    let kind = TimerKind::here();
    let files = files(kind, &program)?;
    if only_print {
        for (path, text) in &files {
            print_bytes(format!("==> {}\n{text}\n", path.display()).as_bytes())?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    match kind {
        TimerKind::Crontab => {
            let others: String =
                crontab().lines().filter(|it| !it.contains(MARK)).map(|it| format!("{it}\n")).collect();
            let line = files.into_iter().map(|it| it.1).collect::<String>();
            set_crontab(&format!("{others}{line}"))?;
        }
        TimerKind::Systemd | TimerKind::Launchd => {
            for (path, text) in &files {
                if let Some(dir) = path.parent() {
                    fs::create_dir_all(dir)?;
                }
                fs::write(path, text)?;
            }
            let started = match kind {
                TimerKind::Systemd => {
                    quiet("systemctl", &["--user", "daemon-reload"])
                        && quiet("systemctl", &["--user", "enable", "--now", &format!("{UNIT}.timer")])
                }
                _ => quiet("launchctl", &["load", "-w", &files[0].0.to_string_lossy()]),
            };
            if !started {
                return Err(CliError::Message(String::from("the timer is written but could not be started")));
            }
        }
    }
    print_line("the timer is set up: it runs `haft cron run-due` every minute while you are logged in")?;
    if kind == TimerKind::Systemd {
        print_line("to have it run while you are logged out: loginctl enable-linger")?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Removes every kind of timer.
pub(super) fn uninstall() -> CommandExit {
    if !is_installed() {
        return print_line("there is no timer").map(|()| ExitCode::SUCCESS);
    }
    let dir = unit_dir()?;
    if dir.join(format!("{UNIT}.timer")).exists() {
        quiet("systemctl", &["--user", "disable", "--now", &format!("{UNIT}.timer")]);
        for ending in ["timer", "service"] {
            fs::remove_file(dir.join(format!("{UNIT}.{ending}"))).ok();
        }
    }
    let agent = agent_file()?;
    if agent.exists() {
        quiet("launchctl", &["unload", "-w", &agent.to_string_lossy()]);
        fs::remove_file(agent)?;
    }
    let lines = crontab();
    if lines.contains(MARK) {
        set_crontab(
            &lines.lines().filter(|it| !it.contains(MARK)).map(|it| format!("{it}\n")).collect::<String>(),
        )?;
    }
    print_line("the timer is gone").map(|()| ExitCode::SUCCESS)
}

fn set_crontab(text: &str) -> Result<(), CliError> {
    let failed = |why: &str| CliError::Message(format!("the crontab could not be changed: {why}"));
    let mut child = Command::new("crontab")
        .arg("-")
        .stdin(Stdio::piped())
        .spawn()
        .map_err(|err| failed(&err.to_string()))?;
    if let Some(mut input) = child.stdin.take() {
        input.write_all(text.as_bytes())?;
    }
    if child.wait()?.success() { Ok(()) } else { Err(failed("crontab refused it")) }
}
