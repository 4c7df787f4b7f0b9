//! The sandbox helper as a program of its own, for those who cannot call
//! [`haft_sandbox::run_if_helper`] first thing in their `main`.

fn main() -> std::process::ExitCode {
    haft_sandbox::run_if_helper();
    std::process::ExitCode::from(125)
}
