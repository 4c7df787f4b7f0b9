//! The tool by which a model uses a skill.

use haft_tool::{
    Access, CallContext, CallTrace, Content, Outcome, Reach, Tool, ToolContext, ToolError, Traits,
};
use haft_types::{Message, text};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::SlashCommand;

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

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SkillOutput {
    success: bool,
    command_name: String,
}

/// Knows the skills of a session.
pub(crate) struct SkillTool {
    skills: Vec<SlashCommand>,
}

impl SkillTool {
    pub(crate) fn new(skills: Vec<SlashCommand>) -> Self {
        Self { skills }
    }

    fn find(&self, name: &str) -> Option<&SlashCommand> {
        let plain = |it: &&SlashCommand| it.name.rsplit(':').next() == Some(name);
        self.skills.iter().find(|it| it.name == name).or_else(|| self.skills.iter().find(plain))
    }
}

impl Tool for SkillTool {
    type Input = SkillInput;
    type Output = SkillOutput;
    type Progress = ();
    const NAME: &'static str = "Skill";

    fn traits(&self) -> Traits {
        Traits { search_hint: "skill instructions how to", ..Traits::default() }
    }

    fn prompt(&self) -> String {
        let mut prompt = String::from(
            "Loads a skill: instructions for one kind of task. Use one before you begin when it fits. Skills:",
        );
        for skill in &self.skills {
            prompt.push_str(&format!("\n- {}: {}", skill.name, text::one_line(&skill.description, 300)));
        }
        prompt
    }

    /// It only tells the model something.
    fn is_read_only(&self, _input: &SkillInput) -> bool {
        true
    }

    /// Rules are about the whole name, however a call writes it.
    fn canonicalize(&self, input: &mut SkillInput, _cx: &CallContext) {
        let name = input.skill.trim().trim_start_matches('/').to_owned();
        input.skill = self.find(&name).map_or(name, |it| it.name.clone());
    }

    /// `Skill(name)`, and `Skill(name:*)` for every way to use it.
    fn reach(&self, input: &SkillInput, _cx: &CallContext) -> Reach {
        let args = input.args.as_deref().unwrap_or_default();
        Reach::Declared(vec![
            Access::Named(input.skill.clone()),
            Access::Named(format!("{}:{args}", input.skill)),
        ])
    }

    fn describe(&self, input: &SkillInput) -> String {
        format!("Use the skill {}", input.skill)
    }

    fn to_content(&self, output: &SkillOutput) -> Content {
        format!("Launching skill: {}", output.command_name).into()
    }

    async fn call(
        &self,
        input: SkillInput,
        _cx: &ToolContext<()>,
    ) -> Result<Outcome<SkillOutput>, ToolError> {
        let wanted = input.skill.trim_start_matches('/');
        let Some(skill) = self.find(wanted) else {
            let names: Vec<&str> = self.skills.iter().map(|it| it.name.as_str()).collect();
            let known = names.join(", ");
            return Err(ToolError::invalid(format!("there is no skill {wanted}; there are: {known}")));
        };
        let body = skill.text(input.args.as_deref().unwrap_or_default()).unwrap_or_default();
        let output = SkillOutput { success: true, command_name: skill.name.clone() };
        let loaded = CallTrace::SkillLoaded { name: skill.name.clone(), text: body.clone() };
        Ok(Outcome::from(output).with_message(Message::user(body)).with_trace(loaded))
    }
}
