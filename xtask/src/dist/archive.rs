//! Reproducible archives: fixed timestamps, no owners.

use std::{
    io::{Read as _, Write as _},
    process::{Command, Stdio},
};

const BLOCK: usize = 512;
/// Timestamp of all files: 1 January 2026. Some tools reject very old timestamps.
const FILE_TIME: u64 = 1_767_225_600;

#[derive(Default)]
pub(super) struct Tar {
    bytes: Vec<u8>,
}

impl Tar {
    pub(super) fn file(&mut self, name: &str, mode: u32, content: &[u8]) {
        self.entry(name, mode, b'0', content);
    }

    pub(super) fn dir(&mut self, name: &str) {
        self.entry(&format!("{}/", name.trim_end_matches('/')), 0o755, b'5', b"");
    }

    fn entry(&mut self, name: &str, mode: u32, kind: u8, content: &[u8]) {
        let mut head = [0_u8; BLOCK];
        let mut put = |at: usize, text: &[u8]| head[at..at + text.len()].copy_from_slice(text);
        put(0, &name.as_bytes()[..name.len().min(100)]);
        put(100, format!("{mode:07o}\0").as_bytes());
        put(108, b"0000000\0");
        put(116, b"0000000\0");
        put(124, format!("{:011o}\0", content.len()).as_bytes());
        put(136, format!("{FILE_TIME:011o}\0").as_bytes());
        put(148, b"        ");
        put(156, &[kind]);
        put(257, b"ustar\0");
        put(263, b"00");
        put(265, b"root");
        put(297, b"root");
        let sum: u32 = head.iter().map(|byte| u32::from(*byte)).sum();
        head[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        self.bytes.extend_from_slice(&head);
        self.bytes.extend_from_slice(content);
        self.bytes.resize(self.bytes.len().next_multiple_of(BLOCK), 0);
    }

    /// Returns the archive.
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.bytes.resize(self.bytes.len() + 2 * BLOCK, 0);
        self.bytes
    }
}

/// Compresses with `gzip`, without name and timestamp. `HAFT_DIST_FAST` reduces the compression, for
/// tests with large binaries.
pub(super) fn gzip(content: &[u8]) -> Result<Vec<u8>, String> {
    let level = if std::env::var_os("HAFT_DIST_FAST").is_some() { "-1" } else { "-6" };
    gzip_at(level, content)
}

/// Compresses with `gzip -9`, as Debian requires for manual pages.
pub(super) fn gzip_best(content: &[u8]) -> Result<Vec<u8>, String> {
    gzip_at("-9", content)
}

fn gzip_at(level: &str, content: &[u8]) -> Result<Vec<u8>, String> {
    let failed = |err: std::io::Error| format!("gzip: {err}");
    let mut child = Command::new("gzip")
        .args(["-n", level, "-c"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    let mut input = child.stdin.take().ok_or("gzip takes no input")?;
    let mut output = child.stdout.take().ok_or("gzip gives no output")?;
    let mut packed = Vec::new();
    std::thread::scope(|scope| {
        let writer = scope.spawn(move || input.write_all(content));
        let read = output.read_to_end(&mut packed);
        let wrote = writer.join().unwrap_or_else(|_| Err(std::io::Error::other("the writer broke")));
        read.and(wrote).map_err(failed)
    })?;
    match child.wait().map_err(failed)? {
        status if status.success() => Ok(packed),
        status => Err(format!("gzip: {status}")),
    }
}

/// Creates an `ar` archive; a `.deb` is one with three files.
pub(super) fn ar(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut out = b"!<arch>\n".to_vec();
    for (name, content) in files {
        let head = format!("{name:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n", 0, 0, 0, "100644", content.len());
        out.extend_from_slice(head.as_bytes());
        out.extend_from_slice(content);
        if content.len() % 2 == 1 {
            out.push(b'\n');
        }
    }
    out
}

/// A zip archive; wheels are zip files.
#[derive(Default)]
pub(super) struct Zip {
    bytes: Vec<u8>,
    directory: Vec<u8>,
    count: u16,
}

impl Zip {
    pub(super) fn file(&mut self, name: &str, mode: u32, content: &[u8]) -> Result<(), String> {
        // gzip output is a 10-byte header, the compressed data, a checksum and the length.
        let packed = gzip(content)?;
        let end = packed.len().checked_sub(8).ok_or("gzip made too little")?;
        let (body, tail) = (&packed[10..end], &packed[end..]);
        let small = |length: usize| u32::try_from(length).map_err(|_| format!("{name} is too large"));
        let (at, size, whole) = (small(self.bytes.len())?, small(body.len())?, small(content.len())?);
        let length = u16::try_from(name.len()).map_err(|_| format!("{name} is too long"))?;
        let mut fields = Vec::new();
        fields.extend(20_u16.to_le_bytes());
        fields.extend(0_u16.to_le_bytes());
        fields.extend(8_u16.to_le_bytes());
        // 1 January 1980, the oldest date in the zip format.
        fields.extend(0_u16.to_le_bytes());
        fields.extend(33_u16.to_le_bytes());
        fields.extend(&tail[..4]);
        fields.extend(size.to_le_bytes());
        fields.extend(whole.to_le_bytes());
        fields.extend(length.to_le_bytes());
        fields.extend(0_u16.to_le_bytes());
        self.bytes.extend(b"PK\x03\x04");
        self.bytes.extend(&fields);
        self.bytes.extend(name.as_bytes());
        self.bytes.extend(body);
        self.directory.extend(b"PK\x01\x02");
        // Created on Unix: the file mode is significant.
        self.directory.extend(0x0314_u16.to_le_bytes());
        self.directory.extend(&fields);
        self.directory.extend([0_u8; 6]);
        self.directory.extend(((0o100_000 | mode) << 16).to_le_bytes());
        self.directory.extend(at.to_le_bytes());
        self.directory.extend(name.as_bytes());
        self.count += 1;
        Ok(())
    }

    /// Returns the archive.
    pub(super) fn finish(mut self) -> Result<Vec<u8>, String> {
        let small =
            |length: usize| u32::try_from(length).map_err(|_| String::from("the archive is too large"));
        let (at, size) = (small(self.bytes.len())?, small(self.directory.len())?);
        self.bytes.extend(&self.directory);
        self.bytes.extend(b"PK\x05\x06\0\0\0\0");
        self.bytes.extend(self.count.to_le_bytes());
        self.bytes.extend(self.count.to_le_bytes());
        self.bytes.extend(size.to_le_bytes());
        self.bytes.extend(at.to_le_bytes());
        self.bytes.extend(0_u16.to_le_bytes());
        Ok(self.bytes)
    }
}
