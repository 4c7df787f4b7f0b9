use crate::command;

/// The file tools against `rg`, `sed`, `cat` and `read(2)`. Pictures and
/// documents are left out: they would only make the build longer.
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
