//! The Skill tool, by which a model uses a skill.

use std::sync::Arc;

use haft_builtin_tools::agent::{SubagentOutcome, SubagentRequest, SubagentSpawner as _, report_text};
use haft_tool::{
    Access, AccessSet, CallContext, CallEffect, Content, Outcome, Tool, ToolContext, ToolError, Traits,
};
use haft_types::Message;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    SlashCommand,
    listing::{SkillListing, search},
    shelf::{ActiveSkills, SkillGrants},
};

/// Loads a skill: instructions for one kind of task.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SkillInput {
    /// Name of the skill, from the list above.
    skill: String,
    /// What it is to work on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    args: Option<String>,
}

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SkillOutput {
    success: bool,
    command_name: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    allowed_tools: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent_id: Option<String>,
    /// Id of the run this result reports.
    #[serde(skip_serializing_if = "Option::is_none")]
    run_id: Option<String>,
    /// Text used instead of the default one.
    #[serde(rename = "result", skip_serializing_if = "Option::is_none")]
    said: Option<String>,
}

/// State of the Skill tool.
pub(crate) struct SkillTool {
    shelf: Arc<ActiveSkills>,
    prompt: String,
}

impl SkillTool {
    /// Creates the tool with this list, which is fixed; changes are sent as messages.
    pub(crate) fn new(shelf: Arc<ActiveSkills>, listing: &SkillListing) -> Self {
        let mut prompt = String::from(
            "Loads a skill: instructions for one kind of task. Use one before you begin when it fits. Skills:",
        );
        for line in &listing.lines {
            prompt.push('\n');
            prompt.push_str(line);
        }
        if listing.lines.is_empty() {
            prompt.push_str(" none yet; new ones are told.");
        }
        if let Some(note) = listing.note() {
            prompt.push('\n');
            prompt.push_str(&note);
        }
        Self { shelf, prompt }
    }

    fn find(&self, name: &str) -> Option<SlashCommand> {
        self.shelf.find(name.trim().trim_start_matches('/')).ok()
    }

    /// The rules a skill wants to allow, and the commands it wants to run.
    fn wishes(&self, name: &str) -> Vec<String> {
        let Some(skill) = self.find(name) else { return Vec::new() };
        let mut events: Vec<&str> = skill.hooks().iter().map(|it| it.event.as_str()).collect();
        events.dedup();
        let mut wishes = skill.fields.allowed;
        wishes.extend((!events.is_empty()).then(|| format!("its own hooks ({})", events.join(", "))));
        wishes
    }

    /// Runs a skill in its own sub-agent.
    async fn fork(
        &self,
        skill: &SlashCommand,
        kind: &str,
        prompt: String,
        cx: &ToolContext<()>,
    ) -> Result<SkillOutput, ToolError> {
        let order = forked_order(skill, kind, prompt);
        let output = SkillOutput {
            success: true,
            command_name: skill.name.clone(),
            allowed_tools: skill.fields.allowed.clone(),
            status: Some("forked"),
            ..SkillOutput::default()
        };
        match self.shelf.agents().spawn(order, cx).await {
            Err(refusal) => Err(ToolError::failed(refusal)),
            Ok(SubagentOutcome::Launched(launched)) => Ok(SkillOutput {
                said: Some(format!(
                    "The skill {} works in the background as agent {}. Its report comes by itself: do not wait or poll for it.",
                    skill.name, launched.id
                )),
                agent_id: Some(launched.id.to_string()),
                ..output
            }),
            Ok(SubagentOutcome::Ended(report)) => match report.status {
                haft_builtin_tools::agent::AgentStatus::Completed => Ok(SkillOutput {
                    said: Some(report_text(&report)),
                    agent_id: Some(report.agent_id.clone()),
                    run_id: Some(report.run_id.clone()),
                    ..output
                }),
                _ => Err(ToolError::failed(report_text(&report)).with_data(report.to_json())),
            },
        }
    }
}

/// The request for the sub-agent a skill runs in.
pub(crate) fn forked_order(skill: &SlashCommand, kind: &str, prompt: String) -> SubagentRequest {
    SubagentRequest {
        kind: kind.to_owned(),
        description: format!("skill {}", skill.name),
        prompt,
        model: skill.model.clone(),
        effort: skill.fields.effort.clone(),
        background: Some(skill.fields.is_in_background),
        skill: Some(skill.name.clone()),
        disallowed: skill.fields.disallowed.clone(),
        ..SubagentRequest::default()
    }
}

impl Tool for SkillTool {
    type Input = SkillInput;
    type Output = SkillOutput;
    type Progress = ();
    const NAME: &'static str = "Skill";

    fn traits(&self) -> Traits {
        Traits { search_hint: "skill instructions how to", timeout: None, ..Traits::default() }
    }

    fn prompt(&self, _doc: String) -> String {
        self.prompt.clone()
    }

    /// A skill only adds text; its commands are judged one by one, and its sub-agent has no more
    /// permissions than the caller. A skill that wants to allow rules prompts.
    fn is_read_only(&self, input: &SkillInput) -> bool {
        self.wishes(&input.skill).is_empty()
    }

    /// Rules match the full name, however the call writes it.
    fn canonicalize(&self, input: &mut SkillInput, _cx: &CallContext) {
        let name = input.skill.trim().trim_start_matches('/').to_owned();
        input.skill = self.find(&name).map_or(name, |it| it.name);
    }

    /// `Skill(name)`, or `Skill(name:*)` for any arguments.
    fn reach(&self, input: &SkillInput, _cx: &CallContext) -> AccessSet {
        let args = input.args.as_deref().unwrap_or_default();
        if args.is_empty() && !self.wishes(&input.skill).is_empty() {
            // An allow rule need not mention arguments.
            return AccessSet::Declared(vec![Access::Named(input.skill.clone())]);
        }
        AccessSet::Declared(vec![
            Access::Named(input.skill.clone()),
            Access::Named(format!("{}:{args}", input.skill)),
        ])
    }

    fn describe(&self, input: &SkillInput) -> String {
        match self.wishes(&input.skill).join(", ").as_str() {
            "" => format!("Use the skill {}", input.skill),
            wishes => format!(
                "Use the skill {}, and let it use without further questions until the turn ends: {}",
                input.skill,
                haft_types::text::one_line(wishes, 300)
            ),
        }
    }

    fn to_content(&self, output: &SkillOutput) -> Content {
        match &output.said {
            Some(said) => Content::text(said.clone()),
            None => format!("Launching skill: {}", output.command_name).into(),
        }
    }

    async fn call(&self, input: SkillInput, cx: &ToolContext<()>) -> Result<Outcome<SkillOutput>, ToolError> {
        let wanted = input.skill.trim_start_matches('/');
        let args = input.args.as_deref().unwrap_or_default().trim();
        if let Some(words) = wanted.strip_prefix('?') {
            let all = self.shelf.all();
            let found = search(&all.iter().collect::<Vec<_>>(), words);
            let lines = found.iter().map(|it| {
                format!("- {}: {}", it.name, haft_builtin_tools::agent::flat(&it.description, 600))
            });
            let lines: Vec<String> = lines.collect();
            let said =
                if lines.is_empty() { String::from("No skill is about that.") } else { lines.join("\n") };
            let output = SkillOutput { success: true, said: Some(said), ..SkillOutput::default() };
            return Ok(output.into());
        }
        let skill = self.shelf.find(wanted).map_err(ToolError::invalid)?;
        let agent = cx.agent_id.clone();
        self.shelf.admits(&agent, &skill).map_err(ToolError::failed)?;
        let mut output = SkillOutput {
            success: true,
            command_name: skill.name.clone(),
            allowed_tools: skill.fields.allowed.clone(),
            ..SkillOutput::default()
        };
        if skill.fields.fork.is_none() && self.shelf.is_again(&agent, &skill.name, args) {
            self.shelf.activate(&skill, &agent, SkillGrants::Agreed);
            output.said = Some(format!("The skill {} is loaded already: its text stands above.", skill.name));
            return Ok(output.into());
        }
        // Its own commands are judged with the rules it allows.
        let of_fork = SlashCommand {
            fields: super::command::SkillFields {
                disallowed: Vec::new(),
                effort: None,
                hooks: None,
                ..skill.fields.clone()
            },
            ..skill.clone()
        };
        self.shelf.activate(
            if skill.fields.fork.is_some() { &of_fork } else { &skill },
            &agent,
            SkillGrants::Agreed,
        );
        let text = match self.shelf.text(&skill, args, cx).await {
            Ok(text) => text,
            Err(problem) => {
                self.shelf.forget_load(&agent, &skill.name, args);
                return Err(ToolError::failed(problem));
            }
        };
        self.shelf.used(&skill.name);
        if skill.fields.fork.is_none() {
            self.shelf.override_model(&skill, &agent);
        }
        if let Some(kind) = &skill.fields.fork {
            return Ok(self.fork(&skill, kind, text, cx).await?.into());
        }
        let loaded = CallEffect::SkillLoaded { name: skill.name.clone(), text: text.clone() };
        Ok(Outcome::from(output).with_message(Message::user(text)).with_trace(loaded))
    }
}
