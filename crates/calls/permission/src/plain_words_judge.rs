use haft_tool::CommandLine;

use crate::{CommandAnalysis, CommandContext, CommandJudge, CommandNature, CommandPart, RuleForm};

/// A simple [`CommandJudge`] for command lines of plain words.
///
/// Text that every shell parses alike is one part; anything with a quote, an operator, an expansion or
/// an assignment is a doubt. Sufficient without a shell analyser, and errs on the strict side.
#[derive(Clone, Copy, Debug, Default)]
pub struct PlainWordsJudge;

impl CommandJudge for PlainWordsJudge {
    fn analyse(&self, line: &CommandLine, _place: &CommandContext<'_>) -> CommandAnalysis {
        let line = line.text();
        let words: Vec<String> =
            line.split([' ', '\t', '\n']).filter(|it| !it.is_empty()).map(String::from).collect();
        let doubt = doubt_about(line, &words);
        let deny_faces = match doubt {
            None => vec![RuleForm::new(words.clone())],
            // A hidden command may start at any word.
            Some(_) => {
                (0..words.len().min(MAX_STARTS)).map(|from| RuleForm::new(words[from..].to_vec())).collect()
            }
        };
        let part = CommandPart {
            text: line.trim().to_owned(),
            allow_faces: if doubt.is_none() { deny_faces.clone() } else { Vec::new() },
            deny_faces,
            suspect_faces: Vec::new(),
            nature: CommandNature::Other,
            files: Vec::new(),
            concern: None,
            talks: false,
            weak: false,
        };
        CommandAnalysis { parts: vec![part], doubt }
    }

    fn propose(&self, line: &CommandLine, place: &CommandContext<'_>) -> Vec<String> {
        match self.analyse(line, place) {
            CommandAnalysis { parts, doubt: None } => parts.into_iter().map(|part| part.text).collect(),
            CommandAnalysis { doubt: Some(_), .. } => Vec::new(),
        }
    }
}

/// Maximum number of positions at which a hidden command is searched.
const MAX_STARTS: usize = 64;

/// Words that run the following words or change their meaning.
const RUNS_THE_REST: &[&str] = &[
    "builtin", "busybox", "case", "chroot", "command", "coproc", "doas", "do", "else", "env", "eval", "exec",
    "find", "flock", "for", "function", "if", "ionice", "nice", "noglob", "nohup", "parallel", "select",
    "setsid", "stdbuf", "sudo", "then", "time", "timeout", "until", "watch", "while", "xargs",
];

fn doubt_about(line: &str, words: &[String]) -> Option<String> {
    let plain = |it: char| it.is_ascii_alphanumeric() || "_./=:@%+,- \t".contains(it);
    let Some(first) = words.first() else { return Some(String::from("the command is empty")) };
    if !line.trim_end_matches('\n').chars().all(plain) || first.contains('=') {
        return Some(String::from("the command could not be parsed with certainty"));
    }
    RUNS_THE_REST
        .contains(&&**first)
        .then(|| format!("`{first}` runs another command, which could not be parsed with certainty"))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn plain_words_judge_is_certain_only_about_plain_words() {
        let place = CommandContext { cwd: Path::new("/ws"), home: None, roots: &[] };
        for (line, certain) in [
            ("npm run test", true),
            ("  npm   run\ttest\n", true),
            ("git log --since=yesterday -p", true),
            ("ls; rm x", false),
            ("ls\nrm x", false),
            ("echo 'a'", false),
            ("echo $HOME", false),
            ("cat ~/x", false),
            ("A=1 ls", false),
            ("time rm x", false),
            ("find . -delete", false),
            ("ls *", false),
            ("a\u{a0}b", false),
            ("", false),
        ] {
            assert_eq!(PlainWordsJudge.analyse(&line.into(), &place).doubt.is_none(), certain, "{line:?}");
        }
    }
}
