//! Tool names and call ids that every provider accepts.

use sha2::{Digest, Sha256};

/// Maximum characters of a name on the wire.
pub(crate) const MAX: usize = 64;
/// Characters kept of a name that needs an alias; the rest is for the hash.
const KEPT: usize = MAX - 9;

/// Whether a name is valid on the wire unchanged.
pub(crate) fn is_wire(name: &str) -> bool {
    (1..=MAX).contains(&name.len()) && name.bytes().all(is_allowed)
}

fn is_allowed(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

/// Returns the name on the wire: `name` itself if valid, else an alias with a hash. The alias depends
/// only on the name, so it is stable across restarts and tool order.
pub fn wire_name(name: &str) -> String {
    if is_wire(name) {
        return name.to_owned();
    }
    let kept: String = name
        .chars()
        .take(KEPT)
        .map(|it| if it.is_ascii_alphanumeric() || it == '_' || it == '-' { it } else { '_' })
        .collect();
    format!("{kept}_{}", short_hash(name))
}

/// Returns a call id that every provider accepts.
pub(crate) fn wire_id(id: &str) -> String {
    let fits = (1..=MAX).contains(&id.len()) && id.bytes().all(is_allowed);
    if fits {
        return id.to_owned();
    }
    format!("call_{}", short_hash(id))
}

/// Returns eight hex digits of a hash.
pub(crate) fn short_hash(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().take(4).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wire_names_are_valid_and_distinct() {
        let long_a = format!("mcp__{}__{}a", "0".repeat(36), "x".repeat(40));
        let long_b = format!("mcp__{}__{}b", "0".repeat(36), "x".repeat(40));
        for name in ["Read", "a.b/c", "mcp__srv__größe", "", "工具", &long_a, &long_b] {
            let wire = wire_name(name);
            assert!(is_wire(&wire), "{name} → {wire}");
            assert_eq!(wire, wire_name(name));
            assert_eq!(wire == name, is_wire(name));
        }
        assert_ne!(wire_name(&long_a), wire_name(&long_b));
        assert_ne!(wire_name("a.b"), wire_name("a/b"));
        assert_eq!(wire_id("toolu_01-x"), "toolu_01-x");
        assert_ne!(wire_id("functions.Bash:0"), wire_id("functions.Bash:1"));
    }
}
