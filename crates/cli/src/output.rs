//! Printing that survives a closed pipe.

use std::{
    io::{self, Write as _},
    process::ExitCode,
};

/// Why a command did not end by itself.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Whoever read our output is gone.
    ClosedPipe,
    /// Something the person has to know.
    Message(String),
}

impl From<io::Error> for Failure {
    fn from(err: io::Error) -> Self {
        match err.kind() {
            io::ErrorKind::BrokenPipe => Self::ClosedPipe,
            _ => Self::Message(err.to_string()),
        }
    }
}

impl From<String> for Failure {
    fn from(message: String) -> Self {
        Self::Message(message)
    }
}

/// What a command ends with.
pub(crate) type Ended = Result<ExitCode, Failure>;

/// Prints one line and flushes: whoever reads us line by line gets it now.
pub(crate) fn print_line(line: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(line.as_bytes())?;
    out.write_all(b"\n")?;
    Ok(out.flush()?)
}

/// Prints bytes as they are.
pub(crate) fn print_bytes(bytes: &[u8]) -> Ended {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// Tells the person on standard error; if that is closed too, nobody listens.
pub(crate) fn complain(message: &str) {
    writeln!(io::stderr().lock(), "haft: {message}").ok();
}

/// A line on standard error as it is.
pub(crate) fn write_error(line: &str) {
    writeln!(io::stderr().lock(), "{line}").ok();
}
