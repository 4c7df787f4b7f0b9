//! Rewrites tables for the converter: data as plain rows and cells, layout as blocks, menus as lists,
//! numbered code as a code block.

use std::borrow::Cow;

use super::{
    code_lines::{CodeBlock, is_heading},
    table_shape::{PageContext, SpanGrid, TableShape, TableUse, table_shapes},
    tags::{HtmlToken, HtmlTokens, OpenTag},
};

/// Returns the page with its tables rewritten, and the number of bytes read. Borrowed if the page has no
/// table.
pub(super) fn rewrite_tables(html: &str) -> (Cow<'_, str>, u64) {
    let has = |name: &str| memchr::memmem::find(html.as_bytes(), name.as_bytes()).is_some();
    if !["<table", "<tr", "<td", "<th"].into_iter().any(has) {
        return (Cow::Borrowed(html), html.len() as u64);
    }
    let mut writer = TableRewrite {
        shapes: Vec::new().into_iter(),
        open: Vec::new(),
        out: String::with_capacity(html.len()),
        fill: html.len() / 4,
        html,
        at: 0,
    };
    let (mut pieces, mut around) = (HtmlTokens::new(html), PageContext::default());
    let (mut from, mut looked_at) = (0, 0);
    while let Some(piece) = pieces.next() {
        writer.at = from;
        from = pieces.position();
        if let HtmlToken::Open(tag) = &piece
            && tag.name == "table"
            && writer.open.is_empty()
        {
            let mut ahead = pieces.clone();
            writer.shapes = table_shapes(tag, &mut ahead, around).into_iter();
            looked_at += ahead.looked_at() - pieces.looked_at();
        }
        around.hear(&piece);
        writer.piece(&piece, from);
    }
    while !writer.open.is_empty() {
        writer.end_table();
    }
    (Cow::Owned(writer.out), looked_at + pieces.looked_at())
}

struct TableRewrite<'a> {
    /// Classifications of the tables that follow inside the outermost one.
    shapes: std::vec::IntoIter<TableShape>,
    open: Vec<OpenTable>,
    out: String,
    /// How many empty cells may still be added for cells that span rows.
    fill: usize,
    html: &'a str,
    /// Position of the current token.
    at: usize,
}

/// A table while it is written.
struct OpenTable {
    shape: TableShape,
    grid: SpanGrid,
    /// Row number, from 1.
    row: usize,
    row_open: bool,
    cell: usize,
    /// End tag of the open cell.
    cell_end: Option<&'static str>,
    caption: bool,
    code: Option<CodeBlock>,
    flow: CellFlow,
}

/// The content of one data cell, which must fit on one line whatever blocks it contained.
#[derive(Default)]
struct CellFlow {
    /// Whether the cell has any content yet.
    begun: bool,
    /// Whether a line break precedes the next text.
    breaks: bool,
    /// Prefix of the next text, such as a list marker.
    sign: String,
    /// Counters of the open lists; `None` for unordered ones.
    lists: Vec<Option<usize>>,
    code: bool,
}

impl CellFlow {
    /// Returns what precedes text that is written now: line break and prefix.
    fn before(&mut self) -> String {
        let breaks = std::mem::take(&mut self.breaks) && self.begun;
        self.begun = true;
        let sign = std::mem::take(&mut self.sign);
        if breaks { format!("<br>{sign}") } else { sign }
    }

    fn item(&mut self) {
        self.breaks = true;
        self.sign = match self.lists.last_mut() {
            Some(Some(number)) => {
                *number += 1;
                format!("{}. ", *number)
            }
            _ => String::from("• "),
        };
    }
}

impl TableRewrite<'_> {
    fn piece(&mut self, piece: &HtmlToken<'_>, end: usize) {
        match piece {
            HtmlToken::Open(tag) if tag.name == "table" => self.open_table(tag),
            HtmlToken::Close(name) if name == "table" => self.end_table(),
            // Rows and cells outside tables become text.
            HtmlToken::Open(OpenTag { name, .. }) | HtmlToken::Close(name)
                if self.open.is_empty() && is_part_of_table(name) =>
            {
                self.out.push(' ');
            }
            _ if self.open.is_empty() => self.out.push_str(&self.html[self.at..end]),
            HtmlToken::Open(tag) => match &*tag.name {
                "tr" => self.open_row(),
                "td" | "th" => self.open_cell(tag),
                "caption" => self.caption(true),
                "thead" | "tbody" | "tfoot" | "colgroup" | "col" => self.end_row(),
                _ => self.open_inside(tag, end),
            },
            HtmlToken::Close(name) => match &**name {
                "tr" | "thead" | "tbody" | "tfoot" => self.end_row(),
                "td" | "th" => self.end_cell(),
                "caption" => self.caption(false),
                "colgroup" => {}
                _ => self.close_inside(name, end),
            },
            HtmlToken::Text(text) => self.text(text),
        }
    }

    /// Returns the data table that the current position belongs to.
    fn data(&mut self) -> Option<&mut OpenTable> {
        // Only tables inside a data cell can be open above it.
        self.open
            .iter_mut()
            .rev()
            .find(|it| it.shape.used != TableUse::Inside)
            .filter(|it| it.shape.used == TableUse::Data)
    }

    fn open_table(&mut self, tag: &OpenTag<'_>) {
        let Some(mut shape) = self.shapes.next() else { return };
        // A table inside a data cell is written as text.
        if self.open.last().is_some_and(|it| matches!(it.shape.used, TableUse::Data | TableUse::Inside)) {
            shape.used = TableUse::Inside;
        }
        let mut code = None;
        match shape.used {
            TableUse::Inside => {
                if let Some(data) = self.data() {
                    data.flow.breaks = true;
                }
            }
            TableUse::Data => self.out.push_str("<table>"),
            TableUse::Links => self.out.push_str("<ul>"),
            TableUse::Layout | TableUse::Numbered => self.out.push_str("<div>"),
            TableUse::Code => code = Some(CodeBlock::new(tag.attribute("data-lang").map(str::to_owned))),
        }
        self.open.push(OpenTable {
            shape,
            grid: SpanGrid::default(),
            row: 0,
            row_open: false,
            cell: 0,
            cell_end: None,
            caption: false,
            code,
            flow: CellFlow::default(),
        });
    }

    fn end_table(&mut self) {
        self.caption(false);
        self.end_row();
        let Some(table) = self.open.pop() else { return };
        match table.shape.used {
            TableUse::Inside => {
                if let Some(data) = self.data() {
                    data.flow.breaks = true;
                }
            }
            TableUse::Data => self.out.push_str("</table>"),
            TableUse::Links => self.out.push_str("</ul>"),
            TableUse::Layout | TableUse::Numbered => self.out.push_str("</div>"),
            TableUse::Code => {
                if let Some(code) = table.code {
                    code.write(&mut self.out);
                }
            }
        }
    }

    fn open_row(&mut self) {
        self.end_row();
        let Some(table) = self.open.last_mut() else { return };
        table.row += 1;
        table.row_open = true;
        table.cell = 0;
        table.grid.begin_row();
        let line = table.shape.is_line(table.row);
        match table.shape.used {
            TableUse::Data => self.out.push_str("<tr>"),
            TableUse::Layout if line => self.out.push_str("<p>"),
            TableUse::Inside => {
                if let Some(data) = self.data() {
                    data.flow.breaks = true;
                }
            }
            TableUse::Code => {
                if let Some(code) = &mut table.code {
                    code.open_line();
                }
            }
            _ => {}
        }
    }

    fn end_row(&mut self) {
        self.end_cell();
        let Some(table) = self.open.last_mut() else { return };
        if !std::mem::take(&mut table.row_open) {
            return;
        }
        let line = table.shape.is_line(table.row);
        match table.shape.used {
            TableUse::Data => {
                // The first row determines the number of columns.
                let missing = usize::from(table.shape.columns).saturating_sub(table.grid.column);
                if table.row == 1 {
                    self.out.push_str(&"<td></td>".repeat(missing));
                }
                self.out.push_str("</tr>");
            }
            TableUse::Layout if line => self.out.push_str("</p>"),
            TableUse::Code => {
                if let Some(code) = &mut table.code {
                    code.close_line();
                }
            }
            _ => {}
        }
    }

    fn open_cell(&mut self, tag: &OpenTag<'_>) {
        self.end_cell();
        if self.open.last().is_some_and(|it| !it.row_open) {
            self.open_row();
        }
        let Some(table) = self.open.last_mut() else { return };
        table.cell += 1;
        let line = table.shape.is_line(table.row);
        let head = tag.name == "th";
        let (opening, ending) = match table.shape.used {
            TableUse::Data => {
                table.flow = CellFlow::default();
                let free = table.grid.place(tag).min(self.fill);
                self.fill -= free;
                self.out.push_str(&"<td></td>".repeat(free));
                self.out.push_str(if head { "<th" } else { "<td" });
                for name in ["colspan", "align"] {
                    if let Some(value) = tag.attribute(name) {
                        self.out.push_str(&format!(" {name}=\"{value}\""));
                    }
                }
                (">", if head { "</th>" } else { "</td>" })
            }
            TableUse::Layout if line && head => (" <b>", "</b> "),
            TableUse::Layout if line => (" ", " "),
            TableUse::Layout | TableUse::Numbered => ("<div>", "</div>"),
            TableUse::Links => ("<li>", "</li>"),
            TableUse::Inside => {
                let next = 1 < table.cell;
                if let Some(data) = self.data().filter(|_| next) {
                    data.flow.sign = String::from(", ");
                }
                ("", "")
            }
            TableUse::Code => ("", ""),
        };
        self.out.push_str(opening);
        if let Some(table) = self.open.last_mut() {
            table.cell_end = Some(ending);
        }
    }

    fn end_cell(&mut self) {
        if let Some(ending) = self.open.last_mut().and_then(|it| it.cell_end.take()) {
            // An empty cell makes no list item.
            if ending == "</li>"
                && let Some(before) = self.out.trim_end().strip_suffix("<li>").map(str::len)
            {
                return self.out.truncate(before);
            }
            self.out.push_str(ending);
        }
    }

    fn caption(&mut self, opens: bool) {
        self.end_cell();
        let Some(table) = self.open.last_mut() else { return };
        if table.caption == opens {
            return;
        }
        table.caption = opens;
        match (table.shape.used, opens) {
            (TableUse::Data, true) => self.out.push_str("<caption>"),
            (TableUse::Data, false) => self.out.push_str("</caption>"),
            (TableUse::Layout | TableUse::Numbered, true) => self.out.push_str("<div>"),
            (TableUse::Layout | TableUse::Numbered, false) => self.out.push_str("</div>"),
            _ => {}
        }
    }

    /// Whether the current cell holds line numbers.
    fn is_number(&self) -> bool {
        self.open.last().is_some_and(|it| {
            matches!(it.shape.used, TableUse::Code | TableUse::Numbered) && it.cell == 1 && it.row_open
        })
    }

    fn open_inside(&mut self, tag: &OpenTag<'_>, end: usize) {
        if self.is_number() {
            return;
        }
        if let Some(code) = self.open.last_mut().and_then(|it| it.code.as_mut()) {
            return code.open(tag);
        }
        let whole = &self.html[self.at..end];
        let Some(data) = self.data() else { return self.out.push_str(whole) };
        let name = &*tag.name;
        match name {
            "br" => data.flow.breaks = true,
            "li" => data.flow.item(),
            "ul" | "ol" => {
                data.flow.breaks = true;
                data.flow.lists.push((name == "ol").then_some(0));
            }
            "pre" => {
                data.flow.breaks = true;
                data.flow.code = true;
            }
            "code" if data.flow.code => {}
            _ if is_heading(name) => {
                data.flow.breaks = true;
                let before = data.flow.before();
                self.out.push_str(&before);
                self.out.push_str("<b>");
            }
            _ if is_cell_block(name) => data.flow.breaks = true,
            _ => {
                let before = data.flow.before();
                self.out.push_str(&before);
                self.out.push_str(whole);
            }
        }
    }

    fn close_inside(&mut self, name: &str, end: usize) {
        if self.is_number() {
            return;
        }
        if let Some(code) = self.open.last_mut().and_then(|it| it.code.as_mut()) {
            code.close(name);
            return;
        }
        let whole = &self.html[self.at..end];
        let Some(data) = self.data() else { return self.out.push_str(whole) };
        match name {
            "ul" | "ol" => {
                data.flow.lists.pop();
                data.flow.breaks = true;
                data.flow.sign.clear();
            }
            "pre" => {
                data.flow.code = false;
                data.flow.breaks = true;
            }
            "code" if data.flow.code => {}
            "li" => data.flow.breaks = true,
            _ if is_heading(name) => {
                data.flow.breaks = true;
                self.out.push_str("</b>");
            }
            _ if is_cell_block(name) => data.flow.breaks = true,
            _ => self.out.push_str(whole),
        }
    }

    fn text(&mut self, text: &str) {
        if self.is_number() {
            return;
        }
        if let Some(code) = self.open.last_mut().and_then(|it| it.code.as_mut()) {
            return code.text(text);
        }
        let blank = text.trim().is_empty();
        // Text between cells is written before the next cell, in a cell of its own.
        let outside = self.open.last().is_some_and(|it| it.cell_end.is_none() && !it.caption);
        if outside && blank {
            return;
        }
        if outside && self.open.last().is_some_and(|it| it.shape.used == TableUse::Data) {
            let cell = OpenTag::plain("td");
            self.open_cell(&cell);
        }
        let Some(data) = self.data() else { return self.out.push_str(text) };
        if data.caption {
            return self.out.push_str(text);
        }
        if data.flow.code {
            let mut lines = String::new();
            for line in text.lines().filter(|it| !it.trim().is_empty()) {
                lines.push_str(&format!("{}<code>{line}</code>", data.flow.before()));
                data.flow.breaks = true;
            }
            return self.out.push_str(&lines);
        }
        if blank && data.flow.breaks {
            return;
        }
        let before = if blank { String::new() } else { data.flow.before() };
        self.out.push_str(&before);
        self.out.push_str(text);
    }
}

pub(super) fn is_part_of_table(name: &str) -> bool {
    matches!(name, "tr" | "td" | "th" | "thead" | "tbody" | "tfoot" | "caption" | "colgroup" | "col")
}

/// Block elements that become separate lines within a cell.
fn is_cell_block(name: &str) -> bool {
    matches!(
        name,
        "p" | "div"
            | "section"
            | "figure"
            | "figcaption"
            | "blockquote"
            | "hr"
            | "form"
            | "dl"
            | "dt"
            | "dd"
            | "article"
            | "header"
            | "footer"
            | "nav"
            | "aside"
            | "main"
            | "address"
            | "center"
            | "fieldset"
    )
}

#[cfg(test)]
mod tests {
    use crate::convert;

    fn markdown(html: &str) -> String {
        convert(html, &"http://site.test/".parse().unwrap()).markdown.trim().to_owned()
    }

    /// Returns the rows of the only table in `markdown`.
    fn rows(markdown: &str) -> Vec<Vec<String>> {
        let cells = |line: &str| {
            let inside = line.trim_start_matches('|').trim_end_matches('|');
            inside.split('|').map(|it| it.trim().to_owned()).collect()
        };
        markdown.lines().filter(|it| it.starts_with('|') && !it.contains("---")).map(cells).collect()
    }

    #[test]
    fn rowspan_cells_keep_columns_aligned() {
        let html = "<table><tr><th rowspan=2>A</th><th>B</th><th>C</th></tr><tr><td>b1</td><td rowspan=3>c</td></tr>\
            <tr><td>a2</td><td>b2</td></tr><tr><td>a3</td><td>b3</td></tr><tr><td>a4</td><td>b4</td><td>c4</td></tr></table>";
        let want = [["A", "B", "C"], ["", "b1", "c"], ["a2", "b2", ""], ["a3", "b3", ""], ["a4", "b4", "c4"]];
        let got = rows(&markdown(html));
        for (got, want) in got.iter().zip(want) {
            let mut got = got.clone();
            got.resize(3, String::new());
            assert_eq!(got, want);
        }
        assert_eq!(got.len(), want.len());
    }

    #[test]
    fn colspan_rowspan_and_short_first_row_keep_columns() {
        let html = "<table><tr><th colspan=2 rowspan=2>A</th><th>C</th></tr><tr><td>c1</td></tr><tr><td>a2</td><td>b2</td><td>c2</td></tr></table>";
        assert_eq!(rows(&markdown(html))[1..], [["", "", "c1"], ["a2", "b2", "c2"]]);
        let html = "<table><tr><th>Title</th></tr><tr><td>a</td><td>b</td><td>c</td></tr></table>";
        let made = markdown(html);
        assert_eq!(rows(&made)[1], ["a", "b", "c"], "{made}");
        let html =
            "<table><tr><th rowspan=0>A</th><th>B</th></tr><tr><td>1</td></tr><tr><td>2</td></tr></table>";
        assert_eq!(rows(&markdown(html))[1..], [["", "1"], ["", "2"]]);
    }

    #[test]
    fn layout_tables_become_blocks() {
        let row = |name: &str, html: &str, want: &str| {
            let made = markdown(html);
            assert_eq!(made, want, "{name}");
        };
        row("a box", "<table><tr><td>Only <b>box</b></td></tr></table>", "Only **box**");
        row(
            "a menu",
            "<table><tr><td><a href=/a>A</a></td><td><a href=/b>B</a></td></tr><tr><td><a href=/c>C</a></td><td> </td></tr></table>",
            "- [A](http://site.test/a)\n- [B](http://site.test/b)\n- [C](http://site.test/c)",
        );
        row(
            "data inside an arrangement",
            "<table><tr><td><h2>Left</h2><p>One.</p><p>Two.</p></td><td><table><tr><th>x</th><th>y</th></tr><tr><td>1</td><td>2</td></tr></table></td></tr></table>",
            "## Left\n\nOne.\n\nTwo.\n\n| x | y |\n| --- | --- |\n| 1 | 2 |",
        );
        row(
            "one that says it",
            "<table role=presentation><tr><td>Left</td><td>Right</td></tr><tr><td>Below</td><td></td></tr></table>",
            "Left Right\n\nBelow",
        );
    }

    #[test]
    fn blocks_in_data_cells_become_lines() {
        let html = "<table><tr><th>Name</th><th>What</th></tr><tr><td>a</td><td>See:<ul><li><a href=/x>x</a></li><li>y</li></ul></td></tr>\
            <tr><td>b</td><td><p>One.</p><p>Two.</p></td></tr><tr><td>c</td><td><pre>l 1\n  l 2</pre></td></tr>\
            <tr><td>d</td><td><table><tr><td>k</td><td>v</td></tr><tr><td>m</td><td>w</td></tr></table></td></tr></table>";
        let made = markdown(html);
        let rows = rows(&made);
        assert_eq!(rows[1][1], "See:<br>• [x](http://site.test/x)<br>• y", "{made}");
        assert_eq!(rows[2][1], "One.<br>Two.", "{made}");
        assert_eq!(rows[3][1], "`l 1`<br>` l 2`", "{made}");
        assert_eq!(rows[4][1], "k, v<br>m, w", "{made}");
    }

    #[test]
    fn numbered_code_tables_become_code_blocks() {
        let want = "```rust\nfn main() {\n\n    go();\n}\n```";
        for (make, html) in [
            (
                "a row for a line",
                "<div class='highlight-source-rust'><table class=highlight><tr><td class=blob-num data-line-number=1></td><td class=blob-code>fn main() {</td></tr><tr><td class=blob-num></td><td class=blob-code></td></tr><tr><td class=blob-num></td><td class=blob-code>    <span>go</span>();</td></tr><tr><td class=blob-num></td><td>}</td></tr></table></div>",
            ),
            (
                "a row for a line, in a block",
                "<pre><code class=language-rust><table class=hljs-ln><tbody><tr><td class=hljs-ln-numbers><div class=hljs-ln-n>1</div></td><td>fn main() {</td></tr><tr><td class=hljs-ln-numbers>2</td><td></td></tr><tr><td class=hljs-ln-numbers>3</td><td>    go();</td></tr><tr><td class=hljs-ln-numbers>4</td><td>}</td></tr></tbody></table></code></pre>",
            ),
            (
                "boxes beside boxes",
                "<div class=language-rust><table><tr><td class=gutter><div>1</div><div>2</div><div>3</div><div>4</div></td><td class=code><div class=container><div class=line>fn main() {</div><div class=line></div><div class=line>    go();</div><div class=line>}</div></div></td></tr></table></div>",
            ),
            (
                "a column of numbers",
                "<div class=language-rust><table><tr><td><pre>1\n2\n3\n4</pre></td><td><pre>fn main() {\n\n    go();\n}</pre></td></tr></table></div>",
            ),
            (
                "numbers in the lines",
                "<pre class='language-rust'><code><span class=line><span class=ln>1</span><span>fn main() {</span></span><span class=line><span class=ln>2</span></span><span class=line><span class=ln>3</span>    go();</span><span class=line><span class=ln>4</span>}</span></code></pre>",
            ),
        ] {
            assert_eq!(markdown(html), want, "{make}");
        }
    }

    #[test]
    fn unclosed_code_block_ends_with_its_container() {
        let made = markdown(
            "<table><tr><th>a</th><th>b</th></tr><tr><td><pre>x</td><td>y</td></tr></table><p>after</p>",
        );
        assert_eq!(made, "| a | b |\n| --- | --- |\n| `x` | y |\n\nafter");
        let made = markdown("<h1>t</h1><pre>  <b>x</b>\n\n y");
        assert_eq!(made, "# t\n\n```\n  x\n\n y\n```");
    }
}
