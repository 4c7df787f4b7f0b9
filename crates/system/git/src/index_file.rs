/// Minimal reader for the git index: the paths it contains and the tree they form.
#[derive(Debug, Default, Eq, PartialEq)]
pub struct IndexFile<'a> {
    /// Paths relative to the repository root, in byte order.
    paths: Vec<&'a [u8]>,
    /// Id of the root tree if the index has a valid cache tree.
    tree: Option<&'a [u8]>,
}

/// Bytes of stat data before an entry's object id.
const ENTRY_STAT: usize = 40;
/// Length of an object id in bytes.
const SHA_1: usize = 20;
const SHA_256: usize = 32;

impl<'a> IndexFile<'a> {
    /// Parses an index file. `None` for unsupported forms (another version, split or sparse index) and
    /// if an entry is in conflict or intent-to-add: run git instead.
    pub fn read(bytes: &'a [u8]) -> Option<Self> {
        // The index does not say which hash it uses; only the right length parses.
        [SHA_1, SHA_256].into_iter().find_map(|length| Self::read_with(bytes, length))
    }

    fn read_with(bytes: &'a [u8], hash: usize) -> Option<Self> {
        let (body, _checksum) = bytes.split_at_checked(bytes.len().checked_sub(hash)?)?;
        let rest = body.strip_prefix(b"DIRC")?;
        let (version, rest) = number(rest)?;
        let (count, mut rest) = number(rest)?;
        if !matches!(version, 2 | 3) {
            return None;
        }
        let mut index = Self::default();
        for _ in 0..count {
            let (path, after) = entry(rest, hash)?;
            // With the wrong hash length, paths are not in order.
            if path.is_empty() || index.paths.last().is_some_and(|last| path <= *last) {
                return None;
            }
            index.paths.push(path);
            rest = after;
        }
        while !rest.is_empty() {
            let (kind, after) = rest.split_at_checked(4)?;
            let (length, after) = number(after)?;
            let (content, after) = after.split_at_checked(length)?;
            match kind {
                b"TREE" => index.tree = root_tree(content, hash),
                // Extensions with a lower-case name are mandatory.
                [b'A'..=b'Z', ..] => {}
                _ => return None,
            }
            rest = after;
        }
        Some(index)
    }

    pub fn has(&self, path: &[u8]) -> bool {
        self.paths.binary_search(&path).is_ok()
    }

    /// Hexadecimal id of the tree that the index forms; `None` if git has not cached it.
    pub fn tree(&self) -> Option<String> {
        Some(self.tree?.iter().map(|it| format!("{it:02x}")).collect())
    }
}

/// A big-endian 32-bit number and the rest.
fn number(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let (number, rest) = bytes.split_first_chunk::<4>()?;
    Some((usize::try_from(u32::from_be_bytes(*number)).ok()?, rest))
}

/// The path of the first entry, and the rest.
fn entry(bytes: &[u8], hash: usize) -> Option<(&[u8], &[u8])> {
    const STAGE: u16 = 0x3000;
    const EXTENDED: u16 = 0x4000;
    const LENGTH: u16 = 0x0fff;
    let flags_at = ENTRY_STAT + hash;
    let flags = u16::from_be_bytes(*bytes.get(flags_at..)?.first_chunk()?);
    // In conflict, or with extended flags, one of which is intent-to-add.
    if flags & (STAGE | EXTENDED) != 0 {
        return None;
    }
    let name = bytes.get(flags_at + 2..)?;
    let length = match flags & LENGTH {
        LENGTH => name.iter().position(|it| *it == 0)?,
        length => usize::from(length),
    };
    let path = name.get(..length)?;
    // Padding of one to eight NUL bytes to a multiple of eight.
    let end = (flags_at + 2 + length + 8) & !7;
    let padding = bytes.get(flags_at + 2 + length..end)?;
    (padding.iter().all(|it| *it == 0) && !path.contains(&0)).then_some((path, bytes.get(end..)?))
}

/// Id of the root tree in the cache tree extension. An invalidated tree has a negative entry count.
fn root_tree(content: &[u8], hash: usize) -> Option<&[u8]> {
    let rest = content.strip_prefix(b"\0")?;
    let end = rest.iter().position(|it| *it == b'\n')?;
    let is_valid = rest[..end].first()?.is_ascii_digit();
    rest.get(end + 1..end + 1 + hash).filter(|_| is_valid)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Encodes an index like git.
    fn written(hash: usize, entries: &[(&str, u16)], extensions: &[(&[u8; 4], Vec<u8>)]) -> Vec<u8> {
        let mut bytes = b"DIRC\0\0\0\x02".to_vec();
        bytes.extend(u32::try_from(entries.len()).unwrap().to_be_bytes());
        for (path, flags) in entries {
            let mut entry = vec![7; ENTRY_STAT + hash];
            let length = u16::try_from(path.len().min(0xfff)).unwrap();
            entry.extend((flags | length).to_be_bytes());
            entry.extend(path.as_bytes());
            entry.resize((entry.len() + 8) & !7, 0);
            bytes.extend(entry);
        }
        for (kind, content) in extensions {
            bytes.extend(*kind);
            bytes.extend(u32::try_from(content.len()).unwrap().to_be_bytes());
            bytes.extend(content);
        }
        bytes.extend(vec![9; hash]);
        bytes
    }

    fn tree(valid: bool, hash: usize) -> (&'static [u8; 4], Vec<u8>) {
        let mut content = if valid { b"\x002 0\n".to_vec() } else { b"\0-1 0\n".to_vec() };
        content.extend(vec![0xab; if valid { hash } else { 0 }]);
        (b"TREE", content)
    }

    #[test]
    fn index_file_reads_paths_and_root_tree() {
        let long = "x".repeat(5_000);
        for hash in [SHA_1, SHA_256] {
            let entries = [("a/b c", 0), ("a/d", 0x8000), ("z", 0), (&*long, 0)];
            let entries = [entries[0], entries[1], entries[3], entries[2]];
            let bytes = written(hash, &entries, &[(b"REUC", vec![1, 2]), tree(true, hash)]);
            let index = IndexFile::read(&bytes).unwrap();
            for (path, want) in [("a/b c", true), ("a", false), ("a/d", true), (&long, true), ("b", false)] {
                assert_eq!(index.has(path.as_bytes()), want, "{path}");
            }
            assert_eq!(index.tree(), Some("ab".repeat(hash)));
            let bytes = written(hash, &entries, &[tree(false, hash)]);
            assert_eq!(IndexFile::read(&bytes).unwrap().tree(), None);
            let bytes = written(hash, &[], &[]);
            assert_eq!(IndexFile::read(&bytes).unwrap(), IndexFile::default());
        }
    }

    #[test]
    fn index_file_rejects_unsupported_forms() {
        let good = written(SHA_1, &[("a", 0)], &[tree(true, SHA_1)]);
        let mut version = good.clone();
        version[7] = 4;
        for (what, bytes) in [
            ("a version", version),
            ("a conflict", written(SHA_1, &[("a", 0x1000)], &[])),
            ("an announcement", written(SHA_1, &[("a", 0x4000)], &[])),
            ("parts elsewhere", written(SHA_1, &[("a", 0)], &[(b"link", vec![0; 20])])),
            ("sparse directories", written(SHA_1, &[("a/", 0)], &[(b"sdir", Vec::new())])),
            ("no order", written(SHA_1, &[("b", 0), ("a", 0)], &[])),
            ("twice", written(SHA_1, &[("a", 0), ("a", 0)], &[])),
            ("cut", good[..good.len() / 2].to_vec()),
            ("nothing", Vec::new()),
        ] {
            assert_eq!(IndexFile::read(&bytes), None, "{what}");
        }
    }

    proptest! {
        #[test]
        fn index_file_never_panics_on_arbitrary_bytes(mut bytes in proptest::collection::vec(any::<u8>(), 0..400), count in 0_u8..9) {
            prop_assert!(IndexFile::read(&bytes).is_none());
            bytes.splice(0..0, *b"DIRC\0\0\0\x02\0\0\0");
            bytes.insert(11, count);
            if let Some(index) = IndexFile::read(&bytes) {
                prop_assert!(!index.has(b"a path that no entry has"));
            }
        }
    }
}
