use std::{
    ffi::{CStr, CString, OsStr, OsString},
    fs::{DirBuilder, File},
    io::{self, Write as _},
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::{ffi::OsStrExt as _, fs::DirBuilderExt as _},
    },
    path::{Path, PathBuf},
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use haft_process::SpawnRequest;
use rustix::{
    fs::MemfdFlags,
    process::{WaitId, WaitIdOptions, waitid},
};

use crate::{
    Domains, Lookup, Network, SandboxBackend, SandboxFeatures, SandboxPolicy, SandboxReport, SystemLookup,
    WITHOUT, bubblewrap,
    helper_request::{HELPER, HelperMechanism, HelperNetwork, Order, OverlayLayer},
    layers::{HeldLayers, LayerStore},
    net_namespace::NetNamespace,
    placeholders::{PlaceholderGuard, Placeholders},
    unix_sockets,
};

/// Environment variables that redirect caches of package managers and compilers, with the subdirectory
/// of the scratch cache.
const CACHES: [(&str, &str); 4] =
    [("XDG_CACHE_HOME", ""), ("npm_config_cache", "npm"), ("PIP_CACHE_DIR", "pip"), ("UV_CACHE_DIR", "uv")];

/// Paths and options of a [`Sandbox`].
#[derive(Clone)]
pub struct SandboxConfig {
    /// A program that calls [`run_if_helper`](crate::run_if_helper) first in `main`; usually this
    /// program.
    pub helper: PathBuf,
    /// Name of the session's files.
    pub session: String,
    /// Directory of those files.
    pub state: PathBuf,
    /// Path of bubblewrap, if not in a standard place.
    pub bubblewrap: Option<PathBuf>,
    /// Features to do without; see [`WITHOUT`].
    pub without: String,
    /// Name resolution for the proxy.
    pub lookup: Arc<dyn Lookup>,
}

impl std::fmt::Debug for SandboxConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SandboxConfig")
            .field("helper", &self.helper)
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

impl SandboxConfig {
    /// Default configuration. Uses the small helper binary beside this program if it exists, else this
    /// program itself, which starts more slowly.
    pub fn new(session: impl Into<String>, state: impl Into<PathBuf>) -> io::Result<Self> {
        let own = std::env::current_exe()?;
        let small = own.with_file_name("haft-sandbox-helper");
        Ok(Self {
            helper: if small.is_file() { small } else { own },
            session: session.into(),
            state: state.into(),
            bubblewrap: std::env::var_os("HAFT_BWRAP").map(PathBuf::from),
            without: std::env::var(WITHOUT).unwrap_or_default(),
            lookup: Arc::new(SystemLookup),
        })
    }
}

/// How much of a policy must be enforceable before a command may run under it.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum SandboxStrictness {
    /// All of it.
    #[default]
    Complete,
    /// As much as the machine supports.
    BestEffort,
}

/// Sandbox of one session's commands.
#[derive(Debug)]
pub struct Sandbox {
    config: SandboxConfig,
    features: OnceLock<SandboxFeatures>,
    stand_ins: Arc<Placeholders>,
    /// Store of overlay layers; created with the first policy that has layers.
    layers: OnceLock<Option<LayerStore>>,
    /// The network namespaces without and with a proxy.
    closed: Mutex<Option<Arc<NetNamespace>>>,
    proxied: Mutex<Option<Arc<NetNamespace>>>,
}

/// A policy that is enforced for commands; see [`Sandbox::confine`].
#[derive(Debug)]
pub struct Confinement {
    sandbox: Arc<Sandbox>,
    policy: SandboxPolicy,
    backend: SandboxBackend,
    space: Option<Arc<NetNamespace>>,
}

/// What must be added to a launch to sandbox it.
pub struct SandboxedLaunch {
    /// Program to run instead of the command.
    pub program: CString,
    /// Arguments before the command and its arguments.
    pub arguments: Vec<CString>,
    /// Descriptors and their numbers in the child.
    pub descriptors: Vec<(InheritedFd, i32)>,
    /// Environment variables to add.
    pub variables: Vec<(String, String)>,
    /// Keep until all processes of the command have ended.
    pub guard: SandboxCleanup,
}

/// A descriptor of this launch or of the session.
pub struct InheritedFd(FdSource);

enum FdSource {
    Own(OwnedFd),
    User(Arc<NetNamespace>),
    Net(Arc<NetNamespace>),
}

impl std::os::fd::AsFd for InheritedFd {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        match &self.0 {
            FdSource::Own(fd) => fd.as_fd(),
            FdSource::User(space) => space.user.as_fd(),
            FdSource::Net(space) => space.net.as_fd(),
        }
    }
}

/// Cleanup when the command has ended: placeholders, layers, and paths that were created although they
/// must not exist.
pub struct SandboxCleanup {
    held: PlaceholderGuard,
    /// Released when no process of the command uses them any more.
    layers: HeldLayers,
    quarantine: PathBuf,
    /// The proxy's network namespace, and its refusal count when the command started.
    space: Option<(Arc<NetNamespace>, u64)>,
}

impl SandboxCleanup {
    /// Releases the overlay layers for the next command. Call when no process of the command runs any
    /// more.
    pub fn release_layers(&mut self) {
        self.layers = HeldLayers::default();
    }

    /// Becomes readable when something may have been created at a protected path; then call
    /// [`SandboxCleanup::take_back`].
    pub fn watch(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        self.held.watch()
    }

    /// Moves files that were created at protected paths to the quarantine directory (or deletes them if
    /// that fails). Returns one line per path.
    pub fn take_back(&self) -> Vec<String> {
        self.held.reset_watch();
        let taken = self.held.take_back(&self.quarantine);
        let quarantine = self.quarantine.display();
        let line = |path: &PathBuf| {
            format!("create {} (protected path; it was moved to {quarantine})", path.display())
        };
        taken.iter().map(line).collect()
    }

    /// Policy violations of the command, one per line, after [`SandboxCleanup::take_back`]. Connections
    /// refused by the proxy may belong to another command that ran at the same time.
    pub fn violations(&self) -> Vec<String> {
        let mut lines = self.take_back();
        let refused = self.space.iter().flat_map(|(space, since)| space.proxy.refused_since(*since));
        lines.extend(refused.map(|why| format!("connect: {why}")));
        lines
    }
}

/// Descriptor numbers for a launch; the command must not use them otherwise.
#[derive(Clone, Copy, Debug)]
pub struct FdAllocator {
    /// The helper reports errors here; negative for none.
    pub status: i32,
    /// The helper reads its request here.
    pub order: i32,
    /// The session's user namespace.
    pub user: i32,
    /// The session's network namespace.
    pub net: i32,
}

impl Sandbox {
    /// Opens the session's files and removes placeholders left by sessions that no longer run. Blocks.
    pub fn open(config: SandboxConfig) -> io::Result<Arc<Self>> {
        DirBuilder::new().recursive(true).mode(0o700).create(config.state.join("hollow"))?;
        // Mounts are made on paths without links, and `~/.haft` may be one.
        let config = SandboxConfig { state: config.state.canonicalize()?, ..config };
        let stand_ins = Placeholders::open(&config.state.join("stand-ins"), &config.session)?;
        let (features, layers) = (OnceLock::new(), OnceLock::new());
        let (closed, proxied) = (Mutex::default(), Mutex::default());
        Ok(Arc::new(Self { config, features, stand_ins, layers, closed, proxied }))
    }

    /// Overlay layers for one command; read-only ones if they cannot be stored or the backend has no
    /// overlays.
    fn layers(&self, policy: &SandboxPolicy, backend: SandboxBackend) -> HeldLayers {
        let held = if policy.layers.is_empty() || backend != SandboxBackend::Namespaces {
            None
        } else {
            let place = self.config.state.join("layers");
            self.layers.get_or_init(|| LayerStore::open(&place).ok()).as_ref()
        };
        held.and_then(|it| it.hold(&policy.layers).ok())
            .unwrap_or_else(|| HeldLayers::read_only(&policy.layers))
    }

    /// The machine's sandbox features. The first call starts processes and blocks.
    pub fn features(&self) -> &SandboxFeatures {
        self.features.get_or_init(|| {
            SandboxFeatures::probe(
                &self.config.helper,
                &self.config.without,
                self.config.bubblewrap.as_deref(),
            )
        })
    }

    /// What would be enforced of `policy` on this machine.
    pub fn report(&self, policy: &SandboxPolicy) -> SandboxReport {
        SandboxReport::new(policy, self.features())
    }

    /// Prepares a policy for commands. Fails if the machine cannot enforce it as `strictness` requires.
    /// Must be called within a tokio runtime, which runs the proxy. All commands share one list of
    /// allowed domains: that of the last call that had one.
    pub fn confine(
        self: &Arc<Self>,
        policy: SandboxPolicy,
        strictness: SandboxStrictness,
    ) -> Result<Arc<Confinement>, String> {
        let report = self.report(&policy);
        let backend = match report.backend {
            Some(backend) if report.gaps.is_empty() || strictness == SandboxStrictness::BestEffort => backend,
            _ => return Err(report.gaps.join("; ")),
        };
        let space =
            self.space(&policy.network, backend).map_err(|err| format!("no closed network: {err}"))?;
        Ok(Arc::new(Confinement { sandbox: Arc::clone(self), policy, backend, space }))
    }

    fn space(&self, network: &Network, backend: SandboxBackend) -> io::Result<Option<Arc<NetNamespace>>> {
        if backend != SandboxBackend::Namespaces {
            return Ok(None);
        }
        let (place, domains) = match network {
            Network::Open => return Ok(None),
            Network::Off => (&self.closed, Domains::default()),
            Network::Domains(domains) => (&self.proxied, domains.clone()),
        };
        let mut place = place.lock().unwrap_or_else(PoisonError::into_inner);
        let space = match &*place {
            Some(space) => Arc::clone(space),
            None => Arc::new(NetNamespace::make(&self.config.helper, Arc::clone(&self.config.lookup))?),
        };
        space.proxy.set_domains(domains);
        *place = Some(Arc::clone(&space));
        Ok(Some(space))
    }
}

impl Confinement {
    pub fn policy(&self) -> &SandboxPolicy {
        &self.policy
    }

    /// Runs a program in the sandbox with this process's standard streams and waits for it. Returns the
    /// exit code (128 + signal if killed) and the violations. Blocks.
    pub fn run(&self, program: &Path, arguments: &[OsString], cwd: &Path) -> io::Result<(i32, Vec<String>)> {
        let numbers = FdAllocator { status: -1, order: 20, user: 21, net: 22 };
        let wrapped = self.wrap(numbers)?;
        let given: Vec<CString> = [program.as_os_str(), program.as_os_str()]
            .into_iter()
            .chain(arguments.iter().map(OsString::as_os_str))
            .map(|word| CString::new(word.as_bytes()))
            .collect::<Result<_, _>>()?;
        let argv: Vec<&CStr> = wrapped.arguments.iter().chain(&given).map(CString::as_c_str).collect();
        let overridden = |name: &OsStr| wrapped.variables.iter().any(|it| name == it.0.as_str());
        let inherited = std::env::vars_os().filter(|it| !overridden(&it.0));
        let own = wrapped.variables.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
        let environment: Vec<CString> = inherited
            .chain(own)
            .filter_map(|(name, value)| haft_process::environment_entry(&name, &value))
            .collect();
        let (input, output, errors) = (io::stdin(), io::stdout(), io::stderr());
        let mut descriptors = vec![(input.as_fd(), 0), (output.as_fd(), 1), (errors.as_fd(), 2)];
        descriptors.extend(wrapped.descriptors.iter().map(|(fd, number)| (fd.as_fd(), *number)));
        let directory = CString::new(cwd.as_os_str().as_bytes())?;
        let launch = SpawnRequest {
            program: &wrapped.program,
            argv: &argv,
            environment: &environment,
            directory: &directory,
            descriptors: &descriptors,
            terminal: None,
        };
        let pid = launch.start()?;
        let status = rustix::io::retry_on_intr(|| waitid(WaitId::Pid(pid), WaitIdOptions::EXITED))?;
        let code =
            status.and_then(|it| it.exit_status().or_else(|| it.terminating_signal().map(|it| 128 + it)));
        Ok((code.unwrap_or(125), wrapped.guard.violations()))
    }

    /// Prepares one launch: creates placeholders, layers and the helper's request.
    pub fn wrap(&self, numbers: FdAllocator) -> io::Result<SandboxedLaunch> {
        let (held, protect) = self.sandbox.stand_ins.hold(&self.policy.protect)?;
        let layers = self.sandbox.layers(&self.policy, self.backend);
        let order = self.order(protect, layers.layers.clone(), numbers);
        let helper = CString::new(self.sandbox.config.helper.as_os_str().as_bytes())?;
        let number = CString::new(numbers.order.to_string())?;
        let mut arguments = vec![helper.clone(), CString::new(HELPER)?, CString::from(c"exec"), number];
        let mut program = helper;
        if self.backend == SandboxBackend::Bubblewrap {
            let features = self.sandbox.features();
            let bwrap = features.bubblewrap.as_deref().unwrap_or(Path::new("/usr/bin/bwrap"));
            program = CString::new(bwrap.as_os_str().as_bytes())?;
            let closed = self.policy.network != Network::Open;
            arguments = bubblewrap::arguments(bwrap, &order, closed)?.into_iter().chain(arguments).collect();
        }
        let mut descriptors = vec![(InheritedFd(FdSource::Own(written(&order)?)), numbers.order)];
        if let Some(space) = &self.space {
            descriptors.push((InheritedFd(FdSource::User(Arc::clone(space))), numbers.user));
            descriptors.push((InheritedFd(FdSource::Net(Arc::clone(space))), numbers.net));
        }
        let quarantine = self.sandbox.config.state.join("quarantine");
        let space = self.space.as_ref().map(|it| (Arc::clone(it), it.proxy.refusals()));
        let guard = SandboxCleanup { held, layers, quarantine, space };
        Ok(SandboxedLaunch { program, arguments, descriptors, variables: self.variables(), guard })
    }

    fn order(&self, protect: Vec<PathBuf>, layers: Vec<OverlayLayer>, numbers: FdAllocator) -> Order {
        let (walls, network) = match self.backend {
            SandboxBackend::Namespaces => {
                let joined = HelperNetwork::Join { user: numbers.user, net: numbers.net };
                (HelperMechanism::Namespaces, if self.space.is_some() { joined } else { HelperNetwork::Open })
            }
            SandboxBackend::Bubblewrap if self.policy.network == Network::Open => {
                (HelperMechanism::Inside, HelperNetwork::Open)
            }
            SandboxBackend::Bubblewrap => (HelperMechanism::Inside, HelperNetwork::Closed),
            SandboxBackend::Landlock if self.policy.network == Network::Open => {
                (HelperMechanism::Landlock, HelperNetwork::Open)
            }
            SandboxBackend::Landlock => (HelperMechanism::Landlock, HelperNetwork::Refuse),
        };
        // A symlink to a hidden file then points to the hidden place.
        let mut hide: Vec<PathBuf> =
            self.policy.hide.iter().filter_map(|it| it.path.canonicalize().ok()).collect();
        hide.sort();
        hide.dedup();
        Order {
            walls,
            write: self.policy.write.clone(),
            layers,
            protect,
            hide,
            network,
            sockets: unix_sockets::creation(&self.policy.sockets),
            cover: unix_sockets::to_cover(&self.policy.sockets),
            hollow: self.sandbox.config.state.join("hollow"),
            status: numbers.status,
        }
    }

    /// Environment variables that tell programs and tests about the sandbox.
    fn variables(&self) -> Vec<(String, String)> {
        let network = match (&self.policy.network, &self.space) {
            (Network::Open, _) => "open",
            (Network::Domains(_), Some(_)) => "domains",
            _ => "off",
        };
        let mut variables = vec![(String::from("HAFT_SANDBOX"), format!("network={network}"))];
        if let Some(scratch) = &self.policy.scratch {
            let cache = scratch.join("cache");
            for name in ["TMPDIR", "TMP", "TEMP"] {
                variables.push((name.to_owned(), scratch.display().to_string()));
            }
            for (name, dir) in CACHES {
                variables.push((name.to_owned(), cache.join(dir).display().to_string()));
            }
        }
        if let (Network::Domains(_), Some(space)) = (&self.policy.network, &self.space) {
            let http = format!("http://127.0.0.1:{}", space.port);
            let socks = format!("socks5h://127.0.0.1:{}", space.port);
            for name in ["HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"] {
                variables.push((name.to_owned(), http.clone()));
            }
            for name in ["ALL_PROXY", "all_proxy"] {
                variables.push((name.to_owned(), socks.clone()));
            }
            for name in ["NO_PROXY", "no_proxy"] {
                variables.push((name.to_owned(), String::from("localhost,127.0.0.1,::1")));
            }
        }
        variables
    }
}

/// A sealed memory file with the helper's request.
fn written(order: &Order) -> io::Result<OwnedFd> {
    let text = serde_json::to_vec(order).map_err(io::Error::other)?;
    let mut file: File = rustix::fs::memfd_create("order", MemfdFlags::CLOEXEC)?.into();
    file.write_all(&text)?;
    rustix::fs::seek(&file, rustix::fs::SeekFrom::Start(0))?;
    Ok(file.into())
}
