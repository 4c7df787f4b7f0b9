//! What the host is told while a session works.

use haft_agent::AgentEvent;
use haft_hooks::CompactTrigger;
use haft_model::Event;
use haft_runtime::{DeniedBy, Report};
use haft_sdk::TurnFacts;
use haft_tool::ErrorKind;
use haft_types::{MessageBlock, ToolUse, Usage};
use serde_json::{Value, json};

use super::{driver::Driver, states::StateFrames, turn::Running};

/// Whether a frame was written before the agent began to work.
fn begins_turn(frame: &Value) -> bool {
    frame["subtype"] == "init" || frame["status"] == "requesting" || frame["type"] == "user"
}

impl Driver {
    /// Tells a host that names its prompts what becomes of one.
    pub(super) fn tell_lifecycle(&self, prompt: Option<&str>, state: &str) {
        let Some(prompt) = prompt else { return };
        let fields = json!({"command_uuid": prompt, "state": state});
        self.out.frame(&self.frames.of_type("command_lifecycle", fields));
    }

    pub(super) fn state(&self, state: &str) {
        let fields = match self.state_frames {
            StateFrames::None => return,
            StateFrames::HostOnly => json!({"state": state, "sdk_host_only": true}),
            StateFrames::Open => json!({"state": state}),
        };
        self.out.frame(&self.frames.system("session_state_changed", fields));
    }

    /// Writes what the agent did before it asked this, then the question.
    pub(super) fn tell_asked(&mut self, mut frame: Value) {
        // What begins a turn comes before everything the agent does in it.
        while !begins_turn(&frame)
            && let Ok(event) = self.events.try_recv()
        {
            self.tell(&event);
        }
        self.tell_waiting(&frame);
        if frame["type"] == "system" && frame.get("session_id").is_none() {
            frame["session_id"] = json!(self.frames.session_id);
        }
        self.out.frame(&frame);
        // The answer may be that something was stopped.
        self.tell_ended_tasks();
    }

    /// Says that the session waits for a person, when it does.
    fn tell_waiting(&mut self, frame: &Value) {
        let id = || frame["request_id"].as_str().unwrap_or_default().to_owned();
        if frame["request"]["subtype"] == "can_use_tool" {
            self.questions.insert(id());
            self.state("requires_action");
        } else if frame["type"] == "control_cancel_request" {
            self.answered(&id());
        }
    }

    /// A question is settled; with the last one the session goes on.
    pub(super) fn answered(&mut self, request_id: &str) {
        if self.questions.remove(request_id) && self.questions.is_empty() && self.running.is_some() {
            self.state("running");
        }
    }

    pub(super) fn drain(&mut self) {
        while let Ok(frame) = self.asked.try_recv() {
            self.tell_asked(frame);
        }
        while let Ok(event) = self.events.try_recv() {
            self.tell(&event);
        }
    }

    pub(super) fn tell(&mut self, event: &AgentEvent) {
        self.watch(event);
        self.observer.hear(event);
        if let (Some(partial), AgentEvent::Model(event)) = (&mut self.partial, event) {
            for event in partial.events(event) {
                self.out.frame(&self.frames.stream_event(&event));
            }
        }
        if let AgentEvent::Result(it) = event {
            // Whoever wanted to decide later is not told that it was refused.
            if it.report.stop.as_deref() == Some(haft_agent::LEFT_FOR_LATER) {
                let (id, name) = (it.report.id.clone(), it.report.name.clone());
                self.seen.deferred = Some(ToolUse { id, name, input: it.input.clone() });
                return;
            }
            self.introduce();
            self.tell_tasks_of(it);
            self.tell_denied(&it.report);
        }
        if let Some(mut frame) = self.frames.frame(event).filter(|_| self.seen.compacted.is_none()) {
            self.mark(event, &mut frame);
            self.out.frame(&frame);
        }
        if let (Some(partial), AgentEvent::Block(_)) = (&mut self.partial, event)
            && let Some(end) = partial.block_end()
        {
            self.out.frame(&self.frames.stream_event(&end));
        }
        self.tell_mode();
    }

    /// Says that a call was denied, where neither the host nor a hook said so.
    fn tell_denied(&self, report: &Report) {
        let was_asked = self.asker.take_asked(&report.id);
        let by = report.denied_by.filter(|by| *by != DeniedBy::Hook);
        let (Some(by), Some(ErrorKind::Denied), false) = (by, report.error, was_asked) else { return };
        let mut fields = json!({
            "tool_name": report.name, "tool_use_id": report.id, "message": report.content.to_text(),
        });
        if let Some(kind) = match by {
            DeniedBy::Rule => Some("rule"),
            DeniedBy::Mode => Some("mode"),
            DeniedBy::Check => Some("safetyCheck"),
            DeniedBy::Hook | DeniedBy::Asked => None,
        } {
            fields["decision_reason_type"] = json!(kind);
        }
        self.out.frame(&self.frames.system("permission_denied", fields));
    }

    /// The first answer names the prompts it answers.
    fn mark(&mut self, event: &AgentEvent, frame: &mut Value) {
        let Some(running) = self.running.as_ref().filter(|it| !it.prompts.is_empty()) else { return };
        if matches!(event, AgentEvent::Block(_)) && !std::mem::replace(&mut self.seen.is_marked, true) {
            frame["user_message_uuid"] = json!(running.prompts.last());
            frame["user_message_uuids"] = json!(running.prompts);
        }
    }

    /// Remembers what the result will say.
    fn watch(&mut self, event: &AgentEvent) {
        match event {
            AgentEvent::Model(Event::Started { model, .. }) => {
                self.seen.answer = Some((model.clone(), Usage::default()));
                self.seen.in_tools = false;
            }
            AgentEvent::Model(Event::Usage(usage)) => {
                if let Some(answer) = &mut self.seen.answer {
                    answer.1 = *usage;
                }
            }
            AgentEvent::Model(Event::Stopped(_)) => {
                if let Some((model, usage)) = self.seen.answer.take() {
                    self.bill.add(&model, usage);
                }
            }
            AgentEvent::Model(Event::Text(_) | Event::Thinking(_) | Event::ToolStarted { .. }) => {
                if let (None, Some(running)) = (self.seen.ttft_ms, &self.running) {
                    self.seen.ttft_ms = u64::try_from(running.started.elapsed().as_millis()).ok();
                }
            }
            AgentEvent::Block(it) if matches!(it.block, MessageBlock::ToolUse(_)) => {
                self.seen.in_tools = true
            }
            AgentEvent::Compacted(it) if it.trigger == CompactTrigger::Manual => {
                self.seen.compacted = Some(it.clone());
            }
            _ => (),
        }
    }

    /// Says when the permission mode is another one than before.
    pub(super) fn tell_mode(&mut self) {
        let mode = self.pipeline.gate.mode();
        if mode != self.told_mode {
            self.told_mode = mode;
            let fields = json!({"status": null, "permissionMode": mode.name()});
            self.out.frame(&self.frames.system("status", fields));
        }
    }

    /// What the result says about the turn beside how it ended.
    pub(super) fn facts(&mut self, running: &Running) -> TurnFacts {
        let index = self.results;
        self.results += 1;
        TurnFacts {
            prompts: running.prompts.clone(),
            queued: self.queue.len(),
            index,
            in_tools: self.seen.in_tools,
            deferred: self.seen.deferred.take(),
            ttft_ms: self.seen.ttft_ms,
            prompt_text: running.prompt_text.clone(),
            speaker: running.speaker,
        }
    }
}
