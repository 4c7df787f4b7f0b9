//! Parses the arguments of skills and commands, and substitutes them into texts.
//!
//! **Invariant:** arguments are plain text. Placeholders, commands and file mentions in them are
//! not interpreted, and in a shell command they are quoted words, or the substitution is refused.

/// A part of a skill's text.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum SkillPiece<'a> {
    /// Prose, including inline code.
    Prose(&'a str),
    /// A fenced code block, which is not changed.
    Code(&'a str),
    /// A command whose output replaces it.
    Shell(&'a str),
}

/// Where placeholders are substituted.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum PlaceholdersIn {
    /// Outside of fenced code: `awk '{print $1}'` in an example is not changed.
    #[default]
    Prose,
    /// Everywhere, as other programs do.
    Everything,
}

/// A part of a text after substitution.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum FilledPart {
    /// Literal text.
    Text(String),
    /// A command whose output replaces it.
    Command(String),
}

/// The arguments that follow the name of a skill.
#[derive(Clone, Debug, Default)]
pub(super) struct SkillArguments<'a> {
    whole: &'a str,
    words: Vec<String>,
    /// Names of the arguments, in order.
    names: &'a [String],
}

/// A placeholder in a text.
enum Placeholder {
    All,
    Word(usize),
}

impl<'a> SkillArguments<'a> {
    pub(super) fn new(whole: &'a str, names: &'a [String]) -> Self {
        Self { whole, words: split_words(whole), names }
    }

    /// Substitutes arguments and variables, and returns the text with its commands. If the text contains
    /// no placeholder, the arguments are appended.
    pub(super) fn fill(
        &self,
        body: &str,
        places: PlaceholdersIn,
        variables: &[(&str, String)],
    ) -> Result<Vec<FilledPart>, String> {
        let (mut parts, mut used) = (Vec::new(), false);
        for piece in pieces(body) {
            parts.push(match piece {
                SkillPiece::Code(code) if places == PlaceholdersIn::Prose => {
                    FilledPart::Text(with_variables(code, variables))
                }
                SkillPiece::Prose(part) | SkillPiece::Code(part) => {
                    FilledPart::Text(self.filled(&with_variables(part, variables), &mut used))
                }
                SkillPiece::Shell(command) => {
                    let command = with_quoted_variables(command, variables);
                    FilledPart::Command(self.filled_command(&command, &mut used)?)
                }
            });
        }
        if !used && !self.whole.is_empty() {
            parts.push(FilledPart::Text(format!("\n\nARGUMENTS: {}", self.whole)));
        }
        Ok(parts)
    }

    fn filled(&self, text: &str, used: &mut bool) -> String {
        let (mut out, mut rest) = (String::new(), text);
        while let Some(at) = rest.find('$') {
            out.push_str(&rest[..at]);
            rest = &rest[at + 1..];
            match self.placeholder(rest) {
                Some((what, length)) => {
                    *used = true;
                    rest = &rest[length..];
                    out.push_str(match what {
                        Placeholder::All => self.whole,
                        Placeholder::Word(at) => &self.words[at],
                    });
                }
                None => out.push('$'),
            }
        }
        out.push_str(rest);
        out
    }

    /// Parses the placeholder behind a `$`, and returns its length. An argument that was not given, or a
    /// price, is not a placeholder.
    fn placeholder(&self, behind: &str) -> Option<(Placeholder, usize)> {
        if let Some(rest) = behind.strip_prefix("ARGUMENTS") {
            if let Some((number, _)) = rest.strip_prefix('[').and_then(|it| it.split_once(']'))
                && let Ok(at) = number.parse::<usize>()
            {
                let length = "ARGUMENTS[]".len() + number.len();
                return (at < self.words.len()).then_some((Placeholder::Word(at), length));
            }
            let ends = !rest.starts_with(|it: char| it.is_alphanumeric() || it == '_');
            return ends.then_some((Placeholder::All, "ARGUMENTS".len()));
        }
        let digits = behind.len() - behind.trim_start_matches(|it: char| it.is_ascii_digit()).len();
        if 0 < digits {
            let mut next = behind[digits..].chars();
            let is_price =
                matches!(next.next(), Some('.' | ',')) && next.next().is_some_and(|it| it.is_ascii_digit());
            let at = behind[..digits].parse::<usize>().ok()?;
            let goes_on = behind[digits..].starts_with(|it: char| it.is_alphanumeric() || it == '_');
            let is_word = at < self.words.len() && !is_price && !goes_on;
            return is_word.then_some((Placeholder::Word(at), digits));
        }
        self.names.iter().enumerate().find_map(|(at, name)| {
            let rest = behind.strip_prefix(name.as_str())?;
            let ends = !rest.starts_with(|it: char| it.is_alphanumeric() || it == '_' || it == '-');
            (ends && at < self.words.len()).then_some((Placeholder::Word(at), name.len()))
        })
    }

    /// Substitutes arguments into a command as quoted words. Fails where the shell's quoting state is
    /// not certain.
    fn filled_command(&self, command: &str, used: &mut bool) -> Result<String, String> {
        let (mut out, mut quote, mut unsure) = (String::new(), ShellQuote::None, None);
        let mut at = 0;
        while let Some(it) = command[at..].chars().next() {
            let rest = &command[at + it.len_utf8()..];
            if it == '$'
                && let Some((what, length)) = self.placeholder(rest)
            {
                if let Some(why) = unsure {
                    return Err(format!(
                        "the command {command:?} has an argument behind {why}, where it cannot be put safely"
                    ));
                }
                *used = true;
                out.push_str(&self.quoted(&what, quote));
                at += 1 + length;
                continue;
            }
            let is_start = out.chars().next_back().is_none_or(|it| it.is_whitespace() || ";&|(".contains(it));
            match (quote, it) {
                (ShellQuote::None | ShellQuote::Double, '\\') => {
                    out.push(it);
                    if let Some(next) = rest.chars().next() {
                        out.push(next);
                        at += next.len_utf8();
                    }
                    at += 1;
                    continue;
                }
                (ShellQuote::None, '\'') => quote = ShellQuote::Single,
                (ShellQuote::Single, '\'') | (ShellQuote::Double, '"') => quote = ShellQuote::None,
                (ShellQuote::None, '"') => quote = ShellQuote::Double,
                (ShellQuote::None | ShellQuote::Double, '`') => unsure = Some("a back quote"),
                (ShellQuote::None | ShellQuote::Double, '$') if rest.starts_with(['(', '{', '\'', '"']) => {
                    unsure = Some("`$(`, `${` or a quote with `$`");
                }
                (ShellQuote::None, '<') if rest.starts_with('<') => unsure = Some("`<<`"),
                (ShellQuote::None, '#') if is_start => unsure = Some("a comment"),
                _ => (),
            }
            out.push(it);
            at += it.len_utf8();
        }
        Ok(out)
    }

    fn quoted(&self, what: &Placeholder, quote: ShellQuote) -> String {
        let text = match what {
            Placeholder::All => self.whole,
            Placeholder::Word(at) => &self.words[*at],
        };
        match (quote, what) {
            (ShellQuote::None, Placeholder::All) => {
                let words: Vec<String> = text.split_whitespace().map(shell_word).collect();
                words.join(" ")
            }
            (ShellQuote::None, Placeholder::Word(_)) => shell_word(text),
            (ShellQuote::Double, _) => format!("\"{}\"", shell_word(text)),
            (ShellQuote::Single, _) => text.replace('\'', "'\\''"),
        }
    }
}

/// The quoting state at a position in a command.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum ShellQuote {
    None,
    Single,
    Double,
}

/// Quotes a text so that a shell reads it as exactly one word.
fn shell_word(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

fn with_variables(text: &str, variables: &[(&str, String)]) -> String {
    variables.iter().fold(
        text.to_owned(),
        |text, (name, value)| if text.contains(name) { text.replace(name, value) } else { text },
    )
}

/// Substitutes variables into a command, quoted: directories with unusual names must not become
/// commands.
fn with_quoted_variables(command: &str, variables: &[(&str, String)]) -> String {
    let is_plain = |text: &str| text.chars().all(|it| it.is_alphanumeric() || "/._-+@:,=".contains(it));
    variables.iter().fold(command.to_owned(), |text, (name, value)| {
        if is_plain(value) {
            text.replace(name, value)
        } else {
            // Left for the shell, to which the variable is undefined.
            text
        }
    })
}

/// Splits arguments at white space. Quotes group words; all other characters are literal.
fn split_words(args: &str) -> Vec<String> {
    let (mut words, mut word, mut is_open) = (Vec::new(), String::new(), false);
    let mut rest = args;
    while let Some(it) = rest.chars().next() {
        let behind = &rest[it.len_utf8()..];
        if it.is_whitespace() {
            if is_open {
                words.push(std::mem::take(&mut word));
            }
            is_open = false;
            rest = behind;
            continue;
        }
        // A quote starts at the beginning of a word or value, and only if it is closed.
        let may_quote = !is_open || word.ends_with('=');
        if matches!(it, '"' | '\'')
            && may_quote
            && let Some((inner, after)) = behind.split_once(it)
        {
            word.push_str(inner);
            (is_open, rest) = (true, after);
            continue;
        }
        word.push(it);
        (is_open, rest) = (true, behind);
    }
    if is_open {
        words.push(word);
    }
    words
}

/// Splits a text into prose, fenced code and commands.
pub(super) fn pieces(body: &str) -> Vec<SkillPiece<'_>> {
    let mut found = Vec::new();
    let (mut prose, mut at) = (0, 0);
    while at < body.len() {
        let line = body[at..].split_inclusive('\n').next().unwrap_or_default();
        let Some(mark) = fence_of(line) else {
            at += line.len();
            continue;
        };
        let inner = at + line.len();
        let closing = body[inner..].split_inclusive('\n').scan(inner, |start, line| {
            let here = *start;
            *start += line.len();
            Some((here, line))
        });
        let closing = closing.into_iter().find(|(_, line)| {
            let line = line.trim();
            line.starts_with(mark) && line.chars().all(|it| mark.starts_with(it))
        });
        let (inner_end, end) =
            closing.map_or((body.len(), body.len()), |(here, line)| (here, here + line.len()));
        inline(&body[prose..at], &mut found);
        let info = line.trim().trim_start_matches(['`', '~']).trim();
        found.push(match info {
            "!" => SkillPiece::Shell(body[inner..inner_end].trim_end()),
            _ => SkillPiece::Code(&body[at..end]),
        });
        if info == "!" && body[inner_end..end].ends_with('\n') {
            found.push(SkillPiece::Prose("\n"));
        }
        (prose, at) = (end, end);
    }
    inline(&body[prose..], &mut found);
    found
}

/// The fence marker that opens a code block on this line.
fn fence_of(line: &str) -> Option<&str> {
    let text = line.trim_start();
    let marks = text.len() - text.trim_start_matches('`').len();
    let waves = text.len() - text.trim_start_matches('~').len();
    let length = marks.max(waves);
    (3 <= length).then(|| &text[..length])
}

/// Finds commands inside of lines: `` !`command` ``.
fn inline<'a>(text: &'a str, found: &mut Vec<SkillPiece<'a>>) {
    let (mut from, mut at) = (0, 0);
    while let Some(next) = text[at..].find("!`").map(|it| it + at) {
        let before = text[..next].chars().next_back();
        let command = text[next + 2..].split_once('`').map(|it| it.0);
        match command.filter(|it| !it.trim().is_empty()) {
            Some(command) if before.is_none_or(|it| it.is_whitespace() || "([{:>*-|".contains(it)) => {
                if from < next {
                    found.push(SkillPiece::Prose(&text[from..next]));
                }
                found.push(SkillPiece::Shell(command));
                at = next + 3 + command.len();
                from = at;
            }
            _ => at = next + 2,
        }
    }
    if from < text.len() {
        found.push(SkillPiece::Prose(&text[from..]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(body: &str, args: &str, names: &[&str]) -> Result<String, String> {
        let names: Vec<String> = names.iter().map(|it| (*it).to_owned()).collect();
        let dir = [("${CLAUDE_SKILL_DIR}", String::from("/s"))];
        let parts = SkillArguments::new(args, &names).fill(body, PlaceholdersIn::Prose, &dir)?;
        let parts = parts.into_iter().map(|it| match it {
            FilledPart::Text(text) => text,
            FilledPart::Command(command) => format!("<{command}>"),
        });
        Ok(parts.collect())
    }

    #[test]
    fn arguments_go_where_they_are_wanted() {
        for (body, args, want) in [
            ("Hi $ARGUMENTS!", "Bob Lee", "Hi Bob Lee!"),
            ("$1 then $0", "a b", "b then a"),
            ("$1 of $9 costs $5", "a b", "b of $9 costs $5"),
            ("$0 for $1.00, or $0.", "a b", "a for $1.00, or a."),
            ("plain", "", "plain"),
            ("plain", "x y", "plain\n\nARGUMENTS: x y"),
            ("$", "", "$"),
            ("$$ARGUMENTS ü$", "$0", "$$0 ü$"),
            ("$0 | $1", "'a b' [[x]] c", "a b | [[x]]"),
            ("$0 | $1", "don't --k=\"a b\" c", "don't | --k=a b"),
            ("$ARGUMENTS[1] and $ARGUMENTS[7]", "a b", "b and $ARGUMENTS[7]"),
            ("Fix $issue in $file-x", "12 a.rs", "Fix 12 in $file-x"),
            ("Use `$0`.\n```sh\nawk '{print $0}'\n```\n$0", "a", "Use `a`.\n```sh\nawk '{print $0}'\n```\na"),
            ("```\n$ARGUMENTS\n```", "a", "```\n$ARGUMENTS\n```\n\nARGUMENTS: a"),
            ("see ${CLAUDE_SKILL_DIR}/x", "", "see /s/x"),
            ("~~~\n```\n$0\n~~~\n$0", "a", "~~~\n```\n$0\n~~~\na"),
            ("````\n```\n$0\n````\n$0", "a", "````\n```\n$0\n````\na"),
            ("```\nnever closed $0", "a", "```\nnever closed $0\n\nARGUMENTS: a"),
        ] {
            assert_eq!(filled(body, args, &["issue", "file"]).unwrap(), want, "{body} {args}");
        }
    }

    #[test]
    fn arguments_never_become_commands() {
        for (body, args, want) in [
            ("Now: !`date`.", "", "Now: <date>."),
            ("!`echo $ARGUMENTS`", "'; touch x; '", "<echo ''\\'';' 'touch' 'x;' ''\\'''>"),
            ("!`echo $ARGUMENTS`", "$(touch y) !`touch z`", "<echo '$(touch' 'y)' '!`touch' 'z`'>"),
            ("!`echo \"$ARGUMENTS\"`", "\"; touch x; \"", "<echo \"\"'\"; touch x; \"'\"\">"),
            ("!`echo '$ARGUMENTS'`", "'; touch x; '", "<echo ''\\''; touch x; '\\'''>"),
            ("!`gh pr view $0 --x=$1`", "7 'a b'", "<gh pr view '7' --x='a b'>"),
            ("```!\ngit log $0\n```\nafter", "main", "<git log 'main'>\nafter"),
            ("text!`no` and `!`no", "", "text!`no` and `!`no"),
            ("see $ARGUMENTS", "!`touch x`", "see !`touch x`"),
            ("!`echo $9`", "a", "<echo $9>\n\nARGUMENTS: a"),
        ] {
            assert_eq!(filled(body, args, &[]).unwrap(), want, "{body} {args}");
        }
        for body in ["!`echo $(cat $0)`", "!`cat <<E\n$0\nE`", "!`echo # it's\n'$0'`", "!`x $'a\\'$0'`"] {
            assert!(filled(body, "a", &[]).is_err(), "{body}");
            assert!(filled(body, "", &[]).is_ok(), "{body}");
        }
    }
}
