//! Threads for supervising commands. An idle thread waits for the next command, because starting a
//! thread costs a tenth of starting a command.

use std::{
    io,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
        mpsc::{Sender, channel},
    },
    time::Duration,
};

type ThreadJob = Box<dyn FnOnce() + Send>;

/// Idle threads by id.
static IDLE: Mutex<Vec<(u64, Sender<ThreadJob>)>> = Mutex::new(Vec::new());
static NUMBERS: AtomicU64 = AtomicU64::new(0);
/// Time before an idle thread exits.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of idle threads.
const MOST: usize = 16;

/// Runs a closure on an idle or new thread.
pub(crate) fn run(work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let mut work: ThreadJob = Box::new(work);
    while let Some((_, waiting)) = idle().pop() {
        match waiting.send(work) {
            Ok(()) => return Ok(()),
            Err(refused) => work = refused.0,
        }
    }
    std::thread::Builder::new().name(String::from("haft-command")).spawn(move || live(work)).map(drop)
}

fn live(first: ThreadJob) {
    let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
    let (sender, receiver) = channel::<ThreadJob>();
    let mut work = first;
    loop {
        work();
        {
            let mut idle = idle();
            if MOST <= idle.len() {
                return;
            }
            idle.push((number, sender.clone()));
        }
        work = match receiver.recv_timeout(TIMEOUT) {
            Ok(next) => next,
            Err(_) => {
                let mut idle = idle();
                if let Some(at) = idle.iter().position(|it| it.0 == number) {
                    idle.remove(at);
                    return;
                }
                drop(idle);
                // Another thread has just taken this one and will send the work.
                match receiver.recv() {
                    Ok(next) => next,
                    Err(_) => return,
                }
            }
        };
    }
}

fn idle() -> MutexGuard<'static, Vec<(u64, Sender<ThreadJob>)>> {
    IDLE.lock().unwrap_or_else(PoisonError::into_inner)
}
