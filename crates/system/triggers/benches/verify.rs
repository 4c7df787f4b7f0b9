//! Benchmark: verifying a signed delivery, compared with hashing the same bytes twice. `cargo xtask
//! bench web`.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    missing_docs,
    reason = "a benchmark prints, and stops when something is wrong"
)]

use std::time::{Duration, Instant};

use haft_triggers::{SignatureScheme, verify};
use hmac::{Hmac, Mac as _};
use jiff::Timestamp;
use sha2::{Digest as _, Sha256};

const ROUNDS: usize = 301;

fn main() {
    let (secret, body) = (b"a secret of the two of us".as_slice(), vec![b'x'; 64 << 10]);
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).unwrap();
    mac.update(&body);
    let signature: String = mac.finalize().into_bytes().iter().map(|it| format!("{it:02x}")).collect();
    let signature = format!("sha256={signature}");
    let header = |name: &str| (name == "x-hub-signature-256").then_some(signature.as_str());
    let (mut ours, mut bare) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let began = Instant::now();
        let judged = verify(SignatureScheme::Github, secret, header, &body, Timestamp::now());
        ours.push(began.elapsed());
        assert!(judged.is_ok());
        let began = Instant::now();
        let digests = [Sha256::digest(&body), Sha256::digest(&body)];
        bare.push(began.elapsed());
        assert_eq!(digests[0], digests[1]);
    }
    let (ours, bare) = (median(ours), median(bare));
    let ratio = ours.as_secs_f64() / bare.as_secs_f64();
    println!("a signed delivery of 64 kB, median of {ROUNDS}");
    println!("  judged {ours:.1?} (goal 100 µs), hashed twice {bare:.1?}, ratio {ratio:.2} (goal 1.2)");
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}
