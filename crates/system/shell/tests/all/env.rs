#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, reason = "test code")]

use crate::common;

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use common::Rig;
use haft_shell::{
    env::{LoginEnv, LoginEnvOptions},
    own::ProcessOwner,
};

fn plan(home: &Path) -> LoginEnvOptions {
    LoginEnvOptions {
        shell: PathBuf::from("/bin/bash"),
        bash: PathBuf::from("/bin/bash"),
        home: home.to_owned(),
        patience: Duration::from_secs(60),
        kept: None,
    }
}

fn capture(plan: &LoginEnvOptions) -> LoginEnv {
    let environment = [("HOME", plan.home.to_str().unwrap()), ("PATH", "/usr/bin:/bin")];
    let environment: Vec<(OsString, OsString)> =
        environment.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
    plan.capture(&ProcessOwner::unrecorded("test"), &environment)
}

fn home(files: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in files {
        std::fs::write(dir.path().join(name), text).unwrap();
    }
    dir
}

const RC: &str = r#"
echo noise on start
echo more noise >&2
alias ls='wrapper'
alias ll='ls -l'
alias rm='rm -i'
alias gone='not-a-program-anywhere --flag'
alias quoted='printf "%s\n" "it'\''s"'
wrapper() { _helper "$@"; }
_helper() { echo "helped: $*"; }
_completion_of_something() { :; }
cd() { __zoxide_z "$@"; }
shopt -s extglob
matches() { case $1 in +([0-9])) echo number;; *) echo word;; esac; }
export FROM_RC='a value
in two lines'
"#;

#[test]
fn login_env_captures_environment_and_reports_broken_definitions() {
    let home = home(&[(".bashrc", RC), (".bash_profile", "export PATH=/from/profile:$PATH\n. ~/.bashrc\n")]);
    let empty = self::home(&[]);
    let got = capture(&plan(home.path()));
    let value = |name: &str| got.environment.iter().find(|it| it.0 == name).and_then(|it| it.1.to_str());
    assert!(value("PATH").unwrap().starts_with("/from/profile:"), "{:?}", value("PATH"));
    assert_eq!(value("FROM_RC"), Some("a value\nin two lines"));
    let names = |map: &std::collections::BTreeMap<String, String>| map.keys().cloned().collect::<Vec<_>>();
    // System packages may define functions for all users.
    let of_machine = capture(&plan(empty.path()));
    let (mut aliases, mut functions) = (got.definitions.aliases.clone(), got.definitions.functions.clone());
    aliases.retain(|name, _| !of_machine.definitions.aliases.contains_key(name));
    functions.retain(|name, _| !of_machine.definitions.functions.contains_key(name));
    assert_eq!(names(&aliases), ["ll", "ls", "quoted"]);
    assert_eq!(names(&functions), ["_completion_of_something", "_helper", "matches", "wrapper"]);
    let notices = got.notices.join("\n");
    for want in ["`cd` calls `__zoxide_z`", "alias `gone`", "rm"] {
        assert!(notices.contains(want), "{want}: {notices}");
    }
}

#[test]
fn aliases_come_from_the_rc_file_even_if_the_login_file_does_not_read_it() {
    let home = home(&[
        (".bashrc", "alias hi='echo hello'\nexport PATH=/from/rc:$PATH\n"),
        (".bash_profile", "export PATH=/from/profile:$PATH\n"),
    ]);
    let got = capture(&plan(home.path()));
    assert!(got.definitions.aliases.contains_key("hi"));
    let path = got.environment.iter().find(|it| it.0 == "PATH").unwrap().1.to_str().unwrap();
    assert!(
        path.starts_with("/from/profile:") && !path.contains("/from/rc"),
        "as a login shell has it: {path}"
    );
}

#[test]
fn broken_start_up_file_is_reported_and_rest_is_used() {
    let home = home(&[(".bash_profile", "export GOOD=1\nfi )( broken\nexport NEVER=1\n")]);
    let got = capture(&plan(home.path()));
    assert!(got.environment.iter().any(|it| it.0 == "GOOD"));
    assert!(got.notices.iter().any(|it| it.contains("syntax error")), "{:?}", got.notices);
}

#[test]
fn hanging_or_exiting_start_up_file_is_tolerated() {
    for (text, patience) in [("sleep 600\n", 1), ("exec sleep 600\n", 1), ("exit 3\n", 60)] {
        let home = home(&[(".bash_profile", text)]);
        let plan = LoginEnvOptions { patience: Duration::from_secs(patience), ..plan(home.path()) };
        let started = Instant::now();
        let got = capture(&plan);
        assert!(started.elapsed() < Duration::from_secs(50), "{text}");
        assert!(got.environment.is_empty() && got.notices.len() == 1, "{got:?}");
    }
}

/// A slow start-up file delays only the first process.
#[test]
fn slow_start_up_files_are_cached_until_their_inputs_change() {
    let slow = "echo ran >> ~/count; sleep 0.4; export SLOW=1; greet() { echo hello; }\n";
    let quick = "echo ran >> ~/count; export QUICK=1\n";
    let home = home(&[(".bash_profile", slow)]);
    let plan = LoginEnvOptions { kept: Some(home.path().join("cache")), ..plan(home.path()) };
    let ran = || std::fs::read_to_string(home.path().join("count")).unwrap().lines().count();
    let first = capture(&plan);
    let again = capture(&plan);
    assert_eq!(ran(), 1);
    assert!(again.environment.iter().any(|it| it.0 == "SLOW") && again.definitions == first.definitions);
    let file = std::fs::read_dir(home.path().join("cache")).unwrap().next().unwrap().unwrap();
    assert_eq!(std::os::unix::fs::MetadataExt::mode(&file.metadata().unwrap()) & 0o777, 0o600);
    // Another environment has its own cache entry.
    let other = [("HOME", home.path().to_str().unwrap()), ("PATH", "/bin")];
    let other: Vec<(OsString, OsString)> =
        other.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
    plan.capture(&ProcessOwner::unrecorded("test"), &other);
    assert_eq!(ran(), 2);
    // The first entry stays valid.
    capture(&plan);
    plan.capture(&ProcessOwner::unrecorded("test"), &other);
    assert_eq!(ran(), 2);
    // On a busy machine timing varies: retry until a deadline.
    let deadline = Instant::now() + Duration::from_secs(20);
    let mut was_quick = false;
    while !was_quick && Instant::now() < deadline {
        std::fs::remove_file(home.path().join(".bash_profile")).unwrap();
        std::fs::write(home.path().join(".bash_profile"), quick).unwrap();
        let started = Instant::now();
        let changed = capture(&plan);
        was_quick = started.elapsed() < Duration::from_millis(250);
        assert!(changed.environment.iter().any(|it| it.0 == "QUICK"));
    }
    let before = ran();
    capture(&plan);
    assert!(!was_quick || ran() == before + 1, "what is quick is asked every time");
    // A file that other users could have written is not trusted.
    std::fs::write(home.path().join(".bash_profile"), slow).unwrap();
    capture(&plan);
    std::fs::set_permissions(file.path(), std::os::unix::fs::PermissionsExt::from_mode(0o666)).unwrap();
    let before = ran();
    capture(&plan);
    assert_eq!(ran(), before + 1);
}

#[tokio::test]
async fn commands_use_login_environment_and_notices_are_given_once() {
    let home = home(&[(".bashrc", RC), (".bash_profile", ". ~/.bashrc\n")]);
    // The shell finds its home directory through the given environment.
    let rc = home.path().join("login");
    let script = format!("#!/bin/bash\nexport HOME={}\nexec /bin/bash \"$@\"\n", home.path().display());
    std::fs::write(&rc, script).unwrap();
    std::os::unix::fs::symlink("/bin/bash", home.path().join("bash")).ok();
    let wrapper = home.path().join("bin");
    std::fs::create_dir(&wrapper).unwrap();
    std::fs::rename(&rc, wrapper.join("bash")).unwrap();
    std::fs::set_permissions(wrapper.join("bash"), std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .unwrap();
    let rig = Rig::with(|config| {
        config.capture = Some(LoginEnvOptions { shell: wrapper.join("bash"), ..plan(home.path()) });
    });
    for (command, want) in [
        ("ls a b", "helped: a b\n"),
        ("ll", "helped: -l\n"),
        ("quoted", "it's\n"),
        ("matches 12; matches x", "number\nword\n"),
        ("mkdir -p sub && cd sub && basename \"$PWD\"", "sub\n"),
        ("echo \"$FROM_RC\"", "a value\nin two lines\n"),
        ("touch f && rm f && [ ! -e f ] && echo removed", "removed\n"),
        ("eval 'll x'", "helped: -l x\n"),
        ("bash -c 'echo $BASH_ENV; type wrapper 2>/dev/null || echo clean'", "\nclean\n"),
    ] {
        assert_eq!(rig.text(command).await, want, "{command}");
    }
    assert!(!rig.shell.take_notices().is_empty());
    assert!(rig.shell.take_notices().is_empty(), "each is said once");
}

#[tokio::test]
async fn a_script_of_the_user_runs_before_each_command() {
    let dir = tempfile::tempdir().unwrap();
    let script = dir.path().join("it's env");
    std::fs::write(&script, "export FROM_SCRIPT=1\n").unwrap();
    let rig = Rig::with(|config| config.before_each = Some(script));
    assert_eq!(rig.text("echo $FROM_SCRIPT").await, "1\n");
}
