//! Clusters of three servers of which some, or all, are killed.

use std::time::Duration;

use crate::support::{
    cluster::*,
    jobs::until,
    writers::{Writers, at_last},
};

/// Case 5: the leader and then its successor are killed while 200 runs write.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killing_two_leaders_loses_no_acknowledged_line() {
    let dir = tempfile::TempDir::new().unwrap();
    let Some((mut nodes, address)) = three_nodes(dir.path()) else { return };
    let store = open_cluster(&address).await;
    let writers = Writers::start_with(&store, 200, Duration::from_millis(400)).await;
    for _ in 0..2 {
        writers.go_on(400).await;
        let led = leader(&store).await;
        nodes[led].kill();
        another_leads(&store, led).await;
        writers.go_on(400).await;
        nodes[led].begin();
        until("all copies are current", || async { copies(&store).await.is_good }).await;
    }
    let (lines, longest) = writers.judge(&open_cluster(&address).await).await;
    eprintln!("two leaders killed: {lines} lines acknowledged, 0 lost, 0 twice, longest wait {longest:?}");
    let findings = at_last(|| store.check_health()).await;
    assert!(findings.iter().any(|it| it.what == "copies" && it.said.starts_with('3')), "{findings:?}");
    assert!(findings.iter().any(|it| it.what == "sync" && it.is_good), "{findings:?}");
}

/// Case 6: all servers are killed at the same time. After their restart everything acknowledged is
/// there, and the writers continue.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killing_all_servers_loses_no_acknowledged_line() {
    let dir = tempfile::TempDir::new().unwrap();
    let Some((mut nodes, address)) = three_nodes(dir.path()) else { return };
    let store = open_cluster(&address).await;
    let writers = Writers::start_with(&store, 12, Duration::from_millis(20)).await;
    for _ in 0..2 {
        writers.go_on(100).await;
        nodes.iter_mut().for_each(crate::support::servers::Server::kill);
        nodes.iter_mut().for_each(crate::support::servers::Server::begin);
    }
    writers.go_on(100).await;
    let (lines, longest) = writers.judge(&open_cluster(&address).await).await;
    eprintln!(
        "all three killed twice: {lines} lines acknowledged, 0 lost, 0 twice, longest wait {longest:?}"
    );
}
