use std::{
    fs::File,
    io::{Read, Write},
    os::unix::process::ExitStatusExt,
    process::{Child, Command, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

use rustix::{
    fs::{MemfdFlags, SeekFrom, memfd_create, seek},
    process::{Resource, Rlimit, Signal, set_parent_process_death_signal, setrlimit},
};

use crate::{
    MAX_BYTES, MediaAnswer, MediaInput, MediaTask, MediaWorker, TIMEOUT,
    worker_thread::{run, wait},
};

/// Address space limit of the worker in bytes: enough for the largest image that is decoded, or for a
/// PDF of 100 MB.
fn max_memory(task: &MediaTask) -> u64 {
    match task {
        MediaTask::Picture(..) => 3 * 1024 * 1024 * 1024,
        MediaTask::Pages(_) => 1536 * 1024 * 1024,
    }
}

/// Maximum bytes of an answer. More than 20 rendered pages in base64 need.
const MAX_ANSWER: u64 = 128 * 1024 * 1024;

impl MediaInput {
    /// Returns the data, reading a file from its beginning. Reads at most [`MAX_BYTES`].
    pub(crate) fn into_bytes(self) -> Result<Vec<u8>, String> {
        let file = match self {
            Self::Bytes(bytes) => return Ok(bytes),
            Self::File(file) => file,
        };
        let failed = |err: std::io::Error| format!("reading it failed ({err})");
        seek(&file, SeekFrom::Start(0)).map_err(|err| failed(err.into()))?;
        let mut bytes = Vec::new();
        file.take(MAX_BYTES).read_to_end(&mut bytes).map_err(failed)?;
        Ok(bytes)
    }

    /// Returns a file that can become the standard input of a process; data in memory is written to a
    /// memfd.
    fn into_file(self) -> Result<File, String> {
        let failed = |err: std::io::Error| format!("it cannot be handed on ({err})");
        match self {
            Self::File(file) => Ok(file),
            Self::Bytes(bytes) => {
                let fd = memfd_create("haft-media", MemfdFlags::CLOEXEC).map_err(|err| failed(err.into()))?;
                let mut file = File::from(fd);
                file.write_all(&bytes).map_err(failed)?;
                Ok(file)
            }
        }
    }
}

/// Kills and reaps the process on drop.
struct Ends(Child);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// Runs the job in a worker process and waits for the answer.
pub(super) fn ask(
    worker: &MediaWorker,
    task: &MediaTask,
    source: MediaInput,
    cancelled: &dyn Fn() -> bool,
) -> Result<MediaAnswer, String> {
    let task = serde_json::to_string(task).map_err(|err| err.to_string())?;
    let child = Command::new(&worker.program)
        .args(&worker.args)
        .arg(task)
        .env_clear()
        .current_dir("/")
        .stdin(source.into_file()?)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|err| format!("no process could be started to read it ({err})"))?;
    let mut child = Ends(child);
    let stdout = child.0.stdout.take();
    let (sender, receiver) = mpsc::sync_channel(1);
    let reader = move || {
        let mut bytes = Vec::new();
        let read = stdout.map(|it| it.take(MAX_ANSWER).read_to_end(&mut bytes));
        let failed = |err: std::io::Error| format!("reading it failed ({err})");
        sender.send(read.transpose().map(|_| bytes).map_err(failed)).ok();
    };
    thread::Builder::new()
        .name("haft-media-answer".to_owned())
        .spawn(reader)
        .map_err(|err| format!("no thread could be started to read it ({err})"))?;
    // The worker enforces its own, shorter timeout. This one is for a worker that is stopped.
    let bytes = wait(&receiver, TIMEOUT + Duration::from_secs(5), cancelled)?;
    if let Ok(answer) = serde_json::from_slice::<Result<MediaAnswer, String>>(&bytes) {
        return answer;
    }
    let status = child.0.wait().map_err(|err| format!("reading it failed ({err})"))?;
    Err(match status.signal() {
        Some(_) => "it is damaged, or needs more memory or time than is allowed to read it".to_owned(),
        None => format!("reading it failed ({status})"),
    })
}

/// The worker side of [`MediaWork::Process`](crate::MediaWork::Process): limits the memory and CPU time
/// of this process, reads the file from standard input and writes the answer as JSON to standard output.
/// Standard input must be a file.
pub fn serve(task: &str) -> Result<(), String> {
    let task: MediaTask = serde_json::from_str(task).map_err(|err| err.to_string())?;
    let failed = |err: rustix::io::Errno| format!("no limits could be set ({err})");
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(failed)?;
    let seconds = TIMEOUT.as_secs();
    for (resource, limit) in [
        (Resource::As, max_memory(&task)),
        (Resource::Cpu, 2 * seconds),
        (Resource::Core, 0),
        (Resource::Fsize, 0),
    ] {
        let limit = Some(limit);
        setrlimit(resource, Rlimit { current: limit, maximum: limit }).map_err(failed)?;
    }
    let stdin = std::io::stdin();
    seek(&stdin, SeekFrom::Start(0)).map_err(|err| format!("standard input is no file ({err})"))?;
    let mut bytes = Vec::new();
    stdin.lock().take(MAX_BYTES).read_to_end(&mut bytes).map_err(|err| err.to_string())?;
    let answer = run(task, bytes, TIMEOUT, &|| false);
    let answer = serde_json::to_vec(&answer).map_err(|err| err.to_string())?;
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(&answer).and_then(|()| stdout.flush()).map_err(|err| err.to_string())
}
