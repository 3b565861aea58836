#!/usr/bin/env bash
# Run one test tier and say how long it took, and how much of that its processes computed:
# tier.sh NAME COMMAND...
set -uo pipefail
name=$1
shift
start=$SECONDS
"$@"
code=$?
verdict=passed
[ "$code" -eq 0 ] || verdict=failed
# The second line of `times` is that of the children: 0m1.234s 0m0.567s.
times=$(mktemp) # a subshell would have times of its own
times >"$times"
processor=$(awk 'NR == 2 {split($1, user, "m"); split($2, kernel, "m")
  print int((user[1] + kernel[1]) * 60 + user[2] + kernel[2])}' "$times")
rm -f "$times"
line="tier $name: $verdict in $((SECONDS - start)) s, $processor s of processor time"
echo "$line"
[ -z "${ALLRANKS_TIER_LOG:-}" ] || echo "$line" >>"$ALLRANKS_TIER_LOG"
exit "$code"
