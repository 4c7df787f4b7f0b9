#!/bin/sh
# Installs haft @VERSION@ from its archive, after comparing the sum.
set -eu
url="${URL:-}"
case "$(uname -m)" in
  @MACHINE@) archive="@ARCHIVE@" released=@SHA256@ ;;
  *)
    # An archive of somebody's own is theirs to judge.
    archive=haft.tar.gz released=""
    if [ -z "$url" ]; then
      echo "haft: there is no program for $(uname -m) yet" >&2
      exit 1
    fi ;;
esac
[ -n "$url" ] || url="@RELEASES@/$archive"
sum="${SHA256:-$released}"
to="${PREFIX:-/usr/local}"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
case "$url" in
  http://*|https://*)
    if command -v curl >/dev/null; then
      curl --fail --silent --show-error --location --output "$work/$archive" "$url"
    elif command -v wget >/dev/null; then
      wget -q -O "$work/$archive" "$url"
    else
      echo "haft: this image has neither curl nor wget; install one of them first" >&2
      exit 1
    fi ;;
  *) cp "$url" "$work/$archive" ;;
esac
if ! echo "$sum  $work/$archive" | sha256sum -c >/dev/null; then
  echo "haft: $url is not the archive that was meant: its sum is not $sum" >&2
  exit 1
fi
tar -xzf "$work/$archive" -C "$work" --strip-components=1
mkdir -p "$to/bin" "$to/share/man/man1"
install -m 0755 "$work/haft" "$to/bin/haft"
install -m 0644 "$work"/man/*.1 "$to/share/man/man1/"
"$to/bin/haft" --version
