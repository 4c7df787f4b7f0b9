//! Services of the web tools in a session.

mod fetch;
mod search;

use std::sync::Arc;

use haft_agent::Agent;
use haft_builtin_tools::WebToolServices;

use self::{
    fetch::{SmallModel, web_services},
    search::{ModelSearch, search_services},
};
use super::ChosenProvider;
use crate::environment::SessionEnvironment;

/// The models used by the web tools.
pub(crate) struct SessionWeb {
    /// Answers questions about pages.
    small_model: Option<Arc<SmallModel>>,
    /// Searches the web.
    model_search: Option<Arc<ModelSearch>>,
}

impl SessionWeb {
    pub(super) fn new(premises: &SessionEnvironment, chosen: Option<&ChosenProvider>) -> Self {
        Self {
            small_model: SmallModel::new(premises, chosen),
            model_search: ModelSearch::new(premises, chosen),
        }
    }

    pub(super) fn services(&self, premises: &SessionEnvironment) -> WebToolServices {
        WebToolServices {
            fetch: web_services(premises, self.small_model.as_ref()),
            search: search_services(premises, self.model_search.as_ref()),
        }
    }

    /// Sets the budget that model requests of the tools are charged to.
    pub(super) fn charge_to(&self, agent: &Agent) {
        if let Some(small) = &self.small_model {
            small.charge_to(&agent.ledger);
        }
        if let Some(search) = &self.model_search {
            search.charge_to(&agent.ledger, &agent.settings.model);
        }
    }
}
