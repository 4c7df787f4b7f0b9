//! Engine processes, killed with the test.

use std::{
    fs,
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Mutex,
    time::{Duration, Instant},
};

use haft_fleet_store::{FleetAddress, FleetStore};
use tempfile::TempDir;

use super::{skip, target_dir};

/// The engines on which every case runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Sqlite,
    Nats,
    Postgres,
}

/// A running engine.
pub struct Rig {
    pub address: FleetAddress,
    /// The address as text.
    pub text: String,
    pub dir: TempDir,
    pub server: Option<Server>,
}

impl Rig {
    /// Returns `None` with a message if the engine is not installed.
    pub fn start(kind: Kind) -> Option<Self> {
        let dir = TempDir::new().unwrap();
        let (text, server) = match kind {
            Kind::Sqlite => (format!("sqlite:{}", dir.path().join("fleet.db").display()), None),
            Kind::Nats => {
                let server = Server::nats(&dir.path().join("nats"), free_port(), &[])?;
                (format!("nats://127.0.0.1:{}", server.port), Some(server))
            }
            Kind::Postgres => {
                let server = Server::postgres(&dir.path().join("pg"), free_port())?;
                (format!("postgres://postgres@127.0.0.1:{}/postgres", server.port), Some(server))
            }
        };
        Some(Self { address: FleetAddress::parse(&text).unwrap(), text, dir, server })
    }

    pub async fn open(&self) -> FleetStore {
        FleetStore::open(&self.address).await.unwrap()
    }
}

/// Returns an unused port that no other process can get: below the ephemeral range, and with a lock held
/// until this process exits.
pub fn free_port() -> u16 {
    loop {
        let port = fastrand::u16(20_000..32_000);
        if keep_port(port) {
            return port;
        }
    }
}

/// Whether a port is unused; if so, reserves it until this process exits.
pub fn keep_port(port: u16) -> bool {
    static LOCKS: Mutex<Vec<fs::File>> = Mutex::new(Vec::new());
    let home = std::env::temp_dir().join("haft-test-ports");
    fs::create_dir_all(&home).unwrap();
    let Ok(lock) = fs::File::create(home.join(port.to_string())) else { return false };
    let is_ours = rustix::fs::flock(&lock, rustix::fs::FlockOperation::NonBlockingLockExclusive).is_ok();
    let is_free = is_ours && TcpListener::bind(("127.0.0.1", port)).is_ok();
    if is_free {
        LOCKS.lock().unwrap().push(lock);
    }
    is_free
}

/// A server process that can be killed and restarted.
pub struct Server {
    pub port: u16,
    line: Vec<String>,
    log: PathBuf,
    child: Option<Child>,
}

impl Server {
    fn run(port: u16, line: Vec<String>, log: PathBuf) -> Self {
        let mut server = Self { port, line, log, child: None };
        server.begin();
        server
    }

    /// Starts the server and waits until it listens. One that exits at once is restarted as by a service
    /// manager, because remains of its predecessor may be in the way for a moment.
    pub fn begin(&mut self) {
        let begin = Instant::now();
        self.spawn();
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            let log = || fs::read_to_string(&self.log).unwrap_or_default();
            assert!(begin.elapsed() < Duration::from_secs(180), "the server does not listen:\n{}", log());
            std::thread::sleep(Duration::from_millis(10));
            if self.has_ended() {
                std::thread::sleep(Duration::from_millis(200));
                self.spawn();
            }
        }
    }

    fn spawn(&mut self) {
        let log = fs::OpenOptions::new().create(true).append(true).open(&self.log).unwrap();
        let child = Command::new(&self.line[0])
            .args(&self.line[1..])
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        self.child = Some(child);
    }

    pub fn has_ended(&mut self) -> bool {
        self.child.as_mut().is_none_or(|it| it.try_wait().unwrap().is_some())
    }

    /// Process id while it runs.
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// Sends SIGKILL.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Starts a NATS server that syncs every write, with additional configuration lines.
    pub fn nats(dir: &Path, port: u16, more: &[String]) -> Option<Self> {
        Self::nats_behind(&[], dir, port, more)
    }

    /// Like [`nats`](Self::nats), started through a wrapper command.
    pub fn nats_behind(before: &[String], dir: &Path, port: u16, more: &[String]) -> Option<Self> {
        let program = nats_program()?;
        fs::create_dir_all(dir).unwrap();
        let config = dir.join("server.conf");
        let mut text = format!(
            "listen: \"127.0.0.1:{port}\"\njetstream {{ store_dir: {:?}, sync_interval: always }}\n",
            dir.join("data").display().to_string(),
        );
        text.extend(more.iter().map(|line| format!("{line}\n")));
        fs::write(&config, text).unwrap();
        let own = [program.display().to_string(), String::from("-c"), config.display().to_string()];
        let line = before.iter().cloned().chain(own).collect();
        Some(Self::run(port, line, log_beside(dir)))
    }

    /// Starts a PostgreSQL server on a new directory, as a user other than root.
    pub fn postgres(dir: &Path, port: u16) -> Option<Self> {
        Self::postgres_with(dir, port, &[])
    }

    /// Like [`postgres`](Self::postgres), with environment variables as `NAME=value`.
    pub fn postgres_with(dir: &Path, port: u16, variables: &[String]) -> Option<Self> {
        let bin = postgres_bin()?;
        let data = dir.join("data");
        fs::create_dir_all(dir).unwrap();
        let template = postgres_template(&bin);
        run("cp", &["-a", &template.display().to_string(), &data.display().to_string()]);
        let is_root = rustix::process::geteuid().is_root();
        let mut line: Vec<String> = Vec::new();
        if is_root {
            // The server's user must be able to access the directory.
            run("chown", &["-R", "postgres", &dir.display().to_string()]);
            for parent in dir.ancestors().skip(1).take_while(|it| it.starts_with(std::env::temp_dir())) {
                if parent != std::env::temp_dir() {
                    run("chmod", &["o+x", &parent.display().to_string()]);
                }
            }
            line.extend(
                ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"].map(String::from),
            );
        }
        if !variables.is_empty() {
            line.push(String::from("env"));
            line.extend_from_slice(variables);
        }
        let settings = [
            bin.join("postgres").display().to_string(),
            format!("-D{}", data.display()),
            format!("-p{port}"),
            String::from("-clisten_addresses=127.0.0.1"),
            format!("-cunix_socket_directories={}", dir.display()),
            String::from("-cmax_connections=60"),
            String::from("-cshared_buffers=32MB"),
        ];
        line.extend(settings);
        Some(Self::run(port, line, log_beside(dir)))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
        let _ = fs::remove_file(&self.log);
    }
}

/// Log file of a server; never on a disk that a test fills.
fn log_beside(dir: &Path) -> PathBuf {
    let name = dir.display().to_string().replace('/', "_");
    std::env::temp_dir().join(format!("haft-server{name}.log"))
}

fn run(program: &str, args: &[&str]) {
    let done = Command::new(program).args(args).output().unwrap();
    assert!(done.status.success(), "{program} {args:?}: {}", String::from_utf8_lossy(&done.stderr));
}

pub fn nats_program() -> Option<PathBuf> {
    let dir =
        std::env::var_os("HAFT_FLEET_PEERS").map_or_else(|| target_dir().join("fleet-peers"), PathBuf::from);
    let program = dir.join("py/bin/nats-server");
    if program.is_file() {
        return Some(program);
    }
    skip(
        "no nats-server; run crates/engine/fleet-store/tests/all/support/install_peers.sh target/fleet-peers",
    );
    None
}

fn postgres_bin() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut bins: Vec<PathBuf> = versions.map(|it| it.path().join("bin")).collect();
    bins.sort();
    let found = bins.pop().filter(|it| it.join("postgres").is_file());
    if found.is_none() {
        skip("no PostgreSQL; install the package postgresql");
    }
    found
}

/// Output directory of `initdb`, created once and copied.
fn postgres_template(bin: &Path) -> PathBuf {
    let version = bin.parent().unwrap().file_name().unwrap().to_string_lossy().into_owned();
    let is_root = rustix::process::geteuid().is_root();
    let home = std::env::temp_dir().join(format!("haft-pg-{version}-{}", u8::from(is_root)));
    let template = home.join("template");
    fs::create_dir_all(&home).unwrap();
    let lock = fs::File::create(home.join("lock")).unwrap();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
    if template.join("PG_VERSION").is_file() && home.join("made").is_file() {
        return template;
    }
    let _ = fs::remove_dir_all(&template);
    let initdb = bin.join("initdb").display().to_string();
    let dir = template.display().to_string();
    let args = ["-D", &dir, "-U", "postgres", "--auth=trust", "--encoding=UTF8", "--locale=C"];
    if is_root {
        run("chown", &["postgres", &home.display().to_string()]);
        let mut line = vec!["-u", "postgres", "--", initdb.as_str()];
        line.extend(args);
        run("runuser", &line);
    } else {
        run(&initdb, &args);
    }
    fs::write(home.join("made"), "").unwrap();
    template
}
