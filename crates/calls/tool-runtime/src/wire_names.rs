//! Tool names that every provider accepts.

/// Maximum characters of a tool name, as limited by the providers.
const MAX_CHARS: usize = 64;

/// Returns the name of a tool on the wire, which matches `^[a-zA-Z0-9_-]{1,64}$`.
///
/// A name that already matches is returned as it is. In any other name, invalid characters are replaced
/// and a hash of the whole original is appended, so that different originals get different wire names
/// (up to hash collisions). The result depends on the original only, not on other tools or their order.
pub fn wire_name(original: &str) -> String {
    let fits = |it: char| it.is_ascii_alphanumeric() || it == '_' || it == '-';
    if !original.is_empty() && original.len() <= MAX_CHARS && original.chars().all(fits) {
        return original.to_owned();
    }
    marked(original)
}

/// Normalizes what models vary when they write a tool name from memory: case, separators, and a trailing
/// `Tool` (`bash`, `task_output`, `FileReadTool`).
pub(crate) fn folded(name: &str) -> String {
    let plain: String =
        name.chars().filter(char::is_ascii_alphanumeric).map(|it| it.to_ascii_lowercase()).collect();
    match plain.strip_suffix("tool") {
        Some(bare) if !bare.is_empty() => bare.to_owned(),
        _ => plain,
    }
}

/// Returns a wire name with a hash appended, for an external tool whose plain name is taken.
pub(crate) fn marked(original: &str) -> String {
    let mark = format!("_{:08x}", fnv1a(original.as_bytes()) & 0xffff_ffff);
    let fits = |it: char| if it.is_ascii_alphanumeric() || it == '-' { it } else { '_' };
    let kept: String = original.chars().map(fits).take(MAX_CHARS - mark.len()).collect();
    kept + &mark
}

/// FNV-1a, which is stable across versions and machines; the standard hasher is not.
fn fnv1a(bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    // The halves are combined so that the 32 bits used depend on all 64.
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325, step);
    hash ^ (hash >> 32)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn is_wire(name: &str) -> bool {
        let fits = |it: char| it.is_ascii_alphanumeric() || it == '_' || it == '-';
        (1..=64).contains(&name.len()) && name.chars().all(fits)
    }

    #[test]
    fn invalid_names_get_a_hash_and_valid_ones_stay() {
        let long = "x".repeat(80);
        assert_eq!(wire_name("mcp__git__log"), "mcp__git__log");
        for name in ["a.b/c", "", "größe", &long, "white space"] {
            let wire = wire_name(name);
            assert!(is_wire(&wire) && wire != name, "{name} {wire}");
        }
        assert_ne!(wire_name(&format!("{long}a")), wire_name(&format!("{long}b")));
        assert_ne!(wire_name("a.b"), wire_name("a/b"));
    }

    proptest! {
        #[test]
        fn every_wire_name_is_valid_and_stable(name in "\\PC{0,100}") {
            prop_assert!(is_wire(&wire_name(&name)));
            prop_assert_eq!(wire_name(&wire_name(&name)), wire_name(&name));
        }
    }
}
