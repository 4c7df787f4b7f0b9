//! Checks whether the machine has room for another job.

use haft_fleet_store::ResourceRequest;

use super::WorkerSettings;

/// Returns the resources of this machine.
pub(super) fn machine() -> ResourceRequest {
    let cpu = std::thread::available_parallelism().map_or(1, usize::from);
    let devices = std::fs::read_dir("/dev").into_iter().flatten().flatten();
    let is_gpu = |name: &str| {
        let number = name.strip_prefix("nvidia").unwrap_or_default();
        !number.is_empty() && number.chars().all(|it| it.is_ascii_digit())
    };
    let gpu = devices.filter(|it| it.file_name().to_str().is_some_and(is_gpu)).count();
    ResourceRequest {
        cpu: cpu as u64,
        mem: line_of("/proc/meminfo", "MemTotal:").unwrap_or_default(),
        gpu: gpu as u64,
    }
}

/// Checks free memory and disk space; the error says what is missing.
pub(super) fn look(settings: &WorkerSettings) -> Result<(), String> {
    if let Some(free) = memory_left().filter(|free| *free < settings.least_memory) {
        return Err(format!("only {} MB of memory are left on this machine", free >> 20));
    }
    std::fs::create_dir_all(&settings.root).map_err(|err| format!("{}: {err}", settings.root.display()))?;
    let about = rustix::fs::statvfs(&settings.root);
    let free = about.map(|it| it.f_bavail.saturating_mul(it.f_frsize)).unwrap_or(u64::MAX);
    if free < settings.least_disk {
        return Err(format!("only {} MB are left in {}", free >> 20, settings.root.display()));
    }
    Ok(())
}

fn memory_left() -> Option<u64> {
    line_of("/proc/meminfo", "MemAvailable:")
}

/// Returns the peak memory of this process in bytes.
pub(super) fn memory_peak() -> Option<u64> {
    line_of("/proc/self/status", "VmHWM:")
}

fn line_of(file: &str, name: &str) -> Option<u64> {
    let text = std::fs::read_to_string(file).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kilobytes: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(kilobytes << 10)
}
