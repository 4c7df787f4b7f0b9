use std::{
    ffi::CString,
    path::{Path, PathBuf},
    time::Duration,
};

use serde::{Deserialize, Serialize};

use haft_process::{OutputCapture, ProcessOwner};

use crate::helper_request::HELPER;

/// Kernel support as determined by the helper, which tries each feature.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct KernelFeatures {
    /// Landlock ABI version; zero if unsupported.
    pub landlock: i64,
    /// Why we cannot create namespaces; `None` if we can.
    pub namespaces: Option<String>,
    /// Why we cannot install seccomp filters; `None` if we can.
    pub seccomp: Option<String>,
}

/// Sandbox features of the machine.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SandboxFeatures {
    pub kernel: KernelFeatures,
    /// Path of bubblewrap, if it works.
    pub bubblewrap: Option<PathBuf>,
}

/// Environment variable with features not to use, comma-separated: `landlock`, `namespaces`, `seccomp`,
/// `bubblewrap`. Simulates other machines.
pub const WITHOUT: &str = "HAFT_SANDBOX_WITHOUT";

/// Paths of bubblewrap: never in a workspace.
const PLACES: [&str; 3] = ["/usr/bin/bwrap", "/bin/bwrap", "/usr/local/bin/bwrap"];

/// Maximum time for probing.
const TIMEOUT: Duration = Duration::from_secs(10);

impl SandboxFeatures {
    /// Probes the machine. Starts a few processes and blocks until they exit.
    pub fn probe(helper: &Path, without: &str, bubblewrap: Option<&Path>) -> Self {
        let owner = ProcessOwner::unrecorded("sandbox");
        let told = ask(&owner, helper, &[HELPER, "probe"]);
        let kernel: Option<KernelFeatures> = told.and_then(|text| serde_json::from_slice(&text).ok());
        let mut kernel = kernel.unwrap_or_else(|| {
            let why = format!("the helper {} did not answer", helper.display());
            KernelFeatures { landlock: 0, namespaces: Some(why.clone()), seccomp: Some(why) }
        });
        let lacks = |name: &str| without.split(',').any(|it| it.trim() == name);
        let switched_off = || Some(String::from("switched off"));
        if lacks("landlock") {
            kernel.landlock = 0;
        }
        if lacks("namespaces") {
            kernel.namespaces = switched_off();
        }
        if lacks("seccomp") {
            kernel.seccomp = switched_off();
        }
        let places = bubblewrap.map(Path::to_owned).into_iter().chain(PLACES.map(PathBuf::from));
        let works = |place: &PathBuf| {
            let arguments =
                ["--unshare-user", "--unshare-net", "--ro-bind", "/", "/", "/bin/sh", "-c", "echo ok >&9"];
            place.is_file() && ask(&owner, place, &arguments).is_some_and(|told| told == b"ok\n")
        };
        // Probed only when needed, because it is slow.
        let needed = kernel.namespaces.is_some() && !lacks("bubblewrap");
        let bubblewrap = places.filter(|_| needed).find(works);
        Self { kernel, bubblewrap }
    }
}

fn ask(owner: &ProcessOwner, program: &Path, arguments: &[&str]) -> Option<Vec<u8>> {
    let path = CString::new("PATH=/usr/bin:/bin").ok()?;
    let collect = OutputCapture {
        call: "sandbox-probe",
        program,
        arguments,
        environment: &[path],
        directory: Path::new("/"),
        dump: 9,
        input: Vec::new(),
        patience: TIMEOUT,
    };
    collect.run(owner).ok().map(|it| it.dump)
}
