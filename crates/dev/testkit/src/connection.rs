//! Connections that can be broken on purpose.

use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
};

use axum::{
    extract::connect_info::Connected,
    serve::{IncomingStream, Listener},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream},
};

/// Breaks a connection: nothing more is written to it.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConnectionBreaker(Arc<AtomicBool>);

impl ConnectionBreaker {
    pub(crate) fn trip(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    fn check(&self) -> io::Result<()> {
        if self.0.load(Ordering::SeqCst) {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        Ok(())
    }
}

impl Connected<IncomingStream<'_, Breakable>> for ConnectionBreaker {
    fn connect_info(stream: IncomingStream<'_, Breakable>) -> Self {
        stream.io().breaker.clone()
    }
}

/// A listener whose connections have a [`ConnectionBreaker`].
pub(crate) struct Breakable(pub(crate) TcpListener);

impl Listener for Breakable {
    type Io = BreakableIo;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (BreakableIo, SocketAddr) {
        let (stream, addr) = Listener::accept(&mut self.0).await;
        // Otherwise small writes wait for an acknowledgement (Nagle's algorithm).
        let _ = stream.set_nodelay(true);
        (BreakableIo { stream, breaker: ConnectionBreaker::default() }, addr)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
}

pub(crate) struct BreakableIo {
    stream: TcpStream,
    breaker: ConnectionBreaker,
}

impl AsyncRead for BreakableIo {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for BreakableIo {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.breaker.check()?;
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.breaker.check()?;
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
