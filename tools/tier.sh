#!/usr/bin/env bash
# Run one test tier and say how long it took: tier.sh NAME COMMAND...
set -uo pipefail
name=$1
shift
started=$SECONDS
"$@"
code=$?
verdict=passed
[ "$code" -eq 0 ] || verdict=failed
line="tier $name: $verdict in $((SECONDS - started)) s"
echo "$line"
[ -z "${ALLRANKS_TIER_LOG:-}" ] || echo "$line" >>"$ALLRANKS_TIER_LOG"
exit "$code"
