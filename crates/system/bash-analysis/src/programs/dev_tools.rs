//! Read-only queries of developer tools: package managers, containers, services.

use super::{
    ProgramAnalysis, TouchedFile, files,
    getopt::{Parsed, UnknownWordRule, parse},
};
use crate::{
    analysis::{ConfigDependence, EffectAccess, EffectScope},
    expansion::Field,
};

/// Programs and the options that print their version without reading the working directory.
const VERSIONS: &[(&[&str], &[&str])] = &[
    (&["python", "python3", "python2"], &["--version", "-V"]),
    (&["node", "ruby", "php", "deno", "bun", "tsc"], &["--version", "-v"]),
    (&["pip", "pip3", "uv", "rustc", "rustup", "ruff", "black", "mypy"], &["--version", "-V"]),
    (&["gcc", "g++", "cc", "clang", "clang++", "make", "cmake", "ninja", "ld", "gdb"], &["--version"]),
    (&["java", "javac"], &["-version", "--version"]),
    (&["perl"], &["-v", "--version"]),
    (
        &["docker", "podman", "helm", "terraform", "psql", "mysql", "sqlite3", "redis-cli", "gh"],
        &["--version"],
    ),
    (
        &["bash", "sh", "zsh", "fish", "curl", "wget", "jq", "rg", "fd", "tmux", "vim", "nvim", "rsync"],
        &["--version"],
    ),
    (&["sed", "awk", "gawk", "grep", "find", "tar", "gzip", "less"], &["--version"]),
    (&["openssl"], &["version"]),
    (&["ssh"], &["-V"]),
];

/// A read-only query: program, subcommand words, options, and whether it depends on configuration in the
/// working directory.
struct ProgramQuery {
    program: &'static [&'static str],
    words: &'static [&'static str],
    options: &'static str,
    operands: Operands,
    local: bool,
}

#[derive(Clone, Copy, Eq, PartialEq)]
enum Operands {
    Nothing,
    Text,
    Files,
}

use Operands::{Files, Nothing, Text};

const fn query(
    program: &'static [&'static str],
    words: &'static [&'static str],
    operands: Operands,
    options: &'static str,
) -> ProgramQuery {
    ProgramQuery { program, words, options, operands, local: false }
}

/// A query that depends on configuration in the working directory.
const fn local(
    program: &'static [&'static str],
    words: &'static [&'static str],
    operands: Operands,
    options: &'static str,
) -> ProgramQuery {
    ProgramQuery { program, words, options, operands, local: true }
}

const CARGO: &[&str] = &["cargo"];
const NPM: &[&str] = &["npm"];
const PIP: &[&str] = &["pip", "pip3"];
const DOCKER: &[&str] = &["docker", "podman"];
const KUBECTL: &[&str] = &["kubectl"];
const GH: &[&str] = &["gh"];
const SYSTEMCTL: &[&str] = &["systemctl"];

const CARGO_SELECT: &str = "-qv -p: -F: --quiet --verbose --color: --offline --locked --frozen --manifest-path:R \
    --features: --all-features --no-default-features --target: --package: --workspace --exclude: --format-version: \
    --no-deps --filter-platform:";

const KUBECTL_GET: &str = "-A -w -n: -o: -l: --all-namespaces --namespace: --output: --selector: --field-selector: \
    --show-labels --no-headers --sort-by: --watch --limit: --context: --ignore-not-found --show-kind";

const GH_LIST: &str = "-L: -s: -l: -a: -A: -S: -B: -H: -b: -q: -t: --limit: --state: --label: --assignee: --author: \
    --search: --base: --head: --json: --jq: --template: --branch: --workflow: --status: --user: --event: --commit: \
    --draft --comments --log --log-failed --job: --attempt: --verbose --exit-status --required --name-only --patch \
    --color:";

const QUERIES: &[ProgramQuery] = &[
    local(CARGO, &["metadata"], Nothing, CARGO_SELECT),
    local(CARGO, &["locate-project"], Nothing, "-q --workspace --message-format: --manifest-path:R"),
    local(CARGO, &["pkgid"], Text, "-qv -p: --manifest-path:R"),
    local(CARGO, &["read-manifest"], Nothing, "-q --manifest-path:R"),
    local(CARGO, &["verify-project"], Nothing, "-q --manifest-path:R"),
    local(
        CARGO,
        &["tree"],
        Nothing,
        "-qvd -p: -i: -e: -F: --quiet --verbose --offline --locked --frozen --package: --workspace --exclude: --depth: --prefix: \
         --no-dedupe --duplicates --charset: --format: --edges: --invert: --prune: --features: --all-features \
         --no-default-features --target: --color: --manifest-path:R",
    ),
    local(CARGO, &["--version"], Nothing, ""),
    local(CARGO, &["-V"], Nothing, ""),
    local(CARGO, &["--list"], Nothing, ""),
    local(
        NPM,
        &["ls"],
        Text,
        "-alg --all --long --json --parseable --global --depth: --prod --dev --omit: --include:",
    ),
    local(
        NPM,
        &["list"],
        Text,
        "-alg --all --long --json --parseable --global --depth: --prod --dev --omit: --include:",
    ),
    local(NPM, &["explain"], Text, "--json"),
    local(NPM, &["help"], Text, ""),
    local(NPM, &["view"], Text, "--json"),
    local(NPM, &["info"], Text, "--json"),
    local(NPM, &["show"], Text, "--json"),
    local(NPM, &["outdated"], Text, "-alg --all --long --json --parseable --global --depth:"),
    local(NPM, &["why"], Text, "--json"),
    local(NPM, &["query"], Text, ""),
    local(NPM, &["root"], Nothing, "-g --global"),
    local(NPM, &["prefix"], Nothing, "-g --global"),
    local(NPM, &["pkg", "get"], Text, "--json"),
    local(NPM, &["config", "get"], Text, ""),
    local(NPM, &["config", "list"], Nothing, "-l --json"),
    local(NPM, &["--version"], Nothing, ""),
    local(NPM, &["-v"], Nothing, ""),
    query(
        PIP,
        &["list"],
        Nothing,
        "-eliv --editable --local --user --format: --not-required --exclude: --path: --verbose --include-editable --exclude-editable --disable-pip-version-check",
    ),
    query(PIP, &["show"], Text, "-fv --files --verbose --disable-pip-version-check"),
    query(PIP, &["freeze"], Nothing, "-l --local --user --all --exclude: --exclude-editable"),
    query(PIP, &["check"], Nothing, ""),
    query(PIP, &["config", "list"], Nothing, "--user --global --site"),
    query(PIP, &["config", "get"], Text, ""),
    query(PIP, &["cache", "dir"], Nothing, ""),
    query(PIP, &["cache", "info"], Nothing, ""),
    local(&["go"], &["version"], Nothing, ""),
    local(&["go"], &["env"], Text, "-json -changed"),
    local(&["rustup"], &["show"], Text, "-v --verbose"),
    local(&["rustup"], &["toolchain", "list"], Nothing, "-vq --verbose --quiet"),
    local(&["rustup"], &["target", "list"], Nothing, "-q --installed --quiet --toolchain:"),
    local(&["rustup"], &["component", "list"], Nothing, "-q --installed --quiet --toolchain:"),
    query(
        DOCKER,
        &["ps"],
        Nothing,
        "-aqsl -n: -f: --all --quiet --size --latest --last: --filter: --format: --no-trunc",
    ),
    query(DOCKER, &["images"], Text, "-aq -f: --all --quiet --filter: --format: --no-trunc --digests"),
    query(DOCKER, &["image", "ls"], Text, "-aq -f: --all --quiet --filter: --format: --no-trunc --digests"),
    query(DOCKER, &["image", "inspect"], Text, "-f: --format:"),
    query(
        DOCKER,
        &["container", "ls"],
        Nothing,
        "-aqsl -n: -f: --all --quiet --size --latest --last: --filter: --format: --no-trunc",
    ),
    query(DOCKER, &["volume", "ls"], Nothing, "-q -f: --quiet --filter: --format:"),
    query(DOCKER, &["network", "ls"], Nothing, "-q -f: --quiet --filter: --format: --no-trunc"),
    query(DOCKER, &["inspect"], Text, "-s -f: --format: --size --type:"),
    query(DOCKER, &["logs"], Text, "-ft -n: --follow --timestamps --tail: --since: --until: --details"),
    query(DOCKER, &["top"], Text, ""),
    query(DOCKER, &["port"], Text, ""),
    query(DOCKER, &["history"], Text, "-q -H --quiet --human --no-trunc --format:"),
    query(DOCKER, &["stats"], Text, "-a --all --no-stream --no-trunc --format:"),
    query(DOCKER, &["system", "df"], Nothing, "-v --verbose --format:"),
    query(DOCKER, &["version"], Nothing, "-f: --format:"),
    query(DOCKER, &["info"], Nothing, "-f: --format:"),
    local(DOCKER, &["compose", "ps"], Text, "-aq --all --quiet --format: --filter: --status: --services"),
    local(
        DOCKER,
        &["compose", "logs"],
        Text,
        "-ft -n: --follow --timestamps --tail: --since: --until: --no-color",
    ),
    local(DOCKER, &["compose", "ls"], Nothing, "-aq --all --quiet --format: --filter:"),
    query(KUBECTL, &["get"], Text, KUBECTL_GET),
    query(
        KUBECTL,
        &["describe"],
        Text,
        "-A -n: -l: --all-namespaces --namespace: --selector: --context: --show-events",
    ),
    query(
        KUBECTL,
        &["logs"],
        Text,
        "-fp -n: -c: -l: --follow --previous --namespace: --container: --selector: --tail: --since: --since-time: --timestamps --all-containers --prefix --context: --max-log-requests:",
    ),
    query(
        KUBECTL,
        &["top"],
        Text,
        "-A -n: -l: --all-namespaces --namespace: --selector: --containers --no-headers --sort-by: --context:",
    ),
    query(KUBECTL, &["explain"], Text, "--recursive --api-version:"),
    query(KUBECTL, &["version"], Nothing, "-o: --client --output: --short"),
    query(
        KUBECTL,
        &["api-resources"],
        Nothing,
        "-o: --namespaced: --api-group: --verbs: --no-headers --output:",
    ),
    query(KUBECTL, &["api-versions"], Nothing, ""),
    query(KUBECTL, &["cluster-info"], Nothing, ""),
    query(KUBECTL, &["config", "current-context"], Nothing, ""),
    query(KUBECTL, &["config", "get-contexts"], Text, "-o: --no-headers --output:"),
    query(KUBECTL, &["config", "view"], Nothing, "--minify -o: --output:"),
    query(KUBECTL, &["rollout", "status"], Text, "-n: -w --namespace: --watch --timeout:"),
    query(KUBECTL, &["rollout", "history"], Text, "-n: --namespace: --revision:"),
    local(GH, &["pr", "list"], Nothing, GH_LIST),
    local(GH, &["pr", "view"], Text, "-c -q: -t: --comments --json: --jq: --template:"),
    local(GH, &["pr", "diff"], Text, "--color: --name-only --patch"),
    local(GH, &["pr", "checks"], Text, "-q: -t: --required --json: --jq: --template:"),
    local(GH, &["pr", "status"], Nothing, "-c -q: -t: --conflict-status --json: --jq: --template:"),
    local(GH, &["issue", "list"], Nothing, GH_LIST),
    local(GH, &["issue", "view"], Text, "-c -q: -t: --comments --json: --jq: --template:"),
    local(GH, &["issue", "status"], Nothing, "-q: -t: --json: --jq: --template:"),
    local(GH, &["run", "list"], Nothing, GH_LIST),
    local(
        GH,
        &["run", "view"],
        Text,
        "-v -j: -a: -q: -t: --verbose --log --log-failed --job: --attempt: --exit-status --json: --jq: --template:",
    ),
    local(GH, &["release", "list"], Nothing, GH_LIST),
    local(GH, &["release", "view"], Text, "-q: -t: --json: --jq: --template:"),
    local(GH, &["workflow", "list"], Nothing, "-a -L: --all --limit: --json: --jq:"),
    local(GH, &["auth", "status"], Nothing, "-a --active"),
    query(
        SYSTEMCTL,
        &["status"],
        Text,
        "-al -n: -o: --all --full --lines: --output: --no-pager --user --system",
    ),
    query(SYSTEMCTL, &["is-active"], Text, "-q --quiet --user"),
    query(SYSTEMCTL, &["is-enabled"], Text, "-q --quiet --user"),
    query(SYSTEMCTL, &["is-failed"], Text, "-q --quiet --user"),
    query(
        SYSTEMCTL,
        &["list-units"],
        Text,
        "-al -t: --all --full --type: --state: --failed --no-pager --no-legend --user --plain",
    ),
    query(
        SYSTEMCTL,
        &["list-unit-files"],
        Text,
        "-al -t: --all --full --type: --state: --no-pager --no-legend --user",
    ),
    query(SYSTEMCTL, &["list-timers"], Text, "-al --all --no-pager --no-legend --user"),
    query(SYSTEMCTL, &["show"], Text, "-a -p: --all --property: --value --no-pager --user"),
    query(SYSTEMCTL, &["cat"], Text, "--no-pager --user"),
    query(
        &["journalctl"],
        &[],
        Nothing,
        "-aefkqrx -b? -g: -n: -o: -p: -S: -t: -u: -U: --all --boot? --catalog --follow --grep: --identifier: --lines: \
         --no-pager --no-full --no-hostname --output: --priority: --quiet --reverse --since: --unit: --until: --user \
         --user-unit: --utc --dmesg --list-boots --disk-usage",
    ),
    query(
        &["dpkg", "dpkg-query"],
        &[],
        Text,
        "-l -L -s -S -p -W --list --listfiles --status --search --show --print-avail --print-architecture --get-selections",
    ),
    query(&["apt"], &["list"], Text, "-a --installed --upgradable --all-versions"),
    query(&["apt", "apt-cache"], &["show"], Text, "-a --all-versions"),
    query(&["apt", "apt-cache"], &["search"], Text, "--names-only -n"),
    query(&["apt", "apt-cache"], &["policy"], Text, ""),
    query(&["apt", "apt-cache"], &["depends"], Text, ""),
    query(&["apt", "apt-cache"], &["rdepends"], Text, ""),
    query(&["apt-cache"], &["madison"], Text, ""),
    query(&["rpm"], &[], Text, "-qailfcdR"),
    query(&["tokei"], &[], Files, ""),
];

pub(super) fn classify(name: &str, args: &[Field]) -> Option<ProgramAnalysis> {
    let word = |idx: usize| args.get(idx).and_then(Field::literal);
    let asks_version = VERSIONS.iter().any(|(programs, forms)| {
        programs.contains(&name) && args.len() == 1 && word(0).is_some_and(|form| forms.contains(&form))
    });
    if asks_version {
        let obeyed = if matches!(name, "rustc" | "rustup") {
            ConfigDependence::Toolchain
        } else {
            ConfigDependence::Versions
        };
        return Some(ProgramAnalysis::reads(vec![TouchedFile::here(
            EffectAccess::Obey(obeyed),
            EffectScope::Itself,
        )]));
    }
    if name == "cargo" && asks_cargo_for_help(args) {
        return Some(ProgramAnalysis::reads(vec![TouchedFile::here(
            EffectAccess::Obey(ConfigDependence::Cargo),
            EffectScope::Itself,
        )]));
    }
    let query = QUERIES.iter().find(|query| {
        query.program.contains(&name)
            && query.words.iter().enumerate().all(|(idx, want)| word(idx) == Some(want))
    })?;
    let parsed = parse(query.options, &args[query.words.len()..], UnknownWordRule::Refused)?;
    let operands = &parsed.operands;
    let known = operands.iter().all(|operand| matches!(operand, Field::Literal(_) | Field::Number));
    if !known || (query.operands == Nothing && !operands.is_empty()) || reaches_out(name, query, &parsed) {
        return None;
    }
    let mut touches: Vec<TouchedFile> =
        parsed.reads.iter().map(|file| TouchedFile::new(EffectAccess::Read, file)).collect();
    if query.operands == Files {
        touches.extend(files(operands, EffectAccess::Read, EffectScope::Tree));
    }
    if query.local {
        let obeyed = EffectAccess::Obey(obeyed(name, query, &parsed));
        touches.push(TouchedFile::here(obeyed, EffectScope::Itself));
        // A project in another directory has its own `Cargo.lock`.
        for manifest in parsed.values(&["manifest-path"]) {
            let parent = manifest.literal()?.rsplit_once('/').map_or(".", |(parent, _)| parent);
            touches.push(TouchedFile::new(obeyed, &Field::Literal(parent.to_owned())));
        }
    }
    Some(ProgramAnalysis { talks: talks(name, query), ..ProgramAnalysis::reads(touches) })
}

/// The configuration that a query depends on.
fn obeyed(name: &str, query: &ProgramQuery, parsed: &Parsed) -> ConfigDependence {
    match name {
        "cargo" if matches!(query.words, ["metadata" | "pkgid" | "tree"]) && !parsed.has(&["no-deps"]) => {
            ConfigDependence::CargoWithLock
        }
        "cargo" => ConfigDependence::Cargo,
        "rustup" => ConfigDependence::Toolchain,
        "npm" => ConfigDependence::Npm,
        "go" => ConfigDependence::Go,
        "docker" | "podman" => ConfigDependence::Compose,
        _ => ConfigDependence::Git,
    }
}

/// Whether a query contacts a server, local or remote.
fn talks(name: &str, query: &ProgramQuery) -> bool {
    match name {
        "docker" | "gh" | "kubectl" | "podman" | "systemctl" => true,
        "npm" => matches!(query.words, ["info" | "outdated" | "show" | "view"]),
        _ => false,
    }
}

/// Subcommands built into cargo. They cannot be replaced by a project's or user's `cargo-NAME` program.
const CARGO_COMMANDS: &[&str] = &[
    "add",
    "bench",
    "build",
    "check",
    "clean",
    "config",
    "doc",
    "fetch",
    "fix",
    "generate-lockfile",
    "info",
    "init",
    "install",
    "locate-project",
    "login",
    "logout",
    "metadata",
    "new",
    "owner",
    "package",
    "pkgid",
    "publish",
    "read-manifest",
    "remove",
    "report",
    "run",
    "rustc",
    "rustdoc",
    "search",
    "test",
    "tree",
    "uninstall",
    "update",
    "vendor",
    "verify-project",
    "version",
    "yank",
];

/// `cargo help build`, `cargo build --help`
fn asks_cargo_for_help(args: &[Field]) -> bool {
    let words: Option<Vec<&str>> = args.iter().map(Field::literal).collect();
    match words.as_deref() {
        Some(["help" | "--help" | "-h"]) => true,
        Some(["help", command] | [command, "--help" | "-h"]) => CARGO_COMMANDS.contains(command),
        _ => false,
    }
}

/// Options and operands that make a query do more than read.
fn reaches_out(name: &str, query: &ProgramQuery, parsed: &Parsed) -> bool {
    let any =
        |test: &dyn Fn(&str) -> bool| parsed.operands.iter().any(|field| field.literal().is_some_and(test));
    match name {
        // Secrets stay secret even if the user may read them. A template can be read from a file.
        "kubectl" => {
            let from_file = |field: &Field| field.literal().is_none_or(|text| text.contains("file"));
            any(&|text| text.to_ascii_lowercase().contains("secret"))
                || parsed.values(&["o", "output"]).any(from_file)
        }
        // A URL names another host. Only a package name with version is accepted; anything else is a
        // location to fetch from.
        "npm" if matches!(query.words, ["view" | "info" | "show" | "outdated" | "help"]) => {
            let named = |text: &str| {
                let (scope, rest) =
                    text.strip_prefix('@').and_then(|it| it.split_once('/')).unwrap_or(("", text));
                !scope.contains(['/', ':']) && !rest.contains(['/', ':', '#'])
            };
            any(&|text| !named(text))
        }
        // Some settings are keys.
        "npm" if query.words == ["config", "get"] => {
            any(&|text| text.contains(['/', ':', '_']) || text.contains("auth") || text.contains("pass"))
        }
        "gh" => any(&|text| text.contains("://") || text.matches('/').count() > 1),
        // A toolchain can be a directory.
        "rustup" => {
            query.words == ["show"] && any(&|text| !matches!(text, "active-toolchain" | "home" | "profile"))
                || parsed
                    .values(&["toolchain"])
                    .any(|value| value.literal().is_none_or(|text| text.contains('/')))
        }
        // Without `-q` the same letters install and erase.
        "rpm" => !parsed.has(&["q"]),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn option_lists_of_queries_are_well_formed() {
        for query in QUERIES {
            for token in query.options.split_whitespace() {
                let valued = token.ends_with([':', '?']) && !token.starts_with("--");
                assert!(!valued || token.len() == 3, "{:?} {token}", query.words);
                assert!(token.starts_with('-'), "{token}");
            }
        }
    }
}
