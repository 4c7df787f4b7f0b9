use std::time::Duration;

use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// Hooks that run in the background. Dropping it kills them and their processes.
#[derive(Debug, Default)]
pub(crate) struct BackgroundHooks {
    tasks: TaskTracker,
    end: CancellationToken,
}

impl BackgroundHooks {
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let end = self.end.clone();
        self.tasks.spawn(async move {
            tokio::select! {
                biased;
                () = end.cancelled() => (),
                () = work => (),
            }
        });
    }

    /// Waits up to `patience` for them, then kills the rest.
    pub(crate) async fn close(&self, patience: Duration) {
        self.tasks.close();
        let _in_time = tokio::time::timeout(patience, self.tasks.wait()).await;
        self.end.cancel();
        self.tasks.wait().await;
    }
}

impl Drop for BackgroundHooks {
    fn drop(&mut self) {
        self.end.cancel();
    }
}
