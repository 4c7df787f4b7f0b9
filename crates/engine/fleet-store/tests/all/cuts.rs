//! Network partitions, with servers and workers in separate network namespaces.

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use haft_fleet_store::{FleetAddress, FleetStore, JobFilter, JobState, LeaseRenewal, RunId, StoreError};

use crate::{
    kill_rig::{POOL, Tally, as_worker, judge},
    support::{
        cluster::{leader, open_cluster},
        jobs::*,
        nets::{FarNet, FarProcess},
        servers::{free_port, nats_program},
        writers::at_last,
    },
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn severed_connection_loses_and_repeats_nothing() {
    let Some(program) = nats_program() else { return };
    let Some(net) = FarNet::make(1) else { return };
    let dir = tempfile::TempDir::new().unwrap();
    let port = free_port();
    let config = dir.path().join("server.conf");
    let data = dir.path().join("data").display().to_string();
    let text =
        format!("listen: \"0.0.0.0:{port}\"\njetstream {{ store_dir: {data:?}, sync_interval: always }}\n");
    std::fs::write(&config, text).unwrap();
    let _server = FarProcess(net.command(0, &program).arg("-c").arg(&config).spawn().unwrap());
    let address = FleetAddress::parse(&format!("nats://{}:{port}", net.address(0))).unwrap();
    let begin = Instant::now();
    let store = loop {
        match FleetStore::open(&address).await {
            Ok(store) => break store,
            Err(err) => assert!(begin.elapsed() < WAITS, "{err}"),
        }
    };
    let (pool, worker) = (fresh("cut"), fresh("w"));
    submit(&store, &[job(&pool)]).await;
    let lease = take(&store, &worker, &pool, 1).await.remove(0);
    store.log.append(lease.key.clone(), vec![String::from("before")]).await.unwrap();
    net.unplug(0);
    // Nothing is acknowledged during the partition.
    let cut = store.log.append(lease.key.clone(), vec![String::from("within")]);
    assert!(tokio::time::timeout(Duration::from_secs(2), cut).await.is_err(), "acknowledged by nobody");
    let renewed = store.queue.renew(worker.clone(), vec![lease.key.clone()], LEASE);
    assert!(tokio::time::timeout(Duration::from_secs(1), renewed).await.is_err());
    net.plug(0);
    let begin = Instant::now();
    let end = loop {
        match store.log.append(lease.key.clone(), vec![String::from("within")]).await {
            Ok(end) => break end,
            Err(err) => assert!(matches!(err, StoreError::Gone { .. }) && begin.elapsed() < WAITS, "{err}"),
        }
    };
    eprintln!("goes on {:?} after the line came back", begin.elapsed());
    let lines = store.log.read(lease.key.run.clone(), 0, 10).await.unwrap();
    let texts: Vec<&str> = lines.iter().map(|it| it.text.as_str()).collect();
    assert_eq!((texts, end), (vec!["before", "within"], 2), "a write whose answer was lost is there once");
    let renewed = store.queue.renew(worker, vec![lease.key], LEASE).await.unwrap();
    assert_eq!(
        renewed,
        [LeaseRenewal::Held { cancel_asked: false }],
        "no clock but the observers' ends a lease"
    );
}

/// Starts three servers on the first three machines of a network; returns their address.
fn three_far_nodes(net: &FarNet, program: &Path, dir: &Path) -> (Vec<FarProcess>, String) {
    let (port, route) = (free_port(), free_port());
    let routes: Vec<String> = (0..3).map(|it| format!("\"nats://{}:{route}\"", net.address(it))).collect();
    let node = |number: u32| {
        let home = dir.join(format!("node{number}"));
        std::fs::create_dir_all(&home).unwrap();
        let config = home.join("server.conf");
        let text = format!(
            "listen: \"0.0.0.0:{port}\"\nserver_name: node{number}\n\
             jetstream {{ store_dir: {:?}, sync_interval: always }}\n\
             cluster {{ name: fleet, listen: \"0.0.0.0:{route}\", routes: [{}] }}\n",
            home.display().to_string(),
            routes.join(", ")
        );
        std::fs::write(&config, text).unwrap();
        FarProcess(net.command(number, program).arg("-c").arg(&config).spawn().unwrap())
    };
    let nodes = (0..3).map(node).collect();
    let hosts: Vec<String> = (0..3).map(|it| format!("{}:{port}", net.address(it))).collect();
    (nodes, format!("nats://{}", hosts.join(",")))
}

/// An endless supply of jobs, and how many are done.
struct Busy<'a> {
    store: &'a FleetStore,
    runs: Vec<RunId>,
}

impl Busy<'_> {
    async fn done(&self) -> u64 {
        let filter = JobFilter { pool: Some(name(POOL)), ..JobFilter::default() };
        at_last(|| self.store.queue.counts(filter.clone())).await.of(JobState::Done)
    }

    /// Waits until this many more are done.
    async fn go_on(&mut self, more: usize) {
        let before = self.done().await;
        let new: Vec<_> = (0..more).map(|_| job(&name(POOL))).collect();
        self.runs.extend(new.iter().map(id));
        at_last(|| self.store.queue.submit(new.clone())).await;
        until("jobs go on", || async { before + more as u64 <= self.done().await }).await;
    }
}

/// In the file of effects, no effect of an earlier owner comes after one of a later owner: a partitioned
/// worker had stopped before others took over.
fn no_late_effects(effects: &Path) {
    let mut newest = std::collections::HashMap::new();
    for line in std::fs::read_to_string(effects).unwrap().lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let epoch: u64 = words[2].parse().unwrap();
        let before = newest.insert(words[0].to_owned(), epoch).unwrap_or(0);
        assert!(before <= epoch, "{line}: behind one of epoch {before}");
    }
}

/// Case 7: the leader is cut off from the other servers but not from clients, in one direction and in
/// both; then a worker is cut off. Nothing is lost or done twice, and the partitioned worker stops.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn partitioned_leaders_and_workers_do_no_harm() {
    let Some(program) = nats_program() else { return };
    let Some(net) = FarNet::make(5) else { return };
    let dir = tempfile::TempDir::new().unwrap();
    let effects = dir.path().join("effects");
    let (_nodes, address) = three_far_nodes(&net, &program, dir.path());
    let store = open_cluster(&address).await;
    let us: PathBuf = std::env::current_exe().unwrap();
    // A partitioned worker has seconds to notice, also on a busy machine.
    let start = |machine: u32| {
        let mut command = net.command(machine, &us);
        FarProcess(as_worker(command.env("RIG_LEASE_MS", "6000"), &address, &effects))
    };
    let workers = [start(3), start(4)];
    let mut busy = Busy { store: &store, runs: Vec::new() };
    busy.go_on(6).await;
    for (to_leader, from_leader) in [(true, true), (false, true), (true, false)] {
        let led = leader(&store).await as u32;
        let others: Vec<u32> = (0..3).filter(|it| *it != led).collect();
        for other in &others {
            if from_leader {
                net.cut(led, *other);
            }
            if to_leader {
                net.cut(*other, led);
            }
        }
        busy.go_on(6).await;
        for other in others {
            if from_leader {
                net.heal(led, other);
            }
            if to_leader {
                net.heal(other, led);
            }
        }
        busy.go_on(6).await;
        eprintln!("the leader was cut off: {} jobs done", busy.done().await);
    }
    net.unplug(3);
    busy.go_on(12).await;
    net.plug(3);
    busy.go_on(12).await;
    drop(workers);
    let mut tally = Tally::default();
    judge(&store, &effects, &busy.runs, &mut tally).await;
    no_late_effects(&effects);
    eprintln!("{} jobs done, {tally:?}", busy.runs.len());
}
