//! The sandbox helper as a separate program, for embedders that cannot call
//! [`haft_sandbox::run_if_helper`] first in their `main`.

fn main() -> std::process::ExitCode {
    haft_sandbox::run_if_helper();
    std::process::ExitCode::from(125)
}
