use sha2::{Digest, Sha256};

/// Returns the mock's signature of a thinking block: a hash of text and model, so that changed or
/// foreign blocks are detected.
pub fn signature_of(thinking: &str, model: &str) -> String {
    let mut hash = Sha256::new();
    hash.update(model.as_bytes());
    hash.update([0]);
    hash.update(thinking.as_bytes());
    let digest: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sig-{digest}")
}
