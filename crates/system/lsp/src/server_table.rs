//! Built-in table of languages and their servers.

/// A language and its servers.
#[derive(Clone, Copy, Debug)]
pub struct ServedLanguage {
    /// Display name.
    pub name: &'static str,
    /// File extensions, each with its LSP language id.
    pub extensions: &'static [(&'static str, &'static str)],
    /// Servers, in order of preference.
    pub servers: &'static [KnownLspServer],
    /// File names that mark the root of a project.
    pub roots: &'static [&'static str],
    /// Installation hint.
    pub install: &'static str,
}

/// A server of the table.
#[derive(Clone, Copy, Debug)]
pub struct KnownLspServer {
    /// Program name.
    pub program: &'static str,
    /// Arguments.
    pub args: &'static [&'static str],
    /// Condition for using it.
    pub needs: ServerNeeds,
}

/// Condition for using a server.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ServerNeeds {
    /// Usable if installed.
    Nothing,
    /// Usable if it belongs to a TypeScript installation of at least this major version, which includes
    /// the server.
    TypeScriptFrom(u32),
    /// Usable if the root has one of these files.
    RootFile(&'static [&'static str]),
}

const fn server(program: &'static str, args: &'static [&'static str]) -> KnownLspServer {
    KnownLspServer { program, args, needs: ServerNeeds::Nothing }
}

/// All known languages.
pub const LANGUAGES: &[ServedLanguage] = &[
    ServedLanguage {
        name: "Rust",
        extensions: &[("rs", "rust")],
        servers: &[server("rust-analyzer", &[])],
        roots: &["Cargo.toml", "rust-project.json"],
        install: "rustup component add rust-analyzer",
    },
    ServedLanguage {
        name: "TypeScript and JavaScript",
        extensions: &[
            ("ts", "typescript"),
            ("tsx", "typescriptreact"),
            ("mts", "typescript"),
            ("cts", "typescript"),
            ("js", "javascript"),
            ("jsx", "javascriptreact"),
            ("mjs", "javascript"),
            ("cjs", "javascript"),
        ],
        servers: &[
            KnownLspServer {
                program: "deno",
                args: &["lsp"],
                needs: ServerNeeds::RootFile(&["deno.json", "deno.jsonc"]),
            },
            KnownLspServer {
                program: "tsc",
                args: &["--lsp", "--stdio"],
                needs: ServerNeeds::TypeScriptFrom(7),
            },
            server("typescript-language-server", &["--stdio"]),
            server("vtsls", &["--stdio"]),
        ],
        roots: &[
            "tsconfig.json",
            "jsconfig.json",
            "package.json",
            "package-lock.json",
            "pnpm-lock.yaml",
            "yarn.lock",
            "bun.lock",
            "deno.json",
            "deno.jsonc",
        ],
        install: "npm install -g typescript@7, or npm install -g typescript-language-server typescript@5",
    },
    ServedLanguage {
        name: "Python",
        extensions: &[("py", "python"), ("pyi", "python")],
        servers: &[
            server("basedpyright-langserver", &["--stdio"]),
            server("pyright-langserver", &["--stdio"]),
            server("ty", &["server"]),
            server("pylsp", &[]),
        ],
        roots: &[
            "pyproject.toml",
            "setup.py",
            "setup.cfg",
            "requirements.txt",
            "Pipfile",
            "pyrightconfig.json",
        ],
        install: "npm install -g pyright, or pip install basedpyright",
    },
    ServedLanguage {
        name: "Go",
        extensions: &[("go", "go"), ("mod", "go.mod")],
        servers: &[server("gopls", &[])],
        roots: &["go.work", "go.mod"],
        install: "go install golang.org/x/tools/gopls@latest",
    },
    ServedLanguage {
        name: "C and C++",
        extensions: &[
            ("c", "c"),
            ("h", "c"),
            ("cc", "cpp"),
            ("cpp", "cpp"),
            ("cxx", "cpp"),
            ("hh", "cpp"),
            ("hpp", "cpp"),
            ("hxx", "cpp"),
            ("m", "objective-c"),
            ("mm", "objective-cpp"),
        ],
        servers: &[server("clangd", &["--background-index"])],
        roots: &["compile_commands.json", "compile_flags.txt", ".clangd"],
        install: "apt-get install clangd",
    },
    ServedLanguage {
        name: "Java",
        extensions: &[("java", "java")],
        servers: &[server("jdtls", &[])],
        roots: &["settings.gradle", "settings.gradle.kts", "gradlew", "pom.xml", "build.gradle"],
        install: "brew install jdtls",
    },
    ServedLanguage {
        name: "C#",
        extensions: &[("cs", "csharp")],
        servers: &[server("roslyn-language-server", &["--stdio"]), server("csharp-ls", &[])],
        roots: &["global.json"],
        install: "dotnet tool install -g csharp-ls",
    },
    ServedLanguage {
        name: "Ruby",
        extensions: &[("rb", "ruby")],
        servers: &[server("ruby-lsp", &[]), server("solargraph", &["stdio"])],
        roots: &["Gemfile"],
        install: "gem install ruby-lsp",
    },
    ServedLanguage {
        name: "PHP",
        extensions: &[("php", "php")],
        servers: &[server("intelephense", &["--stdio"]), server("phpactor", &["language-server"])],
        roots: &["composer.json"],
        install: "npm install -g intelephense",
    },
    ServedLanguage {
        name: "Lua",
        extensions: &[("lua", "lua")],
        servers: &[server("lua-language-server", &[])],
        roots: &[".luarc.json", ".luarc.jsonc"],
        install: "brew install lua-language-server",
    },
    ServedLanguage {
        name: "Zig",
        extensions: &[("zig", "zig")],
        servers: &[server("zls", &[])],
        roots: &["build.zig"],
        install: "brew install zls",
    },
    ServedLanguage {
        name: "Elixir",
        extensions: &[("ex", "elixir"), ("exs", "elixir")],
        servers: &[server("elixir-ls", &[])],
        roots: &["mix.exs"],
        install: "brew install elixir-ls",
    },
    ServedLanguage {
        name: "Swift",
        extensions: &[("swift", "swift")],
        servers: &[server("sourcekit-lsp", &[])],
        roots: &["Package.swift"],
        install: "it comes with Swift",
    },
    ServedLanguage {
        name: "Kotlin",
        extensions: &[("kt", "kotlin"), ("kts", "kotlin")],
        servers: &[server("kotlin-lsp", &["--stdio"]), server("kotlin-language-server", &[])],
        roots: &["settings.gradle.kts", "build.gradle.kts"],
        install: "brew install kotlin-language-server",
    },
    ServedLanguage {
        name: "shell scripts",
        extensions: &[("sh", "shellscript"), ("bash", "shellscript")],
        servers: &[server("bash-language-server", &["start"])],
        roots: &[],
        install: "npm install -g bash-language-server",
    },
    ServedLanguage {
        name: "YAML",
        extensions: &[("yaml", "yaml"), ("yml", "yaml")],
        servers: &[server("yaml-language-server", &["--stdio"])],
        roots: &[],
        install: "npm install -g yaml-language-server",
    },
    ServedLanguage {
        name: "CSS",
        extensions: &[("css", "css"), ("scss", "scss"), ("less", "less")],
        servers: &[server("vscode-css-language-server", &["--stdio"])],
        roots: &[],
        install: "npm install -g vscode-langservers-extracted",
    },
];

/// The language and LSP language id of an extension.
pub(crate) fn language_of(extension: &str) -> Option<(&'static ServedLanguage, &'static str)> {
    let extension = extension.to_ascii_lowercase();
    LANGUAGES.iter().find_map(|language| {
        let found = language.extensions.iter().find(|(it, _)| *it == extension)?;
        Some((language, found.1))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_extension_has_one_language() {
        let mut seen = std::collections::BTreeSet::new();
        for language in LANGUAGES {
            assert!(!language.servers.is_empty() && !language.install.is_empty(), "{}", language.name);
            for (extension, _) in language.extensions {
                assert!(seen.insert(extension), "{extension} is there twice");
            }
        }
        assert_eq!(language_of("RS").map(|it| it.1), Some("rust"));
        assert_eq!(language_of("txt").map(|it| it.1), None);
    }
}
