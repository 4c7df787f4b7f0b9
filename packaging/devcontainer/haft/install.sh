#!/bin/sh
# Installs haft @VERSION@ from its archive, after comparing the sum.
set -eu
archive="@ARCHIVE@"
url="${URL:-}"
[ -n "$url" ] || url="@RELEASES@/$archive"
sum="${SHA256:-@SHA256@}"
to="${PREFIX:-/usr/local}"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
case "$url" in
  http://*|https://*) curl --fail --silent --show-error --location --output "$work/$archive" "$url" ;;
  *) cp "$url" "$work/$archive" ;;
esac
echo "$sum  $work/$archive" | sha256sum --check --quiet
tar -xzf "$work/$archive" -C "$work" --strip-components=1
mkdir -p "$to/bin" "$to/share/man/man1"
install -m 0755 "$work/haft" "$to/bin/haft"
install -m 0644 "$work"/man/*.1 "$to/share/man/man1/"
"$to/bin/haft" --version
