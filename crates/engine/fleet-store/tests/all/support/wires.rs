//! Network proxies that inject faults.

use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
};

/// The injected fault.
#[derive(Clone, Copy)]
pub enum Wire {
    /// Every published message is duplicated in both directions, and a fifth of the acknowledgements is
    /// lost.
    DoublingNats,
    /// The connection is closed in place of one response in this many.
    BreakingAnswers(u32),
}

/// Opens a proxy to a local port; returns its own port.
pub async fn open_wire(wire: Wire, target: u16) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((near, _)) = listener.accept().await {
            let Ok(far) = TcpStream::connect(("127.0.0.1", target)).await else { continue };
            let ((from_near, to_near), (from_far, to_far)) = (near.into_split(), far.into_split());
            match wire {
                Wire::DoublingNats => {
                    tokio::spawn(double(from_near, to_far, |_, _| false));
                    tokio::spawn(double(from_far, to_near, is_lost));
                }
                Wire::BreakingAnswers(one_in) => drop(tokio::spawn(async move {
                    tokio::select! {
                        () = carry(from_near, to_far) => (),
                        () = carry_some(from_far, to_near, one_in) => (),
                    }
                })),
            }
        }
    });
    port
}

async fn carry(mut from: OwnedReadHalf, mut to: OwnedWriteHalf) {
    let _ = tokio::io::copy(&mut from, &mut to).await;
}

/// Forwards responses; the first ones of a connection always, later one of them closes it.
async fn carry_some(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, one_in: u32) {
    let mut bytes = vec![0; 64 * 1_024];
    let mut answers = 0;
    while let Ok(length @ 1..) = from.read(&mut bytes).await {
        answers += 1;
        if answers > 8 && fastrand::u32(..one_in) == 0 || to.write_all(&bytes[..length]).await.is_err() {
            return;
        }
    }
}

/// Whether to drop an acknowledgement: for a fifth of the requests all are dropped. Each attempt has its
/// own reply subject.
fn is_lost(subject: &str, payload: &[u8]) -> bool {
    let is_acknowledgement =
        payload.starts_with(b"{\"stream\":") && payload.windows(6).any(|it| it == b"\"seq\":");
    is_acknowledgement && subject.bytes().map(u32::from).sum::<u32>() % 5 == 0
}

/// Forwards the NATS protocol: a line, followed by a payload for some commands.
async fn double(
    from: impl AsyncRead + Unpin,
    mut to: OwnedWriteHalf,
    is_lost: impl Fn(&str, &[u8]) -> bool + Send,
) -> Option<()> {
    let mut from = BufReader::new(from);
    loop {
        let mut message = Vec::new();
        if from.read_until(b'\n', &mut message).await.ok()? == 0 {
            return None;
        }
        let line = String::from_utf8_lossy(&message).trim().to_owned();
        let words: Vec<&str> = line.split(' ').collect();
        let has_payload = ["PUB", "HPUB", "MSG", "HMSG"].contains(&words[0]);
        let mut times = 1;
        if has_payload {
            let length: usize = words.last()?.parse().ok()?;
            let begin = message.len();
            message.resize(begin + length + 2, 0);
            from.read_exact(&mut message[begin..]).await.ok()?;
            times = if is_lost(words[1], &message[begin..]) { 0 } else { 2 };
        }
        for _ in 0..times {
            to.write_all(&message).await.ok()?;
        }
    }
}
