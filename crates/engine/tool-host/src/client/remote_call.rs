//! A call that runs on a host, from sending it to its report.

use futures_util::{StreamExt as _, future::Either, stream::FuturesUnordered};
use haft_tool::ToolContext;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{HostSet, link::RemoteCallEvent};
use crate::protocol::CallKey;

/// Context of a call.
pub(super) struct RemoteCaller<'a> {
    pub(super) set: &'a HostSet,
    pub(super) host: usize,
    pub(super) tool: &'a str,
    pub(super) key: CallKey,
}

/// Cancels the call on the host if dropped before its report.
struct RemoteCallGuard<'a> {
    maker: &'a RemoteCaller<'a>,
    is_over: bool,
}

impl Drop for RemoteCallGuard<'_> {
    fn drop(&mut self) {
        if !self.is_over
            && let Some(it) = self.maker.set.hosts.get(self.maker.host)
        {
            it.link.cancel(self.maker.key.clone());
        }
    }
}

/// Waits for the end of a call: forwards progress, asks the user the host's questions, and cancels on
/// interruption.
pub(super) async fn heard(
    maker: &RemoteCaller<'_>,
    mut news: mpsc::UnboundedReceiver<RemoteCallEvent>,
    cx: Option<&ToolContext<Value>>,
) -> RemoteCallEvent {
    let mut waiting = RemoteCallGuard { maker, is_over: false };
    let mut asking = FuturesUnordered::new();
    let mut withdrawals: Vec<(u64, CancellationToken)> = Vec::new();
    let mut is_cancelled = false;
    let interrupt = cx.map(|it| it.cancel.clone()).unwrap_or_default();
    loop {
        tokio::select! {
            biased;
            event = news.recv() => match event {
                None => {
                    waiting.is_over = true;
                    let trouble = super::LinkError::lasting("the connection is closed");
                    return RemoteCallEvent::Lost { trouble, was_sent: true };
                }
                Some(RemoteCallEvent::Progress(data)) => {
                    if let Some(cx) = cx {
                        cx.progress(&data);
                    }
                }
                Some(RemoteCallEvent::Ask(frame)) => {
                    let (question, gone) = (frame.question, CancellationToken::new());
                    withdrawals.push((question, gone.clone()));
                    let answer = maker.set.ask(maker.host, *frame);
                    asking.push(async move {
                        match futures_util::future::select(answer, Box::pin(gone.cancelled())).await {
                            Either::Left((answer, _)) => Some((question, answer)),
                            Either::Right(_) => None,
                        }
                    });
                }
                Some(RemoteCallEvent::Withdrawn(question)) => {
                    withdrawals.iter().filter(|it| it.0 == question).for_each(|it| it.1.cancel());
                }
                Some(over) => {
                    waiting.is_over = true;
                    return over;
                }
            },
            Some(answered) = asking.next(), if !asking.is_empty() => {
                if let (Some((question, answer)), Some(it)) = (answered, maker.set.hosts.get(maker.host)) {
                    it.link.answer(question, answer);
                }
            }
            () = interrupt.cancelled(), if !is_cancelled => {
                is_cancelled = true;
                tracing::debug!(tool = maker.tool, "an interrupt goes to the host");
                if let Some(it) = maker.set.hosts.get(maker.host) {
                    it.link.cancel(maker.key.clone());
                }
            }
        }
    }
}
