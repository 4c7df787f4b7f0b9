//! Memory and CPU usage of a process and its descendants.

use std::{
    collections::HashMap,
    fs,
    process::{Child, ExitStatus},
    time::Duration,
};

/// Waits for a child; returns its status, and the peak memory of it and its descendants in kilobytes,
/// with shared pages counted once.
pub(super) fn peak_kilobytes(child: &mut Child) -> Result<(ExitStatus, u64), String> {
    let mut most = 0;
    loop {
        most = most.max(descendants(child.id()).into_iter().map(proportional).sum());
        if let Some(status) = child.try_wait().map_err(|err| err.to_string())? {
            return Ok((status, most));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Returns the CPU time in milliseconds of terminated children and their descendants. The kernel's
/// resolution is 10 ms.
pub(super) fn children_milliseconds() -> u64 {
    let text = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The fields after the process name in parentheses; the children's times are fields 16 and 17.
    let rest = text.rsplit_once(')').map_or("", |(_, rest)| rest);
    rest.split_whitespace().skip(13).take(2).filter_map(|it| it.parse::<u64>().ok()).sum::<u64>() * 10
}

fn descendants(root: u32) -> Vec<u32> {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(id) = entry.file_name().to_str().and_then(|it| it.parse::<u32>().ok()) else { continue };
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let parent = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1)?.parse().ok());
        children.entry(parent.unwrap_or(0)).or_default().push(id);
    }
    let (mut found, mut next) = (Vec::new(), vec![root]);
    while let Some(id) = next.pop() {
        found.push(id);
        next.extend(children.get(&id).into_iter().flatten());
    }
    found
}

/// Returns the proportional set size of a process.
fn proportional(id: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{id}/smaps_rollup")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"));
    line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse().ok()).unwrap_or(0)
}
