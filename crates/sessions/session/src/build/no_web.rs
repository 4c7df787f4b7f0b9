//! Replaces the web module in builds without web tools.

use haft_agent::Agent;
use haft_builtin_tools::WebToolServices;

use super::ChosenProvider;
use crate::environment::SessionEnvironment;

pub(crate) struct SessionWeb;

impl SessionWeb {
    pub(super) fn new(_: &SessionEnvironment, _: Option<&ChosenProvider>) -> Self {
        Self
    }

    pub(super) fn services(&self, premises: &SessionEnvironment) -> WebToolServices {
        WebToolServices::plain(&premises.state_dir())
    }

    pub(super) fn charge_to(&self, _: &Agent) {}
}
