use serde::{Deserialize, Serialize};

/// Identifies a process; pid plus start time, because pids are reused.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct OwnerProcess {
    /// Process id; 0 for none.
    pub pid: u32,
    /// Start time in clock ticks since boot.
    pub start: u64,
}

impl OwnerProcess {
    /// This process.
    pub fn current() -> Self {
        let pid = std::process::id();
        Self { pid, start: started(pid).unwrap_or_default() }
    }

    pub fn none() -> Self {
        Self::default()
    }

    /// Whether the process is running.
    pub fn is_alive(self) -> bool {
        self.pid != 0 && started(self.pid) == Some(self.start)
    }

    pub fn is_this_one(self) -> bool {
        self.pid == std::process::id() && self.is_alive()
    }
}

/// Start time of a process; `None` if it has ended or is a zombie.
fn started(pid: u32) -> Option<u64> {
    let text = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may contain any characters.
    let close = text.iter().rposition(|it| *it == b')')?;
    let rest = std::str::from_utf8(text.get(close + 2..)?).ok()?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    if matches!(*fields.first()?, "Z" | "X" | "x") {
        return None;
    }
    fields.get(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::OwnerProcess;

    #[test]
    fn process_with_other_start_time_is_not_alive() {
        let own = OwnerProcess::current();
        assert!(own.is_alive() && own.is_this_one() && own.start != 0);
        assert!(!OwnerProcess { start: own.start + 1, ..own }.is_alive());
        assert!(!OwnerProcess::none().is_alive());
    }
}
