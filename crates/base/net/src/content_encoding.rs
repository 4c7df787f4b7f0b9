use flate2::{Crc, Decompress, FlushDecompress, Status};

/// How a body is packed for its way.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum ContentEncoding {
    /// RFC 1952: one or several members, one after the other.
    Gzip,
    /// RFC 1950, or without its frame, as some servers send it.
    Deflate,
}

/// How often a body may be packed.
const MAX_LAYERS: usize = 2;
/// Bytes that one step unpacks at most.
const STEP: usize = 64 << 10;
/// Bytes of the head of a member.
const MAX_HEAD: usize = 80 << 10;

/// What the values of `Content-Encoding` say, the outermost packing first; nothing
/// where something else than we unpack is among them.
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

/// Unpacks one layer, a step at a time: however much a few bytes unpack to, no
/// more than a step of it is in memory.
pub(crate) struct BodyDecoder {
    packing: ContentEncoding,
    stage: DecodeStage,
    inflate: Decompress,
    crc: Crc,
    /// What came and was not unpacked yet.
    packed: Vec<u8>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum DecodeStage {
    /// The head of the first member, or of all there is.
    First,
    /// Behind a member: another one may follow.
    Between,
    Data,
    /// The sums of a member.
    Sums,
    /// What follows is nothing.
    Over,
}

/// What a step did.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum DecodeStep {
    /// There may be more in what came.
    Some,
    /// More has to come first.
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

    /// Takes what came.
    pub(crate) fn push(&mut self, packed: &[u8]) {
        self.packed.extend_from_slice(packed);
    }

    /// Unpacks what came, a step of it.
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

    /// Whether nothing may follow any more.
    pub(crate) fn may_end(&self) -> bool {
        match self.stage {
            DecodeStage::First => self.packed.is_empty(),
            DecodeStage::Between | DecodeStage::Over => true,
            DecodeStage::Data | DecodeStage::Sums => false,
        }
    }

    /// The head; how long it is, once it is there.
    fn begin(&mut self) -> Result<Option<usize>, &'static str> {
        match self.packing {
            ContentEncoding::Gzip => {
                // Some pad what they send with zeros; what else follows is no member.
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

/// How long the head of a member is; nothing where it goes on.
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
    // A name and a comment, each up to a zero.
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

    /// Unpacks what comes in pieces of this size; the largest step, and how it ended.
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
    fn bodies_of_every_make() {
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
    fn what_servers_say() {
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
