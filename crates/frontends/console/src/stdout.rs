//! Standard output that survives a closed pipe.

use std::{
    io::{self, IsTerminal as _, Write as _},
    process::ExitCode,
};

/// Why a command failed.
#[derive(Debug)]
pub enum CliError {
    /// The reader of standard output has closed the pipe; nothing is printed about it.
    ClosedPipe,
    /// An error message for the user.
    Message(String),
}

impl CliError {
    /// The message for the user.
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

/// Exit code of a command, or its error.
pub type CommandExit = Result<ExitCode, CliError>;

/// Prints a line and flushes it, so that a program reading line by line gets it at once. Blocks while
/// the pipe is full.
pub fn print_line(line: &str) -> Result<(), CliError> {
    let mut out = io::stdout().lock();
    for bytes in [line.as_bytes(), b"\n"] {
        write_whole(&mut out, bytes)?;
    }
    flush_whole(&mut out)
}

/// Like [`print_line`], for text from outside. On a terminal control characters are escaped; a pipe gets
/// the text unchanged.
pub fn print_untrusted(text: &str) -> Result<(), CliError> {
    if io::stdout().is_terminal() { print_line(&crate::style::clean(text)) } else { print_line(text) }
}

/// Writes all bytes. If the parent made the pipe non-blocking, waits for the reader, so that no line is
/// cut.
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

/// Prints bytes unchanged.
pub fn print_bytes(bytes: &[u8]) -> CommandExit {
    let mut out = io::stdout().lock();
    write_whole(&mut out, bytes)?;
    flush_whole(&mut out)?;
    Ok(ExitCode::SUCCESS)
}

/// Prints `haft: MESSAGE` to standard error. Escapes control characters, because messages often quote
/// text from outside. Errors are ignored.
pub fn print_error(message: &str) {
    writeln!(io::stderr().lock(), "haft: {}", crate::style::clean(message)).ok();
}

/// Prints a line unchanged to standard error. Errors are ignored.
pub fn write_error(line: &str) {
    writeln!(io::stderr().lock(), "{line}").ok();
}
