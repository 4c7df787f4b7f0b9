use crate::command;

/// File tools compared with `rg`, `sed`, `cat` and `read(2)`. Images and documents are excluded, because
/// they would lengthen the build.
pub(super) fn run() -> Result<(), String> {
    command::cargo(&[
        "bench",
        "--quiet",
        "-p",
        "haft-builtin-tools",
        "--no-default-features",
        "--bench",
        "files",
    ])
}
