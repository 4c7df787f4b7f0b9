//! The end of a turn, told to the host.

use haft_agent::{
    Agent, Conversation, EndReason, SummedUp, TurnEnd,
    log::{LogFile, cost},
};
use haft_hooks::SessionSource;
use haft_sdk::{ApiFailure, Bill, Speaker, TurnFacts, UserFrame, local_result, turn_frame};
use haft_types::{SessionId, Usage};
use serde_json::{Value, json};

use super::{
    driver::{Driver, Ended},
    extensions::Builtin,
    turn::{self, Ending, Running},
    usage::Snapshot,
};
use crate::cost_command::lost;

impl Driver {
    pub(super) fn finish(&mut self, ended: Ended) -> Result<(), u8> {
        self.drain();
        self.introduce();
        let Some(mut running) = self.running.take() else { return Ok(()) };
        let (mut agent, ending) = match ended {
            Ok(ended) => ended,
            Err(err) => {
                let problem = format!("the turn broke off inside Haft: {err}");
                self.out.frame(&haft_sdk::failed_start(self.frames.session_id.as_str(), &problem));
                return Err(1);
            }
        };
        self.take_late(&agent, &mut running);
        let mut facts = self.facts(&running);
        match ending {
            Ending::Turn(end) => self.finish_turn(&mut agent, *end, &mut facts),
            Ending::Local(command, summed_up) => self.finish_local(&mut agent, command, summed_up, &facts),
        }
        for prompt in &running.prompts {
            self.tell_lifecycle(Some(prompt), "completed");
        }
        std::mem::take(&mut self.later).into_iter().for_each(|change| change(&mut agent));
        self.snapshot = Snapshot::of(&agent);
        self.agent = Some(agent);
        if self.queue.is_empty() {
            self.state("idle");
        }
        Ok(())
    }

    /// What nobody heard any more is the next prompt; the rest was answered too.
    fn take_late(&mut self, agent: &Agent, running: &mut Running) {
        let late = agent.inbox.take();
        let named = std::mem::take(&mut running.meanwhile);
        let is_late = |name: &String| late.iter().any(|it| it.uuid.as_ref() == Some(name));
        for name in named.iter().filter(|name| !is_late(name)) {
            self.tell_lifecycle(Some(name), "started");
            running.prompts.push(name.clone());
        }
        self.queue.extend(late.into_iter().map(|input| UserFrame {
            is_named: input.uuid.as_ref().is_some_and(|uuid| named.contains(uuid)),
            uuid: input.uuid.unwrap_or_else(|| uuid::Uuid::new_v4().to_string()),
            message: Value::Null,
            content: input.content,
            wants_answer: true,
            is_verbatim: true,
            speaker: Speaker::Person,
        }));
    }

    fn finish_turn(&mut self, agent: &mut Agent, mut end: TurnEnd, facts: &mut TurnFacts) {
        if self.asker.take_interrupt() && matches!(end.reason, EndReason::Stopped(_)) {
            end.reason = EndReason::Interrupted;
            end.messages += 1;
            facts.in_tools = true;
            agent.note_interruption();
            self.drain();
        }
        self.observer.end(&end);
        match &end.reason {
            EndReason::Failed(error) => {
                self.out.frame(&self.frames.api_error(&ApiFailure::of(error)));
            }
            EndReason::Stopped(reason) if end.turns == 0 => {
                let prompt = &facts.prompt_text;
                let content = format!(
                    "UserPromptSubmit operation blocked by hook:\n{reason}\n\nOriginal prompt: {prompt}"
                );
                let fields = json!({"content": content, "level": "warning", "prevent_continuation": true});
                self.out.frame(&self.frames.system("informational", fields));
            }
            _ => (),
        }
        self.tell_mirrored(agent);
        for (model, usage) in agent.ledger.take_settled() {
            self.bill.add(&model, usage);
        }
        self.bill.usd = agent.spending().usd;
        self.api_ms = u64::try_from(agent.spending().api_time.as_millis()).unwrap_or(u64::MAX);
        let result = turn_frame(&self.frames.session_id, &end, &self.bill, facts);
        self.last_failed = result["is_error"] == true;
        self.out.frame(&result);
    }

    fn finish_local(
        &mut self,
        agent: &mut Agent,
        command: Builtin,
        summed_up: Option<SummedUp>,
        facts: &TurnFacts,
    ) {
        self.last_failed = false;
        let (name, text) = match command {
            Builtin::Clear => {
                self.clear(agent);
                ("clear", String::new())
            }
            Builtin::Compact => ("compact", self.finish_compact(summed_up)),
            Builtin::Context => ("context", Snapshot::of(agent).text()),
            Builtin::Cost => ("cost", self.cost_text(agent)),
        };
        if command != Builtin::Compact {
            self.tell_init(agent);
        }
        if !text.is_empty() {
            self.out.frame(&self.frames.command_output(&text));
        }
        if command == Builtin::Compact && text.is_empty() {
            self.tell_summary(agent);
        }
        self.tell_mirrored(agent);
        self.bill.usd = agent.spending().usd;
        self.out.frame(&local_result(&self.frames.session_id, name, &text, &self.bill, facts));
    }

    fn tell_init(&self, agent: &Agent) {
        let (init, added) = turn::init(agent, &self.manager, self.init());
        self.out.frame(&self.frames.init_with(&init, &added));
    }

    /// What is to be said when it did not work.
    fn finish_compact(&self, summed_up: Option<SummedUp>) -> String {
        let (result, problem) = match summed_up {
            Some(SummedUp::NotDone(why)) => ("failed", Some(why)),
            Some(SummedUp::Done(_)) | None => ("success", None),
        };
        let mut fields = json!({"status": null, "compact_result": result});
        if let Some(why) = &problem {
            fields["compact_error"] = json!(why);
        }
        self.out.frame(&self.frames.system("status", fields));
        problem.map(|why| format!("Not compacted: {why}")).unwrap_or_default()
    }

    fn tell_summary(&mut self, agent: &Agent) {
        self.tell_init(agent);
        if let Some(compacted) = self.seen.compacted.take() {
            self.out.frame(&self.frames.compacted(&compacted));
        }
        if let Some(summary) = agent.conversation.messages().first() {
            let texts = summary.content.iter().filter_map(|block| match block {
                haft_types::MessageBlock::Text { text } => Some(text.as_str()),
                _ => None,
            });
            self.out.frame(&self.frames.summary(&texts.collect::<Vec<_>>().join("\n\n")));
        }
        let told =
            json!({"role": "user", "content": "<local-command-stdout>Compacted</local-command-stdout>"});
        self.out.frame(&self.frames.replay(&told, &uuid::Uuid::new_v4().to_string()));
    }

    /// A new session in the same process; the old one stays as it is.
    fn clear(&mut self, agent: &mut Agent) {
        self.tell_mirrored(agent);
        let id = SessionId::from(uuid::Uuid::new_v4().to_string());
        let fields = json!({"new_conversation_id": id, "trigger": "clear"});
        self.out.frame(&self.frames.of_type("conversation_reset", fields));
        let (keeps, mirrors) = (agent.conversation.log_path().is_some(), agent.conversation.is_mirrored());
        self.setup.session_id = id.clone();
        let path = self.setup.log_path(id.as_str());
        let mut fresh = Conversation::new(id.clone(), &self.setup.cwd, None);
        if keeps && let Ok(log) = LogFile::open(path.clone()) {
            fresh.set_log(log);
        }
        if mirrors {
            fresh.mirror();
        }
        fresh.stamp(self.stamp.clone());
        agent.conversation = fresh;
        agent.restore_spending(Usage::default(), 0.0);
        agent.tools.state.loaded.clear();
        self.bill = Bill::default();
        self.pipeline.gate.hooks().set_session(id.clone(), path);
        self.frames.session_id = id;
        self.begins = Some(SessionSource::Clear);
    }

    fn cost_text(&self, agent: &Agent) -> String {
        let spent = agent.spending();
        let log = agent.conversation.log_path().and_then(|path| cost::of_log(path).ok());
        let lost = log.map(|cost| format!("\n{}", lost(&cost).trim_end())).unwrap_or_default();
        format!(
            "Total cost: ${:.4}\nTime of the model: {:.1} s\nTokens: {} in, {} out, {} read from the cache, \
             {} written to it{lost}",
            spent.usd,
            spent.api_time.as_secs_f64(),
            spent.usage.input_tokens,
            spent.usage.output_tokens,
            spent.usage.cache_read_input_tokens,
            spent.usage.cache_creation_input_tokens,
        )
    }

    /// The lines that were written to the log, in frames that are short enough.
    fn tell_mirrored(&self, agent: &mut Agent) {
        const BATCH: usize = 400_000;
        let path = agent.conversation.log_path().map(|it| it.display().to_string()).unwrap_or_default();
        let (mut batch, mut size) = (Vec::new(), 0);
        let tell = |batch: &mut Vec<Value>| {
            let entries = std::mem::take(batch);
            self.out.frame(&json!({"type": "transcript_mirror", "filePath": path, "entries": entries}));
        };
        for entry in agent.conversation.take_mirrored() {
            let Ok(entry) = serde_json::to_value(&entry) else { continue };
            let length = entry.to_string().len();
            size += length;
            if BATCH < size && !batch.is_empty() {
                tell(&mut batch);
                size = length;
            }
            batch.push(entry);
        }
        if !batch.is_empty() {
            tell(&mut batch);
        }
    }
}
