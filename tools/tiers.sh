#!/usr/bin/env bash
# Run make targets one after the other, also after one that fails: tiers.sh TARGET...
# "A | B C" in one word is a lane for A beside one for B and then C, for tiers that mostly wait;
# what the second lane prints comes after what the first prints.
# At the end: the time of each, which failed, and exit code 1 where any did.
set -uo pipefail
log=$(mktemp)
export ALLRANKS_TIER_LOG=$log
failures=$(mktemp)
started=$SECONDS
summary() {
  echo
  echo "time per tier:"
  cat "$log"
  echo "all: $((SECONDS - started)) s"
  [ ! -s "$failures" ] || echo "failed: $(paste -sd ' ' "$failures")"
  rm -f "$log" "$failures"
}
trap summary EXIT
# Ctrl-C ends all of it, and not only the tier that runs; the second lane is a group of its own.
beside=''
trap 'leave 130' INT
trap 'leave 143' TERM
leave() {
  [ -z "$beside" ] || kill -- "-$beside" 2>/dev/null
  exit "$1"
}

lane() {
  local target name begun verdict
  for target in "$@"; do
    name=${target#test-}
    begun=$SECONDS
    verdict=passed
    "${MAKE:-make}" "$target" || { verdict=failed; echo "$target" >>"$failures"; }
    # A target that is no tier, or whose tier was never reached, has left no line.
    grep -q "^tier $name: " "$log" || echo "tier $name: $verdict in $((SECONDS - begun)) s" >>"$log"
  done
}

for word in "$@"; do
  read -ra first <<<"${word%%|*}"
  if [ "$word" = "${word#*|}" ]; then
    lane "${first[@]}"
    continue
  fi
  read -ra second <<<"${word#*|}"
  printed=$(mktemp)
  set -m
  (
    trap - EXIT INT TERM
    lane "${second[@]}"
  ) >"$printed" 2>&1 &
  beside=$!
  set +m
  lane "${first[@]}"
  wait "$beside"
  beside=''
  cat "$printed"
  rm -f "$printed"
done
[ ! -s "$failures" ]
