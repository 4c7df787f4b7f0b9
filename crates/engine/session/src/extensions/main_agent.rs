//! A session that is one of the agents (`--agent`): its prompt, tools and model.

use haft_agent::Base;
use haft_model::Catalog;
use serde_json::Value;

use super::{control::strings, driver::Driver};

impl Driver {
    /// Becomes the agent of the flag, if the host or a file says who that is. An
    /// agent nobody knows changes nothing.
    pub(super) fn be_agent(&mut self, of_host: &Value) {
        let Some(name) = &self.main_agent else { return };
        let wanted = match &of_host[name] {
            Value::Null => self.extensions.agent(name),
            agent => Some(Wanted {
                prompt: agent["prompt"].as_str().unwrap_or_default().to_owned(),
                tools: agent["tools"].is_array().then(|| strings(&agent["tools"])),
                model: agent["model"].as_str().map(str::to_owned),
            }),
        };
        let Some(Wanted { prompt, tools, model }) = wanted else { return };
        let model = model.filter(|it| !self.model_is_named && it != "inherit");
        self.change(Box::new(move |agent| {
            if !prompt.is_empty() {
                agent.prompt.base = Base::Replaced(prompt);
            }
            if let Some(tools) = tools {
                let pool = agent.tools.pool.get();
                let is_extra = |name: &&str| !name.starts_with("mcp__") && !tools.iter().any(|it| it == name);
                let extra: Vec<String> = pool.names().filter(is_extra).map(str::to_owned).collect();
                let without = extra.iter().fold((*pool).clone(), |pool, name| pool.with_builtin(name, None));
                agent.tools.pool.set(without);
            }
            if let Some(model) = model {
                agent.settings.model = Catalog::built_in().resolve(&model).to_owned();
            }
        }));
    }
}

/// What an agent is.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Wanted {
    pub(super) prompt: String,
    /// Only these, if it says so.
    pub(super) tools: Option<Vec<String>>,
    pub(super) model: Option<String>,
}
