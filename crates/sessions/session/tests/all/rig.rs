//! Sessions with a scripted model, in directories of their own.

use std::{path::Path, sync::Arc};

use futures_util::StreamExt as _;
use haft_agent::AgentEvent;
use haft_model::{
    Catalog, ModelError, ModelEvent, ModelInfo, ModelStream as Answers, Provider, ProviderFuture, Request,
    ScriptedProvider,
};
use haft_session::{
    Command, EventStream, LocationSpec, ModelSpec, Prompt, ProviderSpec, Session, SessionEvent,
    SessionEventKind, SessionSpec, TurnEnded,
};
use haft_types::{EnvVars, MessageBlock, ToolUse};
use serde_json::Value;

/// A place with a home of its own.
pub struct Place {
    pub dir: tempfile::TempDir,
}

impl Place {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        for name in ["ws", "home"] {
            std::fs::create_dir(dir.path().join(name)).unwrap();
        }
        Self { dir }
    }

    pub fn ws(&self) -> std::path::PathBuf {
        self.dir.path().canonicalize().unwrap().join("ws")
    }

    pub fn home(&self) -> std::path::PathBuf {
        self.dir.path().canonicalize().unwrap().join("home")
    }

    pub fn write(&self, path: &str, text: &str) {
        let path = self.dir.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// A session here whose model gives these answers.
    pub fn spec(&self, answers: Vec<Vec<MessageBlock>>) -> SessionSpec {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let home = self.home();
        let variables: EnvVars = [("PATH".into(), path), ("HOME".into(), home.into_os_string())]
            .into_iter()
            .collect::<Vec<(std::ffi::OsString, std::ffi::OsString)>>()
            .into_iter()
            .collect();
        let place = LocationSpec { variables, ..LocationSpec::new(self.ws()) };
        let provider =
            ProviderSpec::Given { provider: Arc::new(ScriptedProvider::new(answers)), catalog: None };
        SessionSpec { model: Some(ModelSpec { provider, ..ModelSpec::default() }), ..SessionSpec::new(place) }
    }
}

/// What a model says to a request.
pub enum Said {
    Blocks(Vec<MessageBlock>),
    /// The same, and the provider does not say what it took.
    Untold(Vec<MessageBlock>),
    /// The provider fails.
    Fail,
    /// Nothing, for ever.
    Hang,
}

impl Said {
    pub fn text(words: &str) -> Self {
        Self::Blocks(text(words))
    }
}

/// Every request, in order.
#[derive(Clone, Default)]
pub struct Requests(Arc<std::sync::Mutex<Vec<Request>>>);

impl Requests {
    pub fn all(&self) -> Vec<Request> {
        self.0.lock().unwrap().clone()
    }
}

/// A model that answers each request by what it says.
struct Answering<F> {
    answer: F,
    requests: Requests,
}

impl<F: Fn(&Request) -> Said + Send + Sync + 'static> Provider for Answering<F> {
    fn name(&self) -> &str {
        "answering"
    }

    fn info(&self, model: &str) -> ModelInfo {
        Catalog::built_in().get(model)
    }

    fn stream(&self, request: Request) -> Answers {
        let said = (self.answer)(&request);
        self.requests.0.lock().unwrap().push(request.clone());
        match said {
            Said::Blocks(blocks) => ScriptedProvider::new([blocks]).stream(request),
            Said::Untold(blocks) => {
                let is_shown = |it: &Result<ModelEvent, ModelError>| !matches!(it, Ok(ModelEvent::Usage(_)));
                let events = ScriptedProvider::new([blocks]).stream(request);
                Box::pin(events.filter(move |it| std::future::ready(is_shown(it))))
            }
            Said::Fail => ScriptedProvider::new([]).stream(request),
            Said::Hang => ScriptedProvider::new([text("never said in full")])
                .with_pace(std::time::Duration::from_secs(3600))
                .stream(request),
        }
    }

    fn count_tokens(&self, request: Request) -> ProviderFuture<'_, Result<u64, ModelError>> {
        Box::pin(async move { Ok(request.estimate_tokens()) })
    }
}

impl Place {
    /// A session here whose model answers each request by what it says.
    pub fn answering(
        &self,
        answer: impl Fn(&Request) -> Said + Send + Sync + 'static,
    ) -> (SessionSpec, Requests) {
        let requests = Requests::default();
        let provider: Arc<dyn Provider> = Arc::new(Answering { answer, requests: requests.clone() });
        let mut spec = self.spec(Vec::new());
        let provider = ProviderSpec::Given { provider, catalog: None };
        spec.model = Some(ModelSpec { provider, ..ModelSpec::default() });
        (spec, requests)
    }
}

pub fn text(text: &str) -> Vec<MessageBlock> {
    vec![MessageBlock::Text { text: text.to_owned() }]
}

pub fn call(id: &str, name: &str, input: Value) -> Vec<MessageBlock> {
    vec![MessageBlock::ToolUse(ToolUse { id: id.into(), name: name.to_owned(), input })]
}

/// Everything a session told until it closed.
pub async fn told(mut events: EventStream) -> Vec<SessionEvent> {
    let mut all = Vec::new();
    while let Some(event) = events.next().await {
        let is_over = matches!(event.what, SessionEventKind::Closed);
        all.push(event);
        if is_over {
            break;
        }
    }
    all
}

/// One prompt, and everything that happened.
pub async fn run(spec: SessionSpec, prompt: &str) -> Vec<SessionEvent> {
    let (handle, events) = Session::open(spec).unwrap();
    handle.prompt(Prompt::text(prompt));
    handle.send(Command::Finish);
    told(events).await
}

pub fn ends(events: &[SessionEvent]) -> Vec<&TurnEnded> {
    let ends = events.iter().filter_map(|it| match &it.what {
        SessionEventKind::TurnEnded(turn) => Some(turn.as_ref()),
        _ => None,
    });
    ends.collect()
}

/// Undo ids differ from run to run.
fn without_undo_id(text: &str) -> String {
    text.split_once(" Undo id:").map_or(text, |(before, _)| before).to_owned()
}

/// What every call came to: tool, error, text with the place left out.
pub fn results(events: &[SessionEvent], place: &Path) -> Vec<(String, bool, String)> {
    let place = place.canonicalize().unwrap().display().to_string();
    let results = events.iter().filter_map(|it| match &it.what {
        SessionEventKind::Agent(AgentEvent::ResultLogged { answered: it, .. }) => Some((
            it.report.name.clone(),
            it.report.error.is_some(),
            without_undo_id(&it.report.content.to_text().replace(&place, "PLACE")),
        )),
        _ => None,
    });
    results.collect()
}
