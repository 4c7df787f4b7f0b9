//! `haft update`: which way this program came, and the command that brings a
//! newer one. It changes nothing: package managers do not like to be helped.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use haft_console::{
    GlobalArgs,
    stdout::{CommandExit, print_line},
};
use serde_json::json;

/// The way a program came.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct InstallChannel {
    pub(crate) name: &'static str,
    /// What brings a newer one; `None` where nobody can know.
    pub(crate) update: Option<&'static str>,
}

/// Ways to tell a channel by where the program lies. The first that fits counts.
const BY_PATH: [(&str, InstallChannel); 7] = [
    ("/lib/node_modules/", InstallChannel { name: "npm", update: Some("npm install -g haft@latest") }),
    // In a project, and brought up to date there.
    ("/node_modules/", InstallChannel { name: "npm", update: Some("npm install haft@latest") }),
    ("/site-packages/", InstallChannel { name: "pip", update: Some("pip install --upgrade haft") }),
    ("/uv/tools/", InstallChannel { name: "uv", update: Some("uv tool upgrade haft") }),
    ("/Cellar/", InstallChannel { name: "homebrew", update: Some("brew upgrade haft") }),
    ("/.cargo/bin/", InstallChannel { name: "cargo", update: Some("cargo install haft-cli --locked") }),
    ("/nix/store/", InstallChannel { name: "nix", update: Some("nix profile upgrade haft") }),
];

impl InstallChannel {
    /// The channel of the program at this path. `owned_by_dpkg` says whether the
    /// package manager of the system put it there; `beside` whether a file exists.
    pub(crate) fn detect(program: &Path, owned_by_dpkg: bool, beside: &dyn Fn(&Path) -> bool) -> Self {
        let text = program.display().to_string();
        if let Some((_, channel)) = BY_PATH.iter().find(|(part, _)| text.contains(part)) {
            return *channel;
        }
        if owned_by_dpkg {
            return Self { name: "deb", update: Some("sudo apt-get install --only-upgrade haft") };
        }
        // A wheel puts the program into `bin` of its environment.
        if program.parent().is_some_and(|bin| beside(&bin.join("python3")) || beside(&bin.join("python"))) {
            return Self { name: "pip", update: Some("pip install --upgrade haft") };
        }
        if text.contains("/target/debug/") || text.contains("/target/release/") {
            return Self { name: "source", update: Some("git pull && cargo build --release") };
        }
        Self { name: "file", update: None }
    }

    /// The channel of this program.
    pub(crate) fn here() -> (Self, PathBuf) {
        let program = std::env::current_exe().and_then(|it| it.canonicalize()).unwrap_or_default();
        let owned = std::fs::read_to_string("/var/lib/dpkg/info/haft.list")
            .is_ok_and(|list| list.lines().any(|line| Path::new(line) == program));
        // `/usr/bin` has a python of its own, and is no environment.
        let in_system = program.starts_with("/usr/bin") || program.starts_with("/usr/local/bin");
        (Self::detect(&program, owned, &|path| !in_system && path.exists()), program)
    }
}

/// `haft --version --json`: what programs want to know before they start it.
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

/// What cargo installed from a directory comes from there again: no registry has it.
fn from_source(channel: InstallChannel, program: &Path) -> Option<String> {
    if channel.name != "cargo" {
        return None;
    }
    let dir = cargo_source(program)?;
    let dir = dir.display();
    Some(format!("git -C '{dir}' pull && cargo install --path '{dir}' --locked"))
}

/// The directory that cargo installed this program from, if it did.
pub(crate) fn cargo_source(program: &Path) -> Option<PathBuf> {
    let list = std::fs::read_to_string(program.parent()?.parent()?.join(".crates.toml")).ok()?;
    source_dir(&list).map(PathBuf::from)
}

/// The directory that cargo's list of what it installed names for this program.
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
