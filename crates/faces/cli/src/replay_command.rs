//! `haft replay`: a recorded run again, without the model.

use std::{process::ExitCode, sync::Arc};

use haft_agent::{
    Agent, AgentEvent, Conversation, EndReason, ReplayCalls, UserInput,
    cassette::{Cassette, TapePlaces, Transcript},
};
use haft_hooks::{Hooks, Ports};
use haft_model::{ModelError, Provider, Replay};
use tokio::sync::mpsc;

use crate::{
    args::{Options, ReplayArgs, ReplayTools, RunArgs},
    interrupt::Interrupt,
    output::{Ended, Failure, complain, print_line},
    wiring::{self, Attended, Setup, Signals},
};

pub(crate) fn run(replay: &ReplayArgs, run: &RunArgs, options: &Options) -> Ended {
    wiring::runtime()?.block_on(play(replay, run, options))
}

async fn play(replay: &ReplayArgs, run: &RunArgs, options: &Options) -> Ended {
    let mut setup = Setup::new(options)?;
    setup.signals = Signals::Handled;
    let places = setup.tape_places();
    let loaded = Cassette::load(&replay.file, places.clone());
    let cassette = Arc::new(loaded.map_err(|err| format!("{}: {err}", replay.file.display()))?);
    let models = Models::of(replay, run, &setup, &cassette)?;
    let (mut agent, events) = agent(&mut setup, &cassette, models.provider())?;
    let calls = match (replay.tools, replay.fork_at) {
        (ReplayTools::Real, _) => ReplayCalls::Real,
        (ReplayTools::Recorded, None) => ReplayCalls::Recorded,
        (ReplayTools::Recorded, Some(_)) => ReplayCalls::RecordedThenReal,
    };
    agent.replay_calls(Arc::clone(&cassette), calls);
    if replay.tools == ReplayTools::Recorded {
        // What hooks did then is part of what was recorded.
        agent.tools.pipeline.gate.hooks().set(Hooks::new(Vec::new(), Ports::default()));
    }
    let interrupt = Interrupt::listen();
    let transcript = Transcript::new(places);
    let reason = work(&mut agent, events, &cassette, &interrupt, &transcript).await?;
    setup.close(&agent.tools).await;
    finished(reason, &models, &interrupt)
}

/// Who answers.
enum Models {
    Replay(Arc<Replay>),
    Forked(Arc<dyn Provider>),
}

impl Models {
    fn of(replay: &ReplayArgs, run: &RunArgs, setup: &Setup, cassette: &Cassette) -> Result<Self, Failure> {
        let Some(turns) = replay.fork_at else {
            return Ok(Self::Replay(Arc::new(cassette.model(setup.catalog()?))));
        };
        let live = setup.provider(run)?;
        Ok(Self::Forked(Arc::new(cassette.fork(turns, live.catalog, live.provider))))
    }

    fn provider(&self) -> Arc<dyn Provider> {
        match self {
            Self::Replay(replay) => Arc::clone(replay) as Arc<dyn Provider>,
            Self::Forked(forked) => Arc::clone(forked),
        }
    }
}

fn agent(
    setup: &mut Setup,
    cassette: &Cassette,
    provider: Arc<dyn Provider>,
) -> Result<(Agent, mpsc::UnboundedReceiver<AgentEvent>), Failure> {
    let header = &cassette.header;
    setup.only_tools = Some(header.tools.clone());
    let session = setup.session(Attended::Never)?;
    let mut conversation = Conversation::new(setup.session_id.clone(), &setup.cwd, None);
    conversation.begin_with(header.messages.clone());
    let (mut agent, events) =
        Agent::new(provider, session, conversation, header.settings.clone(), header.prompt.clone());
    if let Some(schema) = &header.output_schema {
        agent.require_output(schema.clone())?;
    }
    Ok((agent, events))
}

/// Works on every prompt. What happened is printed when a prompt is done: the
/// answers are there already, so there is nothing to wait for.
async fn work(
    agent: &mut Agent,
    mut events: mpsc::UnboundedReceiver<AgentEvent>,
    cassette: &Cassette,
    interrupt: &Interrupt,
    transcript: &Transcript,
) -> Result<EndReason, Failure> {
    let mut reason = EndReason::Completed;
    for content in &cassette.prompts {
        print_line(&transcript.prompt(content))?;
        let input = UserInput { content: content.clone(), ..UserInput::default() };
        let end = agent.run(input, &interrupt.cancel).await;
        while let Ok(event) = events.try_recv() {
            if let AgentEvent::Notice(notice) = &event {
                complain(notice);
            }
            if let Some(line) = transcript.event(&event) {
                print_line(&line)?;
            }
        }
        print_line(&transcript.end(&end))?;
        reason = end.reason;
        if reason != EndReason::Completed {
            break;
        }
    }
    Ok(reason)
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

impl Setup {
    /// The directories that have names in cassettes.
    pub(crate) fn tape_places(&self) -> TapePlaces {
        TapePlaces::new(&self.cwd, Some(&self.session_dir()), self.home.as_deref())
    }
}
