use std::{
    io,
    sync::{
        Mutex, PoisonError,
        mpsc::{Receiver, Sender, channel},
    },
};

type RestrictedJob = Box<dyn FnOnce() + Send>;

/// A thread with irrevocable restrictions, which its child processes inherit.
pub(crate) struct RestrictedThread(Mutex<Sender<RestrictedJob>>);

impl RestrictedThread {
    /// Starts the thread. It first calls `give_up`; if that fails, the error is returned and the thread
    /// ends.
    pub(crate) fn build(
        name: &str,
        give_up: impl FnOnce() -> Result<(), String> + Send + 'static,
    ) -> Result<Self, String> {
        let (door, inside) = channel::<RestrictedJob>();
        let (told, answer) = channel();
        std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || {
                let built = give_up();
                let stands = built.is_ok();
                told.send(built).ok();
                if stands {
                    serve(&inside);
                }
            })
            .map_err(|err| format!("no thread for walls: {err}"))?;
        answer.recv().unwrap_or_else(|_| Err(String::from("the walls could not be built")))?;
        Ok(Self(Mutex::new(door)))
    }

    /// Runs a closure on the thread and waits for the result. Processes it starts inherit the
    /// restrictions.
    pub(crate) fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
        let (told, answer) = channel();
        let work: RestrictedJob = Box::new(move || drop(told.send(work())));
        let gone = || io::Error::other("the walls around commands are gone");
        self.0.lock().unwrap_or_else(PoisonError::into_inner).send(work).map_err(|_| gone())?;
        answer.recv().map_err(|_| gone())
    }
}

fn serve(inside: &Receiver<RestrictedJob>) {
    while let Ok(work) = inside.recv() {
        // A panic drops the result channel, which the caller sees as an error; the thread continues.
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).ok();
    }
}
