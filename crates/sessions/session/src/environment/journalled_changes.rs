//! What the undo journal knows about a call without a result.

use haft_types::CallId;

use super::SessionEnvironment;

/// Maximum number of paths listed; the rest is only counted.
const MOST_NAMED: usize = 10;

impl SessionEnvironment {
    /// The changes of a call, as text for the model. `None` if the journal has no entry, which does not
    /// prove that nothing changed.
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
