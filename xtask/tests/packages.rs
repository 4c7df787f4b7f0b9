//! Creates packages from an existing binary, installs and runs them.
//!
//! The binary is `HAFT_BINARY`, or the debug build. Parts that need a program missing on this machine
//! are skipped with a message.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr, missing_docs, reason = "test code")]

mod fresh_root;

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use fresh_root::{FreshRoot, RootMounts, WhoRuns};

/// Returns the binary to package, or prints that it is missing.
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

/// npm package with the program for this machine.
const PLATFORM: &str = if cfg!(target_arch = "aarch64") { "haft-linux-arm64" } else { "haft-linux-x64" };

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

/// Checks that a program behaves like Haft.
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
    npm_in_fresh_root(&out, &dir);
    wheel_in_fresh_root(&out, &dir);
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
    // The manual is readable and contains every flag.
    if has("man") {
        let page = text(&ran(Command::new("man")
            .args(["-l", "-P", "cat"])
            .arg(to.join("man/haft.1"))
            .env("MANWIDTH", "200")));
        for flag in ["--print", "--permission-mode", "--provider", "doctor"] {
            assert!(page.contains(flag), "{flag}: {page}");
        }
    }
    // Completions are valid scripts.
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
    // The real package manager, in its own root directory.
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
    let native = out.join(format!("{PLATFORM}-{}.tgz", env!("CARGO_PKG_VERSION")));
    let mut install = Command::new("npm");
    install.args(["install", "--offline", "--ignore-scripts", "--no-audit", "--no-fund", "--cache"]);
    ran(install.arg(dir.join("npm-cache")).arg(&native).arg(&main).current_dir(&to));
    let program = to.join("node_modules/.bin/haft");
    check_program(Command::new(&program));
    // The exit code is passed on.
    let wrong = Command::new(&program).arg("--no-such-flag").output().unwrap();
    assert_eq!(wrong.status.code(), Some(2));
    // A signal reaches the program, and the script exits in the same way.
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
    // Without the platform package, the error names it.
    fs::remove_dir_all(to.join("node_modules").join(PLATFORM)).unwrap();
    let missing = Command::new(&program).arg("--version").output().unwrap();
    assert!(String::from_utf8_lossy(&missing.stderr).contains(PLATFORM));
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

/// Downloaded files contain checksum and URL of the archive; the installer of the container feature
/// accepts the archive and rejects another one.
fn downloads(out: &Path, dir: &Path) {
    let archive = made(out, ".tar.gz");
    let sums = fs::read_to_string(out.join("SHA256SUMS")).unwrap();
    let name = archive.file_name().unwrap().to_string_lossy().into_owned();
    let sum = sums.lines().find(|line| line.ends_with(&name)).unwrap().split(' ').next().unwrap().to_owned();
    for file in ["homebrew/haft.rb", "action/action.yml", "devcontainer/haft/install.sh"] {
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
    fs::remove_dir_all(&to).unwrap();
    // Without a checksum, the one of the release is used.
    assert!(run("").status.success());
    check_program(Command::new(to.join("bin/haft")));
}

/// The same binary gives the same packages, also in another directory.
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

/// Creates a root directory with the packages and the programs of the package manager.
fn fresh_root(out: &Path, dir: &Path, lent: &[PathBuf]) -> Option<FreshRoot> {
    let mut root = FreshRoot::make(dir, RootMounts::Distribution)?;
    lent.iter().for_each(|place| root.lend(place));
    for ending in [".tgz", ".whl"] {
        let found = fs::read_dir(out).unwrap().flatten().map(|it| it.path());
        for path in found.filter(|it| it.to_string_lossy().ends_with(ending)) {
            fs::copy(&path, root.at("packages").join(path.file_name().unwrap())).unwrap();
        }
    }
    Some(root)
}

fn ran_there(root: &FreshRoot, who: WhoRuns, home: Option<&str>, line: &str) -> Output {
    let output = root.shell(who, home, line);
    let said =
        String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{who:?} with HOME {home:?}: {line}: {said}");
    output
}

/// First use of the program, with every kind of home directory.
fn first_minutes(root: &FreshRoot, program: &str, channel: &str) {
    root.home_of_nobody("home/empty");
    for (who, home) in [
        (WhoRuns::Nobody, Some("/home/empty")),
        (WhoRuns::Nobody, Some("/home/nowhere")),
        (WhoRuns::Nobody, Some("/home/sealed")),
        (WhoRuns::Nobody, Some("/")),
        (WhoRuns::Nobody, Some("")),
        (WhoRuns::Nobody, None),
        (WhoRuns::Root, Some("/home/sealed")),
        (WhoRuns::Root, None),
    ] {
        let version = text(&ran_there(root, who, home, &format!("{program} --version")));
        assert_eq!(version.trim(), concat!("haft ", env!("CARGO_PKG_VERSION")), "{who:?} {home:?}");
        let update = text(&ran_there(root, who, home, &format!("{program} update --json")));
        assert!(update.contains(&format!("\"channel\":\"{channel}\"")), "{who:?} {home:?}: {update}");
        // It may find problems, and always says what they are.
        let doctor = root.shell(who, home, &format!("{program} doctor --json"));
        let report: serde_json::Value = serde_json::from_slice(&doctor.stdout).unwrap_or_else(|err| {
            panic!("{who:?} {home:?}: {err}: {}", String::from_utf8_lossy(&doctor.stderr))
        });
        assert!(matches!(doctor.status.code(), Some(0 | 1)), "{who:?} {home:?}: {report}");
        let demo = ran_there(root, who, home, &format!("cd /tmp && {program} demo"));
        assert!(text(&demo).contains("haft"), "{who:?} {home:?}: {}", text(&demo));
        // Without a key and a terminal: advice, and an exit code for failure.
        let prompt = root.shell(who, home, &format!("cd /tmp && {program} -p hello"));
        let said = String::from_utf8_lossy(&prompt.stderr).into_owned();
        assert!(prompt.status.code() == Some(2) && said.contains("haft login"), "{who:?} {home:?}: {said}");
    }
}

fn npm_in_fresh_root(out: &Path, dir: &Path) {
    if !has("npm") || !has("node") {
        return;
    }
    let node = text(&ran(Command::new("node").args(["-p", "process.execPath"])));
    let prefix = Path::new(node.trim()).parent().and_then(Path::parent).unwrap().to_owned();
    let Some(root) = fresh_root(out, &dir.join("npm-root"), std::slice::from_ref(&prefix)) else { return };
    let version = env!("CARGO_PKG_VERSION");
    let files = format!("/packages/{PLATFORM}-{version}.tgz /packages/haft-{version}.tgz");
    let install = format!(
        "export PATH={}/bin:$PATH; npm install --offline --no-audit --no-fund --cache /tmp/npm",
        prefix.display()
    );
    // System-wide, by root.
    ran_there(&root, WhoRuns::Root, None, &format!("{install} -g --prefix /opt/haft {files}"));
    let program = format!("PATH={}/bin:$PATH /opt/haft/bin/haft", prefix.display());
    first_minutes(&root, &program, "npm");
    // For a single user, in a project.
    root.home_of_nobody("home/me");
    let own = format!("cd && echo '{{\"private\": true}}' > package.json && {install} {files}");
    ran_there(&root, WhoRuns::Nobody, Some("/home/me"), &own);
    let line = format!("cd && export PATH={}/bin:$PATH && npx --offline haft --version", prefix.display());
    assert!(text(&ran_there(&root, WhoRuns::Nobody, Some("/home/me"), &line)).starts_with("haft "));
}

fn wheel_in_fresh_root(out: &Path, dir: &Path) {
    let prefix = Command::new("python3").args(["-c", "import sys; print(sys.base_prefix)"]).output();
    let Ok(prefix) = prefix else { return };
    let prefix = PathBuf::from(text(&prefix).trim());
    let python = format!("{}/bin/python3", prefix.display());
    if !Command::new(&python).args(["-m", "pip", "--version"]).output().is_ok_and(|it| it.status.success()) {
        eprintln!("SKIPPED: {python} has no pip");
        return;
    }
    let Some(root) = fresh_root(out, &dir.join("pip-root"), &[prefix]) else { return };
    let pip = "install --no-index --no-deps --disable-pip-version-check --quiet /packages/haft-*.whl";
    ran_there(&root, WhoRuns::Root, None, &format!("{python} -m venv /opt/haft && /opt/haft/bin/pip {pip}"));
    first_minutes(&root, "/opt/haft/bin/haft", "pip");
    first_minutes(&root, "/opt/haft/bin/python -m haft", "pip");
    // Wherever pip installs it, the module finds the program beside it.
    root.home_of_nobody("home/me");
    for (place, variable) in [
        ("--user --break-system-packages", ""),
        ("--target /home/me/lib", "PYTHONPATH=/home/me/lib"),
        ("--prefix /home/me/own", "PYTHONPATH=$(echo /home/me/own/lib/python3*/site-packages)"),
    ] {
        let line = format!("cd && {python} -m pip {pip} {place} && {variable} {python} -m haft --version");
        let said = text(&ran_there(&root, WhoRuns::Nobody, Some("/home/me"), &line));
        assert!(said.contains("haft "), "{place}: {said}");
    }
}

/// Returns the static binary: `HAFT_STATIC_BINARY`, or the result of `cargo xtask dist --static`.
fn static_binary() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let given = std::env::var_os("HAFT_STATIC_BINARY").map(PathBuf::from);
    let arch = std::env::consts::ARCH;
    let built = ["musl", "gnu"].map(|it| root.join(format!("target/{arch}-unknown-linux-{it}/dist/haft")));
    let found = given.into_iter().chain(built).find(|it| it.is_file());
    if found.is_none() {
        eprintln!(
            "SKIPPED: there is no static program; cargo xtask dist --static, or set HAFT_STATIC_BINARY"
        );
    }
    found
}

/// A static program runs in an empty root directory and reports what is missing; with a writable
/// directory it talks to a model.
#[test]
fn static_program_runs_in_empty_root() {
    let Some(binary) = static_binary() else { return };
    let dir = std::env::temp_dir().join(format!("haft-alone-{}", std::process::id()));
    let Some(root) = FreshRoot::make(&dir, RootMounts::Nothing) else { return };
    fs::copy(&binary, root.at("haft")).unwrap();
    let run = |args: &[&str], env: &[(&str, &str)]| {
        let output = root.command(WhoRuns::Nobody, "/haft").args(args).envs(env.iter().copied()).output();
        let output = output.unwrap();
        let said = text(&output) + &String::from_utf8_lossy(&output.stderr);
        assert!(!said.contains("panicked"), "{args:?}: {said}");
        (output.status.code(), said)
    };
    assert!(run(&["--version"], &[]).1.starts_with("haft "));
    let (code, report) = run(&["doctor", "--json"], &[]);
    assert!(code == Some(1) && report.starts_with("{\"ok\":false"), "{report}");
    let (code, said) = run(&["demo"], &[]);
    assert!(code == Some(2) && said.contains("there is no sh in PATH"), "{said}");
    let script = dir.with_extension("json");
    fs::write(&script, r#"{"turns": [{"times": "always", "reply": [{"text": "heard"}]}]}"#).unwrap();
    let mut model = Command::new(&binary)
        .args(["dev", "mock-model"])
        .arg(&script)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(model.stdout.as_mut().unwrap()), &mut line)
        .unwrap();
    let port = line.rsplit(':').next().unwrap();
    let port: String = port.chars().take_while(char::is_ascii_digit).collect();
    let ask = |address: &str| {
        let address = address.replace("PORT", &port);
        let env = [
            ("ANTHROPIC_API_KEY", "k"),
            ("ANTHROPIC_BASE_URL", address.as_str()),
            ("CLAUDE_CODE_MAX_RETRIES", "0"),
        ];
        run(&["-p", "hello"], &env)
    };
    // No directory is writable: the error names it.
    assert!(ask("http://127.0.0.1:PORT").1.contains("/tmp/"));
    fs::create_dir(root.at("tmp")).unwrap();
    ran(Command::new("chmod").arg("1777").arg(root.at("tmp")));
    assert!(ask("http://127.0.0.1:PORT").1.contains("/dev/null"));
    fs::create_dir(root.at("dev")).unwrap();
    ran(Command::new("mknod").args(["-m", "666"]).arg(root.at("dev/null")).args(["c", "1", "3"]));
    let (code, said) = ask("http://127.0.0.1:PORT");
    assert!(code == Some(0) && said.contains("heard"), "{said}");
    // Names are resolved without libraries, from a file if there is one.
    assert_eq!(ask("http://localhost:PORT").0, Some(6));
    fs::create_dir(root.at("etc")).unwrap();
    fs::write(root.at("etc/hosts"), "127.0.0.1 localhost\n").unwrap();
    let (code, said) = ask("http://localhost:PORT");
    assert!(code == Some(0) && said.contains("heard"), "{said}");
    // Without certificates there is no HTTPS; the error says what to do.
    let (code, said) = ask("https://127.0.0.1:PORT");
    assert!(code == Some(6) && said.contains("SSL_CERT_FILE"), "{said}");
    model.kill().unwrap();
    model.wait().unwrap();
    fs::remove_file(&script).unwrap();
    fs::remove_dir_all(&dir).unwrap();
}
