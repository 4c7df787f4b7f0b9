//! Numbers as people read them.

/// Longest text that is shown of one thing, in bytes.
pub(super) const LONGEST: usize = 200_000;

pub(crate) fn duration(micros: u64) -> String {
    match micros {
        0..1_000 => format!("{micros} µs"),
        1_000..1_000_000 => format!("{:.1} ms", micros as f64 / 1e3),
        1_000_000..120_000_000 => format!("{:.2} s", micros as f64 / 1e6),
        _ => format!("{} min {} s", micros / 60_000_000, micros / 1_000_000 % 60),
    }
}

pub(crate) fn money(usd: f64) -> String {
    match usd {
        usd if 100.0 <= usd => format!("${usd:.0}"),
        usd if 1.0 <= usd => format!("${usd:.2}"),
        usd => format!("${usd:.4}"),
    }
}

/// Tokens or bytes, short.
pub(crate) fn short(count: u64) -> String {
    match count {
        0..10_000 => haft_types::text::thousands(count),
        10_000..1_000_000 => format!("{:.0}k", count as f64 / 1e3),
        _ => format!("{:.1}M", count as f64 / 1e6),
    }
}

pub(super) fn cut(words: &str) -> String {
    let head = haft_types::text::head(words, LONGEST);
    if head.len() == words.len() {
        words.to_owned()
    } else {
        format!("{head}\n[cut: {} bytes in all]", words.len())
    }
}

/// How many of something there are.
pub(super) fn counted(count: usize, name: &str) -> String {
    match count {
        1 => format!("1 {name}"),
        _ => format!("{count} {name}s"),
    }
}
