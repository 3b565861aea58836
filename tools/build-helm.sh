#!/usr/bin/env bash
# Build a pinned helm from its Go module, or a program that is made of its packages:
# build-helm.sh MAJOR VERSION TARGET [PACKAGE]
set -euo pipefail
major=$1 version=$2 target=$3 package=${4:-helm.sh/helm/v$1/cmd/helm}
if ! command -v go >/dev/null; then
  echo "error: no supported helm is on PATH, and go, which would build one, is not there either" >&2
  echo "  fix: install helm $version (or any helm 4, or helm 3.18.5 or newer), or go, and try again" >&2
  exit 1
fi
echo "building $(basename "$target") of helm $version (some minutes the first time)"
root=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$(dirname "$root/$target")"
cd "$root/tools/helm$major"
# Into a name of its own first, so that an interrupted build never leaves half a helm.
# What debuggers read is a seventh of the compiler's work, and the linker leaves it out. The options are those of
# tests/kube/binaries.py: Go compiles what several programs share once, where they are the same.
CGO_ENABLED=0 go build -trimpath -gcflags=all=-dwarf=false -mod=readonly \
  -ldflags "-s -w -X helm.sh/helm/v$major/internal/version.version=$version" \
  -o "$root/$target.partial" "$package"
mv "$root/$target.partial" "$root/$target"
