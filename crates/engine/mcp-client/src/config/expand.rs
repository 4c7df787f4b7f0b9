/// Expands `${VAR}` and `${VAR:-default}`. An unset variable without default is an error, because an
/// incomplete command must not run.
pub(super) fn expand(text: &str, lookup: &dyn Fn(&str) -> Option<String>) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find("${") {
        out.push_str(&rest[..start]);
        let after = &rest[start + 2..];
        let Some(end) = after.find('}') else {
            out.push_str(&rest[start..]);
            return Ok(out);
        };
        let (name, default) = match after[..end].split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (&after[..end], None),
        };
        if !is_name(name) {
            // Not a variable reference: copied unchanged.
            out.push_str(&rest[start..start + 2 + end + 1]);
        } else {
            // As in a shell, `:-` also applies to a variable that is set but empty.
            let value = lookup(name).filter(|it| default.is_none() || !it.is_empty());
            match value.or_else(|| default.map(str::to_owned)) {
                Some(value) => out.push_str(&value),
                None => return Err(format!("the environment variable {name} is not set")),
            }
        }
        rest = &after[end + 1..];
    }
    out.push_str(rest);
    Ok(out)
}

fn is_name(name: &str) -> bool {
    let fits = |it: char| it.is_ascii_alphanumeric() || it == '_';
    !name.is_empty() && name.chars().all(fits) && !name.starts_with(|it: char| it.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_expanded() {
        let lookup = |name: &str| match name {
            "HOME" => Some(String::from("/home/me")),
            "EMPTY" => Some(String::new()),
            "NESTED" => Some(String::from("${HOME}")),
            _ => None,
        };
        for (text, want) in [
            ("plain", Ok("plain")),
            ("${HOME}/x", Ok("/home/me/x")),
            ("a${HOME}b${HOME}c", Ok("a/home/meb/home/mec")),
            ("${NOPE:-default}", Ok("default")),
            ("${NOPE:-}", Ok("")),
            ("${EMPTY:-full}", Ok("full")),
            ("${EMPTY}", Ok("")),
            // Values are not expanded recursively.
            ("${NESTED}", Ok("${HOME}")),
            ("$HOME", Ok("$HOME")),
            ("${not a name}", Ok("${not a name}")),
            ("${unclosed", Ok("${unclosed")),
            ("${NOPE}", Err("the environment variable NOPE is not set")),
        ] {
            let got = expand(text, &lookup);
            assert_eq!(got.as_deref().map_err(String::as_str), want, "{text}");
        }
    }
}
