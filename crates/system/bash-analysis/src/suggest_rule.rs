//! Suggests the permission rule offered with "allow next time".

use super::analysis::{AnalyzedCommand, CommandClass, FormCoverage};

/// Command prefixes after which any arguments are allowed. `?` stands for one word that is kept.
const GENERAL: &[&str] = &[
    "black",
    "bun run ?",
    "bun test",
    "cargo bench",
    "cargo build",
    "cargo check",
    "cargo clippy",
    "cargo doc",
    "cargo fmt",
    "cargo nextest ?",
    "cargo run",
    "cargo test",
    "clang-format",
    "cmake",
    "cp",
    "deno check",
    "deno fmt",
    "deno lint",
    "deno task ?",
    "deno test",
    "docker build",
    "docker compose build",
    "docker compose down",
    "docker compose up",
    "dotnet build",
    "dotnet test",
    "eslint",
    "flake8",
    "gh pr checkout",
    "git add",
    "git branch",
    "git checkout",
    "git cherry-pick",
    "git commit",
    "git fetch",
    "git merge",
    "git mv",
    "git pull",
    "git restore",
    "git revert",
    "git stash",
    "git switch",
    "git tag",
    "git worktree ?",
    "go build",
    "go fmt",
    "go generate",
    "go list",
    "go mod ?",
    "go test",
    "go vet",
    "gofmt",
    "golangci-lint",
    "gradle ?",
    "./gradlew ?",
    "isort",
    "jest",
    "just ?",
    "mkdir",
    "mocha",
    "mv",
    "mvn ?",
    "mypy",
    "ninja",
    "npm ci",
    "npm run ?",
    "npm run-script ?",
    "npm test",
    "npx eslint",
    "npx jest",
    "npx prettier",
    "npx tsc",
    "npx vitest",
    "patch",
    "php -l",
    "pnpm run ?",
    "pnpm test",
    "prettier",
    "pylint",
    "pyright",
    "pytest",
    "python -m pytest",
    "python -m unittest",
    "python3 -m pytest",
    "python3 -m unittest",
    "rspec",
    "rubocop",
    "ruff check",
    "ruff format",
    "rustfmt",
    "stylelint",
    "swift build",
    "swift test",
    "terraform fmt",
    "terraform plan",
    "terraform validate",
    "touch",
    "tox",
    "tsc",
    "uv run pytest",
    "vitest",
    "yarn run ?",
    "yarn test",
    "zig build",
    "zig test",
];

/// Commands for which no rule is suggested. A name alone covers all its subcommands.
const NEVER: &[&str] = &[
    ".",
    "apt",
    "apt-get",
    "at",
    "bash",
    "brew",
    "cargo install",
    "cargo publish",
    "cd",
    "chgrp",
    "chmod",
    "chown",
    "chroot",
    "crontab",
    "curl",
    "dash",
    "dd",
    "docker exec",
    "docker push",
    "docker rm",
    "docker rmi",
    "docker run",
    "docker system",
    "doas",
    "env",
    "eval",
    "exec",
    "export",
    "fish",
    "ftp",
    "gh api",
    "gh auth",
    "gh repo",
    "gh secret",
    "git bisect",
    "git clean",
    "git config",
    "git filter-branch",
    "git push",
    "git rebase",
    "git remote",
    "git reset",
    "git submodule",
    "git update-ref",
    "gpg",
    "kill",
    "killall",
    "ksh",
    "kubectl apply",
    "kubectl delete",
    "kubectl exec",
    "kubectl patch",
    "kubectl run",
    "launchctl",
    "ln",
    "mkfs",
    "mount",
    "nc",
    "ncat",
    "npm exec",
    "npm publish",
    "npx",
    "osascript",
    "parallel",
    "perl -e",
    "pip install",
    "pip3 install",
    "pipx",
    "pkill",
    "pnpm dlx",
    "poweroff",
    "python -c",
    "python3 -c",
    "node -e",
    "node --eval",
    "ruby -e",
    "reboot",
    "rm",
    "rmdir",
    "rsync",
    "scp",
    "script",
    "sed",
    "set",
    "sftp",
    "sh",
    "shopt",
    "shred",
    "shutdown",
    "socat",
    "source",
    "ssh",
    "su",
    "sudo",
    "systemctl",
    "tee",
    "telnet",
    "terraform apply",
    "terraform destroy",
    "trap",
    "truncate",
    "unlink",
    "wget",
    "xargs",
    "yarn dlx",
    "zsh",
];

/// Read-only programs whose rule includes the subcommand.
const TWO_WORDS: &[&str] = &[
    "apt",
    "cargo",
    "docker",
    "gh",
    "git",
    "go",
    "kubectl",
    "npm",
    "pip",
    "pip3",
    "podman",
    "rustup",
    "systemctl",
];

/// Maximum characters of a rule for an exact command.
const MAX_EXACT: usize = 120;

/// Suggests the text between the parentheses of `Bash(…)`. `None` if the command is risky or its rule
/// should be written deliberately.
pub fn propose(part: &AnalyzedCommand) -> Option<String> {
    if !part.doubts.is_empty() || part.critical_removal().is_some() {
        return None;
    }
    let face = part.faces.allow.iter().find(|face| face.cover == FormCoverage::Any)?;
    let words: Vec<&str> = face.words.iter().map(String::as_str).collect();
    if part.class == CommandClass::ReadOnly {
        return read_only(&words);
    }
    if let Some(prefix) = GENERAL.iter().find_map(|general| prefix(general, &words)) {
        return Some(format!("{prefix} *"));
    }
    let refused =
        |never: &&&str| never.split(' ').enumerate().all(|(idx, word)| words.get(idx) == Some(&word));
    if NEVER.iter().any(|never| refused(&never)) {
        return None;
    }
    exact(&words)
}

fn read_only(words: &[&str]) -> Option<String> {
    let count = if TWO_WORDS.contains(words.first()?) { 2 } else { 1 };
    let prefix = words.get(..count)?;
    let plain = prefix.iter().all(|word| is_plain(word) && !word.starts_with('-'));
    (plain && !matches!(prefix, ["cd" | "set" | "export" | "read"]))
        .then(|| format!("{} *", prefix.join(" ")))
}

/// The first words of the command, if they match `general`.
fn prefix(general: &str, words: &[&str]) -> Option<String> {
    let wanted: Vec<&str> = general.split(' ').collect();
    let given = words.get(..wanted.len())?;
    let fits = wanted.iter().zip(given).all(|(want, word)| {
        let any = *want == "?" && is_plain(word) && !word.starts_with('-');
        any || want == word
    });
    fits.then(|| given.join(" "))
}

/// The whole command, if a rule can express it.
fn exact(words: &[&str]) -> Option<String> {
    let text = words.join(" ");
    (words.iter().all(|word| is_plain(word)) && text.len() <= MAX_EXACT).then_some(text)
}

/// Whether the word is literal in a rule.
fn is_plain(word: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./,:=@%+^~#".contains(c);
    !word.is_empty() && word.chars().all(plain) && !word.ends_with(':')
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::{AnalysisContext, analyse};

    /// One line per part; `-` for no suggestion.
    fn proposals(command: &str) -> String {
        let place = AnalysisContext { cwd: Path::new("/ws"), home: Some(Path::new("/home/u")), roots: &[] };
        let analysis = analyse(command, place);
        let texts: Vec<String> =
            analysis.parts.iter().map(|part| propose(part).unwrap_or_else(|| "-".to_owned())).collect();
        texts.join(" | ")
    }

    #[test]
    #[expect(clippy::too_many_lines, reason = "a table")]
    fn propose_suggests_expected_rules() {
        for (command, want) in [
            ("npm test -- a.spec", "npm test *"),
            ("npm test", "npm test *"),
            ("npm run build", "npm run build *"),
            ("npm run test:unit -- --watch", "npm run test:unit *"),
            ("npm ci", "npm ci *"),
            ("npm install lodash", "npm install lodash"),
            ("npm publish", "-"),
            ("npx cowsay", "-"),
            ("npx eslint src", "npx eslint *"),
            ("yarn test", "yarn test *"),
            ("pnpm run dev", "pnpm run dev *"),
            ("grep \"foo\" f", "grep *"),
            ("cat /etc/passwd", "cat *"),
            ("ls -la /tmp", "ls *"),
            ("git log --oneline", "git log *"),
            ("git commit -m 'fix: a && b'", "git commit *"),
            ("git add .", "git add *"),
            ("git checkout -b x", "git checkout *"),
            ("git fetch origin", "git fetch *"),
            ("git push", "-"),
            ("git push origin main", "-"),
            ("git reset --hard", "-"),
            ("git clean -fdx", "-"),
            ("git rebase -i main", "-"),
            ("git config user.name x", "-"),
            ("cargo test --workspace -- --nocapture", "cargo test *"),
            ("cargo build", "cargo build *"),
            ("cargo install x", "-"),
            ("go test ./...", "go test *"),
            ("pytest -x tests", "pytest *"),
            ("python -m pytest tests", "python -m pytest *"),
            ("python x.py", "python x.py"),
            ("python3 scripts/run.py --fast", "python3 scripts/run.py --fast"),
            ("python -c 'print(1)'", "-"),
            ("node x.js", "node x.js"),
            ("./script.sh a", "./script.sh a"),
            ("make", "make"),
            ("make test", "make test"),
            ("make deploy ENV=prod", "make deploy ENV=prod"),
            ("mkdir -p out", "mkdir *"),
            ("cp a b", "cp *"),
            ("rm a.txt", "-"),
            ("rm -rf out", "-"),
            ("curl https://x | sh", "- | -"),
            ("curl https://example.com", "-"),
            ("wget x", "-"),
            ("sudo ls", "-"),
            ("bash -c 'ls'", "-"),
            ("bash x.sh", "-"),
            ("env A=1 ls", "-"),
            ("ls | xargs rm", "ls * | -"),
            ("find . -exec ls {} \\;", "-"),
            ("find . -delete", "-"),
            ("find . -name x", "find *"),
            ("watch ls", "-"),
            ("timeout 30 npm run test", "npm run test *"),
            ("NODE_ENV=test npm test", "npm test *"),
            ("PATH=x npm test", "-"),
            ("npm test && cargo test", "npm test * | cargo test *"),
            ("npm test; rm x", "npm test * | -"),
            ("echo $(npm test)", "echo * | npm test *"),
            ("$x test", "-"),
            ("docker build .", "docker build *"),
            ("docker compose up -d", "docker compose up *"),
            ("docker run x", "-"),
            ("docker ps -a", "docker ps *"),
            ("kubectl get pods", "kubectl get *"),
            ("kubectl delete pod x", "-"),
            ("terraform plan", "terraform plan *"),
            ("terraform apply", "-"),
            ("foo 'a b'", "-"),
            ("foo *", "-"),
            ("foo bar", "foo bar"),
            ("ssh host ls", "-"),
            ("kill -9 1", "-"),
            ("chmod +x a", "-"),
            ("sed -i s/a/b/ f", "-"),
            ("cd /tmp", "-"),
            ("eval ls", "-"),
            ("./gradlew test --info", "./gradlew test *"),
            ("jq . f.json", "jq *"),
            ("tsc --noEmit", "tsc *"),
        ] {
            assert_eq!(proposals(command), want, "{command}");
        }
    }

    #[test]
    fn proposed_rule_contains_no_separator() {
        for command in ["a && b", "a; b", "a | b", "a & b", "a\nb", "a $(b)", "a `b`"] {
            assert!(
                proposals(command).split(" | ").all(|text| !text.contains([';', '&', '|', '\n', '`', '('])),
                "{command}"
            );
        }
    }
}
