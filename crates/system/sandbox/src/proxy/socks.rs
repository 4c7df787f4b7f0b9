use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional},
    net::TcpStream,
};

use super::{
    Proxy, ProxyRefusal, TIMEOUT,
    allowed_domains::{ProxyDestination, ProxyHost},
};

pub(super) const VERSION: u8 = 5;
const CONNECT: u8 = 1;
const DONE: u8 = 0;
const NOT_ALLOWED: u8 = 2;
const UNREACHABLE: u8 = 4;
const NOT_SUPPORTED: u8 = 7;
const NO_SUCH_ADDRESS: u8 = 8;

/// Serves one connection whose first byte was already read.
pub(super) async fn serve(proxy: &Proxy, mut client: TcpStream) -> io::Result<()> {
    let asked = tokio::time::timeout(TIMEOUT, greet(&mut client)).await??;
    let to = match asked {
        Ok(to) => to,
        Err(code) => return reply(&mut client, code).await,
    };
    let mut server = match proxy.dial(&to).await {
        Ok(server) => server,
        Err(ProxyRefusal::Forbidden(_)) => return reply(&mut client, NOT_ALLOWED).await,
        Err(ProxyRefusal::Failed(_)) => return reply(&mut client, UNREACHABLE).await,
    };
    reply(&mut client, DONE).await?;
    copy_bidirectional(&mut client, &mut server).await?;
    Ok(())
}

/// Negotiates the destination. The inner error is the SOCKS reply code to send.
async fn greet(client: &mut TcpStream) -> io::Result<Result<ProxyDestination, u8>> {
    let methods = client.read_u8().await?;
    let mut offered = vec![0; usize::from(methods)];
    client.read_exact(&mut offered).await?;
    client.write_all(&[VERSION, 0]).await?;
    let mut head = [0; 4];
    client.read_exact(&mut head).await?;
    let [_, command, _, kind] = head;
    let host = match kind {
        1 => Some(ProxyHost::Address(IpAddr::V4(Ipv4Addr::from_bits(client.read_u32().await?)))),
        3 => {
            let mut name = vec![0; usize::from(client.read_u8().await?)];
            client.read_exact(&mut name).await?;
            String::from_utf8(name).ok().and_then(|name| ProxyHost::parse(&name))
        }
        4 => Some(ProxyHost::Address(IpAddr::V6(Ipv6Addr::from_bits(client.read_u128().await?)))),
        _ => return Ok(Err(NO_SUCH_ADDRESS)),
    };
    let port = client.read_u16().await?;
    Ok(match host {
        _ if command != CONNECT => Err(NOT_SUPPORTED),
        Some(host) => Ok(ProxyDestination { host, port }),
        None => Err(NO_SUCH_ADDRESS),
    })
}

async fn reply(client: &mut TcpStream, code: u8) -> io::Result<()> {
    client.write_all(&[VERSION, code, 0, 1, 0, 0, 0, 0, 0, 0]).await
}
