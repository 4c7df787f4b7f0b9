use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use futures_util::Stream;
use rmcp::{
    model::{ClientJsonRpcMessage, ServerJsonRpcMessage},
    transport::{
        common::server_side_http::{ServerSseMessage, SessionId},
        streamable_http_server::session::{
            SessionManager,
            local::{LocalSessionManager, LocalSessionManagerError},
        },
    },
};

/// Time since its last use during which a session is not evicted.
const RECENT: Duration = Duration::from_secs(30);

/// Sessions of legacy clients, with a maximum. A new session evicts the one that was idle longest.
pub(super) struct BoundedSessions {
    inner: LocalSessionManager,
    used: Mutex<HashMap<SessionId, Instant>>,
    max: usize,
    /// Serialises creation, so that concurrent requests do not all see the same free slot.
    door: tokio::sync::Mutex<()>,
    /// Number of clients rejected for lack of room whose response is still pending.
    refused: AtomicUsize,
}

/// Why a session was not created.
#[derive(Debug, thiserror::Error)]
pub(super) enum SessionError {
    #[error("too many sessions; try again later")]
    Full,
    #[error(transparent)]
    Inner(#[from] LocalSessionManagerError),
}

impl BoundedSessions {
    pub(super) fn new(max: usize) -> Arc<Self> {
        Arc::new(Self {
            inner: LocalSessionManager::default(),
            used: Mutex::default(),
            max,
            door: tokio::sync::Mutex::default(),
            refused: AtomicUsize::new(0),
        })
    }

    /// Takes one pending rejection; returns whether there was one.
    pub(super) fn take_refusal(&self) -> bool {
        self.refused.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |it| it.checked_sub(1)).is_ok()
    }

    fn touch(&self, id: &SessionId) {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(moment) = used.get_mut(id) {
            *moment = Instant::now();
        }
    }

    async fn make_room(&self) -> Result<(), SessionError> {
        let alive = self.inner.sessions.read().await.keys().cloned().collect::<HashSet<_>>();
        let oldest = {
            let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
            used.retain(|id, _| alive.contains(id));
            if used.len() < self.max {
                return Ok(());
            }
            let oldest = used.iter().min_by_key(|(_, moment)| **moment);
            oldest.filter(|(_, moment)| RECENT < moment.elapsed()).map(|(id, _)| id.clone())
        };
        match oldest {
            Some(id) => Ok(self.close_session(&id).await?),
            None => {
                self.refused.fetch_add(1, Ordering::Relaxed);
                Err(SessionError::Full)
            }
        }
    }
}

impl SessionManager for BoundedSessions {
    type Error = SessionError;
    type Transport = <LocalSessionManager as SessionManager>::Transport;

    async fn create_session(&self) -> Result<(SessionId, Self::Transport), Self::Error> {
        let _door = self.door.lock().await;
        self.make_room().await?;
        let (id, transport) = self.inner.create_session().await?;
        self.used.lock().unwrap_or_else(PoisonError::into_inner).insert(id.clone(), Instant::now());
        Ok((id, transport))
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, Self::Error> {
        Ok(self.inner.initialize_session(id, message).await?)
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, Self::Error> {
        self.touch(id);
        Ok(self.inner.has_session(id).await?)
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), Self::Error> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner).remove(id);
        Ok(self.inner.close_session(id).await?)
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        Ok(self.inner.create_stream(id, message).await?)
    }

    async fn accept_message(&self, id: &SessionId, message: ClientJsonRpcMessage) -> Result<(), Self::Error> {
        Ok(self.inner.accept_message(id, message).await?)
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        Ok(self.inner.create_standalone_stream(id).await?)
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        Ok(self.inner.resume(id, last_event_id).await?)
    }
}
