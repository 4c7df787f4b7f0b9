//! Reads piped standard input: size-limited, and with a notice when nothing arrives.

use std::{
    fs::File,
    io::{IsTerminal as _, Read as _, Seek as _},
    os::{fd::AsFd as _, unix::fs::FileTypeExt as _},
    time::Duration,
};

use haft_console::stdout::{CliError, print_error};
use haft_process::timespec;
use rustix::{
    event::{PollFd, PollFlags, poll},
    io::Errno,
};

/// Maximum bytes of standard input; more is an error. No model accepts a prompt of that size.
const MOST: usize = 10 << 20;
/// How long standard input may be silent before the user is notified.
const TIMEOUT: Duration = Duration::from_secs(3);

/// Reads standard input under these rules.
struct PipedInput<'a> {
    /// Whether a prompt was given on the command line, which makes the input optional.
    has_prompt: bool,
    /// How long the input may be silent before `say` is called.
    patience: Duration,
    /// Maximum bytes; more is an error.
    most: usize,
    /// Prints a notice for the user.
    say: &'a mut dyn FnMut(&str),
}

/// Reads standard input to its end, unless it is a terminal (then empty). Blocks. With a prompt on the
/// command line the input is optional: if nothing arrives within `TIMEOUT`, a notice is printed and the
/// run goes on without it. Fails for a directory and above `MOST` bytes.
pub(crate) fn read(has_prompt: bool) -> Result<Vec<u8>, CliError> {
    let input = std::io::stdin();
    if input.is_terminal() {
        return Ok(Vec::new());
    }
    // A closed standard input was replaced by `/dev/null` at startup.
    let input = File::from(input.as_fd().try_clone_to_owned()?);
    PipedInput { has_prompt, patience: TIMEOUT, most: MOST, say: &mut print_error }.read(input)
}

impl PipedInput<'_> {
    fn read(mut self, mut input: File) -> Result<Vec<u8>, CliError> {
        let kind = input.metadata()?.file_type();
        if kind.is_dir() {
            let why =
                "standard input is a directory, which cannot be read; redirect a file or a pipe instead";
            return Err(CliError::Message(why.to_owned()));
        }
        // Another process reads the same open file (`while read` in a shell loop): the rest belongs to
        // it.
        if self.has_prompt && kind.is_file() && input.stream_position().is_ok_and(|at| 0 < at) {
            (self.say)(
                "standard input is a file that another program has begun to read, so it is left alone; \
                 redirect the file to haft itself to pass it on",
            );
            return Ok(Vec::new());
        }
        if kind.is_fifo() || kind.is_socket() {
            return self.read_stream(input);
        }
        let mut bytes = Vec::new();
        (&mut input).take(self.most as u64 + 1).read_to_end(&mut bytes)?;
        self.within_bounds(bytes)
    }

    /// Reads a pipe or a socket. Without a prompt it waits for the end however long that takes, after
    /// one notice.
    fn read_stream(&mut self, mut input: File) -> Result<Vec<u8>, CliError> {
        let mut bytes = Vec::new();
        let mut buf = vec![0; 64 << 10];
        let mut was_told = false;
        while bytes.len() <= self.most {
            let patience = (!was_told).then(|| timespec(self.patience));
            match poll(&mut [PollFd::new(&input, PollFlags::IN)], patience.as_ref()) {
                Err(Errno::INTR) => continue,
                Err(err) => return Err(std::io::Error::from(err).into()),
                Ok(0) => {
                    was_told = true;
                    let seconds = self.patience.as_secs();
                    if bytes.is_empty() && self.has_prompt {
                        (self.say)(&format!(
                            "nothing came from standard input for {seconds} s, so the run goes on without it; \
                             `< /dev/null` avoids the wait"
                        ));
                        return Ok(bytes);
                    }
                    let so_far = match bytes.len() {
                        0 => String::from("waiting for the prompt on standard input"),
                        read => format!("still reading standard input ({read} bytes so far)"),
                    };
                    (self.say)(&format!("{so_far}; the run begins when it is closed"));
                    continue;
                }
                Ok(_) => (),
            }
            match input.read(&mut buf) {
                Ok(0) => return Ok(bytes),
                Ok(len) => bytes.extend_from_slice(&buf[..len]),
                Err(err) if matches!(err.kind(), std::io::ErrorKind::WouldBlock) => (),
                Err(err) if matches!(err.kind(), std::io::ErrorKind::Interrupted) => (),
                Err(err) => return Err(err.into()),
            }
        }
        self.within_bounds(bytes)
    }

    fn within_bounds(&self, bytes: Vec<u8>) -> Result<Vec<u8>, CliError> {
        if bytes.len() <= self.most {
            return Ok(bytes);
        }
        Err(CliError::Message(format!(
            "standard input has more than {} MB, which no prompt can hold; \
             save it to a file and name the file in the prompt",
            self.most >> 20
        )))
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{SeekFrom, Write as _, pipe},
        os::fd::OwnedFd,
    };

    use super::*;

    /// Reads with a timeout of zero and a limit of 1 MB. `on_line` is called for each notice.
    fn read(
        input: impl Into<OwnedFd>,
        has_prompt: bool,
        mut on_line: impl FnMut(),
    ) -> (Result<String, String>, Vec<String>) {
        let mut lines = Vec::new();
        let mut say = |line: &str| {
            lines.push(line.to_owned());
            on_line();
        };
        let reading = PipedInput { has_prompt, patience: Duration::ZERO, most: 1 << 20, say: &mut say };
        let read = match reading.read(File::from(input.into())) {
            Ok(bytes) => Ok(String::from_utf8(bytes).unwrap()),
            Err(CliError::Message(why)) => Err(why),
            Err(CliError::ClosedPipe) => Err(String::from("closed")),
        };
        (read, lines)
    }

    #[test]
    fn open_silent_pipe_beside_prompt_is_skipped_with_notice() {
        let (reader, _writer) = pipe().unwrap();
        let (read, lines) = read(reader, true, || ());
        assert_eq!(read.unwrap(), "");
        assert!(matches!(&lines[..], [it] if it.contains("/dev/null")), "{lines:?}");
    }

    #[test]
    fn open_silent_pipe_without_prompt_is_waited_for_with_notice() {
        let (reader, writer) = pipe().unwrap();
        let mut writer = Some(writer);
        let (read, lines) = read(reader, false, || {
            writer.take().unwrap().write_all(b"late prompt").unwrap();
        });
        assert_eq!(read.unwrap(), "late prompt");
        assert!(matches!(&lines[..], [it] if it.contains("waiting for the prompt")), "{lines:?}");
    }

    #[test]
    fn begun_pipe_beside_prompt_is_read_to_its_end_with_notice() {
        let (reader, mut writer) = pipe().unwrap();
        writer.write_all(b"first ").unwrap();
        let mut writer = Some(writer);
        let (read, lines) = read(reader, true, || {
            writer.take().unwrap().write_all(b"second").unwrap();
        });
        assert_eq!(read.unwrap(), "first second");
        assert!(matches!(&lines[..], [it] if it.contains("6 bytes so far")), "{lines:?}");
    }

    #[test]
    fn closed_input_is_read_without_notice() {
        let (reader, mut writer) = pipe().unwrap();
        writer.write_all(b"data").unwrap();
        drop(writer);
        assert_eq!(read(reader, true, || ()), (Ok(String::from("data")), Vec::new()));
        let null = File::open("/dev/null").unwrap();
        assert_eq!(read(null, true, || ()), (Ok(String::new()), Vec::new()));
    }

    #[test]
    fn endless_input_is_refused_with_advice() {
        for has_prompt in [true, false] {
            let (read, _) = read(File::open("/dev/zero").unwrap(), has_prompt, || ());
            let why = read.unwrap_err();
            assert!(why.contains("more than 1 MB") && why.contains("save it to a file"), "{why}");
        }
        let (reader, mut writer) = pipe().unwrap();
        writer.write_all(b"x").unwrap();
        let writing = std::thread::spawn(move || while writer.write_all(&[b'x'; 4096]).is_ok() {});
        assert!(read(reader, true, || ()).0.is_err());
        writing.join().unwrap();
    }

    #[test]
    fn directory_input_is_refused_with_advice() {
        let why = read(File::open("/").unwrap(), true, || ()).0.unwrap_err();
        assert!(why.contains("is a directory"), "{why}");
    }

    #[test]
    fn begun_file_beside_prompt_is_left_to_its_reader() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("list");
        std::fs::write(&path, "one\ntwo\n").unwrap();
        let opened = || File::open(&path).unwrap();
        assert_eq!(read(opened(), true, || ()), (Ok(String::from("one\ntwo\n")), Vec::new()));
        let mut begun = opened();
        begun.seek(SeekFrom::Start(4)).unwrap();
        let (given, lines) = read(begun.try_clone().unwrap(), true, || ());
        assert_eq!((given.unwrap().as_str(), begun.stream_position().unwrap(), lines.len()), ("", 4, 1));
        let (alone, lines) = read(begun, false, || ());
        assert_eq!((alone.unwrap().as_str(), lines.len()), ("two\n", 0));
    }
}
