use std::{
    fmt,
    io::{self, Read},
    str::FromStr,
    sync::{Mutex, PoisonError, mpsc},
    thread,
};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// BLAKE3 hash of a file's content.
///
/// It also names objects in the undo store, where a weak hash would let a crafted file replace another
/// one. BLAKE3 is the fastest strong hash without special CPU instructions.
#[derive(Clone, Copy, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ContentHash([u8; 32]);

impl ContentHash {
    pub fn hash(bytes: &[u8]) -> Self {
        Self(*blake3::hash(bytes).as_bytes())
    }

    /// Hash of a byte sequence given in pieces.
    pub fn of_pieces<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut hasher = blake3::Hasher::new();
        for piece in pieces {
            hasher.update(piece);
        }
        Self(*hasher.finalize().as_bytes())
    }

    /// Hash of everything a reader yields, in bounded memory.
    pub fn of_reader(mut reader: impl Read) -> io::Result<Self> {
        let mut hasher = blake3::Hasher::new();
        // Most files are small, and a large buffer has to be zeroed first.
        let mut block = vec![0; 16 * 1024];
        loop {
            match reader.read(&mut block) {
                Ok(0) => return Ok(Self(*hasher.finalize().as_bytes())),
                Ok(len) => {
                    hasher.update(&block[..len]);
                    if len == block.len() {
                        block.resize(128 * 1024, 0);
                    }
                }
                Err(err) if err.kind() == io::ErrorKind::Interrupted => (),
                Err(err) => return Err(err),
            }
        }
    }

    /// Hash of the bytes that `work` passes on, computed on another thread.
    ///
    /// Reading or writing a large file takes about as long as hashing it, and the two are independent.
    pub(crate) fn beside<'a, T>(work: impl FnOnce(&mut dyn FnMut(&'a [u8])) -> T) -> (T, Self) {
        let (sender, receiver) = mpsc::channel::<&'a [u8]>();
        let queue = Mutex::new(receiver);
        let hash = || {
            let mut hasher = blake3::Hasher::new();
            let queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
            for piece in queue.iter() {
                hasher.update(piece);
            }
            Self(*hasher.finalize().as_bytes())
        };
        thread::scope(|scope| {
            let thread = thread::Builder::new().spawn_scoped(scope, hash);
            // The receiving thread outlives this closure.
            let done = work(&mut |piece| sender.send(piece).unwrap_or(()));
            drop(sender);
            let hash = match thread {
                Ok(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
                Err(_) => hash(),
            };
            (done, hash)
        })
    }

    /// The first ten hexadecimal digits, for display.
    pub fn short(&self) -> String {
        let mut text = self.to_string();
        text.truncate(10);
        text
    }
}

impl fmt::Display for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&blake3::Hash::from_bytes(self.0).to_hex())
    }
}

impl fmt::Debug for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ContentHash({})", self.short())
    }
}

impl FromStr for ContentHash {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let hash = blake3::Hash::from_hex(text).map_err(|err| format!("not a content hash: {err}"))?;
        Ok(Self(*hash.as_bytes()))
    }
}

impl Serialize for ContentHash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ContentHash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}
