//! Messages by where they are in memory.

use std::{
    collections::HashMap,
    hash::{BuildHasherDefault, Hasher},
};

/// A map whose keys are addresses, perhaps with a number beside them. Nobody but us
/// chooses those, and a request looks up each of its messages several times.
pub(crate) type ByAddress<K, V> = HashMap<K, V, BuildHasherDefault<AddressHasher>>;

/// Spreads addresses over a table.
#[derive(Default)]
pub(crate) struct AddressHasher(u64);

impl Hasher for AddressHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u64(&mut self, number: u64) {
        // Tables go by the lowest bits and by the highest; an address has its news
        // in the middle.
        let spread = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = spread ^ (spread >> 32);
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }
}
