use flate2::{Crc, Decompress, FlushDecompress, Status};

/// A `Content-Encoding` that this crate decodes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum ContentEncoding {
    /// RFC 1952, one or more members.
    Gzip,
    /// zlib (RFC 1950), or raw deflate without the zlib header, which some servers send.
    Deflate,
}

/// Maximum number of nested encodings.
const MAX_LAYERS: usize = 2;
/// Maximum decompressed bytes per step.
const STEP: usize = 64 << 10;
/// Maximum length of a gzip header, in bytes.
const MAX_HEAD: usize = 80 << 10;

/// Parses `Content-Encoding`, outermost encoding first. `None` if it names an encoding that this crate
/// does not decode or more than `MAX_LAYERS`.
pub(crate) fn packings(said: &str) -> Option<Vec<ContentEncoding>> {
    let names = said.split(',').map(str::trim).filter(|it| !it.is_empty());
    let mut found = Vec::new();
    for name in names.filter(|it| !it.eq_ignore_ascii_case("identity")) {
        found.push(match name.to_ascii_lowercase().as_str() {
            "gzip" | "x-gzip" => ContentEncoding::Gzip,
            "deflate" => ContentEncoding::Deflate,
            _ => return None,
        });
    }
    found.reverse();
    (found.len() <= MAX_LAYERS).then_some(found)
}

/// Incremental decoder of one encoding. Holds at most one step of output in memory, so a decompression
/// bomb cannot exhaust it.
pub(crate) struct BodyDecoder {
    packing: ContentEncoding,
    stage: DecodeStage,
    inflate: Decompress,
    crc: Crc,
    /// Input that was received and not decoded yet.
    packed: Vec<u8>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum DecodeStage {
    /// Before the first header (or the start of a deflate stream).
    First,
    /// After a complete member; another one may follow.
    Between,
    Data,
    /// Before the CRC32 and length trailer of a gzip member.
    Sums,
    /// The stream has ended; further input is ignored.
    Over,
}

/// Result of [`BodyDecoder::step`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum DecodeStep {
    /// Progress was made; call `step` again.
    Some,
    /// More input is needed.
    Waits,
}

impl BodyDecoder {
    pub(crate) fn new(packing: ContentEncoding) -> Self {
        Self {
            packing,
            stage: DecodeStage::First,
            inflate: Decompress::new(false),
            crc: Crc::new(),
            packed: Vec::new(),
        }
    }

    /// Appends input.
    pub(crate) fn push(&mut self, packed: &[u8]) {
        self.packed.extend_from_slice(packed);
    }

    /// Decodes at most one step of the pending input and appends the output to `into`. An error names
    /// the corruption.
    pub(crate) fn step(&mut self, into: &mut Vec<u8>) -> Result<DecodeStep, &'static str> {
        let used = match self.stage {
            DecodeStage::First | DecodeStage::Between => self.begin()?,
            DecodeStage::Data => self.data(into)?,
            DecodeStage::Sums => self.sums()?,
            DecodeStage::Over => Some(self.packed.len()).filter(|it| *it != 0),
        };
        match used {
            Some(used) => {
                self.packed.drain(..used);
                Ok(DecodeStep::Some)
            }
            None => Ok(DecodeStep::Waits),
        }
    }

    /// Whether the input may end here without being truncated.
    pub(crate) fn may_end(&self) -> bool {
        match self.stage {
            DecodeStage::First => self.packed.is_empty(),
            DecodeStage::Between | DecodeStage::Over => true,
            DecodeStage::Data | DecodeStage::Sums => false,
        }
    }

    /// Reads the header if it has arrived completely. Returns its length in bytes, `None` if more input
    /// is needed.
    fn begin(&mut self) -> Result<Option<usize>, &'static str> {
        match self.packing {
            ContentEncoding::Gzip => {
                // Some servers pad the body with zeros after the last member.
                if self.stage == DecodeStage::Between && self.packed.first() == Some(&0) {
                    self.stage = DecodeStage::Over;
                    return Ok(Some(0));
                }
                let Some(head) = gzip_head(&self.packed)? else { return Ok(None) };
                self.inflate.reset(false);
                self.crc.reset();
                self.stage = DecodeStage::Data;
                Ok(Some(head))
            }
            ContentEncoding::Deflate => {
                let [first, second, ..] = self.packed[..] else { return Ok(None) };
                let framed = first & 0x0f == 8 && u16::from_be_bytes([first, second]).is_multiple_of(31);
                self.inflate.reset(framed);
                self.stage = DecodeStage::Data;
                Ok(Some(0))
            }
        }
    }

    fn data(&mut self, into: &mut Vec<u8>) -> Result<Option<usize>, &'static str> {
        let (start, before) = (into.len(), self.inflate.total_in());
        into.reserve(STEP);
        let done = self.inflate.decompress_vec(&self.packed, into, FlushDecompress::None);
        let done = done.map_err(|_| "the packed bytes are damaged")?;
        let used = usize::try_from(self.inflate.total_in() - before).unwrap_or(usize::MAX);
        if self.packing == ContentEncoding::Gzip {
            self.crc.update(&into[start..]);
        }
        match (done, self.packing) {
            (Status::StreamEnd, ContentEncoding::Gzip) => self.stage = DecodeStage::Sums,
            (Status::StreamEnd, ContentEncoding::Deflate) => self.stage = DecodeStage::Over,
            _ if used == 0 && into.len() == start => return Ok(None),
            _ => {}
        }
        Ok(Some(used))
    }

    fn sums(&mut self) -> Result<Option<usize>, &'static str> {
        let Some(sums) = self.packed.first_chunk::<8>() else { return Ok(None) };
        let [a, b, c, d, e, f, g, h] = *sums;
        let right = u32::from_le_bytes([a, b, c, d]) == self.crc.sum()
            && u32::from_le_bytes([e, f, g, h]) == self.crc.amount();
        if !right {
            return Err("the sums of the packed bytes are wrong");
        }
        self.stage = DecodeStage::Between;
        Ok(Some(8))
    }
}

/// Length of the gzip header at the start of `bytes`; `None` if it is incomplete, an error if it is not
/// a gzip header.
fn gzip_head(bytes: &[u8]) -> Result<Option<usize>, &'static str> {
    const WRONG: &str = "what should be gzip is none";
    for (at, byte) in bytes.iter().zip([0x1f, 0x8b, 8]) {
        if *at != byte {
            return Err(WRONG);
        }
    }
    let Some(flags) = bytes.get(3) else { return Ok(None) };
    if flags & 0xe0 != 0 {
        return Err(WRONG);
    }
    let mut end = 10;
    if flags & 4 != 0 {
        let (Some(low), Some(high)) = (bytes.get(10), bytes.get(11)) else { return Ok(None) };
        end += 2 + usize::from(u16::from_le_bytes([*low, *high]));
    }
    // File name and comment, each terminated by a NUL.
    for flag in [8, 16] {
        if flags & flag != 0 {
            let text = bytes.get(end..).and_then(|it| it.iter().position(|byte| *byte == 0));
            let Some(text) = text else {
                return if bytes.len() < MAX_HEAD { Ok(None) } else { Err(WRONG) };
            };
            end += text + 1;
        }
    }
    end += if flags & 2 != 0 { 2 } else { 0 };
    Ok((end <= bytes.len()).then_some(end))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::{Compression, GzBuilder, write};

    use super::*;

    /// Decodes `packed` in chunks of `piece` bytes. Returns the output, the largest step and the result.
    fn unpacked(
        packing: ContentEncoding,
        packed: &[u8],
        piece: usize,
    ) -> (Vec<u8>, usize, Result<(), &'static str>) {
        let (mut unpacker, mut all, mut largest) = (BodyDecoder::new(packing), Vec::new(), 0);
        for piece in packed.chunks(piece) {
            unpacker.push(piece);
            loop {
                let mut some = Vec::new();
                let done = unpacker.step(&mut some);
                largest = largest.max(some.len());
                all.extend_from_slice(&some);
                match done {
                    Ok(DecodeStep::Some) => {}
                    Ok(DecodeStep::Waits) => break,
                    Err(why) => return (all, largest, Err(why)),
                }
            }
        }
        let end = if unpacker.may_end() { Ok(()) } else { Err("cut") };
        (all, largest, end)
    }

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut packer = GzBuilder::new()
            .filename("a")
            .comment("b")
            .extra(b"c".repeat(300))
            .write(Vec::new(), Compression::best());
        packer.write_all(text).unwrap();
        packer.finish().unwrap()
    }

    #[test]
    fn body_decoder_decodes_gzip_zlib_and_raw_deflate_and_rejects_damage() {
        use ContentEncoding::{Deflate, Gzip};
        let framed = |text: &[u8]| {
            let mut packer = write::ZlibEncoder::new(Vec::new(), Compression::best());
            packer.write_all(text).unwrap();
            packer.finish().unwrap()
        };
        let bare = |text: &[u8]| {
            let mut packer = write::DeflateEncoder::new(Vec::new(), Compression::best());
            packer.write_all(text).unwrap();
            packer.finish().unwrap()
        };
        let mut wrong_sum = gzip(b"one");
        let at = wrong_sum.len() - 8;
        wrong_sum[at] ^= 1;
        let long: Vec<u8> = (0..300_000_u32).flat_map(|it| (it / 7).to_le_bytes()).collect();
        let cut = |mut packed: Vec<u8>| {
            packed.truncate(packed.len() - 3);
            packed
        };
        for (name, packing, packed, want, end) in [
            ("one member", Gzip, gzip(b"one"), &b"one"[..], Ok(())),
            ("three members", Gzip, [gzip(b"one "), gzip(b""), gzip(b"two")].concat(), b"one two", Ok(())),
            ("zeros behind", Gzip, [gzip(b"one"), vec![0; 99]].concat(), b"one", Ok(())),
            (
                "something else behind",
                Gzip,
                [gzip(b"one"), b"what".to_vec()].concat(),
                b"one",
                Err("what should be gzip is none"),
            ),
            ("the second cut", Gzip, [gzip(b"one"), cut(gzip(b"two"))].concat(), b"onetwo", Err("cut")),
            ("a wrong sum", Gzip, wrong_sum, b"one", Err("the sums of the packed bytes are wrong")),
            ("nothing", Gzip, Vec::new(), b"", Ok(())),
            ("a head alone", Gzip, gzip(b"one")[..5].to_vec(), b"", Err("cut")),
            (
                "a name without end",
                Gzip,
                [&b"\x1f\x8b\x08\x08000000"[..], &[7; 200_000]].concat(),
                b"",
                Err("what should be gzip is none"),
            ),
            ("framed", Deflate, framed(b"one"), b"one", Ok(())),
            ("bare", Deflate, bare(b"one"), b"one", Ok(())),
            ("cut", Deflate, cut(bare(&long)), &long, Err("cut")),
            ("no packing", Deflate, b"<html>".to_vec(), b"", Err("the packed bytes are damaged")),
            ("long", Gzip, gzip(&long), &long, Ok(())),
        ] {
            let least = if packed.len() < 5_000 { 1 } else { 1_000 };
            for piece in [least, 7 * least, 4_096, usize::MAX] {
                let (text, largest, ended) = unpacked(packing, &packed, piece.min(packed.len().max(1)));
                assert_eq!(ended, end, "{name} in pieces of {piece}");
                assert!(
                    want.starts_with(&text) && want.len() <= text.len() + 5_000,
                    "{name} in pieces of {piece}"
                );
                assert!(largest <= 2 * STEP, "{name}: {largest}");
            }
        }
    }

    #[test]
    fn content_encoding_header_is_parsed_outermost_first() {
        use ContentEncoding::{Deflate, Gzip};
        for (said, want) in [
            ("", Some(vec![])),
            ("identity", Some(vec![])),
            ("GZip", Some(vec![Gzip])),
            (" x-gzip ,", Some(vec![Gzip])),
            ("deflate, gzip", Some(vec![Gzip, Deflate])),
            ("gzip, identity, gzip", Some(vec![Gzip, Gzip])),
            ("gzip,gzip,gzip", None),
            ("br", None),
            ("gzip, zstd", None),
            ("aws-chunked", None),
        ] {
            assert_eq!(packings(said), want, "{said}");
        }
    }
}
