//! Memory allocations per decoded answer, for every wire format. The test fails if one exceeds its row
//! by more than a tenth; raise a row only deliberately.

use haft_testkit::{Allocated, CountingAllocator, MockForm, ReplyPiece, Turn};
use serde_json::json;

use super::tests::read;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Body of a long answer.
fn answer(form: MockForm) -> Vec<u8> {
    let line = "A line of an answer that is neither short nor very long, with a number: 42.\n";
    let call = |number: usize| {
        ReplyPiece::tool("put", json!({"file_path": format!("/tmp/{number}"), "content": line.repeat(20)}))
    };
    let mut pieces = vec![ReplyPiece::text(line.repeat(200))];
    pieces.extend((0..10).map(call));
    Turn::from_pieces(pieces).bytes(form, "m")
}

#[test]
fn decoding_an_answer_stays_within_allocation_budget() {
    let mut dearer = Vec::new();
    for (form, times, bytes) in [
        (MockForm::Messages, 23_322, 2_314_225),
        (MockForm::Chat, 43_072, 4_680_768),
        (MockForm::Responses, 24_935, 3_079_844),
        (MockForm::Gemini, 17_755, 2_199_378),
    ] {
        let body = answer(form);
        let pieces: Vec<&[u8]> = body.chunks(1400).collect();
        // Warm up caches and lazily initialised statics first.
        read(form, &pieces).1.unwrap();
        let (found, (answer, ended)) = Allocated::during(|| read(form, &pieces));
        assert!(ended.is_ok() && answer.calls().len() == 10, "{form:?}");
        if times + times / 10 < found.times || bytes + bytes / 10 < found.bytes {
            dearer.push(format!("{form:?}: {found:?}, it was {times} times and {bytes} bytes"));
        }
    }
    assert!(dearer.is_empty(), "{dearer:#?}");
}
