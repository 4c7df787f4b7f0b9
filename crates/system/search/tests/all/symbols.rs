//! Definitions found, by language.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, reason = "test code")]

use haft_search::{SourceLanguage, SymbolScratch, symbols};
use proptest::prelude::*;

/// `kind Container.name` per definition, in order.
fn found(file: &str, source: &str) -> Vec<String> {
    let lang = SourceLanguage::detect(file.as_bytes(), source.as_bytes()).unwrap();
    let symbols = symbols(lang, source.as_bytes(), &mut SymbolScratch::default());
    symbols
        .iter()
        .map(|symbol| {
            let name = &source[symbol.name.clone()];
            assert_eq!(source[..symbol.name.start].matches('\n').count() as u32 + 1, symbol.line, "{name}");
            let container =
                symbol.container.clone().map(|it| format!("{}.", &source[it])).unwrap_or_default();
            format!("{} {container}{name}", symbol.kind.name())
        })
        .collect()
}

#[track_caller]
fn check(file: &str, source: &str, want: &[&str]) {
    assert_eq!(found(file, source), want, "{file}");
}

#[test]
fn rust() {
    check(
        "a.rs",
        r##"
        //! fn not_this()
        mod inner { pub fn nested() { let fn_ptr: fn(u8) -> u8 = f; fn local() {} } }
        pub(crate) struct Point<T> where T: Copy { x: T }
        pub struct Unit;
        enum Shape { Circle { r: f64 }, #[serde(rename = "s")] Square(f64), Empty = 3 }
        union Bits { a: u32 }
        unsafe trait Draw: Send { type Out; const N: usize; fn draw(&self) -> Self::Out; fn new() -> Self where Self: Sized { loop {} } }
        impl<T: Fn(u8) -> u8> Draw for Point<T> { type Out = (); const N: usize = 1; fn draw(&self) {} }
        impl Shape { pub const async fn area(self) -> f64 { match self { Shape::Empty => 0.0, _ => { 1.0 } } } }
        impl<'a> From<&'a str> for crate::inner::Text { fn from(_: &'a str) -> Self { Text } }
        static mut COUNTER: u32 = 0;
        const fn helper<const N: usize>() {}
        const _: () = ();
        type Alias<T> = Vec<T>;
        macro_rules! my_macro { ($x:ident) => { fn $x() {} } }
        extern "C" { fn c_call(x: i32); }
        fn r#type() { "fn in_text()"; r#"struct InText {"#; }
        "##,
        &[
            "module inner",
            "function inner.nested",
            "function nested.local",
            "struct Point",
            "struct Unit",
            "enum Shape",
            "variant Shape.Circle",
            "variant Shape.Square",
            "variant Shape.Empty",
            "struct Bits",
            "trait Draw",
            "type Draw.Out",
            "constant Draw.N",
            "method Draw.draw",
            "method Draw.new",
            "type Point.Out",
            "constant Point.N",
            "method Point.draw",
            "method Shape.area",
            "method Text.from",
            "variable COUNTER",
            "function helper",
            "type Alias",
            "macro my_macro",
            "function c_call",
            "function type",
        ],
    );
}

#[test]
fn python() {
    check(
        "a.py",
        "import os\nMAX = 10\nname: str = 'x'\n\nasync def fetch(url):\n    def inner():\n        pass\n    local = 1\n\n\
         class Client(Base):\n    \"\"\"def not_this(): pass\"\"\"\n    timeout = 3\n    LIMIT: int = 4\n\n    @property\n    def url(self):\n        \
         self.x = 1\n        y = 2\n        return y\n\n    class Meta:\n        def deep(self): pass\n\n    async def close(self):\n        pass\n\n\
         def after(): pass\nif True:\n    pass\nx == 3\ntype Pair = tuple[int, int]\n",
        &[
            "constant MAX",
            "variable name",
            "function fetch",
            "function inner",
            "class Client",
            "field Client.timeout",
            "constant Client.LIMIT",
            "method Client.url",
            "class Client.Meta",
            "method Meta.deep",
            "method Client.close",
            "function after",
            "type Pair",
        ],
    );
}

#[test]
fn javascript_and_typescript() {
    check(
        "a.ts",
        r#"
        import x from "y";
        export default async function* main() { const local = 1; function nested() {} }
        export const VERSION = "1", other = 2;
        export const handler: Handler<A, B> = async (req) => { return req; };
        const add = (a: number, b: number): number => a + b;
        let plain = x => x;
        const Comp = class extends Base { render() {} };
        const { a, b } = obj;
        export abstract class Store<T> extends Base implements I {
            #count = 0;
            static create<T>(x: T): Store<T> { if (x) { foo(); } return new Store(); }
            get size(): number { return 1; }
            private async load(): Promise<void> {}
            onClick = (e: Event) => { this.load(); };
            constructor(private readonly x: number) { super(); }
        }
        interface Shape { area(): number; }
        type Id<T> = string | { [key: string]: T };
        enum Color { Red, Green = 2, Blue }
        declare namespace NS { function inner(): void; const c: number; }
        module.exports.legacy = function () {};
        exports.value = 3;
        Thing.prototype.run = function () { };
        const re = /function fake() {/;
        const t = `function ${ (() => { return `x` })() } fake2() {`;
        obj.class = 1; type = 4;
        "#,
        &[
            "function main",
            "function main.nested",
            "constant VERSION",
            "function handler",
            "function add",
            "function plain",
            "class Comp",
            "method Comp.render",
            "class Store",
            "method Store.create",
            "method Store.size",
            "method Store.load",
            "method Store.onClick",
            "method Store.constructor",
            "interface Shape",
            "type Id",
            "enum Color",
            "variant Color.Red",
            "variant Color.Green",
            "variant Color.Blue",
            "module NS",
            "function NS.inner",
            "variable NS.c",
            "function legacy",
            "constant value",
            "method Thing.run",
            "constant re",
            "constant t",
        ],
    );
}

#[test]
fn go() {
    check(
        "a.go",
        "package main\n\nimport (\n\t\"fmt\"\n)\n\nconst Pi = 3\nconst (\n\tA = iota\n\tB\n\tC, D = 1, 2\n)\nvar (\n\tcount int\n\tf = func() { x := 1 }\n)\n\
         type Point struct {\n\tX, Y int\n}\ntype (\n\tReader interface {\n\t\tRead() int\n\t}\n\tID = string\n)\ntype Set[K comparable] map[K]bool\n\
         func main() {\n\tconst local = 1\n\ttype inner struct{}\n}\nfunc (p *Point) Move(dx int) (err error) {\n\treturn\n}\nfunc (s Set[K]) Has(k K) bool { return s[k] }\nfunc Map[T, U any](x []T, f func(T) U) []U {\n\treturn nil\n}\n",
        &[
            "constant Pi",
            "constant A",
            "constant B",
            "constant C",
            "constant D",
            "variable count",
            "variable f",
            "struct Point",
            "interface Reader",
            "type ID",
            "type Set",
            "function main",
            "method Point.Move",
            "method Set.Has",
            "function Map",
        ],
    );
}

#[test]
fn java() {
    check(
        "A.java",
        r#"
        package a.b;
        @Service("x")
        public class Service<T extends Base> extends Other implements Runnable {
            private static final int MAX_SIZE = 10;
            private final Map<String, List<T>> cache = new HashMap<>();
            public Service(int x) { this.x = x; }
            @Override
            public <R> R run(Function<T, R> f, int... xs) throws IOException, Error {
                if (x) { call(); } for (int i = 0; i < 3; i++) { other(i); }
                return new Thing() { public void inner() {} };
            }
            abstract List<String> names();
            interface Callback { void done(String s); default int n() { return 1; } }
            enum State { IDLE("i"), BUSY { int x() { return 1; } }, DONE; State(String s) {} }
            record Point(int x, int y) { Point { } }
        }
        "#,
        &[
            "class Service",
            "constant Service.MAX_SIZE",
            "field Service.cache",
            "method Service.Service",
            "method Service.run",
            "method Service.names",
            "interface Service.Callback",
            "method Callback.done",
            "method Callback.n",
            "enum Service.State",
            "variant State.IDLE",
            "variant State.BUSY",
            "variant State.DONE",
            "method State.State",
            "struct Service.Point",
        ],
    );
}

#[test]
fn c() {
    check(
        "a.c",
        r#"
        #include <stdio.h>
        #define MAX(a, b) \
            ((a) > (b) ? (a) : (b))
        #  define LIMIT 3
        typedef struct node { int x; struct node *next; } node_t;
        typedef int (*callback)(void *);
        enum color { RED, GREEN = 2 };
        struct point { int x, y; };
        static const char *names[] = { "a", "b" };
        int counter = 0;
        extern int elsewhere;
        int declared(int x);
        static inline struct node *make(int x) { return call(x); }
        void __attribute__((noreturn)) die(const char *fmt, ...)
        {
            if (x) { foo(); }
        }
        TEST(Suite, Case) { run(); }
        int main(int argc, char **argv) { struct point p = { 1, 2 }; for (;;) { } return declared(1); }
        "#,
        &[
            "macro MAX",
            "macro LIMIT",
            "struct node",
            "type node_t",
            "enum color",
            "variant color.RED",
            "variant color.GREEN",
            "struct point",
            "variable names",
            "variable counter",
            "declaration declared",
            "function make",
            "function die",
            "function main",
        ],
    );
}

#[test]
fn cpp() {
    check(
        "a.cpp",
        r#"
        namespace app::core {
        template <typename T, int N = 3>
        class Buffer final : public Base<T> {
        public:
            explicit Buffer(size_t n) : data_(n), size_{n} { init(); }
            ~Buffer() override;
            T& operator[](size_t i) { return data_[i]; }
            size_t size() const noexcept { return size_; }
            virtual void draw() = 0;
            Buffer(const Buffer&) = delete;
            static constexpr int kMax = 4;
        private:
            std::vector<T> data_;
        };
        enum class Mode : int { Fast, Slow };
        using Strings = std::vector<std::string>;
        template <> void Buffer<int>::clear() { x(); }
        }
        extern "C" { int c_api(int x) { return x; } }
        std::string app::core::Thing::name() const & { return R"(class Fake {)"; }
        auto lambda = [](int x) { return x; };
        static int helper(std::map<int, int> m = {}) noexcept(true) -> int { return 1; }
        class Forward;
        struct S { int f(); } s;
        "#,
        &[
            "module core",
            "class core.Buffer",
            "method Buffer.Buffer",
            "declaration Buffer.Buffer",
            "method Buffer.size",
            "declaration Buffer.draw",
            "declaration Buffer.Buffer",
            "field Buffer.kMax",
            "enum core.Mode",
            "variant Mode.Fast",
            "variant Mode.Slow",
            "type core.Strings",
            "method Buffer.clear",
            "function c_api",
            "method Thing.name",
            "variable lambda",
            "function helper",
            "struct S",
            "declaration S.f",
        ],
    );
}

#[test]
fn csharp() {
    check(
        "A.cs",
        r#"
        using System;
        namespace App.Core;
        [Serializable]
        public sealed partial class Client<T> : Base, IThing where T : new()
        {
            private const int MaxRetries = 3;
            private readonly List<int> _items = new();
            public string Name { get; set; } = "x";
            public int Count => _items.Count;
            public Client(string url) : base(url) { Run(); }
            public async Task<T> GetAsync(string path, CancellationToken ct = default) { await Foo(); return x; }
            protected override void OnEvent(object s) => Handle(s);
            public static Client<T> operator +(Client<T> a, int b) { return a; }
            string path = @"C:\class Fake {";
        }
        public interface IThing { void Do(int x); string Title { get; } }
        public record Person(string First, string Last);
        public record struct Pt(int X);
        enum Level { Low = 1, High }
        public delegate void Handler(object sender);
        "#,
        &[
            "class Client",
            "field Client.MaxRetries",
            "field Client._items",
            "field Client.Name",
            "field Client.Count",
            "method Client.Client",
            "method Client.GetAsync",
            "method Client.OnEvent",
            "field Client.path",
            "interface IThing",
            "method IThing.Do",
            "field IThing.Title",
            "struct Person",
            "struct Pt",
            "enum Level",
            "variant Level.Low",
            "variant Level.High",
            "declaration Handler",
        ],
    );
}

#[test]
fn ruby_and_php() {
    check(
        "a.rb",
        "module Api\n  class Client < Base\n    VERSION = '1'\n    attr_reader :name, :url\n    def initialize(x)\n      @x = x\n    end\n    def self.build\n    end\n    def ok?; end\n  end\nend\nclass Api::Deep::Other\n  def run = 1\nend\ndef top\n  <<~SQL\n    def fake\n  SQL\nend\n",
        &[
            "module Api",
            "class Api.Client",
            "constant Client.VERSION",
            "field Client.name",
            "field Client.url",
            "method Client.initialize",
            "method Client.build",
            "method Client.ok",
            "class Other",
            "method Other.run",
            "function top",
        ],
    );
    check(
        "a.php",
        "<?php\nnamespace App\\Http;\n# function fake()\nfinal class Kernel extends Base implements A {\n  const VERSION = '1';\n  private ?string $name = null;\n  public function handle(Request $r): Response { $f = function ($x) { return 1; }; return foo(); }\n  abstract protected function &go();\n}\ninterface Shape { public function area(); }\ntrait Loud { }\nenum Suit: string { case Hearts = 'H'; case Spades = 'S'; }\nfunction helper() { return <<<EOT\nclass Fake {\nEOT;\n}\n",
        &[
            "class Kernel",
            "constant Kernel.VERSION",
            "method Kernel.handle",
            "method Kernel.go",
            "interface Shape",
            "method Shape.area",
            "trait Loud",
            "enum Suit",
            "variant Suit.Hearts",
            "variant Suit.Spades",
            "function helper",
        ],
    );
}

#[test]
fn kotlin_and_swift() {
    check(
        "a.kt",
        r#"
        package a
        const val MAX = 3
        typealias Handler = (Int) -> Unit
        fun top(x: Int): Int = x
        fun <T> List<T>.second(): T { val local = 1; return this[1] }
        data class Point(val x: Int, val y: Int) { fun move() { } companion object { fun of() = Point(0, 0) } }
        sealed interface Shape
        object Registry { var count = 0; fun get(): Int { return count } }
        enum class Color(val rgb: Int) { RED(1), GREEN(2); fun hex() = "" }
        "#,
        &[
            "constant MAX",
            "type Handler",
            "function top",
            "function second",
            "class Point",
            "method Point.move",
            "method Point.of",
            "interface Shape",
            "class Registry",
            "variable Registry.count",
            "method Registry.get",
            "class Color",
            "method Color.hex",
        ],
    );
    check(
        "a.swift",
        r#"
        import UIKit
        let limit = 3
        public protocol Shape { associatedtype Unit; func area() -> Double }
        public final class Box<T>: Base, Shape where T: Equatable {
            private var count: Int { return 1 }
            init(x: Int) { let y = 1 }
            override func draw<U>(_ x: U) throws -> Int { func inner() {} ; return 1 }
        }
        extension Box { static func make() -> Box { return Box() } }
        enum Mode { case fast, slow(Int)
            case other
            func next() -> Mode { return .fast } }
        struct P { }
        "#,
        &[
            "constant limit",
            "interface Shape",
            "type Shape.Unit",
            "method Shape.area",
            "class Box",
            "variable Box.count",
            "method Box.draw",
            "function draw.inner",
            "method Box.make",
            "enum Mode",
            "variant Mode.fast",
            "variant Mode.slow",
            "variant Mode.other",
            "method Mode.next",
            "struct P",
        ],
    );
}

#[test]
fn symbols_in_other_languages_are_found() {
    check(
        "a.sh",
        "#!/bin/bash\nPREFIX=/usr\nexport PATH=x\nfunction build { echo; }\nrun-tests() {\n  local x=1\n  cat <<EOF\nfake() {\nEOF\n}\nalias ll='ls'\n",
        &["constant PREFIX", "variable PATH", "function build", "function run-tests", "function ll"],
    );
    check(
        "a.lua",
        "local function helper() end\nfunction M.run(x) end\nfunction M:go() end\nM.f = function() end\n-- function fake()\n",
        &["function helper", "function run", "function go", "function f"],
    );
    check(
        "a.ex",
        "defmodule App.Web do\n  def index(conn), do: conn\n  defp hidden(x) do\n  end\n  defmacro m(x), do: x\nend\n",
        &["module Web", "function Web.index", "function Web.hidden", "macro Web.m"],
    );
    check("a.pl", "package A::B;\nsub run { }\n", &["module B", "function B.run"]);
    check(
        "a.sql",
        "create table if not exists public.users (id int);\nCREATE OR REPLACE FUNCTION do_it() ;\n-- create table fake\ncreate unique index idx_a on users(id);",
        &["definition users", "function do_it", "definition idx_a"],
    );
    check(
        "a.proto",
        "syntax = \"proto3\";\nmessage User { string name = 1; message Inner {} enum Kind { A = 0; } }\nservice Users { rpc Get (Id) returns (User); }\n",
        &[
            "struct User",
            "struct User.Inner",
            "enum User.Kind",
            "variant Kind.A",
            "interface Users",
            "method Users.Get",
        ],
    );
    check(
        "Makefile",
        "CC := gcc\nall: build\n\techo all:\nbuild: x\n",
        &["variable CC", "definition all", "definition build"],
    );
    check(
        "a.scala",
        "package a\nobject Main extends App { val x = 1; def run(): Unit = { val local = 2 } }\ncase class P(x: Int)\ntrait T { def f: Int }\n",
        &["class Main", "constant Main.x", "method Main.run", "class P", "trait T", "method T.f"],
    );
    check(
        "a.dart",
        "class A extends B { A(this.x); int get n => 1; Future<void> load(String s) async { } static const max = 3; }\nenum E { a, b }\nvoid main() { run(); }\n",
        &[
            "class A",
            "method A.A",
            "field A.n",
            "method A.load",
            "field A.max",
            "enum E",
            "variant E.a",
            "variant E.b",
            "function main",
        ],
    );
    check(
        "a.zig",
        "const std = @import(\"std\");\npub fn main() !void { const local = 1; }\n",
        &["constant std", "function main"],
    );
    check(
        "a.graphql",
        "type User { name: String }\ninput NewUser { name: String }\n",
        &["type User", "type NewUser"],
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]
    /// On arbitrary text the rules terminate, and what they find lies within the file.
    #[test]
    fn symbols_never_panics_on_arbitrary_text(parts in prop::collection::vec(prop_oneof![
        Just("fn"), Just("class"), Just("impl"), Just("func"), Just("("), Just(")"), Just("{"), Just("}"), Just("<"), Just(">"),
        Just("::"), Just(";"), Just(","), Just("="), Just("=>"), Just("\n"), Just("name"), Just("T"), Just("enum"), Just("case"),
        Just("\""), Just("'"), Just("/*"), Just("#define"), Just("typedef"), Just("def"), Just("create table"), Just("["), Just("]"),
        Just(":"), Just("."), Just("const"), Just("exports"), Just("type"), Just("var"), Just("module"), Just("é"),
    ], 0..60)) {
        let source = parts.join(" ");
        for file in ["a.rs", "a.go", "a.ts", "a.java", "a.cs", "a.c", "a.cpp", "a.php", "a.kt", "a.swift", "a.scala", "a.dart",
            "a.zig", "a.py", "a.rb", "a.ex", "a.lua", "a.pl", "a.sh", "a.sql", "a.proto", "a.graphql", "a.mk"] {
            let lang = SourceLanguage::detect(file.as_bytes(), b"").unwrap();
            for symbol in symbols(lang, source.as_bytes(), &mut SymbolScratch::default()) {
                prop_assert!(!source[symbol.name].trim().is_empty());
            }
        }
    }
}
