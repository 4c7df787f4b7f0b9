use std::fmt;

use crate::{Network, SandboxFeatures, SandboxPolicy, UnixSockets};

/// Mechanism that confines a command.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum SandboxBackend {
    /// Own namespaces and mounts, with Landlock and seccomp if the kernel supports them.
    Namespaces,
    /// Bubblewrap, with Landlock and seccomp inside.
    Bubblewrap,
    /// Landlock and seccomp.
    Landlock,
}

impl SandboxBackend {
    fn name(self) -> &'static str {
        match self {
            Self::Namespaces => "namespaces",
            Self::Bubblewrap => "bubblewrap",
            Self::Landlock => "Landlock",
        }
    }
}

/// Which parts of a policy this machine enforces.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SandboxReport {
    /// The mechanism; `None` if there is none.
    pub backend: Option<SandboxBackend>,
    /// What is enforced, one line each.
    pub enforced: Vec<String>,
    /// What the policy requires and nothing enforces, one line each.
    pub gaps: Vec<String>,
}

impl SandboxReport {
    /// Compares `policy` with the machine's features.
    pub fn new(policy: &SandboxPolicy, features: &SandboxFeatures) -> Self {
        let kernel = &features.kernel;
        let filter = kernel.seccomp.is_none();
        let backend = if kernel.namespaces.is_none() && filter {
            Some(SandboxBackend::Namespaces)
        } else if features.bubblewrap.is_some() && filter {
            Some(SandboxBackend::Bubblewrap)
        } else if 0 < kernel.landlock && filter {
            Some(SandboxBackend::Landlock)
        } else {
            None
        };
        let mut report = Self { backend, enforced: Vec::new(), gaps: Vec::new() };
        match backend {
            Some(backend) => report.fill(policy, backend, kernel.landlock),
            None => report.gaps.push(nothing(features)),
        }
        report
    }

    /// Whether the whole policy is enforced.
    pub fn is_complete(&self) -> bool {
        self.backend.is_some() && self.gaps.is_empty()
    }

    fn fill(&mut self, policy: &SandboxPolicy, backend: SandboxBackend, landlock: i64) {
        let mounts = backend != SandboxBackend::Landlock;
        self.enforced
            .push(format!("writing only below {}", list(policy.write.iter().map(|it| it.display()))));
        if !mounts {
            self.gaps.push(String::from("modes, owners and times of files elsewhere can be changed"));
        }
        if backend == SandboxBackend::Namespaces && !policy.layers.is_empty() {
            let layers = list(policy.layers.iter().map(|it| it.display()));
            self.enforced.push(format!("what is written below {layers} is for this session alone"));
        }
        let inside = |path: &std::path::Path| policy.write.iter().any(|root| path.starts_with(root));
        let (mut held, mut open) = (0, Vec::new());
        for path in policy.protect.iter().map(|it| &it.path).chain(&policy.layers) {
            if mounts || !inside(path) { held += 1 } else { open.push(path.display()) }
        }
        if 0 < held {
            self.enforced.push(format!("{held} protected paths stay as they are"));
        }
        if !open.is_empty() {
            self.gaps.push(format!(
                "{} protected paths inside writable directories, such as {}",
                open.len(),
                open[0]
            ));
        }
        let (mut held, mut open) = (0, Vec::new());
        for hidden in &policy.hide {
            if mounts || !inside(&hidden.path) { held += 1 } else { open.push(hidden.path.display()) }
        }
        if 0 < held {
            self.enforced.push(format!("{held} paths cannot be read"));
        }
        if !open.is_empty() {
            self.gaps.push(format!(
                "{} denied paths inside writable directories, such as {}, can be read",
                open.len(),
                open[0]
            ));
        }
        self.fill_network(policy, backend);
        self.fill_sockets(policy, backend);
        if 6 <= landlock {
            self.enforced.push(String::from("processes outside cannot be signalled or looked into"));
        } else {
            self.gaps.push(String::from("processes outside can be signalled"));
        }
    }

    fn fill_sockets(&mut self, policy: &SandboxPolicy, backend: SandboxBackend) {
        match &policy.sockets {
            UnixSockets::All => {}
            UnixSockets::Own => {
                self.enforced.push(String::from("Unix sockets of the machine cannot be opened"));
            }
            UnixSockets::Listed(_) if backend == SandboxBackend::Landlock => {
                self.gaps.push(String::from("Unix sockets other than the allowed ones can be opened"));
            }
            UnixSockets::Listed(allowed) => {
                let allowed = list(allowed.iter().map(|it| it.display()));
                self.enforced.push(format!("Unix sockets other than {allowed} are out of reach"));
                self.gaps.push(String::from("Unix sockets made while a command runs can be opened"));
            }
        }
    }

    fn fill_network(&mut self, policy: &SandboxPolicy, backend: SandboxBackend) {
        let line = match (&policy.network, backend) {
            (Network::Open, _) => return,
            (Network::Off, SandboxBackend::Namespaces) => "no network but servers of confined commands",
            (Network::Off, SandboxBackend::Bubblewrap) => "no network, and no servers that outlive a command",
            (Network::Off, SandboxBackend::Landlock) => "no network, not even between confined commands",
            (Network::Domains(_), SandboxBackend::Namespaces) => "only allowed domains, through a proxy",
            (Network::Domains(_), _) => "no network: there is no proxy for allowed domains here",
        };
        self.enforced.push(line.to_owned());
    }
}

fn nothing(features: &SandboxFeatures) -> String {
    let kernel = &features.kernel;
    let said = |why: &Option<String>| why.clone().unwrap_or_else(|| String::from("available"));
    format!(
        "commands cannot be confined here: namespaces: {}; bubblewrap: {}; Landlock: {}; system call filter: {}",
        said(&kernel.namespaces),
        features.bubblewrap.as_ref().map_or("none", |_| "available"),
        if kernel.landlock == 0 { "none" } else { "available" },
        said(&kernel.seccomp),
    )
}

fn list(items: impl Iterator<Item = impl fmt::Display>) -> String {
    items.map(|it| it.to_string()).collect::<Vec<_>>().join(", ")
}

impl fmt::Display for SandboxReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.backend {
            Some(backend) => writeln!(f, "Commands are confined by {}:", backend.name())?,
            None => writeln!(f, "Commands are not confined:")?,
        }
        for line in &self.enforced {
            writeln!(f, "  enforced: {line}")?;
        }
        for line in &self.gaps {
            writeln!(f, "  NOT enforced: {line}")?;
        }
        Ok(())
    }
}
