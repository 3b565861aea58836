#!/usr/bin/env bash
# Build a pinned helm from its Go module: build-helm.sh MAJOR VERSION TARGET
set -euo pipefail
major=$1 version=$2 target=$3
if ! command -v go >/dev/null; then
  echo "error: no supported helm is on PATH, and go, which would build one, is not there either" >&2
  echo "  fix: install helm $version (or any helm 4, or helm 3.18.5 or newer), or go, and try again" >&2
  exit 1
fi
echo "building helm $version (some minutes the first time)"
root=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$(dirname "$root/$target")"
cd "$root/tools/helm$major"
# Into a name of its own first, so that an interrupted build never leaves half a helm.
CGO_ENABLED=0 go build -trimpath -mod=readonly \
  -ldflags "-s -w -X helm.sh/helm/v$major/internal/version.version=$version" \
  -o "$root/$target.partial" "helm.sh/helm/v$major/cmd/helm"
mv "$root/$target.partial" "$root/$target"
