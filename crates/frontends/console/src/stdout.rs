//! Printing that survives a closed pipe.

use std::{
    io::{self, IsTerminal as _, Write as _},
    process::ExitCode,
};

/// Why a command did not end by itself.
#[derive(Debug)]
pub enum CliError {
    /// Whoever read our output is gone.
    ClosedPipe,
    /// Something the person has to know.
    Message(String),
}

impl CliError {
    /// What the person has to know, in words.
    pub fn words(self) -> String {
        match self {
            Self::ClosedPipe => String::from("standard output is closed"),
            Self::Message(text) => text,
        }
    }
}

impl From<io::Error> for CliError {
    fn from(err: io::Error) -> Self {
        match err.kind() {
            io::ErrorKind::BrokenPipe => Self::ClosedPipe,
            _ => Self::Message(err.to_string()),
        }
    }
}

impl From<haft_session::OpenError> for CliError {
    fn from(err: haft_session::OpenError) -> Self {
        let words = err.to_string();
        let hint = if words.starts_with("No conversation found") {
            "; `haft sessions` lists those of this directory"
        } else {
            ""
        };
        Self::Message(words + hint)
    }
}

impl From<haft_permission::Decision> for CliError {
    fn from(decision: haft_permission::Decision) -> Self {
        Self::Message(decision.reason)
    }
}

impl From<String> for CliError {
    fn from(message: String) -> Self {
        Self::Message(message)
    }
}

impl From<CliError> for String {
    fn from(failure: CliError) -> Self {
        match failure {
            CliError::ClosedPipe => Self::from("nobody reads it"),
            CliError::Message(message) => message,
        }
    }
}

/// What a command ends with.
pub type CommandExit = Result<ExitCode, CliError>;

/// Prints one line and flushes: whoever reads us line by line gets it now.
pub fn print_line(line: &str) -> Result<(), CliError> {
    let mut out = io::stdout().lock();
    for bytes in [line.as_bytes(), b"\n"] {
        write_whole(&mut out, bytes)?;
    }
    flush_whole(&mut out)
}

/// The same for what somebody else wrote: a terminal would obey what is in it, a
/// program gets it as it is.
pub fn print_foreign(text: &str) -> Result<(), CliError> {
    if io::stdout().is_terminal() { print_line(&crate::style::clean(text)) } else { print_line(text) }
}

/// Whoever started us may have made the pipe one that does not wait: then we
/// wait, so that a long line is never cut.
fn write_whole(out: &mut io::StdoutLock<'_>, mut bytes: &[u8]) -> Result<(), CliError> {
    while !bytes.is_empty() {
        match out.write(bytes) {
            Ok(written) => bytes = bytes.get(written..).unwrap_or_default(),
            Err(err) if err.kind() == io::ErrorKind::WouldBlock => wait_for_reader()?,
            Err(err) if err.kind() == io::ErrorKind::Interrupted => (),
            Err(err) => return Err(err.into()),
        }
    }
    Ok(())
}

fn flush_whole(out: &mut io::StdoutLock<'_>) -> Result<(), CliError> {
    loop {
        match out.flush() {
            Ok(()) => return Ok(()),
            Err(err) if err.kind() == io::ErrorKind::WouldBlock => wait_for_reader()?,
            Err(err) => return Err(err.into()),
        }
    }
}

fn wait_for_reader() -> io::Result<()> {
    use rustix::event::{PollFd, PollFlags, poll};
    let out = io::stdout();
    poll(&mut [PollFd::new(&out, PollFlags::OUT)], None)?;
    Ok(())
}

/// Prints bytes as they are.
pub fn print_bytes(bytes: &[u8]) -> CommandExit {
    let mut out = io::stdout().lock();
    write_whole(&mut out, bytes)?;
    flush_whole(&mut out)?;
    Ok(ExitCode::SUCCESS)
}

/// Tells the person on standard error; if that is closed too, nobody listens.
/// What a stranger wrote is in many messages, and a terminal obeys it.
pub fn complain(message: &str) {
    writeln!(io::stderr().lock(), "haft: {}", crate::style::clean(message)).ok();
}

/// A line on standard error as it is.
pub fn write_error(line: &str) {
    writeln!(io::stderr().lock(), "{line}").ok();
}
