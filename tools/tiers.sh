#!/usr/bin/env bash
# Run make targets one after the other, also after one that fails: tiers.sh TARGET...
# Targets that wait more than they compute can share the cores: A+B runs at once, and the output of B
# comes whole after that of A. At the end: the time of each, which failed, and exit code 1 where any did.
# With TIERS_BEGIN_BEFORE no target begins after so many seconds, and the end names those that did not: of a
# machine that ends what takes too long nobody would see anything else.
set -uo pipefail
export ALLRANKS_TIER_LOG
ALLRANKS_TIER_LOG=$(mktemp)
outputs=$(mktemp -d) # of what runs beside another target
start=$SECONDS
failed_targets=()
late_targets=()
pids=()
end() {
  # What still runs after Ctrl-C; make ends what it has started.
  [ "${#pids[@]}" -eq 0 ] || kill "${pids[@]}" 2>/dev/null
  wait
  cat "$outputs"/* 2>/dev/null
  echo
  echo "time per tier:"
  cat "$ALLRANKS_TIER_LOG"
  rm -rf "$ALLRANKS_TIER_LOG" "$outputs"
  echo "all: $((SECONDS - start)) s"
  [ "${#late_targets[@]}" -eq 0 ] ||
    echo "not begun, as $TIERS_BEGIN_BEFORE s were over: ${late_targets[*]}"
  [ "${#failed_targets[@]}" -eq 0 ] || echo "failed: ${failed_targets[*]}"
}
trap end EXIT
# Ctrl-C ends all of it, and not only the tier that runs.
trap 'exit 130' INT
trap 'exit 143' TERM

# Whether a target passed: note TARGET CODE BEGUN.
note() {
  local verdict=passed
  [ "$2" -eq 0 ] || { verdict=failed; failed_targets+=("$1"); }
  # A target that is no tier, or whose tier was never reached, has left no line.
  grep -q "^tier ${1#test-}: " "$ALLRANKS_TIER_LOG" ||
    echo "tier ${1#test-}: $verdict in $((SECONDS - $3)) s" >>"$ALLRANKS_TIER_LOG"
}

for group in "$@"; do
  IFS=+ read -ra targets <<<"$group"
  target_start=$SECONDS
  if [ -n "${TIERS_BEGIN_BEFORE:-}" ] && [ $((target_start - start)) -ge "$TIERS_BEGIN_BEFORE" ]; then
    late_targets+=("${targets[@]}")
    continue
  fi
  pids=()
  for target in "${targets[@]:1}"; do
    "${MAKE:-make}" "$target" >"$outputs/$target" 2>&1 &
    pids+=("$!")
  done
  "${MAKE:-make}" "${targets[0]}"
  note "${targets[0]}" "$?" "$target_start"
  for target in "${targets[@]:1}"; do
    wait "${pids[0]}"
    note "$target" "$?" "$target_start"
    pids=("${pids[@]:1}")
    cat "$outputs/$target"
    rm "$outputs/$target"
  done
done
[ "${#failed_targets[@]}" -eq 0 ]
