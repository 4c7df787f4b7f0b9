use super::*;

/// Collects the words of every simple command of a script (`<dyn>` for an expanded word).
fn commands(list: &CommandList, out: &mut Vec<String>) {
    for item in &list.items {
        for pipeline in std::iter::once(&item.first).chain(item.rest.iter().map(|(_, p)| p)) {
            for command in &pipeline.commands {
                command_of(command, out);
            }
        }
    }
}

fn command_of(command: &ParsedCommand, out: &mut Vec<String>) {
    match &command.kind {
        CommandKind::Simple { assignments, words } => {
            let text = |word: &Word| word.literal().unwrap_or_else(|| "<dyn>".to_owned());
            out.push(words.iter().map(text).collect::<Vec<_>>().join("|"));
            for assignment in assignments {
                match &assignment.value {
                    AssignedValue::Scalar(word) => word_of(word, out),
                    AssignedValue::Array(words) => words.iter().for_each(|w| word_of(w, out)),
                }
            }
            words.iter().for_each(|w| word_of(w, out));
        }
        CommandKind::Subshell(list) | CommandKind::Group(list) => commands(list, out),
        CommandKind::If { arms, otherwise } => {
            for (condition, body) in arms {
                commands(condition, out);
                commands(body, out);
            }
            otherwise.iter().for_each(|list| commands(list, out));
        }
        CommandKind::Loop { condition, body } => {
            commands(condition, out);
            commands(body, out);
        }
        CommandKind::For { words, body, .. } => {
            words.iter().flatten().for_each(|w| word_of(w, out));
            commands(body, out);
        }
        CommandKind::ForArithmetic { header, body } => {
            word_of(header, out);
            commands(body, out);
        }
        CommandKind::Case { subject, arms } => {
            word_of(subject, out);
            for arm in arms {
                arm.patterns.iter().for_each(|w| word_of(w, out));
                commands(&arm.body, out);
            }
        }
        CommandKind::Function { body, .. } | CommandKind::Coprocess(body) => command_of(body, out),
        CommandKind::Arithmetic(word) => word_of(word, out),
        CommandKind::Test(words) => words.iter().for_each(|w| word_of(w, out)),
    }
    for redirect in &command.redirects {
        word_of(&redirect.target, out);
        redirect.heredoc.iter().filter_map(|cell| cell.get()).for_each(|w| word_of(w, out));
    }
}

fn word_of(word: &Word, out: &mut Vec<String>) {
    for piece in &word.pieces {
        match piece {
            WordPiece::Text { .. } | WordPiece::Parameter { .. } => (),
            WordPiece::Expansion(expansion) => expansion.operands.iter().for_each(|w| word_of(w, out)),
            WordPiece::Command { list, .. } | WordPiece::Process { list } => commands(list, out),
            WordPiece::Arithmetic { body, .. } | WordPiece::Translated { body } => word_of(body, out),
        }
    }
}

#[track_caller]
fn check(source: &str, want: &[&str]) {
    let script = parse(source).unwrap_or_else(|stop| panic!("{source:?}: {} at {}", stop.why, stop.at));
    let mut got = Vec::new();
    commands(&script.list, &mut got);
    got.sort();
    let mut want: Vec<String> = want.iter().map(|w| (*w).to_owned()).collect();
    want.sort();
    assert_eq!(got, want, "{source:?}");
}

#[test]
fn words_and_lists() {
    check("echo 'a b' \"c d\" e\\ f", &["echo|a b|c d|e f"]);
    check("r\\m -rf /; 'rm' x; \"r\"m y; $'\\x72\\x6d' z", &["rm|-rf|/", "rm|x", "rm|y", "rm|z"]);
    check("r\\\nm x \\\n && a|b|&c&d||e", &["rm|x", "a", "b", "c", "d", "e"]);
    check("echo a#b; c # d; e\nf", &["echo|a#b", "c", "f"]);
    check("x y <in a b c", &["x|y|a|b|c"]);
    check(">out echo hi 2>&1 >&- 3>&2- &>o2", &["echo|hi"]);
    check("! a | b; time -p c; time; ! ! d", &["a", "b", "c", "time", "d"]);
    check("echo $ a$ \"$\"", &["echo|$|a$|$"]);
    check("rm\u{a0}x", &["rm\u{a0}x"]);
    check("echo a\rrm", &["echo|a\rrm"]);
    check("a[1]=x b", &["b"]);
    check("A=(a $(b) \"c d\"\n e) ; f", &["", "b", "f"]);
    check("", &[]);
    check("# only a comment", &[]);
}

#[test]
fn expansions() {
    check("echo \"$(rm x)\" `b` \"`c`\"", &["echo|<dyn>|<dyn>|<dyn>", "rm|x", "b", "c"]);
    check("echo `echo \\`rm x\\``", &["echo|<dyn>", "echo|<dyn>", "rm|x"]);
    check(
        "echo $(( $(a) + 1 )) ${x:-$(b)} \"${x:-\"$(c)\"}\" ${x/$(d)/$(e)}",
        &["echo|<dyn>|<dyn>|<dyn>|<dyn>", "a", "b", "c", "d", "e"],
    );
    check("cat <(a) >(b) x<(c)", &["cat|<dyn>|<dyn>|<dyn>", "a", "b", "c"]);
    check("echo \"\\$(a)\" '$(b)' ${x:=`c`}", &["echo|$(a)|$(b)|<dyn>", "c"]);
    check("echo \"$(case x in a) b;; esac)\"", &["echo|<dyn>", "b"]);
    check("echo $(cat <<E\n)\nE\n)", &["echo|<dyn>", "cat"]);
    check("echo \"${x:-$(cat <<'E'\n}\"\nE\n)}\" ; rm y", &["echo|<dyn>", "cat", "rm|y"]);
    check(
        "echo ${arr[@]} ${#arr[@]} ${!x} ${x@Q} ${x^^} ${x:1:2} ${x%%.*} ${x##*/} ${#} ${x[$(a)]}",
        &["echo|<dyn>|<dyn>|<dyn>|<dyn>|<dyn>|<dyn>|<dyn>|<dyn>|<dyn>|<dyn>", "a"],
    );
}

#[test]
fn heredocs() {
    check("cat <<EOF\n$(rm x) `b` \\$(c)\nEOF\nd", &["cat", "rm|x", "b", "d"]);
    check("cat <<'EOF'\n$(rm x)\nEOF", &["cat"]);
    check("cat <<-EOF\n\ta $(b)\n\tEOF\nc", &["cat", "b", "c"]);
    check("cat <<A <<B\na\nA\nb $(c)\nB\n", &["cat", "c"]);
    check("a <<E && rm x\nb\nE\n", &["a", "rm|x"]);
    check("if true; then cat <<E\n$(rm x)\nE\nfi && b", &["true", "cat", "rm|x", "b"]);
    check("<<-EOF cat\nx\nEOF\n", &["cat"]);
}

#[test]
fn compound_commands() {
    check("if a; then b; elif c; then d; else e; fi > f", &["a", "b", "c", "d", "e"]);
    check("for f in $(ls) *.txt; do rm \"$f\"; done", &["ls", "rm|<dyn>"]);
    check("for x; do a; done; for x\nin a b\ndo c\ndone", &["a", "c"]);
    check("for ((i=0;i<$(n);i++)); do a; done", &["n", "a"]);
    check("while read -r l; do a \"$l\"; done < <(b)", &["read|-r|l", "a|<dyn>", "b"]);
    check("case $(a) in x|y) b;; *) c;& (z) d;;& esac", &["a", "b", "c", "d"]);
    check("select x in a b; do c; done", &["c"]);
    check("f() { rm x; }; function g { a; } > out; function h() ( b )", &["rm|x", "a", "b"]);
    check("[[ -f $(a) && \"x\" =~ ^(a|b)$ || ! ( c < d ) ]] && e", &["a", "e"]);
    check("(( x = $(a) )) && ( ( b ) ); { c; }", &["a", "b", "c"]);
    check("if a; then (b) fi; { { c; } }", &["a", "b", "c"]);
}

#[test]
fn parse_rejects_invalid_and_ambiguous_syntax() {
    for source in [
        "echo \"a",
        "echo 'a",
        "echo `a",
        "echo $(a",
        "echo ${x",
        "(a",
        "a )",
        "{ a",
        "} a",
        "if a; then b",
        "fi",
        "a &&",
        "a | | b",
        "a; ; b",
        "a & & b",
        "a &&& b",
        "a ;; b",
        "a >",
        "a > &",
        "a <<<",
        "echo (a)",
        "a() b",
        "function",
        "case x in a) b esac",
        "for in",
        "rm !(keep)",
        "((a) | (b))",
        "echo $((a) | (b))",
        "echo $((1+",
        "cat <<EOF\nx",
        "echo $[1]",
        ">f if a; then b; fi",
        "a[x y]=1",
        "( )",
        "{ }",
        "echo \\",
        "2\\\n>f a",
        "a &\\\n& b",
        "echo $\\\n(a)",
        "ls | ! a",
        "cat <<A $(b\nc)\nA",
        "a $(cat <<E\nx\nE\nb c;d)",
    ] {
        assert!(parse(source).is_err(), "{source:?}");
    }
}

#[test]
fn nesting_is_bounded() {
    for (open, close) in [
        ("$(", ")"),
        ("${x:-", "}"),
        ("(", ")"),
        ("{ ", "; }"),
        ("if a; then ", "; fi"),
        ("`", "`"),
        ("\"$(", ")\""),
    ] {
        for n in [50, 5_000] {
            let source = format!("echo a; {}x{}", open.repeat(n), close.repeat(n));
            let _ = parse(&source);
        }
        assert!(parse(&format!("{}x{}", open.repeat(3), close.repeat(3))).is_ok() || open == "`", "{open}");
    }
}
