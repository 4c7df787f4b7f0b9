//! Packages for several architectures, made from fake programs that consist of an ELF header only. The
//! architecture is read from it, so no cross compiler is needed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr, missing_docs, reason = "test code")]

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

const VERSION: &str = env!("CARGO_PKG_VERSION");
const RELEASES: &str = "https://releases.example/haft";
const X86: u16 = 62;
const ARM: u16 = 183;

/// A fake program that prints manual and completions.
const PAGES: &str = r#"#!/bin/sh
case "$1" in
  completions) echo "completions for $2" ;;
  dev) echo "the manual" > "$3/haft.1" ;;
esac
"#;

/// An ELF header with one segment, and the highest glibc version required.
fn program(machine: u16, needs: Option<&str>) -> Vec<u8> {
    let mut bytes = vec![0_u8; 120];
    bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
    bytes[16] = 3;
    bytes[18..20].copy_from_slice(&machine.to_le_bytes());
    (bytes[32], bytes[54], bytes[56]) = (64, 56, 1);
    bytes[64] = if needs.is_some() { 3 } else { 1 };
    bytes.extend(needs.unwrap_or_default().as_bytes());
    bytes
}

/// A header with one byte changed.
fn changed(at: usize, to: u8) -> Vec<u8> {
    let mut bytes = program(X86, None);
    bytes[at] = to;
    bytes
}

struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("haft-machines-{name}-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let place = Self(dir);
        place.script("pages", PAGES);
        place
    }

    fn file(&self, name: &str, content: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, content).unwrap();
        path
    }

    fn script(&self, name: &str, content: &str) {
        let path = self.file(name, content.as_bytes());
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Packages these binaries, with the script for the pages.
    fn dist(&self, out: &str, binaries: &[&Path]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
        command.args(["dist", "--releases", RELEASES, "--pages"]).arg(self.0.join("pages"));
        for binary in binaries {
            command.arg("--binary").arg(binary);
        }
        command.arg("--out").arg(self.0.join(out)).output().unwrap()
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.0.join(name)).unwrap_or_else(|err| panic!("{name}: {err}"))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout)
}

fn has(program: &str) -> bool {
    let there =
        Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    if !there {
        eprintln!("SKIPPED: {program} is not on this machine");
    }
    there
}

fn sum(sums: &str, name: &str) -> String {
    let line = sums.lines().find(|line| line.ends_with(&format!("  {name}")));
    line.unwrap_or_else(|| panic!("no {name} in {sums}")).split(' ').next().unwrap().to_owned()
}

#[test]
fn packages_are_named_by_program_architecture() {
    if !has("npm") {
        return;
    }
    let place = Place::new("names");
    for (machine, needs, npm, deb, wheel, target, brew) in [
        (
            X86,
            None,
            "x64",
            "amd64",
            "manylinux_2_17_x86_64.musllinux_1_1_x86_64",
            "x86_64-linux-static",
            "x86_64",
        ),
        (X86, Some("GLIBC_2.31"), "x64", "amd64", "manylinux_2_31_x86_64", "x86_64-linux-gnu", "x86_64"),
        (
            ARM,
            None,
            "arm64",
            "arm64",
            "manylinux_2_17_aarch64.musllinux_1_1_aarch64",
            "aarch64-linux-static",
            "arm64",
        ),
        (ARM, Some("GLIBC_2.34"), "arm64", "arm64", "manylinux_2_34_aarch64", "aarch64-linux-gnu", "arm64"),
    ] {
        let bytes = program(machine, needs);
        let output = place.dist(target, &[&place.file("given", &bytes)]);
        assert!(output.status.success(), "{target}: {}", said(&output));
        let sums = place.text(&format!("{target}/SHA256SUMS"));
        let names: Vec<&str> = sums.lines().map(|line| line.rsplit(' ').next().unwrap()).collect();
        let archive = format!("haft-{VERSION}-{target}.tar.gz");
        let mut wanted = vec![
            archive.clone(),
            format!("haft-{VERSION}-py3-none-{wheel}.whl"),
            format!("haft-{VERSION}.tgz"),
            format!("haft-linux-{npm}-{VERSION}.tgz"),
            format!("haft_{VERSION}_{deb}.deb"),
        ];
        wanted.sort();
        assert_eq!(names, wanted);
        let about = place.text(&format!("{target}/npm/haft-linux-{npm}/package.json"));
        let about: serde_json::Value = serde_json::from_str(&about).unwrap();
        assert_eq!(
            (&about["cpu"][0], about.get("libc").is_some()),
            (&npm.into(), needs.is_some()),
            "{target}"
        );
        let main = place.text(&format!("{target}/npm/haft/package.json"));
        let main: serde_json::Value = serde_json::from_str(&main).unwrap();
        let programs = serde_json::json!({format!("haft-linux-{npm}"): VERSION});
        assert_eq!(main["optionalDependencies"], programs, "{target}");
        if has("dpkg-deb") {
            let package = place.0.join(target).join(format!("haft_{VERSION}_{deb}.deb"));
            let about =
                Command::new("dpkg-deb").args(["-f"]).arg(package).arg("Architecture").output().unwrap();
            assert_eq!(String::from_utf8_lossy(&about.stdout).trim(), deb, "{target}");
        }
        // The only architecture; Homebrew rejects others.
        let formula = place.text(&format!("{target}/homebrew/haft.rb"));
        for line in [
            format!("  url \"{RELEASES}/{archive}\"\n"),
            format!("  sha256 \"{}\"\n", sum(&sums, &archive)),
            format!("  depends_on arch: :{brew}\n"),
        ] {
            assert!(formula.contains(&line) && !formula.contains('@'), "{line}: {formula}");
        }
        let inside =
            ["haft", "completions/_haft", "man/haft.1"].map(|it| format!("haft-{VERSION}-{target}/{it}"));
        let mut tar = Command::new("tar");
        let packed =
            tar.arg("xzOf").arg(place.0.join(target).join(&archive)).args(inside).output().unwrap().stdout;
        assert_eq!(packed, [&bytes[..], b"completions for zsh\n", b"the manual\n"].concat(), "{target}");
    }
}

#[test]
fn installers_select_program_by_architecture() {
    if !has("npm") {
        return;
    }
    let place = Place::new("both");
    let x86 = place.file("one", &program(X86, Some("GLIBC_2.31")));
    let arm = place.file("two", &program(ARM, Some("GLIBC_2.34")));
    let output = place.dist("out", &[&arm, &x86]);
    assert!(output.status.success(), "{}", said(&output));
    let sums = place.text("out/SHA256SUMS");
    // The order of arguments has no effect.
    assert!(place.dist("again", &[&x86, &arm]).status.success());
    assert_eq!(sums, place.text("again/SHA256SUMS"));
    let main: serde_json::Value = serde_json::from_str(&place.text("out/npm/haft/package.json")).unwrap();
    let programs = serde_json::json!({"haft-linux-x64": VERSION, "haft-linux-arm64": VERSION});
    assert_eq!(main["optionalDependencies"], programs);
    let (formula, action) = (place.text("out/homebrew/haft.rb"), place.text("out/action/action.yml"));
    assert!(!formula.contains('@') && !formula.contains("depends_on arch"), "{formula}");
    for (machine, processor, given) in [("x86_64", "intel", &x86), ("aarch64", "arm", &arm)] {
        let archive = format!("haft-{VERSION}-{machine}-linux-gnu.tar.gz");
        let sum = sum(&sums, &archive);
        let block =
            format!("  on_{processor} do\n    url \"{RELEASES}/{archive}\"\n    sha256 \"{sum}\"\n  end\n");
        assert!(formula.contains(&block), "{block}: {formula}");
        let case = format!("          {machine}) archive=\"{archive}\" released={sum} ;;\n");
        assert!(action.contains(&case), "{case}: {action}");
        assert!(place.text("out/container/Dockerfile").contains(&format!("-{machine}-linux-gnu\n")));
        // The installer of the container feature accepts only the archive for its machine.
        for (other, is_taken) in [("x86_64", machine == "x86_64"), ("aarch64", machine == "aarch64")] {
            let to = place.0.join(format!("to-{machine}-{other}"));
            let url = place.0.join(format!("out/haft-{VERSION}-{other}-linux-gnu.tar.gz"));
            let output = install(&place, machine, &to, &url.display().to_string());
            let is_there = fs::read(to.join("bin/haft")).is_ok_and(|it| it == fs::read(given).unwrap());
            assert_eq!(is_there, is_taken, "{machine}, {other}: {}", said(&output));
        }
    }
    let output = install(&place, "riscv64", &place.0.join("to"), "");
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("there is no program for riscv64 yet"), "{}", said(&output));
}

/// Runs the installer with a fake `uname` that reports this machine.
fn install(place: &Place, machine: &str, to: &Path, url: &str) -> Output {
    let bin = place.0.join("bin");
    fs::create_dir_all(&bin).unwrap();
    place.script("bin/uname", &format!("#!/bin/sh\necho {machine}\n"));
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let mut command = Command::new("sh");
    command.arg(place.0.join("out/devcontainer/haft/install.sh")).env("PATH", path);
    command.env("URL", url).env("PREFIX", to).env_remove("SHA256").output().unwrap()
}

#[test]
fn unsupported_binaries_are_rejected() {
    let place = Place::new("refused");
    for (bytes, wanted) in [
        (b"#!/bin/sh\n".to_vec(), "is no program for Linux"),
        (program(X86, None)[..19].to_vec(), "is no program for Linux"),
        (changed(4, 1), "is no program for a 64-bit little-endian machine"),
        (changed(5, 2), "is no program for a 64-bit little-endian machine"),
        (changed(16, 1), "is no program that can be run"),
        (program(243, None), "number 243 of ELF; known are x86_64 and aarch64"),
    ] {
        let output = place.dist("out", &[&place.file("given", &bytes)]);
        assert!(!output.status.success() && said(&output).contains(wanted), "{wanted}: {}", said(&output));
    }
    let (one, two) =
        (place.file("one", &program(ARM, None)), place.file("two", &program(ARM, Some("GLIBC_2.34"))));
    let output = place.dist("out", &[&one, &two]);
    assert!(!output.status.success() && said(&output).contains("are both for aarch64"), "{}", said(&output));
    let xtask = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
        let output = command.arg("dist").args(args).env("PATH", "").output().unwrap();
        assert!(!output.status.success(), "{args:?}: {}", said(&output));
        said(&output)
    };
    let text = xtask(&["--target", "riscv64gc-unknown-linux-gnu"]);
    assert!(
        text.contains("nothing is packaged for riscv64gc") && text.contains("aarch64-unknown-linux-gnu"),
        "{text}"
    );
    // Its manual cannot be generated here.
    let foreign = if cfg!(target_arch = "aarch64") { X86 } else { ARM };
    let given = place.file("given", &program(foreign, None));
    let text = xtask(&["--binary", given.to_str().unwrap(), "--out", place.0.to_str().unwrap()]);
    assert!(text.contains("does not run here") && text.contains("--pages"), "{text}");
}

/// A fake cargo: records its arguments, and creates the program.
const CARGO: &str = r#"#!/bin/sh
for target; do :; done
echo "$*|$RUSTFLAGS|${CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER:-}|${CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_LINKER:-}" >> "$ASKED"
mkdir -p "$CARGO_TARGET_DIR/$target/dist"
cp "$MADE/$target" "$CARGO_TARGET_DIR/$target/dist/haft"
"#;

#[test]
fn installed_targets_are_built() {
    if !has("npm") {
        return;
    }
    let place = Place::new("targets");
    let (x86, arm) = ("x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu");
    for (target, machine) in [(x86, X86), (arm, ARM)] {
        fs::create_dir_all(place.0.join("sysroot/lib/rustlib").join(target).join("lib")).unwrap();
        place.file(target, &program(machine, Some("GLIBC_2.34")));
    }
    fs::create_dir_all(place.0.join("bin")).unwrap();
    place.script("cargo", CARGO);
    let usual = std::env::var("PATH").unwrap();
    let sysroot = place.0.join("sysroot").display().to_string();
    place.script(
        "bin/rustc",
        &format!(
            "#!/bin/sh\n[ \"$1\" = --print ] && exec echo {sysroot}\nPATH='{usual}'; exec rustc \"$@\"\n"
        ),
    );
    let path = format!("{}/bin:{usual}", place.0.display());
    let xtask = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
        command.arg("dist").args(args).arg("--pages").arg(place.0.join("pages"));
        command.arg("--out").arg(place.0.join("out")).env("PATH", &path).env("CARGO", place.0.join("cargo"));
        command.env("CARGO_TARGET_DIR", place.0.join("made")).env("MADE", &place.0);
        command.env("ASKED", place.0.join("asked")).output().unwrap()
    };
    let output = xtask(&["--static", "--target", arm, "--target", x86]);
    assert!(output.status.success(), "{}", said(&output));
    let asked = place.text("asked");
    let lines: Vec<Vec<&str>> = asked.lines().map(|line| line.split('|').collect()).collect();
    for (line, target) in lines.iter().zip([arm, x86]) {
        assert!(
            line[0].ends_with(&format!("--profile dist -p haft-cli --bin haft --target {target}")),
            "{asked}"
        );
        assert!(line[1].contains("+crt-static"), "{asked}");
        // Cross compilation uses the target's own compiler as linker.
        let is_foreign = !target.starts_with(std::env::consts::ARCH);
        let machine = target.split('-').next().unwrap();
        let linker = if target == arm { line[2] } else { line[3] };
        let wanted = if is_foreign { format!("{machine}-linux-gnu-gcc") } else { String::new() };
        assert!(
            linker == wanted || std::env::vars().any(|(name, _)| name.ends_with("_GNU_LINKER")),
            "{asked}"
        );
    }
    let sums = place.text("out/SHA256SUMS");
    for name in [format!("haft_{VERSION}_amd64.deb"), format!("haft_{VERSION}_arm64.deb")] {
        assert_eq!(sum(&sums, &name).len(), 64);
    }
    let output = xtask(&["--target", "aarch64-unknown-linux-musl"]);
    let wanted =
        "Rust for aarch64-unknown-linux-musl is not installed: rustup target add aarch64-unknown-linux-musl";
    assert!(!output.status.success() && said(&output).contains(wanted), "{}", said(&output));
}

#[test]
fn npm_script_supports_packaged_architectures() {
    if !has("node") {
        return;
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/npm/haft.js");
    for (platform, machine, wanted) in [
        ("linux", "x64", "the package haft-linux-x64 is missing"),
        ("linux", "arm64", "the package haft-linux-arm64 is missing"),
        ("linux", "riscv64", "there is no program for linux on riscv64 yet"),
        ("darwin", "arm64", "there is no program for darwin on arm64 yet"),
        ("win32", "x64", "there is no program for win32 on x64 yet"),
    ] {
        let code = "const [platform, arch, script] = process.argv.slice(1);\
            Object.defineProperty(process, 'platform', {value: platform});\
            Object.defineProperty(process, 'arch', {value: arch});\
            require(script);";
        let output =
            Command::new("node").args(["-e", code, platform, machine]).arg(&script).output().unwrap();
        let text = said(&output);
        assert!(output.status.code() == Some(1) && text.contains(wanted), "{platform} {machine}: {text}");
    }
}
