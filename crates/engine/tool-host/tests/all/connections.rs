//! Connections: rejections with reasons, permission rules of both sides, several hosts.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use haft_tool::{BoxFuture, ErrorKind};
use haft_tool_host::{
    HostConfig, LinkConfig, RemoteQuestionHandler,
    protocol::{AnswerFrame, HostCommand, QuestionFrame},
};
use haft_types::AgentId;
use serde_json::json;

use crate::rig::{Far, FarRules, TOKEN, mark, near, one, open, setup, text};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unreachable_host_is_named_with_reason() {
    let far = Far::start(FarRules::default()).await;
    // Bound but not listening, so that no other process gets the port.
    let deaf = tokio::net::TcpSocket::new_v4().unwrap();
    deaf.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let nobody = deaf.local_addr().unwrap();
    let with = |config: HostConfig| LinkConfig { config, ..setup("a", far.address, "s") };
    let at = |address: &dyn std::fmt::Display| HostConfig::read(&format!("a=http://{address}/")).unwrap();
    for (setup, want) in [
        (with(at(&far.address)), "wants a token"),
        (with(at(&far.address).with_token("wrong")), "does not take the token"),
        (with(at(&nobody).with_token(TOKEN)), "refused"),
        (with(HostConfig::read("a=ssh://box/").unwrap().with_ssh("/no/such/ssh")), "cannot be started"),
        (with(HostConfig::read("a=ssh://box/").unwrap().with_ssh("sh -c exit\\ 127")), "cannot be reached"),
        (with(HostConfig::read("a=ssh://box/").unwrap().with_ssh("false")), "haft ended there with code 1"),
    ] {
        let config = setup.config.clone();
        let problem = open(vec![setup]).await.err().unwrap();
        assert!(problem.starts_with("host a ("), "{problem}");
        assert!(problem.contains(want), "{config:?}: {problem}");
        assert!(!problem.contains(TOKEN), "{problem}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_host_gives_actionable_tool_error() {
    let far = Far::start(FarRules::default()).await;
    let mut setup = setup("a", far.address, "s1");
    setup.times.patience = Duration::from_millis(100);
    let set = open(vec![setup]).await.unwrap();
    let dir = far.end().await;
    // Until the client has noticed the loss, a call counts as sent and its outcome as unknown.
    let outcomes = set.order(HostCommand::TakeNews { agent: AgentId::Main }).await;
    assert!(outcomes[0].1.is_err(), "{outcomes:?}");
    let mut session = near(&set, dir.path());
    let report = one(&mut session, mark("c", json!({"name": "m"}))).await;
    assert_eq!(report.error, Some(ErrorKind::NotStarted));
    let said = text(&report);
    assert!(said.contains("host a (http://127.0.0.1") && said.contains("did not run"), "{said}");
    assert_eq!(report.data.unwrap()["state"], "not_started");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn host_rules_decide_on_host() {
    let rules = FarRules { deny: vec![String::from("Mark")], ..FarRules::default() };
    let far = Far::start(rules).await;
    let set = open(vec![setup("a", far.address, "s1")]).await.unwrap();
    let mut session = near(&set, far.dir.path());
    let report = one(&mut session, mark("c", json!({"name": "m"}))).await;
    assert_eq!(report.error, Some(ErrorKind::Denied));
    let said = text(&report);
    assert!(
        said.starts_with("The rules of host a decided:") && said.contains("the host's own file"),
        "{said}"
    );
    assert!(far.marks().is_empty());
}

/// A user whose answers are scripted.
struct Person {
    says: AnswerFrame,
    asked: Mutex<Vec<String>>,
}

impl RemoteQuestionHandler for Person {
    fn ask(&self, host: String, question: QuestionFrame) -> BoxFuture<'static, AnswerFrame> {
        self.asked.lock().unwrap().push(format!("{host}: {}", question.tool));
        let says = self.says.clone();
        Box::pin(async move { says })
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn host_prompts_are_answered_by_local_user() {
    let no = || AnswerFrame::Deny { message: String::from("not today"), interrupt: false };
    let yes = || AnswerFrame::Allow { updates: Vec::new() };
    for (attended, says, runs, want) in [
        (true, yes(), true, "marked m "),
        (true, no(), false, "not today"),
        (false, yes(), false, "nobody is there to ask"),
    ] {
        let rules = FarRules { ask: vec![String::from("Mark")], ..FarRules::default() };
        let far = Far::start(rules).await;
        let set = open(vec![LinkConfig { attended, ..setup("a", far.address, "s1") }]).await.unwrap();
        let person = Arc::new(Person { says, asked: Mutex::default() });
        set.with_question_handler(Arc::clone(&person) as Arc<dyn RemoteQuestionHandler>);
        let mut session = near(&set, far.dir.path());
        let report = one(&mut session, mark("c", json!({"name": "m"}))).await;
        assert!(text(&report).contains(want), "{}", text(&report));
        assert_eq!(person.asked.lock().unwrap().len(), usize::from(attended));
        assert_eq!(far.marks().contains_key("end m"), runs);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn call_runs_on_the_host_it_names() {
    let (first, second) = (Far::start(FarRules::default()).await, Far::start(FarRules::default()).await);
    let set =
        open(vec![setup("cpu", first.address, "s1"), setup("gpu", second.address, "s1")]).await.unwrap();
    let mut session = near(&set, first.dir.path());
    let pool = session.pool.get();
    let schema = pool.tools().next().unwrap().1.spec().input_schema.clone();
    assert_eq!(schema["properties"]["host"]["enum"], json!(["cpu", "gpu"]));
    assert_eq!(schema["required"], json!(["name"]));
    let usual = one(&mut session, mark("a", json!({"name": "a"}))).await;
    assert_eq!(text(&usual), "[host cpu]\nmarked a ");
    let named = one(&mut session, mark("b", json!({"name": "b", "host": "gpu"}))).await;
    assert_eq!(text(&named), "[host gpu]\nmarked b ");
    assert_eq!(named.meta.unwrap()["haft/host"], "gpu");
    let none = one(&mut session, mark("c", json!({"name": "c", "host": "tpu"}))).await;
    assert!(text(&none).contains("the hosts are cpu, gpu"), "{}", text(&none));
    assert!(first.marks().contains_key("end a") && second.marks().contains_key("end b"));
    assert_eq!((first.marks().len(), second.marks().len()), (2, 2));
    let twice = open(vec![setup("cpu", first.address, "s2"), setup("cpu", second.address, "s2")]).await;
    assert!(twice.err().unwrap().contains("two hosts are called cpu"));
}
