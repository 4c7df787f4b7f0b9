//! Pages from different generators as Markdown: useful content is kept, the rest is not.

use crate::web_rig::{Rig, Site, reply};

use proptest::prelude::*;
use serde_json::json;

/// Returns the content type of a file whose extension does not determine it.
fn content_type(name: &str) -> &'static str {
    match name {
        "windows_1251_header" => "text/html; charset=windows-1251",
        "gbk_unsaid" | "utf16_bom" | "shift_jis_meta" | "latin1_called_utf8" => "text/html",
        "strict_xhtml" => "application/xhtml+xml",
        "feed" => "application/atom+xml",
        "served_as_markdown" => "text/markdown",
        _ => "text/html; charset=utf-8",
    }
}

/// Pages as found on the web, one per generator. Review a changed snapshot by eye: useful content in its
/// order, and nothing else.
#[tokio::test]
async fn pages_by_generator_match_snapshots() {
    let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/web_pages");
    let mut files: Vec<std::path::PathBuf> =
        std::fs::read_dir(dir).unwrap().map(|it| it.unwrap().path()).collect();
    files.sort();
    assert!(30 < files.len());
    for file in files {
        let name = file.file_stem().unwrap().to_str().unwrap().to_owned();
        let page = reply(200, content_type(&name), &std::fs::read(&file).unwrap());
        let site = Site::raw(vec![("/docs/guide/page.html", page)]).await;
        let got = Rig::near(&site).call(json!({"url": site.url("/docs/guide/page.html")})).await.unwrap();
        let title = got.data["title"].as_str().unwrap_or("(no title)");
        let notes: String = got.data["notes"]
            .as_array()
            .map(|it| it.iter().map(|it| format!("[{}]\n", it.as_str().unwrap())).collect())
            .unwrap_or_default();
        let text = got.data["result"].as_str().unwrap();
        assert!(!text.contains("HIDDEN"), "{name}: {text}");
        // One page contains numeric references to invalid characters.
        assert_eq!(text.contains('\u{fffd}'), name == "double_encoded_entities", "{name}: {text}");
        let told = format!("title: {title}\n{notes}\n{text}");
        let told = told.replace(&format!("http://127.0.0.1:{}", site.port), "SITE");
        insta::with_settings!({snapshot_suffix => name, omit_expression => true}, {
            insta::assert_snapshot!("page", told);
        });
    }
}

async fn markdown(html: &str) -> String {
    let page: &'static [u8] = Vec::leak(html.as_bytes().to_vec());
    let site = Site::raw(vec![("/docs/guide/page.html", reply(200, "text/html; charset=utf-8", page))]).await;
    let got = Rig::near(&site).call(json!({"url": site.url("/docs/guide/page.html")})).await.unwrap();
    got.data["result"].as_str().unwrap().replace(&format!("http://127.0.0.1:{}", site.port), "SITE")
}

const LONG: &str = "This sentence is here so that the page has enough text to count as one. ";

#[tokio::test]
async fn golden_pages_match_snapshot() {
    let long = LONG.repeat(4);
    let rows = [
        ("table", "<table><thead><tr><th>Name</th><th>Value</th></tr></thead><tbody><tr><td>a|b</td><td>1</td></tr><tr><td>c</td><td><code>x | y</code></td></tr></tbody></table>".to_owned()),
        ("code", "<pre><code class=\"language-rust\">fn main() {\n    let a = &amp;1;\n}\n</code></pre>".to_owned()),
        ("links", "<p><a href=\"../x.html#s\">up</a> <a href=\"/abs\">abs</a> <a href=\"//other.test/y\">other</a> <a href=\"javascript:alert(1)\">no</a> <a href=\"#here\">here</a> <img src=\"pic.png\" alt=\"A picture\"></p>".to_owned()),
        ("details", "<details><summary>More</summary><dl><dt>Term</dt><dd>Meaning with <b>bold</b> text</dd></dl></details>".to_owned()),
        ("hidden", "<p>seen</p><p style=\"display: none\">unseen one</p><p hidden>unseen two</p><template>unseen three</template><!-- unseen four --><style>unseen{}</style><svg><text>unseen five</text></svg>".to_owned()),
        ("lists", "<ul><li>one<ul><li>inner</li></ul></li><li>two</li></ul><ol><li>first</li><li>second</li></ol>".to_owned()),
    ];
    let mut told = String::new();
    for (name, html) in rows {
        let page = format!(
            "<html><head><title>{name}</title></head><body><main><h1>{name}</h1>{html}<p>{long}</p></main></body></html>"
        );
        let made = markdown(&page).await;
        assert!(!made.contains("unseen"), "{made}");
        told.push_str(&format!("=== {name}\n{}\n", made.replace(long.trim(), "LONG")));
    }
    insta::assert_snapshot!(told);
}

#[tokio::test]
async fn main_content_comes_first_and_the_rest_is_kept() {
    let (long, nav) = (LONG.repeat(20), "<nav><a href='/n'>Navigation entry</a></nav>");
    let with_main =
        format!("<body>{nav}<main><h1>Title</h1>{long}</main><footer>Footer words</footer></body>");
    let made = markdown(&with_main).await;
    assert!(
        made.starts_with("# Title") && !made.contains("Navigation") && !made.contains("Footer"),
        "{made}"
    );
    let without = format!("<body>{nav}<h1>Title</h1>{long}<footer>Footer words</footer></body>");
    let made = markdown(&without).await;
    assert!(made.starts_with("# Title"), "{made}");
    assert!(
        made.find("Navigation entry") < made.find("Footer words") && made.contains("Footer words"),
        "{made}"
    );
    let small = format!("<body><main>tiny</main><div>{long}</div></body>");
    assert!(markdown(&small).await.contains("enough text"));
    let two = format!("<body><article>One {long}</article><article>Two {long}</article></body>");
    let made = markdown(&two).await;
    assert!(made.contains("One ") && made.contains("Two "), "{made}");
    let open = format!("<body><main><h1>Open</h1>{long}");
    assert!(markdown(&open).await.contains("# Open"));
}

#[tokio::test]
async fn script_only_pages_show_noscript_and_embedded_data() {
    let filler = "x".repeat(12_000);
    let html = format!(
        "<html><body><div id=__next></div><noscript>Please turn on <b>scripts</b></noscript>\
         <script id=__NEXT_DATA__ type=application/json>{{\"title\":\"From data\"}}</script><script>{filler}</script></body></html>"
    );
    let made = markdown(&html).await;
    assert!(made.contains("Please turn on scripts") && made.contains("From data"), "{made}");
    let served = format!(
        "<html><body><div id=root><p>{}</p></div><script>{filler}</script></body></html>",
        LONG.repeat(40)
    );
    assert!(!markdown(&served).await.contains("Data within"));
}

/// Pages that could slow down a converter are answered. The amount of work is measured in the
/// converter's own tests (`conversion_of_hostile_pages_is_linear`); this tests the whole call, on
/// input small enough for any machine.
#[tokio::test]
async fn hostile_pages_get_an_answer() {
    for html in [
        "<div>".repeat(20_000),
        "<table><tr><td>".repeat(5_000),
        "<a href=x>".repeat(5_000),
        "<b><i>".repeat(5_000),
        format!("<p {}>text</p>", "a=b ".repeat(20_000)),
        "<ul><li>".repeat(3_000),
        "<blockquote>".repeat(3_000),
        format!("<!--{}", "x".repeat(1_000_000)),
        "<".repeat(50_000),
        "&amp".repeat(50_000),
    ] {
        markdown(&html).await;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
    #[test]
    fn arbitrary_pages_never_panic(html in "(<[a-z]{1,7}( [a-z]{1,4}=\"?[ -~]{0,9})?>|</[a-z]{1,7}>|<!--|-->|[ -~]|é|\\n){0,120}") {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(markdown(&html));
    }
}
