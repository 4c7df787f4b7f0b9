# A workspace with a repository, links that lead out of it, and directories that
# somebody prepared.
set -e
root=$PWD
export HOME=$root/home GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1
mkdir -p ws home/.ssh out
echo OUTSIDE > out/secret
echo KEY > home/.ssh/id_rsa
new() { git init -q -b main "$1"; }
save() { git -C "$1" -c user.name=a -c user.email=b@c commit -qm x; }
new private; echo PRIVATE > private/p; git -C private add p; save private

cd ws
mkdir src secrets docs 'my dir' tpl
echo TOKEN=abc > .env
echo 'alpha one' > a; echo b > b; printf 'x 1\ny 2\n' > data.txt
echo '{"a":[1,2]}' > d.json; echo 'a: 1' > c.yaml
echo 'fn main(){}' > src/main.rs; echo k > secrets/key; echo '# hi' > README.md; echo '# hi' > docs/x.md
echo ../out/secret > list
echo '{"name":"x","version":"1.0.0"}' > package.json
ln -s ../out/secret outlink; ln -s .env linkenv; ln -s ../home/.ssh linkdir
printf '#!/bin/sh\ntouch P\n' > evil; chmod +x evil
gzip -k b; tar cf t.tar b src
new .; git add -A; save .; git tag v1; echo more >> b
mkdir tpl/.git

# Settings that come from elsewhere.
new elsewhere; (cd elsewhere; mkdir t; cp -r .git/objects .git/refs t/
  printf '[core]\n\trepositoryformatversion = 0\n\tfsmonitor = ./evil\n' > t/config; echo ../t > .git/commondir)
mkdir linked; ln -s ../../private/.git linked/.git
mkdir pointed; echo "gitdir: $root/private/.git" > pointed/.git
new borrowed; (cd borrowed/.git; rm -rf refs objects; ln -s "$root/private/.git/refs" "$root/private/.git/objects" .)
# A repository among the files of another one.
new inner; new inner/sub; touch inner/sub/x; git -C inner/sub add x; save inner/sub
git -C inner -c advice.addEmbeddedRepo=false add sub; save inner; git -C inner/sub config core.fsmonitor ./evil
new merging; git -C merging config merge.x.driver ./evil
new lfs; git -C lfs config lfs.extension.x.clean ./evil
new blamed; git -C blamed config blame.ignoreRevsFile "$root/out/secret"
# Settings that are hidden in a line, files of git that are links, a way that is not what it seems.
for it in 'user] [core] fsmonitor = ./evil' 'filter "x"] clean = ./evil #]' 'include] path = ../evil.inc ;]'; do
  n=$((n + 1)); new "hidden$n"; echo "[$it" >> "hidden$n/.git/config"; done
new rebased; mkdir rebased/.git/rebase-merge; ln -s "$root/out/secret" rebased/.git/rebase-merge/done
new watched; mkdir watched/deep; git -C watched config core.fsmonitor ./evil; ln -s watched/deep bypath
gzip -c "$root/out/secret" > "$root/out/secret.gz"; ln -s "$root/out/secret.gz" packed.gz
mkdir -p plain/src 'plain/q ..'/out; touch plain/a plain/src/b; touch 'plain/q ../out/secret'
mkdir checked; echo external-sources=true > checked/.shellcheckrc; echo '. ./y' > checked/x.sh
mkdir placed; echo 'nodejs path:./evil' > placed/.tool-versions
mkdir included; printf 'include:\n  - https://example.com/x.git\n' > included/compose.yaml
mkdir -p "dashed/--files0-from=$root/out"; touch "dashed/--files0-from=$root/out/secret" dashed/a
mkdir -p crate/sub/src crate/src; printf '[package]\nname="x"\nversion="0.1.0"\n' | tee crate/Cargo.toml > crate/sub/Cargo.toml
touch crate/Cargo.lock crate/src/lib.rs crate/sub/src/lib.rs

# The same as everybody has it.
new module; git -C module -c protocol.file.allow=always submodule --quiet add "$root/private" sub; save module
git -C module worktree add -q ../tree
mkdir composed; printf 'services:\n  a:\n    image: x\n' > composed/compose.yaml
mkdir -p locked/src; cp crate/Cargo.toml locked/; touch locked/Cargo.lock locked/src/lib.rs
