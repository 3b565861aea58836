#!/usr/bin/env bash
# Run make targets one after the other, also after one that fails: tiers.sh TARGET...
# At the end: the time of each, which failed, and exit code 1 where any did.
set -uo pipefail
log=$(mktemp)
export ALLRANKS_TIER_LOG=$log
started=$SECONDS
failed=()
summary() {
  echo
  echo "time per tier:"
  cat "$log"
  rm -f "$log"
  echo "all: $((SECONDS - started)) s"
  [ "${#failed[@]}" -eq 0 ] || echo "failed: ${failed[*]}"
}
trap summary EXIT
# Ctrl-C ends all of it, and not only the tier that runs.
trap 'exit 130' INT
trap 'exit 143' TERM

for target in "$@"; do
  name=${target#test-}
  begun=$SECONDS
  verdict=passed
  "${MAKE:-make}" "$target" || { verdict=failed; failed+=("$target"); }
  # A target that is no tier, or whose tier was never reached, has left no line.
  grep -q "^tier $name: " "$log" || echo "tier $name: $verdict in $((SECONDS - begun)) s" >>"$log"
done
[ "${#failed[@]}" -eq 0 ]
