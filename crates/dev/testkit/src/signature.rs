use sha2::{Digest, Sha256};

/// The signature this mock gives a thinking block: a hash over the text and the
/// model that wrote it, so that a changed or foreign block is noticed.
pub fn signature_of(thinking: &str, model: &str) -> String {
    let mut hash = Sha256::new();
    hash.update(model.as_bytes());
    hash.update([0]);
    hash.update(thinking.as_bytes());
    let digest: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sig-{digest}")
}
