//! `haft replay`: a recorded run again, without the model.

use std::{process::ExitCode, sync::Arc};

use haft_agent::{
    AgentEvent, EndReason, ReplayCalls, TurnEnd,
    cassette::{Cassette, Transcript},
};
use haft_model::{ModelError, Provider, Replay};
use haft_session::{
    EventStream, Happening, LogKept, LogStart, ModelSpec, Premises, Prompt, ProviderSpec, ReplaySpec,
    ServerStart, Session, SessionHandle, SessionSpec,
};
use haft_types::SessionId;

use crate::{
    args::{Options, ReplayArgs, ReplayTools, RunArgs},
    interrupt::Interrupt,
    output::{Ended, Failure, complain, print_line},
    spec,
};

pub(crate) fn run(replay: &ReplayArgs, run: &RunArgs, options: &Options) -> Ended {
    spec::runtime()?.block_on(play(replay, run, options))
}

async fn play(replay: &ReplayArgs, run: &RunArgs, options: &Options) -> Ended {
    let mut spec = spec::of_run(run, options)?;
    let id = SessionId::from(uuid::Uuid::new_v4().to_string());
    spec.log.id = Some(id.clone());
    let premises = Arc::new(Premises::read(&spec, id, spec::to_standard_error())?);
    let places = premises.tape_places();
    let loaded = Cassette::load(&replay.file, places.clone());
    let cassette = Arc::new(loaded.map_err(|err| format!("{}: {err}", replay.file.display()))?);
    let models = Models::of(replay, &spec, &premises, &cassette)?;
    replayed(&mut spec, replay, &cassette, models.provider());
    let (handle, events) = Session::open(spec)?;
    let interrupt = Interrupt::listen();
    let transcript = Transcript::new(places);
    let reason = work(&handle, events, &cassette, &interrupt, &transcript).await?;
    handle.close().await;
    finished(reason, &models, &interrupt)
}

/// A session that goes through a recording instead of anything else.
fn replayed(
    spec: &mut SessionSpec,
    replay: &ReplayArgs,
    cassette: &Arc<Cassette>,
    provider: Arc<dyn Provider>,
) {
    let calls = match (replay.tools, replay.fork_at) {
        (ReplayTools::Real, _) => ReplayCalls::Real,
        (ReplayTools::Recorded, None) => ReplayCalls::Recorded,
        (ReplayTools::Recorded, Some(_)) => ReplayCalls::RecordedThenReal,
    };
    let replayed = ReplaySpec {
        cassette: Arc::clone(cassette),
        calls,
        // What hooks did then is part of what was recorded.
        hooks: replay.tools == ReplayTools::Real,
    };
    let provider = ProviderSpec::Given { provider, catalog: None };
    spec.model = Some(ModelSpec { provider, replay: Some(replayed), ..ModelSpec::default() });
    spec.log.start = LogStart::New;
    spec.log.kept = LogKept::Nowhere;
    spec.servers.start = ServerStart::Never;
    spec.extensions.slash_commands = false;
}

/// Who answers.
enum Models {
    Replay(Arc<Replay>),
    Forked(Arc<dyn Provider>),
}

impl Models {
    fn of(
        replay: &ReplayArgs,
        spec: &SessionSpec,
        premises: &Premises,
        cassette: &Cassette,
    ) -> Result<Self, Failure> {
        let Some(turns) = replay.fork_at else {
            return Ok(Self::Replay(Arc::new(cassette.model(premises.catalog()?))));
        };
        let (live, catalog) = premises.provider(spec.model.as_ref())?;
        Ok(Self::Forked(Arc::new(cassette.fork(turns, catalog, live))))
    }

    fn provider(&self) -> Arc<dyn Provider> {
        match self {
            Self::Replay(replay) => Arc::clone(replay) as Arc<dyn Provider>,
            Self::Forked(forked) => Arc::clone(forked),
        }
    }
}

/// Works on every prompt. What happened is printed when a prompt is done: the
/// answers are there already, so there is nothing to wait for.
async fn work(
    handle: &SessionHandle,
    mut events: EventStream,
    cassette: &Cassette,
    interrupt: &Interrupt,
    transcript: &Transcript,
) -> Result<EndReason, Failure> {
    let mut reason = EndReason::Completed;
    for content in &cassette.prompts {
        print_line(&transcript.prompt(content))?;
        handle.prompt(Prompt { is_verbatim: true, ..Prompt::of_content(content.clone()) });
        let Some((end, lines)) = turn(handle, &mut events, interrupt, transcript).await else { break };
        for line in lines {
            print_line(&line)?;
        }
        print_line(&transcript.end(&end))?;
        reason = end.reason;
        if reason != EndReason::Completed {
            break;
        }
    }
    Ok(reason)
}

/// One prompt: how it ended, and what happened in it.
async fn turn(
    handle: &SessionHandle,
    events: &mut EventStream,
    interrupt: &Interrupt,
    transcript: &Transcript,
) -> Option<(TurnEnd, Vec<String>)> {
    let (mut lines, mut interrupted) = (Vec::new(), false);
    loop {
        let event = tokio::select! {
            event = events.next() => event,
            () = interrupt.cancel.cancelled(), if !interrupted => {
                interrupted = true;
                handle.interrupt();
                continue;
            }
        };
        match event?.what {
            Happening::Closed => return None,
            Happening::TurnEnded(turn) => return Some((turn.end, lines)),
            Happening::Notice(notice) => complain(&notice),
            Happening::Agent(event) => {
                if let AgentEvent::Notice(notice) = &event {
                    complain(notice);
                }
                lines.extend(transcript.event(&event));
            }
            _ => (),
        }
    }
}

fn finished(reason: EndReason, models: &Models, interrupt: &Interrupt) -> Ended {
    match reason {
        EndReason::Interrupted => return Ok(ExitCode::from(interrupt.code())),
        EndReason::Failed(error @ ModelError::ReplayMiss { .. }) => {
            complain(&error.to_string());
            return Ok(ExitCode::FAILURE);
        }
        EndReason::Failed(error) => complain(&error.to_string()),
        _ => (),
    }
    if let Models::Replay(replay) = models
        && 0 < replay.unused()
    {
        complain(&format!("replay miss: {} recorded answers were not asked for", replay.unused()));
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}
