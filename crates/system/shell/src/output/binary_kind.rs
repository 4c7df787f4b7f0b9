use crate::output::Spool;

/// Bytes examined at each end.
const SAMPLE: u64 = 32 << 10;

/// Names the type of a binary output, such as `PNG image`. `None` for text, also with colours and a few
/// invalid bytes.
pub fn binary_kind(spool: &Spool) -> Option<String> {
    let end = spool.end();
    let mut sample = spool.read_range(0..SAMPLE.min(end)).unwrap_or_default();
    let kind = infer::get(&sample).map(|kind| kind.mime_type().to_owned());
    if SAMPLE < end {
        sample.extend(spool.read_range(end.saturating_sub(SAMPLE).max(SAMPLE)..end).unwrap_or_default());
    }
    let odd = not_text(&sample);
    (sample.len() * 3 < odd * 10).then(|| kind.unwrap_or_else(|| String::from("unknown type")))
}

/// Number of bytes that are neither text nor terminal control sequences.
fn not_text(mut bytes: &[u8]) -> usize {
    let mut odd = 0;
    loop {
        let (valid, rest) = match std::str::from_utf8(bytes) {
            Ok(_) => (bytes, None),
            Err(err) => {
                let (valid, rest) = bytes.split_at(err.valid_up_to());
                (valid, Some((rest, err.error_len().unwrap_or(rest.len()))))
            }
        };
        let terminal = |it: &u8| matches!(it, b'\t' | b'\n' | b'\r' | 0x07 | 0x08 | 0x0c | 0x1b);
        odd += valid.iter().filter(|it| (**it < b' ' && !terminal(it)) || **it == 0x7f).count();
        let Some((rest, bad)) = rest else { return odd };
        odd += bad;
        bytes = &rest[bad..];
    }
}
