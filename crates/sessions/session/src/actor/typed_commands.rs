//! Skills and slash commands that a user types.

use std::sync::Arc;

use haft_agent::Agent;
use haft_builtin_tools::agent::{SubagentOutcome, SubagentSpawner as _, report_text};
use haft_tool::CallContext;
use haft_types::MessageBlock;
use tokio_util::sync::CancellationToken;

use crate::extensions::{ActiveSkills, NamedBy, SkillGrants, SlashCommand, forked_order};

/// A slash command or skill that was typed.
pub(super) struct TypedCommand {
    pub(super) command: SlashCommand,
    pub(super) args: String,
    pub(super) skills: Arc<ActiveSkills>,
}

impl TypedCommand {
    /// Returns the text sent to the model. A command with an agent of its own runs it first; the text is
    /// then the agent's report, with the run it belongs to if the command waited for it.
    pub(super) async fn content(
        &self,
        agent: &Agent,
        cancel: &CancellationToken,
    ) -> Result<(Vec<MessageBlock>, Option<String>), String> {
        let id = format!("command_{}", uuid::Uuid::new_v4().simple());
        let mut cx = CallContext::detached(id, Arc::clone(&agent.tools.state.cwd));
        cx.home.clone_from(&agent.tools.state.home);
        cx.cancel = cancel.clone();
        let grants = self.skills.grants_of_typed(&self.command);
        self.skills.activate(&self.command, &cx.agent_id, grants);
        let text = self.skills.text(&self.command, &self.args, &cx).await?;
        if self.command.is_skill() {
            self.skills.used(&self.command.name);
        }
        let (text, run) = match self.command.forks() {
            None => (text, None),
            Some(kind) => self.report(kind, text, &cx).await?,
        };
        Ok((self.command.expanded(&self.args, text).content, run))
    }

    /// Who is responsible for the file names in the command's text.
    pub(super) fn named_by(&self) -> NamedBy {
        let vouched = match self.skills.grants_of_typed(&self.command) {
            SkillGrants::Agreed if self.command.forks().is_none() => {
                self.skills.render_skill(&self.command, &self.args)
            }
            _ => String::new(),
        };
        NamedBy::Command { args: self.args.clone(), vouched }
    }

    async fn report(
        &self,
        kind: &str,
        text: String,
        cx: &CallContext,
    ) -> Result<(String, Option<String>), String> {
        let order = forked_order(&self.command, kind, text);
        Ok(match self.skills.agents().spawn(order, cx).await? {
            SubagentOutcome::Launched(launched) => (
                format!(
                    "<system-reminder>\nThe skill works in the background as agent {}. Its report comes by itself.\n</system-reminder>",
                    launched.id
                ),
                None,
            ),
            SubagentOutcome::Ended(report) => (
                haft_types::tags::reminder(&format!(
                    "The skill ran in an agent of its own. Tell the user what came of it.\n{}",
                    report_text(&report)
                )),
                Some(report.run_id.clone()),
            ),
        })
    }
}

/// A note behind a prompt that looks like a slash command but is none, so that the model does not
/// believe that a command ran.
pub(super) fn unknown_command(words: &str) -> Option<MessageBlock> {
    let name = words.trim().strip_prefix('/')?.split_whitespace().next()?;
    let fits = |it: char| it.is_alphanumeric() || matches!(it, '-' | '_' | ':');
    (name.starts_with(char::is_alphabetic) && name.chars().all(fits)).then(|| MessageBlock::Text {
        text: format!(
            "<system-reminder>\n/{name} is no command or skill here: nothing was run. Take it as the user's words.\n</system-reminder>"
        ),
    })
}
