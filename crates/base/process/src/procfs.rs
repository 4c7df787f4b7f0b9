//! Reads process information from `/proc`.

use serde::{Deserialize, Serialize};

/// Identifies a process; pid plus start time, because pids are reused.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub struct ProcessId {
    pub pid: i32,
    /// Start time in clock ticks since boot.
    pub start: u64,
}

/// A running process of a call, hook or server.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Process {
    pub id: ProcessId,
    /// Command line, shortened to one line.
    pub command: String,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct ProcessStat {
    pub(crate) id: ProcessId,
    pub(crate) parent: i32,
    pub(crate) state: u8,
}

impl ProcessStat {
    /// Whether the process has ended or is a zombie.
    pub(crate) fn is_dead(self) -> bool {
        matches!(self.state, b'Z' | b'X' | b'x')
    }
}

pub(crate) fn stat(pid: i32) -> Option<ProcessStat> {
    let text = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    parse_stat(pid, &text)
}

/// The name in parentheses may contain any characters, also parentheses.
fn parse_stat(pid: i32, text: &[u8]) -> Option<ProcessStat> {
    let close = memchr::memrchr(b')', text)?;
    let rest = std::str::from_utf8(text.get(close + 2..)?).ok()?;
    let mut fields = rest.split_ascii_whitespace();
    let state = *fields.next()?.as_bytes().first()?;
    let parent = fields.next()?.parse().ok()?;
    let start = fields.nth(17)?.parse().ok()?;
    Some(ProcessStat { id: ProcessId { pid, start }, parent, state })
}

/// Sum of the resident set sizes in bytes; shared pages count for each process.
pub fn resident_bytes(ids: impl IntoIterator<Item = ProcessId>) -> u64 {
    let page = rustix::param::page_size() as u64;
    let pages = ids.into_iter().filter_map(|id| {
        let text = std::fs::read_to_string(format!("/proc/{}/statm", id.pid)).ok()?;
        text.split_ascii_whitespace().nth(1)?.parse::<u64>().ok()
    });
    pages.sum::<u64>().saturating_mul(page)
}

pub(crate) fn all_pids() -> Vec<i32> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Children of our main thread, to which the kernel reparents orphans if we are a subreaper. `None` if
/// the kernel does not list children.
pub(crate) fn children_of_main_thread() -> Option<Vec<i32>> {
    let own = std::process::id();
    let text = std::fs::read_to_string(format!("/proc/self/task/{own}/children")).ok()?;
    Some(text.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect())
}

/// The hard limit that serves as a tag; see [`crate::ProcessTag`].
pub(crate) fn tag(pid: i32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/limits")).ok()?;
    let line = text.lines().find(|line| line.starts_with("Max realtime timeout"))?;
    line.split_ascii_whitespace().nth(4)?.parse().ok()
}

/// Value of one variable in the process's initial environment.
pub(crate) fn started_with(pid: i32, name: &str) -> Option<String> {
    let environ = std::fs::read(format!("/proc/{pid}/environ")).ok()?;
    let mut entries = environ.split(|it| *it == 0);
    let value = entries.find_map(|entry| entry.strip_prefix(name.as_bytes())?.strip_prefix(b"="))?;
    String::from_utf8(value.to_vec()).ok()
}

pub(crate) fn command_line(pid: i32) -> String {
    let raw = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words: Vec<String> = raw
        .split(|it| *it == 0)
        .filter(|word| !word.is_empty())
        .map(|word| haft_types::ansi::clean(word).replace('\n', " "))
        .collect();
    haft_types::text::one_line(&words.join(" "), 200)
}

/// Current time in the unit of [`ProcessId::start`].
pub(crate) fn ticks_since_boot() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let per_second = rustix::param::clock_ticks_per_second();
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(now.tv_nsec).unwrap_or(0);
    seconds * per_second + nanos * per_second / 1_000_000_000
}

/// Changes with every boot, so recorded pids of an earlier boot can be ignored.
pub(crate) fn boot_id() -> String {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    id.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_with_parentheses_in_name_is_parsed() {
        let line = b"42 (a) b (c)) S 7 42 42 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 987654 1 2 3\n";
        let got = parse_stat(42, line).expect("parses");
        assert_eq!((got.id.start, got.parent, got.state), (987_654, 7, b'S'));
    }

    #[test]
    fn own_process_is_found_in_procfs() {
        let own = i32::try_from(std::process::id()).expect("fits");
        let stat = stat(own).expect("is there");
        assert!(!stat.is_dead() && stat.id.start <= ticks_since_boot());
        assert!(all_pids().contains(&own) && !command_line(own).is_empty());
    }
}
