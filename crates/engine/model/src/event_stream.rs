//! Turns an async function that emits events into a stream.
//!
//! No task is spawned: the future runs while the stream is polled and is dropped with it, which also
//! closes the connection.

use std::{
    collections::VecDeque,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
};

use futures_util::Stream;

use crate::{ModelError, ModelEvent, ModelStream};

/// Queues events for the stream.
#[derive(Clone, Default)]
pub(crate) struct Emitter(Arc<Mutex<VecDeque<ModelEvent>>>);

impl Emitter {
    pub(crate) fn emit(&self, event: ModelEvent) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push_back(event);
    }

    fn next(&self) -> Option<ModelEvent> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }
}

type StreamWork = Pin<Box<dyn Future<Output = Result<(), ModelError>> + Send>>;

struct Generated {
    emitter: Emitter,
    work: Option<StreamWork>,
    failed: Option<ModelError>,
}

/// Returns the events `work` emits, followed by its error if it fails.
pub(crate) fn generate<F>(work: impl FnOnce(Emitter) -> F) -> ModelStream
where
    F: Future<Output = Result<(), ModelError>> + Send + 'static,
{
    let emitter = Emitter::default();
    let work: StreamWork = Box::pin(work(emitter.clone()));
    Box::pin(Generated { emitter, work: Some(work), failed: None })
}

impl Stream for Generated {
    type Item = Result<ModelEvent, ModelError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        if let Some(event) = this.emitter.next() {
            return Poll::Ready(Some(Ok(event)));
        }
        if let Some(work) = &mut this.work
            && let Poll::Ready(done) = work.as_mut().poll(cx)
        {
            this.work = None;
            this.failed = done.err();
        }
        match this.emitter.next() {
            Some(event) => Poll::Ready(Some(Ok(event))),
            None if this.work.is_some() => Poll::Pending,
            None => Poll::Ready(this.failed.take().map(Err)),
        }
    }
}
