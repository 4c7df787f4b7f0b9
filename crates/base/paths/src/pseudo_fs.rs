use rustix::fs::StatFs;

/// Whether the file system is a kernel interface whose files are generated on read (proc, sysfs, …).
/// Decided by the magic number, so the mount point does not matter.
pub fn is_kernel_interface(stat: &StatFs) -> bool {
    /// proc, sysfs, debugfs, tracefs, securityfs, configfs, cgroup, cgroup2,
    /// bpf, selinuxfs, binfmt_misc.
    const MAGIC: [u64; 11] = [
        0x9fa0,
        0x6265_6572,
        0x6462_6720,
        0x7472_6163,
        0x7363_6673,
        0x6265_6570,
        0x0027_e0eb,
        0x6367_7270,
        0xcafe_4a11,
        0xf97c_ff8c,
        0x4249_4e4d,
    ];
    #[expect(clippy::cast_sign_loss, reason = "the width differs by platform")]
    let magic = stat.f_type as u64 & 0xffff_ffff;
    MAGIC.contains(&magic)
}

/// Whether `path` is on a kernel file system. True if `statfs` fails.
pub fn is_of_kernel(path: &std::path::Path) -> bool {
    rustix::fs::statfs(path).map_or(true, |stat| is_kernel_interface(&stat))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_of_kernel_distinguishes_proc_from_stored_files() {
        for (path, want) in [("/proc/self/stat", true), ("/sys", true), ("/etc", false), ("/dev", false)] {
            if let Ok(stat) = rustix::fs::statfs(path) {
                assert_eq!(is_kernel_interface(&stat), want, "{path}");
            }
        }
    }
}
