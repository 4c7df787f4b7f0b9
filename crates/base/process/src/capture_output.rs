//! Runs a small helper program to its end and captures what it writes to one descriptor. Not for the
//! user's commands.

use std::{
    ffi::CString,
    fs::File,
    io::{self, Write as _},
    os::{fd::AsFd as _, unix::ffi::OsStrExt as _},
    path::Path,
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, poll},
    fs::MemfdFlags,
    pipe::{PipeFlags, pipe_with},
    process::{WaitId, WaitIdOptions, waitid},
};

use crate::{Lifetime, ProcessOwner, ProcessPurpose, SpawnIntent, SpawnRequest, end_all, timespec};

/// Maximum bytes captured; the rest is not read.
const MOST: usize = 16 << 20;

/// A helper program to run and how to capture its output.
pub struct OutputCapture<'a> {
    /// Name of the call in process lists.
    pub call: &'a str,
    pub program: &'a Path,
    pub arguments: &'a [&'a str],
    /// Complete environment, as `NAME=VALUE`.
    pub environment: &'a [CString],
    /// Working directory.
    pub directory: &'a Path,
    /// Number of the child's descriptor whose output is captured.
    pub dump: i32,
    /// Bytes the program reads from standard input.
    pub input: Vec<u8>,
    /// Timeout; the program is killed when it expires.
    pub patience: Duration,
}

/// Captured output of a program.
pub struct CapturedOutput {
    /// Bytes written to [`OutputCapture::dump`].
    pub dump: Vec<u8>,
    /// The first 16 KiB of standard error.
    pub errors: Vec<u8>,
    /// Whether the timeout expired.
    pub timed_out: bool,
}

impl OutputCapture<'_> {
    /// Runs the program until it closes the descriptor, the output limit is reached or the timeout
    /// expires, then ends the program and all processes it left. Blocks.
    pub fn run(&self, owner: &ProcessOwner) -> io::Result<CapturedOutput> {
        let program = CString::new(self.program.as_os_str().as_bytes())?;
        let arguments: Vec<CString> =
            self.arguments.iter().map(|it| CString::new(*it)).collect::<Result<_, _>>()?;
        let argv: Vec<_> = std::iter::once(&program).chain(&arguments).map(CString::as_c_str).collect();
        let directory = CString::new(self.directory.as_os_str().as_bytes())?;
        let (dump, dump_end) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        rustix::io::ioctl_fionbio(&dump_end, false)?;
        let errors: File = rustix::fs::memfd_create("errors", MemfdFlags::CLOEXEC)?.into();
        let mut input: File = rustix::fs::memfd_create("input", MemfdFlags::CLOEXEC)?.into();
        input.write_all(&self.input)?;
        rustix::fs::seek(&input, rustix::fs::SeekFrom::Start(0))?;
        let null = File::options().write(true).open("/dev/null")?;
        let about = SpawnIntent {
            purpose: ProcessPurpose::Command,
            call: self.call,
            command: &self.program.to_string_lossy(),
            task: "",
        };
        let mark = owner.announce(about, Lifetime::Session)?;
        let launch = SpawnRequest {
            program: &program,
            argv: &argv,
            environment: self.environment,
            directory: &directory,
            descriptors: &[
                (input.as_fd(), 0),
                (null.as_fd(), 1),
                (errors.as_fd(), 2),
                (dump_end.as_fd(), self.dump),
            ],
            terminal: None,
        };
        let pid = launch.start().inspect_err(|_| owner.forget(&mark))?;
        owner.started(&mark, pid);
        drop(dump_end);
        let deadline = Instant::now() + self.patience;
        let read = read_until(&File::from(dump), deadline);
        let timed_out = deadline <= Instant::now();
        // End processes that shell start-up files left behind.
        end_all(|| owner.alive(&mark), Duration::from_millis(200));
        waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOHANG).ok();
        owner.forget(&mark);
        let mut first = vec![0; 16 << 10];
        let len = std::os::unix::fs::FileExt::read_at(&errors, &mut first, 0).unwrap_or(0);
        first.truncate(len);
        Ok(CapturedOutput { dump: read?, errors: first, timed_out })
    }
}

fn read_until(pipe: &File, deadline: Instant) -> io::Result<Vec<u8>> {
    let mut all = Vec::new();
    let mut buf = vec![0; 64 << 10];
    loop {
        let Some(left) = deadline.checked_duration_since(Instant::now()) else { return Ok(all) };
        let mut fds = [PollFd::new(pipe, PollFlags::IN)];
        match poll(&mut fds, Some(&timespec(left))) {
            Err(rustix::io::Errno::INTR) => continue,
            polled => polled?,
        };
        match rustix::io::read(pipe, &mut buf) {
            Ok(0) => return Ok(all),
            Ok(len) => all.extend_from_slice(&buf[..len]),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
            Err(err) => return Err(err.into()),
        }
        let complete = all.ends_with(b"\x01end\0");
        if complete || MOST < all.len() {
            return Ok(all);
        }
    }
}
