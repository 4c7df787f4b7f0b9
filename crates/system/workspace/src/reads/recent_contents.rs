use std::{
    collections::VecDeque,
    path::{Path, PathBuf},
};

use crate::ContentHash;

/// Contents of recently read files with their hashes: comparing content is much faster than hashing it.
#[derive(Debug, Default)]
pub(super) struct RecentReads {
    files: VecDeque<(PathBuf, Box<[u8]>, ContentHash)>,
}

const REMEMBERED: usize = 16;
const SMALL: usize = 128 * 1024;

impl RecentReads {
    /// Hash of content that was just read from a file.
    pub(super) fn hash(&mut self, path: &Path, bytes: &[u8]) -> ContentHash {
        let found = self.files.iter().position(|it| it.0.as_os_str() == path.as_os_str());
        if let Some((_, content, hash)) = found.and_then(|at| self.files.get(at))
            && **content == *bytes
        {
            return *hash;
        }
        let hash = ContentHash::hash(bytes);
        if let Some(at) = found {
            self.files.remove(at);
        }
        if bytes.len() <= SMALL {
            self.files.truncate(REMEMBERED - 1);
            self.files.push_front((path.to_owned(), bytes.into(), hash));
        }
        hash
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recent_reads_hash_always_matches_content() {
        let mut recent = RecentReads::default();
        for round in 0..200_usize {
            let path = PathBuf::from(format!("/f{}", round % 19));
            let content = vec![b'x'; round % 3 * 70_000 + round / 40];
            assert_eq!(recent.hash(&path, &content), ContentHash::hash(&content));
            assert_eq!(recent.hash(&path, &content), ContentHash::hash(&content));
            assert!(recent.files.len() <= REMEMBERED);
        }
    }
}
