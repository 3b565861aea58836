#!/bin/sh
# How a training container starts. The first half is shared by all workloads of allranks, the second
# is the workload's own. POSIX sh: images bring dash, busybox or bash. Names of ours have a prefix,
# because a user's setup runs in the same shell.

# The folder this file is in; setup.sh and script lie beside it.
allranks_here=${0%/*}

allranks_say() {
  printf 'allranks: %s\n' "$*" >&2
}

# Run the user's setup, in this shell, so that what it exports and activates holds for the command.
# The first command of it that fails ends the pod. A setup with a #! line runs on its own instead.
allranks_run_setup() {
  [ -f "$allranks_here/setup.sh" ] || return 0
  allranks_say "running setup"
  trap 'allranks_setup_ended $?' EXIT
  set -e
  IFS= read -r allranks_line <"$allranks_here/setup.sh" || :
  case $allranks_line in
    '#!'*) "$allranks_here/setup.sh" ;;
    *) . "$allranks_here/setup.sh" ;;
  esac
  set +e
  trap - EXIT
}

allranks_setup_ended() {
  if [ "$1" -eq 0 ]; then
    allranks_say "setup left the shell with 'exit 0' before the command could run; let it end without exit"
    exit 1
  fi
  allranks_say "setup failed with exit code $1; the command was not run"
  exit "$1"
}

# The first of two Pythons that the image has.
allranks_find_python() {
  command -v python3 || command -v python
}

# resolves NAME: 0 when it has an address, 1 when not, 2 when nothing here can tell.
allranks_resolves() {
  if command -v getent >/dev/null 2>&1; then
    getent ahosts "$1" >/dev/null 2>&1 || getent hosts "$1" >/dev/null 2>&1 || return 1
  elif python=$(allranks_find_python); then
    "$python" -c 'import socket, sys; socket.getaddrinfo(sys.argv[1], None)' "$1" \
      >/dev/null 2>&1 || return 1
  else
    return 2
  fi
}

# wait_for_name NAME SECONDS: return once the name resolves; end the pod when the time is over.
allranks_wait_for_name() {
  [ -n "$1" ] && [ "$2" -gt 0 ] || return 0
  began=$(date +%s)
  pause=1
  while :; do
    allranks_resolves "$1"
    case $? in
      0) return 0 ;;
      2)
        allranks_say "this image has neither getent nor python; not waiting for the name $1"
        return 0
        ;;
    esac
    passed=$(($(date +%s) - began))
    [ "$passed" -lt "$2" ] || break
    allranks_say "waiting for the name $1 ($passed of $2 s)"
    left=$(($2 - passed))
    [ "$pause" -le "$left" ] || pause=$left
    sleep "$pause"
    pause=$((pause * 2))
    [ "$pause" -le 8 ] || pause=8
  done
  allranks_say "the name $1 did not resolve within $2 s. Check that:"
  allranks_say "  the pod of rank 0 exists and is scheduled (kubectl get pods, kubectl describe pod)"
  allranks_say "  the Service of this release exists and selects it (kubectl get endpointslices)"
  allranks_say "  the cluster's DNS answers, and a network policy lets this pod ask it"
  allranks_say "Give slow clusters more time with network.waitSeconds."
  exit 1
}

# The marker of a rank that has finished, for controllers that restart a container whatever its exit
# code: such a rank must not train again.
allranks_finished() {
  [ -n "${ALLRANKS_FINISHED_MARKER:-}" ] && [ -e "$ALLRANKS_FINISHED_MARKER" ]
}

# Stay until told to stop.
allranks_idle() {
  allranks_say "this rank has finished; idling until the release is deleted"
  trap 'exit 0' TERM INT
  while :; do
    sleep 3600 &
    wait $!
  done
}

# run COMMAND...: become the command; where a marker is kept, run it and leave the marker on success.
allranks_run() {
  [ -n "${ALLRANKS_FINISHED_MARKER:-}" ] || exec "$@"
  "$@" &
  child=$!
  trap 'kill -TERM "$child" 2>/dev/null' TERM
  trap 'kill -INT "$child" 2>/dev/null' INT
  # A trapped signal ends wait early; the command still decides when it is done.
  while :; do
    wait "$child"
    code=$?
    kill -0 "$child" 2>/dev/null || break
  done
  if [ "$code" -eq 0 ]; then
    : >"$ALLRANKS_FINISHED_MARKER"
  fi
  exit "$code"
}

