//! Runs git command lines to completion.

use std::{ffi::CString, path::Path, sync::Arc, time::Duration};

use haft_process::{OutputCapture, ProcessOwner, environment_entry};
use haft_types::EnvVars;

/// Timeout; checking out a large repository takes long.
const TIMEOUT: Duration = Duration::from_secs(600);

/// Environment variables that redirect git; removed.
const POINTERS: &str = "GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE GIT_OBJECT_DIRECTORY \
    GIT_ALTERNATE_OBJECT_DIRECTORIES GIT_CONFIG_PARAMETERS GIT_CONFIG_COUNT GIT_CONFIG GIT_EXTERNAL_DIFF \
    GIT_NAMESPACE GIT_COMMON_DIR GIT_PREFIX GIT_ATTR_SOURCE";

/// Runs git.
pub(crate) struct GitRunner {
    owner: Arc<ProcessOwner>,
    environment: Vec<CString>,
}

/// Output and exit code of a git command line.
#[derive(Debug)]
pub(crate) struct GitOutput {
    pub(crate) code: i32,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
}

impl GitOutput {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).trim().to_owned()
    }

    /// The output; an error if the command failed.
    pub(crate) fn checked(self, what: &str) -> Result<Self, String> {
        match self.code {
            0 => Ok(self),
            _ => Err(format!("{what}: {}", haft_types::text::head(self.stderr.trim(), 1_000))),
        }
    }
}

impl GitRunner {
    pub(crate) fn new(owner: Arc<ProcessOwner>, variables: &EnvVars) -> Self {
        let inherited = variables.iter().filter_map(|(name, value)| environment_entry(name, value));
        let own = haft_git::variables();
        let own = own.iter().filter_map(|(name, value)| environment_entry(name.as_ref(), value.as_ref()));
        let mut environment: Vec<CString> = own.collect();
        let name_of = |entry: &CString| {
            entry.as_bytes().split(|it| *it == b'=').next().map(<[u8]>::to_vec).unwrap_or_default()
        };
        let set: Vec<Vec<u8>> = environment.iter().map(name_of).collect();
        environment.extend(inherited.filter(|entry| !set.contains(&name_of(entry))));
        Self { owner, environment }
    }

    /// Runs a command line in a directory. Blocks.
    pub(crate) fn run(&self, dir: &Path, line: &str) -> Result<GitOutput, String> {
        self.feed(dir, line, Vec::new())
    }

    /// Runs a command line with standard input. Blocks.
    pub(crate) fn feed(&self, dir: &Path, line: &str, input: Vec<u8>) -> Result<GitOutput, String> {
        if !dir.is_dir() {
            return Err(format!("{} is no directory", dir.display()));
        }
        let script = format!("unset {POINTERS}; {{ {line}\n}} >&3; code=$?; printf '\\000%d' \"$code\" >&3");
        let collect = OutputCapture {
            call: "worktree",
            program: Path::new("/bin/sh"),
            arguments: &["-c", &script],
            environment: &self.environment,
            directory: dir,
            dump: 3,
            input,
            patience: TIMEOUT,
        };
        let said = collect.run(&self.owner).map_err(|err| format!("git cannot be run: {err}"))?;
        let stderr = String::from_utf8_lossy(&said.errors).into_owned();
        let end = said.dump.iter().rposition(|it| *it == 0);
        let code = end.and_then(|at| std::str::from_utf8(&said.dump[at + 1..]).ok()?.parse().ok());
        match (end, code) {
            (Some(end), Some(code)) => {
                let mut stdout = said.dump;
                stdout.truncate(end);
                Ok(GitOutput { code, stdout, stderr })
            }
            _ if said.timed_out => Err(String::from("git took too long")),
            _ => Err(format!("git did not come to an end: {}", haft_types::text::head(stderr.trim(), 500))),
        }
    }
}
