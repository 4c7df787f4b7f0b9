//! Collects a bracketed paste.

const PASTE_END: &[u8] = b"\x1b[201~";
/// Maximum bytes of a paste that is emitted at once; longer ones are emitted in parts.
const LONGEST_PART: usize = if cfg!(test) { 1 << 16 } else { 32 << 20 };

/// A paste in progress. Each byte is searched for the end only once.
#[derive(Clone, Debug, Default)]
pub(super) struct OpenPaste {
    bytes: Vec<u8>,
    /// Number of bytes already searched.
    looked: usize,
}

/// Result of adding bytes.
#[derive(Debug, PartialEq)]
pub(super) enum PasteStep {
    /// More bytes are needed.
    More,
    /// A part; more follows.
    Part(Vec<u8>),
    /// The last part.
    End(Vec<u8>),
}

impl OpenPaste {
    /// Takes the bytes of the paste, leaving those after its end.
    pub(super) fn take(&mut self, bytes: &mut Vec<u8>) -> PasteStep {
        self.bytes.append(bytes);
        let from = self.looked.saturating_sub(PASTE_END.len() - 1);
        if let Some(at) = super::find(&self.bytes[from..], PASTE_END) {
            let mut whole = std::mem::take(&mut self.bytes);
            *bytes = whole.split_off(from + at + PASTE_END.len());
            whole.truncate(from + at);
            return PasteStep::End(whole);
        }
        self.looked = self.bytes.len();
        if self.bytes.len() <= LONGEST_PART {
            return PasteStep::More;
        }
        // Split neither the end marker nor a character.
        let mut cut = self.bytes.len() - PASTE_END.len();
        while 0 < cut && self.bytes[cut] & 0xc0 == 0x80 {
            cut -= 1;
        }
        let rest = self.bytes.split_off(cut);
        self.looked = 0;
        PasteStep::Part(std::mem::replace(&mut self.bytes, rest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bracketed_paste_is_emitted_once_at_any_split() {
        let text = "ä漢\r\n".repeat(9);
        let whole = [text.as_bytes(), PASTE_END, b"rest"].concat();
        for size in 1..whole.len() {
            let (mut paste, mut got, mut rest) = (OpenPaste::default(), None, Vec::new());
            for part in whole.chunks(size) {
                rest.extend_from_slice(part);
                match got {
                    Some(_) => (),
                    None => {
                        if let PasteStep::End(bytes) = paste.take(&mut rest) {
                            got = Some(bytes);
                        }
                    }
                }
            }
            assert_eq!(got.as_deref(), Some(text.as_bytes()), "{size}");
            assert_eq!(rest, b"rest", "{size}");
        }
    }

    #[test]
    fn endless_paste_is_emitted_in_whole_parts() {
        let mut all = "漢".repeat(LONGEST_PART / 3 + 10).into_bytes();
        let length = all.len();
        all.extend_from_slice(&PASTE_END[..3]);
        let mut paste = OpenPaste::default();
        let PasteStep::Part(first) = paste.take(&mut all) else { unreachable!("it is too long") };
        assert!(std::str::from_utf8(&first).is_ok());
        let mut rest = [&PASTE_END[3..], b"x"].concat();
        let PasteStep::End(last) = paste.take(&mut rest) else { unreachable!("the end came") };
        assert_eq!((first.len() + last.len(), rest.as_slice()), (length, &b"x"[..]));
    }
}
