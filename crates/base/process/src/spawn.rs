//! Starting a process the way no library offers: through `posix_spawn` (a fork
//! of a large process copies its page tables), in a session of its own, in
//! another directory, with signals as a fresh program expects them.
#![expect(unsafe_code, reason = "posix_spawn has no safe wrapper that knows sessions and directories")]

use std::{
    ffi::{CStr, CString},
    io,
    mem::MaybeUninit,
    os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd, RawFd},
    ptr,
};

use rustix::process::Pid;

/// A process to start.
pub struct SpawnRequest<'a> {
    /// The program, by its path.
    pub program: &'a CStr,
    /// Its words, its own name included.
    pub argv: &'a [&'a CStr],
    /// Its whole environment.
    pub environment: &'a [CString],
    /// Where it starts.
    pub directory: &'a CStr,
    /// Which of our descriptors the process gets under which number.
    pub descriptors: &'a [(BorrowedFd<'a>, RawFd)],
    /// The terminal it gets as its input and output, if it gets one.
    pub terminal: Option<&'a CStr>,
}

impl SpawnRequest<'_> {
    /// Starts it. The child is in a session and a process group of its own, so
    /// it has no terminal; all signals have their default effect.
    pub fn start(&self) -> io::Result<Pid> {
        let sources = self.clear_of_targets()?;
        let mut actions = SpawnFileActions::new()?;
        if let Some(path) = self.terminal {
            // Whoever leads a session and has no terminal gets the first one it opens.
            actions.open(path, 0)?;
            actions.dup(0, 1)?;
            actions.dup(0, 2)?;
        }
        for (source, (_, target)) in sources.iter().zip(self.descriptors) {
            actions.dup(source.as_raw_fd(), *target)?;
        }
        actions.chdir(self.directory)?;
        let attributes = SpawnAttributes::new()?;
        let argv = pointers(self.argv.iter().copied());
        let environment = pointers(self.environment.iter().map(CString::as_c_str));
        let mut pid = 0;
        // SAFETY: both arrays end with a null pointer, and everything they and
        // the other arguments point to outlives the call.
        let failed = unsafe {
            libc::posix_spawn(
                &mut pid,
                self.program.as_ptr(),
                &actions.0,
                &attributes.0,
                argv.as_ptr(),
                environment.as_ptr(),
            )
        };
        check(failed)?;
        Pid::from_raw(pid).ok_or_else(|| io::Error::other("the kernel gave no process number"))
    }

    /// Descriptors whose numbers are not among the targets: handing out one may
    /// not close another.
    fn clear_of_targets(&self) -> io::Result<Vec<SpawnSource<'_>>> {
        let above = self.descriptors.iter().map(|(_, target)| target + 1).max().unwrap_or(0);
        let standard = self.terminal.is_some();
        let is_target =
            |raw: RawFd| (standard && raw < 3) || self.descriptors.iter().any(|(_, target)| *target == raw);
        let moved = |fd: BorrowedFd<'_>| rustix::io::fcntl_dupfd_cloexec(fd, above);
        self.descriptors
            .iter()
            .map(|(fd, _)| {
                if is_target(fd.as_raw_fd()) {
                    Ok(SpawnSource::Moved(moved(*fd)?))
                } else {
                    Ok(SpawnSource::Given(*fd))
                }
            })
            .collect()
    }
}

/// The same, with everything of its own, so that another thread can start it.
pub struct OwnedSpawnRequest {
    /// The program, by its path.
    pub program: CString,
    /// Its words, its own name included.
    pub argv: Vec<CString>,
    /// Its whole environment.
    pub environment: Vec<CString>,
    /// Where it starts.
    pub directory: CString,
    /// Which descriptors the process gets under which number.
    pub descriptors: Vec<(OwnedFd, RawFd)>,
    /// The terminal it gets as its input and output, if it gets one.
    pub terminal: Option<CString>,
}

impl OwnedSpawnRequest {
    /// Takes copies of all that a launch borrows.
    pub fn from_request(launch: &SpawnRequest<'_>) -> io::Result<Self> {
        let copy = |(fd, number): &(BorrowedFd<'_>, RawFd)| {
            rustix::io::fcntl_dupfd_cloexec(*fd, 0).map(|fd| (fd, *number)).map_err(io::Error::from)
        };
        Ok(Self {
            program: launch.program.to_owned(),
            argv: launch.argv.iter().map(|word| CString::from(*word)).collect(),
            environment: launch.environment.to_vec(),
            directory: launch.directory.to_owned(),
            descriptors: launch.descriptors.iter().map(copy).collect::<io::Result<_>>()?,
            terminal: launch.terminal.map(CStr::to_owned),
        })
    }

    /// See [`SpawnRequest::start`].
    pub fn start(&self) -> io::Result<Pid> {
        let argv: Vec<&CStr> = self.argv.iter().map(CString::as_c_str).collect();
        let descriptors: Vec<(BorrowedFd<'_>, RawFd)> =
            self.descriptors.iter().map(|(fd, number)| (fd.as_fd(), *number)).collect();
        let launch = SpawnRequest {
            program: &self.program,
            argv: &argv,
            environment: &self.environment,
            directory: &self.directory,
            descriptors: &descriptors,
            terminal: self.terminal.as_deref(),
        };
        launch.start()
    }
}

enum SpawnSource<'a> {
    Given(BorrowedFd<'a>),
    Moved(OwnedFd),
}

impl SpawnSource<'_> {
    fn as_raw_fd(&self) -> RawFd {
        match self {
            Self::Given(fd) => fd.as_raw_fd(),
            Self::Moved(fd) => fd.as_fd().as_raw_fd(),
        }
    }
}

struct SpawnFileActions(libc::posix_spawn_file_actions_t);

impl SpawnFileActions {
    fn new() -> io::Result<Self> {
        let mut raw = MaybeUninit::uninit();
        // SAFETY: `init` fills the value it is given, or fails.
        unsafe {
            check(libc::posix_spawn_file_actions_init(raw.as_mut_ptr()))?;
            Ok(Self(raw.assume_init()))
        }
    }

    fn dup(&mut self, source: RawFd, target: RawFd) -> io::Result<()> {
        // SAFETY: the value is initialised.
        check(unsafe { libc::posix_spawn_file_actions_adddup2(&mut self.0, source, target) })
    }

    fn open(&mut self, path: &CStr, target: RawFd) -> io::Result<()> {
        // SAFETY: the value is initialised; the text is copied.
        check(unsafe {
            libc::posix_spawn_file_actions_addopen(&mut self.0, target, path.as_ptr(), libc::O_RDWR, 0)
        })
    }

    fn chdir(&mut self, directory: &CStr) -> io::Result<()> {
        // SAFETY: the value is initialised; the text is copied.
        check(unsafe { libc::posix_spawn_file_actions_addchdir_np(&mut self.0, directory.as_ptr()) })
    }
}

impl Drop for SpawnFileActions {
    fn drop(&mut self) {
        // SAFETY: the value is initialised and used no more.
        unsafe { libc::posix_spawn_file_actions_destroy(&mut self.0) };
    }
}

struct SpawnAttributes(libc::posix_spawnattr_t);

impl SpawnAttributes {
    fn new() -> io::Result<Self> {
        let mut raw = MaybeUninit::uninit();
        // SAFETY: `init` and the set functions fill the values they are given.
        unsafe {
            check(libc::posix_spawnattr_init(raw.as_mut_ptr()))?;
            let mut made = Self(raw.assume_init());
            let mut signals = MaybeUninit::uninit();
            libc::sigfillset(signals.as_mut_ptr());
            check(libc::posix_spawnattr_setsigdefault(&mut made.0, signals.as_ptr()))?;
            libc::sigemptyset(signals.as_mut_ptr());
            check(libc::posix_spawnattr_setsigmask(&mut made.0, signals.as_ptr()))?;
            let flags = i32::from(libc::POSIX_SPAWN_SETSID)
                | libc::POSIX_SPAWN_SETSIGDEF
                | libc::POSIX_SPAWN_SETSIGMASK;
            check(libc::posix_spawnattr_setflags(&mut made.0, flags as libc::c_short))?;
            Ok(made)
        }
    }
}

impl Drop for SpawnAttributes {
    fn drop(&mut self) {
        // SAFETY: the value is initialised and used no more.
        unsafe { libc::posix_spawnattr_destroy(&mut self.0) };
    }
}

fn pointers<'a>(texts: impl Iterator<Item = &'a CStr>) -> Vec<*mut libc::c_char> {
    texts.map(|text| text.as_ptr().cast_mut()).chain([ptr::null_mut()]).collect()
}

fn check(failed: libc::c_int) -> io::Result<()> {
    if failed == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(failed)) }
}
