use super::shell_state::ShellState;

/// Shell state after a command succeeded and after it failed.
pub(super) struct BranchStates {
    pub(super) success: ShellState,
    pub(super) failure: ShellState,
}

impl BranchStates {
    pub(super) fn either(state: ShellState) -> Self {
        Self { success: state.clone(), failure: state }
    }

    pub(super) fn joined(self) -> ShellState {
        self.success.join(&self.failure)
    }
}
