//! `haft replay`: repeats a recorded run without the model.

use std::{process::ExitCode, sync::Arc};

use haft_agent::{
    AgentEvent, EndReason, ReplayCalls, TurnEnd,
    recording::{RecordedRun, RunTranscript},
};
use haft_console::{
    GlobalArgs,
    interrupt::Interrupt,
    stdout::{CliError, CommandExit, print_error, print_line},
};
use haft_model::{ModelError, Provider, ReplayProvider};
use haft_sdk_server::{FrameOptions, Projection, turn_frame};
use haft_session::{
    EventStream, LogDestination, LogStart, ModelSpec, Prompt, ProviderSpec, ReplaySpec, ServerStart, Session,
    SessionEnvironment, SessionEventKind, SessionHandle, SessionSpec, TurnEnded,
};
use haft_types::SessionId;

use crate::{
    args::{OutputFormat, ReplayArgs, ReplayTools, RunArgs},
    run::{print::outcome, session_spec},
};

pub(crate) fn run(replay: &ReplayArgs, run: &RunArgs, options: &GlobalArgs) -> CommandExit {
    session_spec::runtime()?.block_on(play(replay, run, options))
}

async fn play(replay: &ReplayArgs, run: &RunArgs, options: &GlobalArgs) -> CommandExit {
    let mut spec = session_spec::of_run(run, options)?;
    let id = SessionId::from(uuid::Uuid::new_v4().to_string());
    spec.log.id = Some(id.clone());
    let premises = Arc::new(SessionEnvironment::read(&spec, id, session_spec::stderr_events())?);
    let places = premises.tape_places();
    let loaded = RecordedRun::load(&replay.file, places.clone());
    let cassette = Arc::new(loaded.map_err(|err| format!("{}: {err}", replay.file.display()))?);
    let models = Models::choose(replay, &spec, &premises, &cassette)?;
    replayed(&mut spec, replay, &cassette, models.provider());
    let (handle, events) = Session::open(spec)?;
    let interrupt = Interrupt::listen();
    let shown = match replay.output_format.unwrap_or(run.output.output_format) {
        OutputFormat::Text => ReplayShown::Transcript(RunTranscript::new(places)),
        OutputFormat::Json => ReplayShown::Result,
        OutputFormat::StreamJson => {
            ReplayShown::Frames(Box::new(Projection::new(handle.id().clone(), FrameOptions::default())))
        }
    };
    let last = work(&handle, events, &cassette, &interrupt, shown).await?;
    handle.close().await;
    finished(last.as_ref().map(|it| &it.end), &models, &interrupt, run)
}

/// Changes the spec to a session that replays a recording.
fn replayed(
    spec: &mut SessionSpec,
    replay: &ReplayArgs,
    cassette: &Arc<RecordedRun>,
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
        // The recording contains the effects of hooks, so they run only with real tools.
        hooks: replay.tools == ReplayTools::Real,
    };
    let provider = ProviderSpec::Given { provider, catalog: None };
    spec.model = Some(ModelSpec { provider, replay: Some(replayed), ..ModelSpec::default() });
    spec.log.start = LogStart::New;
    spec.log.kept = LogDestination::Nowhere;
    spec.servers.start = ServerStart::Never;
    spec.extensions.slash_commands = false;
}

/// Where the model's answers come from.
enum Models {
    Replay(Arc<ReplayProvider>),
    Forked(Arc<dyn Provider>),
}

impl Models {
    fn choose(
        replay: &ReplayArgs,
        spec: &SessionSpec,
        premises: &SessionEnvironment,
        cassette: &RecordedRun,
    ) -> Result<Self, CliError> {
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

/// How a replayed run is printed.
enum ReplayShown {
    /// A transcript without ids and times: equal runs print equal text.
    Transcript(RunTranscript),
    /// One JSON object at the end.
    Result,
    /// One JSON object per line, as events happen.
    Frames(Box<Projection>),
}

/// Replays every prompt. A transcript is printed when its prompt is finished; recorded answers arrive at
/// once, so there is nothing to stream.
async fn work(
    handle: &SessionHandle,
    mut events: EventStream,
    cassette: &RecordedRun,
    interrupt: &Interrupt,
    mut shown: ReplayShown,
) -> Result<Option<Box<TurnEnded>>, CliError> {
    let mut last = None;
    for content in &cassette.prompts {
        if let ReplayShown::Transcript(transcript) = &shown {
            print_line(&transcript.prompt(content))?;
        }
        handle.prompt(Prompt { is_verbatim: true, ..Prompt::of_content(content.clone()) });
        let Some((turn, lines)) = turn(handle, &mut events, interrupt, &mut shown).await else { break };
        for line in lines {
            print_line(&line)?;
        }
        if let ReplayShown::Transcript(transcript) = &shown {
            print_line(&transcript.end(&turn.end))?;
        }
        let goes_on = turn.end.reason == EndReason::Completed;
        last = Some(turn);
        if !goes_on {
            break;
        }
    }
    if let (ReplayShown::Result, Some(turn)) = (&shown, &last) {
        print_line(&turn_frame(handle.id(), &turn.end, &turn.bill, &turn.facts).to_string())?;
    }
    Ok(last)
}

/// Replays one prompt; returns how its turn ended, and its transcript lines.
async fn turn(
    handle: &SessionHandle,
    events: &mut EventStream,
    interrupt: &Interrupt,
    shown: &mut ReplayShown,
) -> Option<(Box<TurnEnded>, Vec<String>)> {
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
        let event = event?;
        if let ReplayShown::Frames(projection) = shown {
            lines.extend(projection.of(&event).iter().map(ToString::to_string));
        }
        match event.what {
            SessionEventKind::Agent(_) if !event.agent.is_main() => (),
            SessionEventKind::Closed => return None,
            SessionEventKind::TurnEnded(turn) => return Some((turn, lines)),
            SessionEventKind::Notice(notice) => print_error(&notice),
            SessionEventKind::Agent(event) => {
                if let AgentEvent::Notice(notice) = &event {
                    print_error(notice);
                }
                if let ReplayShown::Transcript(transcript) = shown {
                    lines.extend(transcript.event(&event));
                }
            }
            _ => (),
        }
    }
}

/// The exit code of the recorded end. A replay miss (a request without recorded answer, or unused
/// answers) is a failure.
fn finished(end: Option<&TurnEnd>, models: &Models, interrupt: &Interrupt, run: &RunArgs) -> CommandExit {
    let completed = EndReason::Completed;
    let reason = end.map_or(&completed, |it| &it.reason);
    if let EndReason::Failed(error) = reason {
        print_error(&error.to_string());
        if matches!(error, ModelError::ReplayMiss { .. }) {
            return Ok(ExitCode::FAILURE);
        }
    }
    if let Models::Replay(replay) = models
        && 0 < replay.unused()
        && *reason != EndReason::Interrupted
    {
        print_error(&format!("replay miss: {} recorded answers were not asked for", replay.unused()));
        return Ok(ExitCode::FAILURE);
    }
    let denied = !run.limits.allow_denials && end.is_some_and(|it| !it.denials.is_empty());
    Ok(ExitCode::from(outcome(reason, denied, interrupt).0))
}
