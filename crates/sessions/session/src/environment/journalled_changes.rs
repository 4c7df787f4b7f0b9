//! What the journal knows of a call that has no result.

use haft_types::CallId;

use super::SessionEnvironment;

/// More paths are counted, not named.
const MOST_NAMED: usize = 10;

impl SessionEnvironment {
    /// What a call changed, in words for the model. `None` when the journal has
    /// nothing of it, which does not mean that nothing happened.
    pub(crate) fn changed_by(&self, call: &CallId) -> Option<String> {
        let history = self.workspace().ok()?.history().ok()?;
        let entries = history.iter().map(|item| &item.entry).filter(|entry| entry.origin.call == *call);
        let mut paths: Vec<String> =
            entries.flat_map(|entry| &entry.changes).map(|it| it.path.display().to_string()).collect();
        paths.sort();
        paths.dedup();
        let more = paths.len().saturating_sub(MOST_NAMED);
        paths.truncate(MOST_NAMED);
        let more = if 0 < more { format!(" and {more} more") } else { String::new() };
        (!paths.is_empty()).then(|| format!("the journal has a change of {}{more}", paths.join(", ")))
    }
}
