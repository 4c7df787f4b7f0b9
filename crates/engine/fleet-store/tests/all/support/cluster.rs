//! Three NATS servers in one cluster.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use haft_fleet_store::{EngineFinding, FleetAddress, FleetStore};

use super::{
    jobs::WAITS,
    servers::{Server, free_port},
    writers::at_last,
};

/// Starts a cluster of three nodes; returns its address.
pub fn three_nodes(dir: &Path) -> Option<(Vec<Server>, String)> {
    let ports: Vec<(u16, u16, u16)> = (0..3).map(|_| (free_port(), free_port(), free_port())).collect();
    let routes: Vec<String> = ports.iter().map(|it| format!("\"nats://127.0.0.1:{}\"", it.1)).collect();
    let mut nodes = Vec::new();
    for (number, (port, route, monitor)) in ports.iter().enumerate() {
        let more = [
            format!("server_name: node{number}"),
            format!("http: \"127.0.0.1:{monitor}\""),
            format!(
                "cluster {{ name: fleet, listen: \"127.0.0.1:{route}\", routes: [{}] }}",
                routes.join(", ")
            ),
        ];
        nodes.push(Server::nats(&dir.join(format!("node{number}")), *port, &more)?);
    }
    let hosts: Vec<String> = ports.iter().map(|it| format!("127.0.0.1:{}", it.0)).collect();
    Some((nodes, format!("nats://{}?monitor=127.0.0.1:{}", hosts.join(","), ports[0].2)))
}

pub async fn open_cluster(address: &str) -> FleetStore {
    let address = FleetAddress::parse(address).unwrap();
    let begin = Instant::now();
    loop {
        match FleetStore::open(&address).await {
            Ok(store) => return store,
            Err(err) => assert!(err.is_passing() && begin.elapsed() < WAITS, "{err}"),
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

pub async fn copies(store: &FleetStore) -> EngineFinding {
    at_last(|| store.check_health()).await.into_iter().find(|it| it.what == "copies").unwrap()
}

/// Returns the node that leads the ledger.
pub async fn leader(store: &FleetStore) -> usize {
    let begin = Instant::now();
    loop {
        let led = copies(store).await.said;
        if let Some(leader) = (0..3).find(|it| led.contains(&format!("led by node{it}"))) {
            return leader;
        }
        assert!(begin.elapsed() < WAITS, "nobody leads: {led}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Waits until a different node leads the ledger.
pub async fn another_leads(store: &FleetStore, than: usize) -> usize {
    let begin = Instant::now();
    loop {
        let now = leader(store).await;
        if now != than {
            return now;
        }
        assert!(begin.elapsed() < WAITS, "node{than} leads for ever");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
