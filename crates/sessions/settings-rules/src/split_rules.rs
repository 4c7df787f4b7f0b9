/// Splits `Read,Bash(git log *) Edit` into rules. Commas and spaces separate rules, except inside
/// brackets.
pub fn split_rules(texts: &[String]) -> Vec<String> {
    let mut rules = Vec::new();
    for text in texts {
        let (mut rule, mut depth) = (String::new(), 0_usize);
        for it in text.chars() {
            match it {
                '(' => depth += 1,
                ')' => depth = depth.saturating_sub(1),
                _ => (),
            }
            if depth == 0 && (it == ',' || it.is_whitespace()) {
                rules.push(std::mem::take(&mut rule));
            } else {
                rule.push(it);
            }
        }
        rules.push(rule);
    }
    rules.retain(|rule| !rule.is_empty());
    rules
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separators_inside_brackets_belong_to_the_rule() {
        for (text, want) in [
            ("", vec![]),
            ("Read", vec!["Read"]),
            ("Read,Edit Write", vec!["Read", "Edit", "Write"]),
            ("Bash(git log *),Bash(a, b (c) d) Read", vec!["Bash(git log *)", "Bash(a, b (c) d)", "Read"]),
            (" , mcp__a__*", vec!["mcp__a__*"]),
        ] {
            assert_eq!(split_rules(&[text.to_owned()]), want, "{text}");
        }
    }
}
