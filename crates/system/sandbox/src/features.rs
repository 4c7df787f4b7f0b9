use std::{
    ffi::CString,
    path::{Path, PathBuf},
    time::Duration,
};

use serde::{Deserialize, Serialize};

use haft_process::{OutputCapture, ProcessOwner};

use crate::helper_request::HELPER;

/// What the kernel lets us do, as the helper found out by trying.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct KernelFeatures {
    /// The version of Landlock; zero for none.
    pub landlock: i64,
    /// What keeps us from namespaces of our own; nothing if this is empty.
    pub namespaces: Option<String>,
    /// What keeps us from filtering system calls; nothing if this is empty.
    pub seccomp: Option<String>,
}

/// What the machine offers for confining commands.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SandboxFeatures {
    /// The kernel's part.
    pub kernel: KernelFeatures,
    /// Where bubblewrap is, if it works.
    pub bubblewrap: Option<PathBuf>,
}

/// Says which features to do without, separated by commas: `landlock`,
/// `namespaces`, `seccomp`, `bubblewrap`. For trying out other machines.
pub const WITHOUT: &str = "HAFT_SANDBOX_WITHOUT";

/// Where bubblewrap is taken from: never from a directory of the workspace.
const PLACES: [&str; 3] = ["/usr/bin/bwrap", "/bin/bwrap", "/usr/local/bin/bwrap"];

/// How long finding out may take.
const TIMEOUT: Duration = Duration::from_secs(10);

impl SandboxFeatures {
    /// Finds out. Blocks for as long as a few processes take to start.
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
        // Only asked for when it is needed: it takes a while.
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
