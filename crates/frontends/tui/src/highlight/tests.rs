use super::*;

/// Formats tokens with their class: `k:fn`, `t:"x"`; plain ones alone.
fn shown(language: &str, lines: &[&str]) -> String {
    let mut inker = CodeHighlighter::new(language);
    let mut out = Vec::new();
    for line in lines {
        let spans = inker.line(line);
        let whole: String = spans.iter().map(|it| it.text.as_str()).collect();
        assert_eq!(whole, *line, "nothing is lost");
        let letter = |ink: TextStyle| match ink {
            it if it == TokenClass::Comment.ink() => "c:",
            it if it == TokenClass::Text.ink() => "t:",
            it if it == TokenClass::Keyword.ink() => "k:",
            it if it == TokenClass::Number.ink() => "n:",
            it if it == TokenClass::Name.ink() => "a:",
            it if it == TokenClass::Added.ink() => "+:",
            it if it == TokenClass::Removed.ink() => "-:",
            it if it == TokenClass::Hunk.ink() => "@:",
            it if it == TextStyle::tone(ColorRole::Code) => "?:",
            _ => "",
        };
        let pieces: Vec<String> =
            spans.iter().map(|it| format!("{}{}", letter(it.ink), it.text.as_str().trim())).collect();
        out.push(pieces.join(" "));
    }
    out.join(" ⏎ ")
}

#[test]
fn languages_are_highlighted() {
    for (language, lines, want) in [
        ("rust", &["let x: Vec<u8> = 0xff_u8; // why"][..], "k:let x: a:Vec < k:u8 > = n:0xff_u8 ; c:// why"),
        (
            "rs",
            &["fn f<'a>(c: char) -> &'a str { 'x' }"],
            "k:fn f< a:'a >(c: k:char ) -> & a:'a k:str { t:'x' }",
        ),
        ("rust", &["let s = r#\"a", "\"b\"# + \"c\\\"d\";"], "k:let s = t:r#\"a ⏎ t:\"b\"# + t:\"c\\\"d\" ;"),
        ("rust", &["/* a /* b */", "c */ x.type"], "c:/* a /* b */ ⏎ c:c */ x.type"),
        ("py", &["def f(): '''a", "b''' # no"], "k:def f(): t:'''a ⏎ t:b''' c:# no"),
        ("py", &["print(f'x' if 1.5e-3 else None)"], "print(f t:'x' k:if n:1.5e-3 k:else None )"),
        ("ts", &["const a = `x", "${y}` // z"], "k:const a = t:`x ⏎ t:${y}` c:// z"),
        (
            "sh",
            &["for f in *.c; do echo \"$f\" $HOME # x"],
            "k:for f k:in *.c; k:do echo t:\"$f\" a:$HOME c:# x",
        ),
        ("bash", &["echo a#b $# 'it''s'"], "echo a#b a:$# t:'it''s'"),
        ("json", &["{\"a\": [1, true, \"b\"]}"], "{ a:\"a\" : [ n:1 , k:true , t:\"b\" ]}"),
        ("yaml", &["- name: \"x\" # y", "  on-push: no"], "- a:name : t:\"x\" c:# y ⏎  a:on-push : k:no"),
        ("toml", &["[package]", "name = 'x'"], "[package] ⏎ a:name = t:'x'"),
        ("sql", &["SELECT a FROM t WHERE b = 'x'"], "k:SELECT a k:FROM t k:WHERE b = t:'x'"),
        ("html", &["<a href=\"x\">y</a>"], "k:<a a:href = t:\"x\" k:> y k:</a>"),
        ("diff", &["@@ -1 +1 @@", "-a", "+b", " c"], "@:@@ -1 +1 @@ ⏎ -:-a ⏎ +:+b ⏎ c"),
        ("c", &["#include <a.h>", "int x = 'a'; /* b"], "a:#include <a.h> ⏎ k:int x = t:'a' ; c:/* b"),
        ("nobody-knows", &["let x"], "?:let x"),
        ("", &["let x"], "?:let x"),
        ("{.python .numberLines}", &["pass"], "k:pass"),
        ("src/main.rs", &["pub"], "k:pub"),
    ] {
        assert_eq!(shown(language, lines), want, "{language}: {lines:?}");
    }
}

proptest::proptest! {
    /// For any code, no text is lost and nothing panics.
    #[test]
    fn any_code_is_highlighted_without_loss(
        which in 0_usize..30,
        lines in proptest::collection::vec("[a-z\"'`#/*<>{}$@\\\\é漢0-9. =:-]{0,24}", 1..6),
    ) {
        let names =
            ["rust", "py", "ts", "go", "c", "java", "php", "rb", "sh", "make", "json", "yaml", "toml", "sql", "html", "css", "lua", "hs", "zig", "tf", "r", "ps1", "diff", "clj", "dockerfile"];
        let mut inker = CodeHighlighter::new(names[which % names.len()]);
        for line in &lines {
            let partial: String = inker.partial(line).iter().map(|it| it.text.as_str()).collect();
            let whole: String = inker.line(line).iter().map(|it| it.text.as_str()).collect();
            proptest::prop_assert_eq!(&partial, &whole);
            let want = crate::styled_text::SafeText::new(line);
            proptest::prop_assert_eq!(&whole, want.as_str());
        }
    }
}
