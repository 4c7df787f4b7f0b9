//! Wall clocks of workers and servers that jump.

use std::{
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use haft_fleet_store::{FleetAddress, FleetStore, RunId};
use serde_json::json;

use crate::fleet::{
    harness::{FleetRig, WorkerProcess, bash, until_there},
    support::{
        servers::{Kind, Server, free_port},
        skip,
    },
};

/// A fake clock for other processes, and its offset.
struct MovedClock {
    home: tempfile::TempDir,
}

impl MovedClock {
    fn new() -> Self {
        let home = tempfile::TempDir::new().unwrap();
        // The server runs as another user, who must read it.
        std::fs::set_permissions(home.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let clock = Self { home };
        clock.set(0);
        clock
    }

    fn set(&self, seconds: i64) {
        // Replaced atomically, so that no reader sees half of it.
        let next = self.home.path().join("next");
        std::fs::write(&next, seconds.to_string()).unwrap();
        std::fs::rename(next, self.file()).unwrap();
    }

    fn file(&self) -> PathBuf {
        self.home.path().join("moved-by")
    }

    fn compiled(&self, source: &str, flags: &[&str]) -> Option<PathBuf> {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/fleet/clock").join(source);
        let made = self.home.path().join(source.file_stem().unwrap());
        let done =
            Command::new("cc").args(flags).arg("-o").arg(&made).arg(&source).stderr(Stdio::null()).status();
        if done.is_ok_and(|it| it.success()) {
            return Some(made);
        }
        skip("no C compiler for this: clocks that jump are not tried");
        None
    }

    /// Environment variables that make a program use the fake clock.
    fn variables(&self) -> Option<[(String, String); 2]> {
        let library = self.compiled("loaded.c", &["-shared", "-fPIC", "-O1"])?.display().to_string();
        let file = self.file().display().to_string();
        Some([(String::from("LD_PRELOAD"), library), (String::from("MOVED_CLOCK"), file)])
    }

    /// Starts a server that uses the fake clock.
    fn server(&self, kind: Kind) -> Option<(Server, String)> {
        let (dir, port) = (self.home.path().join("server"), free_port());
        match kind {
            Kind::Postgres => {
                let variables = self.variables()?.map(|(name, value)| format!("{name}={value}"));
                let server = Server::postgres_with(&dir, port, &variables)?;
                Some((server, format!("postgres://postgres@127.0.0.1:{port}/postgres")))
            }
            Kind::Nats => {
                // A static program: it calls the kernel directly and loads no library, so it has to be
                // traced.
                let traced = self.compiled("traced.c", &["-O1"])?.display().to_string();
                let before = [traced, self.file().display().to_string()];
                let server = Server::nats_behind(&before, &dir, port, &[])?;
                Some((server, format!("nats://127.0.0.1:{port}")))
            }
            Kind::Sqlite => None,
        }
    }
}

/// Whose clock jumps.
#[derive(PartialEq)]
enum Jumps {
    Worker,
    Server,
}

/// Scenario 9: a wall clock jumps while a call runs. No lease is lost or extended by it, no schedule
/// slot fires twice, and the log stays in order. A worker's clock does not influence the server's time.
async fn check(kind: Kind, whose: Jumps, by: &[i64]) {
    let clock = MovedClock::new();
    let (mut rig, server) = match whose {
        Jumps::Worker => {
            let Some(rig) = FleetRig::on(kind, json!([])).await else { return };
            (rig, None)
        }
        Jumps::Server => {
            let Some((server, address)) = clock.server(kind) else { return };
            let mut rig = FleetRig::new(json!([])).await;
            rig.store = address;
            (rig, Some(server))
        }
    };
    let (began, go) = (rig.path("began").display().to_string(), rig.path("go").display().to_string());
    let wait = format!("touch {began}; {}; echo done-step-1", until_there(&go));
    for turn in [
        json!({"when": {"tool_result": "done-step-1"}, "times": "always", "reply": [{"text": "finished"}]}),
        json!({"when": {"last_user": {"equals": "tick"}}, "times": "always", "reply": [{"text": "tock"}]}),
        json!({"times": "always", "reply": [bash(&rig.effect(&wait))]}),
    ] {
        rig.model.push(serde_json::from_value(turn).unwrap());
    }
    let usual = rig.variables.clone();
    if whose == Jumps::Worker {
        let Some(variables) = clock.variables() else { return };
        rig.variables.extend(variables);
    }
    // With wall clock time every jump would end the lease; a busy machine does not.
    let _jumping = rig.worker("a", &[]);
    rig.variables = usual;
    rig.until("a worker is there", || rig.worker_said("a").contains("waits")).await;
    let id = rig.submit("go", &[]);
    rig.until("the command runs", || rig.path("began").exists()).await;
    let missed = if whose == Jumps::Worker { "all" } else { "once" };
    rig.ok(&["schedule", "often", "--every", "1s", "-p", "tick", "--missed", missed]);
    let _steady: WorkerProcess = rig.worker("b", &[]);
    for seconds in by {
        clock.set(*seconds);
        // Long enough for several lease renewals and scheduler ticks.
        tokio::time::sleep(Duration::from_secs(4)).await;
    }
    std::fs::write(rig.path("go"), "").unwrap();
    rig.until("it ends", || rig.state(&id) == "done").await;
    let job = rig.jobs()[&id].clone();
    assert_eq!((&job["deliveries"], &job["lost"]), (&json!(1), &json!(0)), "{job} {}", rig.worker_said("a"));
    assert_eq!(rig.effects().len(), 1);
    let store = FleetStore::open(&FleetAddress::parse(&rig.store).unwrap()).await.unwrap();
    if whose == Jumps::Worker && kind != Kind::Sqlite {
        // No slot fired early.
        let often = &store.clockwork.schedules().await.unwrap()[0];
        let ahead = often.next.unwrap().duration_since(jiff::Timestamp::now()).as_secs();
        assert!(ahead <= 60, "the next slot is {ahead} s away");
    }
    rig.ok(&["schedule", "often", "--remove"]);
    let jobs = store.queue.jobs(Default::default(), Default::default()).await.unwrap().jobs;
    let slots: Vec<String> = jobs.into_iter().filter_map(|it| it.head.dedup).collect();
    let mut once = slots.clone();
    once.sort();
    once.dedup();
    assert!(!slots.is_empty() && once.len() == slots.len(), "{slots:?}");
    let lines = store.log.read(RunId::parse(&id).unwrap(), 0, 1_000).await.unwrap();
    let place = |words: &str| lines.iter().position(|it| it.text.contains(words)).unwrap();
    assert!(lines.iter().enumerate().all(|(at, it)| it.number == at as u64));
    assert!(place("\"started\"") < place("done-step-1\\n") || place("\"started\"") < place("finished"));
    drop(server);
}

const WORKER: [i64; 3] = [3_600, -3_600, 0];
const SERVER: [i64; 3] = [600, -600, 0];

#[tokio::test(flavor = "multi_thread")]
async fn wall_clocks_that_jump_decide_nothing() {
    check(Kind::Sqlite, Jumps::Worker, &WORKER).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn wall_clocks_of_workers_decide_nothing_on_nats() {
    check(Kind::Nats, Jumps::Worker, &WORKER).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn wall_clocks_of_workers_decide_nothing_on_postgres() {
    check(Kind::Postgres, Jumps::Worker, &WORKER).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_clock_of_a_nats_server_may_jump() {
    check(Kind::Nats, Jumps::Server, &SERVER).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_clock_of_a_postgres_server_may_jump() {
    check(Kind::Postgres, Jumps::Server, &SERVER).await;
}
