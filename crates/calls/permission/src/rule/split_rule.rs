/// The parts of a rule's text.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Split<'a> {
    pub(crate) tool: &'a str,
    /// The text inside the parentheses; `None` for `Tool` and `Tool(*)`.
    pub(crate) spec: Option<&'a str>,
}

/// A text that is not a rule.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Malformed<'a> {
    /// The tool it seems to be about.
    pub(crate) tool: Option<&'a str>,
    pub(crate) problem: &'static str,
}

/// Splits `Tool(spec)` at the first opening and the last closing parenthesis.
pub(crate) fn split(text: &str) -> Result<Split<'_>, Malformed<'_>> {
    let text = text.trim();
    let broken = |problem| Err(Malformed { tool: leading_name(text), problem });
    let (tool, spec) = match text.split_once('(') {
        None => (text, None),
        Some((tool, rest)) => match rest.rsplit_once(')') {
            Some((spec, "")) => (tool, Some(spec)),
            Some(_) => return broken("there is text after the closing bracket"),
            None => return broken("the closing bracket is missing"),
        },
    };
    if text.is_empty() {
        return broken("the rule is empty");
    }
    if tool.is_empty() {
        return broken("the name of a tool is missing");
    }
    if tool.chars().any(|it| it.is_whitespace() || it.is_control() || matches!(it, ')' | ',' | ';')) {
        return broken("a rule is one tool name, optionally followed by a specification in brackets");
    }
    match spec.map(str::trim) {
        Some("") => broken("nothing stands between the brackets"),
        Some("*") | None => Ok(Split { tool, spec: None }),
        Some(spec) => Ok(Split { tool, spec: Some(spec) }),
    }
}

fn leading_name(text: &str) -> Option<&str> {
    let end = text.find(|it: char| !(it.is_ascii_alphanumeric() || matches!(it, '_' | '-' | '*')));
    Some(&text[..end.unwrap_or(text.len())]).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_split_at_the_outer_brackets() {
        for (text, tool, spec) in [
            ("Bash", "Bash", None),
            (" Bash ", "Bash", None),
            ("Bash(*)", "Bash", None),
            ("Bash( * )", "Bash", None),
            ("Bash(rm:*)", "Bash", Some("rm:*")),
            ("Bash(echo (a))", "Bash", Some("echo (a)")),
            ("Read(src/(group)/x)", "Read", Some("src/(group)/x")),
            ("mcp__a.b__c/d", "mcp__a.b__c/d", None),
        ] {
            assert_eq!(split(text), Ok(Split { tool, spec }), "{text}");
        }
    }

    #[test]
    fn broken_rules_still_name_their_tool() {
        for (text, tool) in [
            ("", None),
            ("(rm)", None),
            ("Bash(rm", Some("Bash")),
            ("Bash(rm) x", Some("Bash")),
            ("Bash()", Some("Bash")),
            ("Bash rm", Some("Bash")),
            ("Read, Edit", Some("Read")),
            ("Read)", Some("Read")),
        ] {
            assert_eq!(split(text).unwrap_err().tool, tool, "{text}");
        }
    }
}
