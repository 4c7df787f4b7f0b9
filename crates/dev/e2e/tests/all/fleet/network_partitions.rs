//! Interrupted connections to the store while clients follow, tick and work.

use std::{
    io::Read as _,
    net::SocketAddr,
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use haft_fleet_store::{FleetAddress, FleetStore};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};

use crate::fleet::{
    harness::{FleetRig, WorkerProcess, bash, until_there},
    support::servers::Kind,
};

/// A TCP proxy that can be cut: it closes connections and refuses new ones.
struct CutLine {
    address: SocketAddr,
    is_cut: Arc<AtomicBool>,
    cuts: tokio::sync::watch::Sender<u32>,
}

impl CutLine {
    async fn to(target: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (is_cut, cuts) = (Arc::new(AtomicBool::new(false)), tokio::sync::watch::Sender::new(0));
        let line = Self { address, is_cut: Arc::clone(&is_cut), cuts: cuts.clone() };
        tokio::spawn(async move {
            while let Ok((mut near, _)) = listener.accept().await {
                if is_cut.load(Ordering::Acquire) {
                    continue;
                }
                let (target, mut cuts) = (target.clone(), cuts.subscribe());
                tokio::spawn(async move {
                    let Ok(mut far) = TcpStream::connect(&target).await else { return };
                    tokio::select! {
                        _ = tokio::io::copy_bidirectional(&mut near, &mut far) => (),
                        _ = cuts.changed() => (),
                    }
                });
            }
        });
        line
    }

    fn cut(&self) {
        self.is_cut.store(true, Ordering::Release);
        self.cuts.send_modify(|it| *it += 1);
    }

    fn heal(&self) {
        self.is_cut.store(false, Ordering::Release);
    }
}

/// A proxy to a rig's server, and its address.
async fn another_way(rig: &FleetRig) -> (CutLine, String) {
    let target = rig.store.split("://").nth(1).unwrap().split('@').next_back().unwrap();
    let target = target.split('/').next().unwrap().to_owned();
    let line = CutLine::to(target.clone()).await;
    let address = rig.store.replace(&target, &line.address.to_string());
    (line, address)
}

fn push(rig: &FleetRig, turns: impl IntoIterator<Item = Value>) {
    turns.into_iter().for_each(|turn| rig.model.push(serde_json::from_value(turn).unwrap()));
}

/// Scenario 19: a follower that is disconnected repeatedly reads the same bytes, and the job does not
/// wait for it.
async fn check_follower(kind: Kind) {
    let Some(rig) = FleetRig::on(kind, json!([])).await else { return };
    let (line, address) = another_way(&rig).await;
    let step = |number: u32| {
        let go = rig.path(&format!("go-{number}")).display().to_string();
        let began = rig.path(&format!("began-{number}")).display().to_string();
        bash(&format!("touch {began}; {}; seq 1 2000; echo done-step-{number}", until_there(&go)))
    };
    push(&rig, [json!({"when": {"last_user": {"equals": "go"}}, "reply": [step(1)]})]);
    for number in 1..4 {
        let next = step(number + 1);
        push(&rig, [json!({"when": {"tool_result": format!("done-step-{number}")}, "reply": [next]})]);
    }
    push(&rig, [json!({"when": {"tool_result": "done-step-4"}, "reply": [{"text": "finished"}]})]);
    let _worker = rig.worker("a", &[]);
    rig.until("a worker is there", || rig.worker_said("a").contains("waits")).await;
    let id = rig.submit("go", &[]);
    let mut follower = rig.command(&["logs", &id, "-f"]);
    let mut follower = follower.env("HAFT_FLEET", &address).stdout(Stdio::piped()).spawn().unwrap();
    let (mut heard, mut output) = (vec![0; 1], follower.stdout.take().unwrap());
    // Wait until the follower has connected, or the cut has no effect.
    tokio::task::block_in_place(|| output.read_exact(&mut heard).unwrap());
    for number in 1..=4 {
        rig.until("the step runs", || rig.path(&format!("began-{number}")).exists()).await;
        line.cut();
        std::fs::write(rig.path(&format!("go-{number}")), "").unwrap();
        if number < 4 {
            // The job continues without followers.
            rig.until("the next step runs", || rig.path(&format!("began-{}", number + 1)).exists()).await;
        }
        line.heal();
    }
    rig.until("it ends", || rig.state(&id) == "done").await;
    tokio::task::block_in_place(|| output.read_to_end(&mut heard).unwrap());
    let whole = rig.ok(&["logs", &id]);
    assert!(whole.contains("finished"), "{whole}");
    assert_eq!(String::from_utf8_lossy(&heard), whole);
    assert!(follower.wait().unwrap().success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_whose_line_is_cut_misses_nothing_on_nats() {
    check_follower(Kind::Nats).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_whose_line_is_cut_misses_nothing_on_postgres() {
    check_follower(Kind::Postgres).await;
}

/// Scenarios 23 and 7: one of two workers is disconnected for longer than its lease. Each slot creates
/// one job, the disconnected worker stops before others take over, and no call runs twice.
async fn check_cut_worker(kind: Kind) {
    let Some(rig) = FleetRig::on(kind, json!([])).await else { return };
    let (line, address) = another_way(&rig).await;
    let (began, go) = (rig.path("began").display().to_string(), rig.path("go").display().to_string());
    let wait = format!("touch {began}; {}; echo done-step-1", until_there(&go));
    push(
        &rig,
        [
            json!({"when": {"last_user": {"equals": "tick"}}, "times": "always", "reply": [{"text": "tock"}]}),
            json!({"when": {"tool_result": {"regex": "may be done in part|outcome unknown"}}, "times": "always",
               "reply": [{"text": "not sure"}]}),
            json!({"when": {"tool_result": "done-step-1"}, "times": "always", "reply": [{"text": "from the dead"}]}),
            json!({"times": "always", "reply": [bash(&rig.effect(&wait))]}),
        ],
    );
    let root = rig.path("root-a").display().to_string();
    let log = std::fs::File::create(rig.path("a.log")).unwrap();
    let cut_off = rig
        .command(&["worker", "--lease", "10s", "--root", &root])
        .env("HAFT_FLEET", &address)
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .unwrap();
    let _cut_off = WorkerProcess(cut_off);
    rig.until("a worker is there", || rig.worker_said("a").contains("waits")).await;
    let id = rig.submit("go", &[]);
    rig.until("the command runs", || rig.path("began").exists()).await;
    rig.ok(&["schedule", "often", "--every", "1s", "-p", "tick", "--missed", "all"]);
    let _other = rig.worker("b", &["--slots", "2"]);
    line.cut();
    rig.until("who is cut off stops", || rig.worker_said("a").contains(&format!("{id}: lost"))).await;
    rig.until("it ends elsewhere", || rig.state(&id) == "done").await;
    std::fs::write(rig.path("go"), "").unwrap();
    line.heal();
    let whole = rig.ok(&["logs", &id]);
    // The worker is connected again and takes jobs.
    let before = rig.worker_said("a").matches(": taken").count();
    rig.until("it is back", || before < rig.worker_said("a").matches(": taken").count()).await;
    rig.ok(&["schedule", "often", "--remove"]);
    assert_eq!(rig.ok(&["logs", &id]), whole);
    assert!(whole.contains("not sure") && !whole.contains("from the dead"), "{whole}");
    assert_eq!(rig.effects().len(), 1);
    let store = FleetStore::open(&FleetAddress::parse(&rig.store).unwrap()).await.unwrap();
    let jobs = store.queue.jobs(Default::default(), Default::default()).await.unwrap().jobs;
    let ticks = jobs.iter().filter(|it| it.head.labels.contains_key("schedule"));
    let mut slots: Vec<String> = ticks.filter_map(|it| it.head.dedup.clone()).collect();
    let all = slots.len();
    slots.sort();
    slots.dedup();
    assert_eq!(slots.len(), all);
    assert!(3 < all, "{all}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_is_cut_off_stops_and_nothing_is_twice_on_nats() {
    check_cut_worker(Kind::Nats).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_is_cut_off_stops_and_nothing_is_twice_on_postgres() {
    check_cut_worker(Kind::Postgres).await;
}
