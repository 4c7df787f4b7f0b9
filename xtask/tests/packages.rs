//! Packages, made from a binary that is there, installed and run.
//!
//! The binary is `HAFT_BINARY`, or what was built for debugging. What needs a
//! program that is not on this machine says so and is left out.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr, missing_docs, reason = "test code")]

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

/// The binary to package, or a loud word.
fn binary() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let given = std::env::var_os("HAFT_BINARY").map(PathBuf::from);
    let places = [given, Some(root.join("target/dist/haft")), Some(root.join("target/debug/haft"))];
    let found = places.into_iter().flatten().find(|it| it.is_file());
    if found.is_none() {
        eprintln!("SKIPPED: there is no binary to package; build one, or set HAFT_BINARY");
    }
    found
}

fn has(program: &str) -> bool {
    let there =
        Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    if !there {
        eprintln!("SKIPPED: {program} is not on this machine");
    }
    there
}

fn ran(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    let said =
        String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{command:?}: {said}");
    output
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn dist(binary: &Path, out: &Path) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    command.env("HAFT_DIST_FAST", "1");
    command.args(["dist", "--strip", "--releases", "https://releases.example/haft/0.1.0", "--binary"]);
    ran(command.arg(binary).arg("--out").arg(out));
}

fn made(out: &Path, ending: &str) -> PathBuf {
    let mut found = fs::read_dir(out).unwrap().flatten().map(|it| it.path());
    found.find(|it| it.to_string_lossy().ends_with(ending)).unwrap_or_else(|| panic!("no {ending}"))
}

/// Whether a program answers as ours does, wherever it was put.
fn check_program(mut command: Command) {
    let version = text(&ran(command.arg("--version")));
    assert_eq!(version.trim(), concat!("haft ", env!("CARGO_PKG_VERSION")));
}

#[test]
fn every_package_installs_and_runs() {
    let Some(binary) = binary() else { return };
    let dir = std::env::temp_dir().join(format!("haft-packages-{}", std::process::id()));
    let out = dir.join("one");
    fs::create_dir_all(&out).unwrap();
    dist(&binary, &out);
    archive(&out, &dir);
    deb(&out, &dir);
    npm(&out, &dir);
    wheel(&out, &dir);
    downloads(&out, &dir);
    same_again(&out, &dir);
    fs::remove_dir_all(&dir).unwrap();
}

fn archive(out: &Path, dir: &Path) {
    let to = dir.join("archive");
    fs::create_dir_all(&to).unwrap();
    ran(Command::new("tar")
        .arg("xzf")
        .arg(made(out, ".tar.gz"))
        .arg("--strip-components=1")
        .current_dir(&to));
    check_program(Command::new(to.join("haft")));
    for file in ["man/haft.1", "man/haft-doctor.1", "completions/haft", "completions/_haft", "LICENSE-MIT"] {
        assert!(to.join(file).is_file(), "{file}");
    }
    // A manual that can be read, with every flag in it.
    if has("man") {
        let page = text(&ran(Command::new("man")
            .args(["-l", "-P", "cat"])
            .arg(to.join("man/haft.1"))
            .env("MANWIDTH", "200")));
        for flag in ["--print", "--permission-mode", "--provider", "doctor"] {
            assert!(page.contains(flag), "{flag}: {page}");
        }
    }
    // Completions are scripts their shells take.
    if has("bash") {
        let ask = "source completions/haft; COMP_WORDS=(haft doc); COMP_CWORD=1; _haft haft doc haft; echo \"${COMPREPLY[@]}\"";
        assert_eq!(text(&ran(Command::new("bash").args(["-c", ask]).current_dir(&to))).trim(), "doctor");
    }
}

fn deb(out: &Path, dir: &Path) {
    if !has("dpkg-deb") {
        return;
    }
    let package = made(out, ".deb");
    let about = text(&ran(Command::new("dpkg-deb").arg("-f").arg(&package)));
    assert!(about.contains("Package: haft\n") && about.contains("Recommends: git, bubblewrap"), "{about}");
    let to = dir.join("deb");
    ran(Command::new("dpkg-deb").arg("-x").arg(&package).arg(&to));
    check_program(Command::new(to.join("usr/bin/haft")));
    for file in [
        "usr/share/man/man1/haft.1.gz",
        "usr/share/bash-completion/completions/haft",
        "usr/share/zsh/vendor-completions/_haft",
        "usr/share/fish/vendor_completions.d/haft.fish",
        "usr/share/doc/haft/copyright",
    ] {
        assert!(to.join(file).is_file(), "{file}");
    }
    // The package manager itself, in a root of its own.
    let root = dir.join("dpkg");
    fs::create_dir_all(root.join("var/lib/dpkg/updates")).unwrap();
    fs::write(root.join("var/lib/dpkg/status"), "").unwrap();
    let mut install = Command::new("dpkg");
    install.arg(format!("--root={}", root.display())).args([
        "--force-depends",
        "--force-not-root",
        "--install",
    ]);
    ran(install.arg(&package));
    assert!(root.join("usr/bin/haft").is_file());
    let mut remove = Command::new("dpkg");
    remove.arg(format!("--root={}", root.display())).args(["--force-not-root", "--purge", "haft"]);
    ran(&mut remove);
    assert!(!root.join("usr/bin/haft").exists());
}

fn npm(out: &Path, dir: &Path) {
    if !has("npm") || !has("node") {
        return;
    }
    let to = dir.join("npm");
    fs::create_dir_all(&to).unwrap();
    fs::write(to.join("package.json"), "{\"private\": true}").unwrap();
    let main = out.join(format!("haft-{}.tgz", env!("CARGO_PKG_VERSION")));
    let native = out.join(format!("haft-linux-x64-{}.tgz", env!("CARGO_PKG_VERSION")));
    let mut install = Command::new("npm");
    install.args(["install", "--offline", "--ignore-scripts", "--no-audit", "--no-fund", "--cache"]);
    ran(install.arg(dir.join("npm-cache")).arg(&native).arg(&main).current_dir(&to));
    let program = to.join("node_modules/.bin/haft");
    check_program(Command::new(&program));
    // The exit code is the program's own.
    let wrong = Command::new(&program).arg("--no-such-flag").output().unwrap();
    assert_eq!(wrong.status.code(), Some(2));
    // A signal reaches the program, and the script ends with it as it ends.
    let mut child = Command::new(&program)
        .args(["dev", "mock-model", "/dev/stdin"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"{}").unwrap();
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.as_mut().unwrap()), &mut line)
        .unwrap();
    assert!(line.contains("127.0.0.1"), "{line}");
    ran(Command::new("kill").args(["-TERM", &child.id().to_string()]));
    assert!(child.wait().unwrap().success());
    // Without the platform's package it says which one is missing.
    fs::remove_dir_all(to.join("node_modules/haft-linux-x64")).unwrap();
    let missing = Command::new(&program).arg("--version").output().unwrap();
    assert!(String::from_utf8_lossy(&missing.stderr).contains("haft-linux-x64"));
    assert_eq!(missing.status.code(), Some(1));
}

fn wheel(out: &Path, dir: &Path) {
    let package = made(out, ".whl");
    let venv = dir.join("venv");
    let made = Command::new("python3").args(["-m", "venv"]).arg(&venv).output();
    if !made.is_ok_and(|it| it.status.success()) {
        eprintln!("SKIPPED: python3 cannot make an environment here");
        return;
    }
    let mut install = Command::new(venv.join("bin/pip"));
    install.args(["install", "--no-index", "--no-deps", "--disable-pip-version-check", "--quiet"]);
    ran(install.arg(&package));
    check_program(Command::new(venv.join("bin/haft")));
    let mut module = Command::new(venv.join("bin/python"));
    module.args(["-m", "haft"]);
    check_program(module);
    let channel = text(&ran(Command::new(venv.join("bin/haft")).args(["update", "--json"])));
    assert!(channel.contains("\"channel\":\"pip\""), "{channel}");
    ran(Command::new(venv.join("bin/pip")).args(["check", "--disable-pip-version-check"]));
}

/// What downloads the archive holds its sum and its address; the installer of
/// the container feature takes the archive and refuses another.
fn downloads(out: &Path, dir: &Path) {
    let archive = made(out, ".tar.gz");
    let sums = fs::read_to_string(out.join("SHA256SUMS")).unwrap();
    let name = archive.file_name().unwrap().to_string_lossy().into_owned();
    let sum = sums.lines().find(|line| line.ends_with(&name)).unwrap().split(' ').next().unwrap().to_owned();
    for file in ["homebrew/haft.rb", "action/action.yml", "devcontainer/haft/devcontainer-feature.json"] {
        let text = fs::read_to_string(out.join(file)).unwrap();
        assert!(text.contains(&sum) && !text.contains('@'), "{file}: {text}");
    }
    let install = out.join("devcontainer/haft/install.sh");
    let to = dir.join("feature");
    let run = |sum: &str| {
        let mut command = Command::new("sh");
        command.arg(&install).env("URL", &archive).env("SHA256", sum).env("PREFIX", &to).output().unwrap()
    };
    assert!(!run(&"0".repeat(64)).status.success() && !to.join("bin/haft").exists());
    assert!(run(&sum).status.success());
    check_program(Command::new(to.join("bin/haft")));
}

/// The same binary gives the same packages, in another directory too.
fn same_again(out: &Path, dir: &Path) {
    let again = dir.join("another/place");
    fs::create_dir_all(&again).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    command.env("HAFT_DIST_FAST", "1");
    command.args(["dist", "--releases", "https://releases.example/haft/0.1.0", "--binary"]);
    ran(command.arg(out.join("haft")).arg("--out").arg(&again).current_dir(dir));
    let sums = |dir: &Path| fs::read_to_string(dir.join("SHA256SUMS")).unwrap();
    assert_eq!(sums(out), sums(&again));
}
