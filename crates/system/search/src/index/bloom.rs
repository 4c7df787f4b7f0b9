//! Set of the words in a file, in a few hundred bytes.

use std::{
    collections::HashSet,
    hash::{BuildHasherDefault, Hasher},
};

use crate::symbols::is_word;

/// Case-insensitive hash of a word.
pub(crate) fn fingerprint(word: &[u8]) -> u64 {
    word.iter().fold(SEED, |hash, byte| mix(hash, byte.to_ascii_lowercase()))
}

const SEED: u64 = 0xcbf2_9ce4_8422_2325;

fn mix(hash: u64, byte: u8) -> u64 {
    (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
}

/// Maximum bytes of a word; longer ones are data.
const MAX_WORD: usize = 80;

/// The words of a text and the parts of compound ones: `parse_config` and `parseConfig` also count as
/// `parse` and `config`.
#[derive(Default)]
pub(crate) struct WordSet {
    seen: HashSet<u64, BuildHasherDefault<IdentityHasher>>,
}

impl WordSet {
    pub(crate) fn collect(&mut self, text: &[u8]) {
        const KEPT: usize = 1 << 16;
        if KEPT < self.seen.capacity() {
            self.seen = HashSet::default();
        }
        self.seen.clear();
        let mut at = 0;
        while at < text.len() {
            if !is_word(text[at]) {
                at += 1;
                continue;
            }
            at = self.word(text, at);
        }
    }

    /// Adds the word that starts at `start`; returns its end.
    fn word(&mut self, text: &[u8], start: usize) -> usize {
        let (mut whole, mut part, mut part_start) = (SEED, SEED, start);
        let mut parts = 0_usize;
        let mut at = start;
        while let Some(&byte) = text.get(at)
            && is_word(byte)
        {
            let begins = byte.is_ascii_uppercase() && start < at && text[at - 1].is_ascii_lowercase();
            if byte == b'_' || begins {
                if 1 < at - part_start {
                    self.seen.insert(part);
                    parts += 1;
                }
                part = SEED;
                part_start = if byte == b'_' { at + 1 } else { at };
            }
            let lower = byte.to_ascii_lowercase();
            whole = mix(whole, lower);
            if byte != b'_' {
                part = mix(part, lower);
            }
            at += 1;
        }
        if at - start <= MAX_WORD {
            self.seen.insert(whole);
            if 0 < parts && 1 < at - part_start {
                self.seen.insert(part);
            }
        }
        at
    }
}

/// Fingerprints are already hashes.
#[derive(Default)]
struct IdentityHasher(u64);

impl Hasher for IdentityHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _bytes: &[u8]) {}

    fn write_u64(&mut self, value: u64) {
        // The table uses the low bits as position and compares the high ones.
        self.0 = value ^ value.rotate_left(32);
    }
}

/// A Bloom filter with about 1 % false positives and no false negatives.
#[derive(Debug)]
pub(crate) struct WordBloom {
    bits: Box<[u64]>,
}

impl WordBloom {
    /// For a file whose words are unknown: contains every word.
    pub(crate) fn any() -> Self {
        Self { bits: Box::default() }
    }

    pub(crate) fn from_words(set: &WordSet) -> Self {
        const BITS_PER_WORD: usize = 10;
        let len = (set.seen.len() * BITS_PER_WORD).div_ceil(64).max(1);
        let mut words = Self { bits: vec![0; len].into() };
        for hash in &set.seen {
            for place in words.places(*hash) {
                words.bits[place / 64] |= 1 << (place % 64);
            }
        }
        words
    }

    fn places(&self, hash: u64) -> impl Iterator<Item = usize> + use<> {
        const PROBES: u64 = 5;
        let bits = self.bits.len() as u64 * 64;
        let (a, b) = (hash >> 32, (hash & 0xffff_ffff) | 1);
        (0..PROBES).map(move |probe| {
            let mixed = a.wrapping_add(probe.wrapping_mul(b)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
            usize::try_from((mixed * bits) >> 32).unwrap_or(0)
        })
    }

    /// Whether the file may contain a word with this hash.
    pub(crate) fn may_hold(&self, hash: u64) -> bool {
        self.bits.is_empty()
            || self.places(hash).all(|place| self.bits[place / 64] & (1 << (place % 64)) != 0)
    }

    /// Size in bytes.
    pub(crate) fn size(&self) -> usize {
        self.bits.len() * 8
    }
}

/// The lower-case parts of a name: `parseConfigFile`, `parse_config_file` and `ParseConfigFile` have the
/// same three.
pub(crate) fn parts(name: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut before = '_';
    for char in name.chars() {
        let begins = !char.is_alphanumeric() || (char.is_uppercase() && before.is_lowercase());
        if begins && parts.last().is_some_and(|part| !part.is_empty()) {
            parts.push(String::new());
        }
        if char.is_alphanumeric()
            && let Some(part) = parts.last_mut()
        {
            part.extend(char.to_lowercase());
        }
        before = char;
    }
    parts.retain(|part| !part.is_empty());
    parts
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn word_set_contains_words_and_their_parts() {
        let mut set = WordSet::default();
        set.collect("fn parse_config(HTTPServer: fooBarBaz) { x9 } größe".as_bytes());
        let words = WordBloom::from_words(&set);
        for word in ["fn", "parse_config", "PARSE", "config", "foobarbaz", "bar", "Baz", "x9", "größe"] {
            assert!(words.may_hold(fingerprint(word.as_bytes())), "{word}");
        }
        let missing =
            (0..1000).filter(|it| words.may_hold(fingerprint(format!("missing{it}").as_bytes()))).count();
        assert!(missing < 50, "{missing}");
    }

    #[test]
    fn parts_splits_compound_names() {
        for (name, want) in [
            ("parse_config", "parse config"),
            ("parseConfigFile", "parse config file"),
            ("HTTPServer", "httpserver"),
            ("x", "x"),
            ("__init__", "init"),
            ("kebab-case.name", "kebab case name"),
        ] {
            assert_eq!(parts(name).join(" "), want);
        }
    }

    proptest! {
        #[test]
        fn word_bloom_has_no_false_negatives(words in prop::collection::vec("[A-Za-z_][A-Za-z0-9_]{0,20}", 1..200)) {
            let text = words.join(" ");
            let mut set = WordSet::default();
            set.collect(text.as_bytes());
            let held = WordBloom::from_words(&set);
            for word in words {
                prop_assert!(held.may_hold(fingerprint(word.as_bytes())), "{}", word);
            }
        }
    }
}
