//! `haft update`: finds out how this program was installed and prints the command that updates it. It
//! changes nothing itself, because that would conflict with the package manager.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use haft_console::{
    GlobalArgs,
    stdout::{CommandExit, print_line},
};
use serde_json::json;

/// How the program was installed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct InstallChannel {
    pub(crate) name: &'static str,
    /// The command that updates it; `None` if unknown.
    pub(crate) update: Option<&'static str>,
}

/// Path fragment → installation channel. The first match wins.
const BY_PATH: [(&str, InstallChannel); 7] = [
    ("/lib/node_modules/", InstallChannel { name: "npm", update: Some("npm install -g haft@latest") }),
    // Installed in a project, and updated there.
    ("/node_modules/", InstallChannel { name: "npm", update: Some("npm install haft@latest") }),
    ("/site-packages/", InstallChannel { name: "pip", update: Some("pip install --upgrade haft") }),
    ("/uv/tools/", InstallChannel { name: "uv", update: Some("uv tool upgrade haft") }),
    ("/Cellar/", InstallChannel { name: "homebrew", update: Some("brew upgrade haft") }),
    ("/.cargo/bin/", InstallChannel { name: "cargo", update: Some("cargo install haft-cli --locked") }),
    ("/nix/store/", InstallChannel { name: "nix", update: Some("nix profile upgrade haft") }),
];

impl InstallChannel {
    /// The channel of the program at this path. `owned_by_dpkg` says whether dpkg installed it; `beside`
    /// tells whether a file exists.
    pub(crate) fn detect(program: &Path, owned_by_dpkg: bool, beside: &dyn Fn(&Path) -> bool) -> Self {
        let text = program.display().to_string();
        if let Some((_, channel)) = BY_PATH.iter().find(|(part, _)| text.contains(part)) {
            return *channel;
        }
        if owned_by_dpkg {
            return Self { name: "deb", update: Some("sudo apt-get install --only-upgrade haft") };
        }
        // A Python wheel installs the program into the environment's `bin`, beside `python3`.
        if program.parent().is_some_and(|bin| beside(&bin.join("python3")) || beside(&bin.join("python"))) {
            return Self { name: "pip", update: Some("pip install --upgrade haft") };
        }
        if text.contains("/target/debug/") || text.contains("/target/release/") {
            return Self { name: "source", update: Some("git pull && cargo build --release") };
        }
        Self { name: "file", update: None }
    }

    /// The channel of the running program, and its path.
    pub(crate) fn here() -> (Self, PathBuf) {
        let program = std::env::current_exe().and_then(|it| it.canonicalize()).unwrap_or_default();
        let owned = std::fs::read_to_string("/var/lib/dpkg/info/haft.list")
            .is_ok_and(|list| list.lines().any(|line| Path::new(line) == program));
        // `/usr/bin` also contains `python3`, but is not a virtual environment.
        let in_system = program.starts_with("/usr/bin") || program.starts_with("/usr/local/bin");
        (Self::detect(&program, owned, &|path| !in_system && path.exists()), program)
    }
}

/// `haft --version --json`: version, target, installation channel and protocol versions, for programs
/// that start Haft.
pub(crate) fn version_json() -> CommandExit {
    let (channel, program) = InstallChannel::here();
    let target = format!("{}-{}", std::env::consts::ARCH, std::env::consts::OS);
    let line = json!({
        "version": env!("CARGO_PKG_VERSION"), "target": target, "channel": channel.name, "program": program,
        "protocols": {"acp": crate::run::acp::PROTOCOLS, "mcp": haft_mcp_client::protocol_versions()},
    });
    print_line(&line.to_string())?;
    Ok(ExitCode::SUCCESS)
}

/// The update command for a program that cargo installed from a local directory (no registry has it);
/// `None` otherwise.
fn from_source(channel: InstallChannel, program: &Path) -> Option<String> {
    if channel.name != "cargo" {
        return None;
    }
    let dir = cargo_source(program)?;
    let dir = dir.display();
    Some(format!("git -C '{dir}' pull && cargo install --path '{dir}' --locked"))
}

/// The source directory cargo installed this program from, if it did.
pub(crate) fn cargo_source(program: &Path) -> Option<PathBuf> {
    let list = std::fs::read_to_string(program.parent()?.parent()?.join(".crates.toml")).ok()?;
    source_dir(&list).map(PathBuf::from)
}

/// Finds the source directory of this program in cargo's `.crates.toml`.
fn source_dir(list: &str) -> Option<&str> {
    let entry = list.lines().find(|line| line.starts_with("\"haft-cli "))?;
    let (_, rest) = entry.split_once("(path+file://")?;
    Some(rest.split_once(')')?.0).filter(|dir| !dir.contains(['\'', '%']))
}

pub(crate) fn run(options: &GlobalArgs) -> CommandExit {
    let (channel, program) = InstallChannel::here();
    let version = env!("CARGO_PKG_VERSION");
    let update = from_source(channel, &program).or_else(|| channel.update.map(str::to_owned));
    if options.json {
        let line = json!({
            "version": version, "channel": channel.name, "program": program, "command": update,
        });
        print_line(&line.to_string())?;
        return Ok(ExitCode::SUCCESS);
    }
    print_line(&format!("haft {version} from {} ({})", channel.name, program.display()))?;
    print_line(&match update {
        Some(command) => format!("To update: {command}"),
        None => String::from("It is a file somebody put there: replace it the way it came."),
    })?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_told_from_a_registry() {
        let registry = "[v1]\n\"haft-cli 0.1.0 (registry+https://index.test/)\" = [\"haft\"]\n";
        let path = "[v1]\n\"bat 1.0.0 (path+file:///b)\" = [\"bat\"]\n\"haft-cli 0.1.0 (path+file:///a/cli)\" = [\"haft\"]\n";
        assert_eq!((source_dir(registry), source_dir(path)), (None, Some("/a/cli")));
    }

    #[test]
    fn the_way_it_came_is_told_by_where_it_lies() {
        for (path, dpkg, want) in [
            ("/usr/lib/node_modules/haft/node_modules/haft-linux-x64/bin/haft", false, "npm"),
            ("/home/a/.cargo/bin/haft", false, "cargo"),
            ("/opt/homebrew/Cellar/haft/0.1.0/bin/haft", false, "homebrew"),
            ("/home/a/.local/share/uv/tools/haft/bin/haft", false, "uv"),
            ("/home/a/venv/bin/haft", false, "pip"),
            ("/usr/bin/haft", true, "deb"),
            ("/home/a/haft/target/debug/haft", false, "source"),
            ("/opt/haft", false, "file"),
        ] {
            let beside = |it: &Path| it == Path::new("/home/a/venv/bin/python3");
            assert_eq!(InstallChannel::detect(Path::new(path), dpkg, &beside).name, want, "{path}");
        }
        for (path, want) in [
            ("/usr/lib/node_modules/haft/node_modules/haft-linux-x64/bin/haft", "npm install -g haft@latest"),
            ("/home/a/site/node_modules/haft-linux-x64/bin/haft", "npm install haft@latest"),
            ("/home/a/site/node_modules/haft-linux-arm64/bin/haft", "npm install haft@latest"),
        ] {
            assert_eq!(
                InstallChannel::detect(Path::new(path), false, &|_| false).update,
                Some(want),
                "{path}"
            );
        }
    }
}
