//! Memory and start cost of sub-agents, in numbers that do not depend on the load of the machine.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use futures_util::StreamExt as _;
use haft_model::{
    Catalog, ModelError, ModelInfo, ModelStream as Answers, Provider, ProviderFuture, Request,
    ScriptedProvider,
};
use haft_session::{Command, ModelSpec, Prompt, ProviderSpec, Session, SessionEventKind};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::{
    agents::is_child,
    rig::{Place, call, text},
};

/// A model whose agents wait until they are released.
struct Waiting {
    count: usize,
    begun: AtomicBool,
    asked: AtomicUsize,
    go_on: CancellationToken,
}

impl Provider for Waiting {
    fn name(&self) -> &str {
        "waiting"
    }

    fn info(&self, model: &str) -> ModelInfo {
        Catalog::built_in().get(model)
    }

    fn stream(&self, request: Request) -> Answers {
        if is_child(&request) {
            self.asked.fetch_add(1, Ordering::Relaxed);
            let go_on = self.go_on.clone();
            let answer = ScriptedProvider::new([text("report")]).stream(request);
            let wait = futures_util::stream::once(async move { go_on.cancelled().await });
            return Box::pin(wait.flat_map(|()| futures_util::stream::empty()).chain(answer));
        }
        let is_first = !self.begun.swap(true, Ordering::Relaxed);
        let blocks = if is_first {
            (0..self.count)
                .flat_map(|n| {
                    let input = json!({"description": "d", "prompt": format!("task {n}")});
                    call(&format!("c{n}"), "Agent", input)
                })
                .collect()
        } else {
            text("done")
        };
        ScriptedProvider::new([blocks]).stream(request)
    }

    fn count_tokens(&self, request: Request) -> ProviderFuture<'_, Result<u64, ModelError>> {
        Box::pin(async move { Ok(request.estimate_tokens()) })
    }
}

/// Resident memory of this process.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|it| it.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches("kB").trim().parse::<u64>().unwrap() * 1024
}

/// A thousand parallel agents use at most 1 MB each, and all report.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_agents_weigh_a_megabyte_each_at_most() {
    const COUNT: usize = 1_000;
    let place = Place::new();
    let provider = Arc::new(Waiting {
        count: COUNT,
        begun: AtomicBool::new(false),
        asked: AtomicUsize::new(0),
        go_on: CancellationToken::new(),
    });
    let mut spec = place.spec(Vec::new());
    let given = ProviderSpec::Given { provider: Arc::clone(&provider) as _, catalog: None };
    spec.model = Some(ModelSpec { provider: given, ..ModelSpec::default() });
    let limits = ["HAFT_MAX_AGENTS", "HAFT_MAX_AGENTS_PER_PROMPT"].map(|name| (name.into(), "2000".into()));
    let old = spec.place.variables.iter().map(|(name, value)| (name.to_owned(), value.to_owned()));
    spec.place.variables = old.chain(limits).collect();
    let (handle, mut events) = Session::open(spec).unwrap();
    let before = resident();
    handle.prompt(Prompt::text("go"));
    handle.send(Command::Finish);
    let reading = tokio::spawn(async move {
        let mut ended = 0;
        while let Some(event) = events.next().await {
            match event.what {
                SessionEventKind::ChildEnded(_, report) if report.text == "report" => ended += 1,
                SessionEventKind::Closed => break,
                _ => (),
            }
        }
        ended
    });
    let all_ask = async {
        while provider.asked.load(Ordering::Relaxed) < COUNT {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(300), all_ask).await.expect("all of them begin");
    let each = resident().saturating_sub(before) / COUNT as u64;
    provider.go_on.cancel();
    assert_eq!(reading.await.unwrap(), COUNT, "every one reports");
    println!("{} KiB for each of {COUNT} agents", each / 1024);
    assert!(each <= 1 << 20, "{} KiB for each agent", each / 1024);
}
