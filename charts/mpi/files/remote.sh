#!/bin/sh
# A command that came in from the launcher, on a worker: run it as the worker's own container would,
# after setup. sshd starts it for each command (SSH_ORIGINAL_COMMAND); the other transports pass the
# command as arguments. Words of our own begin with "allranks:".

: "${ALLRANKS_STATE:=/var/run/allranks}"

allranks_command=$*
[ $# -gt 0 ] || allranks_command=${SSH_ORIGINAL_COMMAND:-}

# The worker is there once its setup is done, and as long as its first process lives.
allranks_pid=
[ ! -e "$ALLRANKS_STATE/pid" ] || read -r allranks_pid <"$ALLRANKS_STATE/pid"
# One that was killed and that nobody has waited for yet takes signals all the same.
allranks_stat=
[ -z "$allranks_pid" ] || read -r allranks_stat 2>/dev/null <"/proc/$allranks_pid/stat"
case $allranks_stat in *') Z '* | *') X '*) allranks_pid='' ;; esac
if [ -z "$allranks_pid" ] || ! kill -0 "$allranks_pid" 2>/dev/null; then
  echo "allranks: this worker is not ready" >&2
  exit 255
fi

# End what an earlier launcher left running, which is dead when this one begins. Its processes are
# known by a variable, as daemons and ranks leave the session and the group they were started in.
allranks_end_leftovers() {
  [ -e "$ALLRANKS_STATE/used" ] || return 0
  rm -f "$ALLRANKS_STATE/used"
  for allranks_signal in TERM KILL; do
    allranks_is_running=
    for allranks_process in /proc/[0-9]*; do
      tr '\0' '\n' 2>/dev/null <"$allranks_process/environ" |
        grep -qxF "ALLRANKS_MPI_SESSION=$ALLRANKS_STATE" || continue
      kill -s "$allranks_signal" "${allranks_process#/proc/}" 2>/dev/null && allranks_is_running=yes
    done
    [ -n "$allranks_is_running" ] || return 0
    sleep 1
  done
}

# Whether a process is a rank of this host: its MPI has numbered it, and it was started from here; in
# the launcher's own pod by no command that came in.
allranks_is_rank() {
  allranks_variables=$({ tr '\0' '\n' <"$1/environ"; } 2>/dev/null) || return 1
  case "${ALLRANKS_ROLE:-worker}$allranks_newline$allranks_variables$allranks_newline" in
    launcher*"${allranks_newline}ALLRANKS_MPI_SESSION="*) return 1 ;;
    launcher*"${allranks_newline}ALLRANKS_STATE=$ALLRANKS_STATE$allranks_newline"*) ;;
    *"${allranks_newline}ALLRANKS_MPI_SESSION=$ALLRANKS_STATE$allranks_newline"*) ;;
    *) return 1 ;;
  esac
  case "$allranks_newline$allranks_variables" in
    *"${allranks_newline}OMPI_COMM_WORLD_RANK="* | *"${allranks_newline}PMI_RANK="*) return 0 ;;
  esac
  return 1
}

# Tell the ranks of this host to end, once, and wait until they have, for the time that they have
# for a last checkpoint. Their daemon is not told: it would kill them after a second.
allranks_end_ranks() {
  allranks_newline='
'
  allranks_is_first=
  ! mkdir "$ALLRANKS_STATE/ending" 2>/dev/null || allranks_is_first=yes
  allranks_rank_pids=
  for allranks_process in /proc/[0-9]*; do
    ! allranks_is_rank "$allranks_process" ||
      allranks_rank_pids="$allranks_rank_pids ${allranks_process#/proc/}"
  done
  if [ -n "$allranks_is_first" ] && [ -n "$allranks_rank_pids" ]; then
    # Those that look at the file save by that (save.sh).
    printf '%s000000000 stop\n' "$(date +%s)" >"$ALLRANKS_STATE/save.new" &&
      mv -f "$ALLRANKS_STATE/save.new" "$ALLRANKS_STATE/save"
    # shellcheck source=/dev/null
    allranks_end_signal=$(. "$ALLRANKS_STATE/env" 2>/dev/null && printf %s "${ALLRANKS_CHECKPOINT_SIGNAL:-}")
    allranks_end_signal=${allranks_end_signal#SIG}
    # shellcheck disable=SC2086 # process ids
    kill -s "${allranks_end_signal:-TERM}" $allranks_rank_pids 2>/dev/null
  fi
  allranks_waited_seconds=0
  for allranks_rank_pid in $allranks_rank_pids; do
    while kill -0 "$allranks_rank_pid" 2>/dev/null && [ "$allranks_waited_seconds" -lt "$1" ]; do
      sleep 1
      allranks_waited_seconds=$((allranks_waited_seconds + 1))
    done
  done
}

# Run the daemon of an MPI. What its ranks report of their ends (rank.sh) goes over the connection
# that it was started by: on stderr, as lines of our own, which rsh.sh takes out on the other side.
allranks_run_daemon() {
  ALLRANKS_MPI_ENDS=$ALLRANKS_STATE/ends.$$
  export ALLRANKS_MPI_ENDS
  if ! mkfifo "$ALLRANKS_MPI_ENDS" 2>/dev/null; then
    ALLRANKS_MPI_ENDS=/dev/null
    return
  fi
  trap ':' TERM HUP INT # they are the daemon's; this shell has an end of its own to see to
  # What is written into a pipe that nobody else has open goes with its writer, and a rank that waits for
  # its stderr to be copied would wait for ever: so the relay has the pipe open before it has begun.
  exec 4<>"$ALLRANKS_MPI_ENDS"
  /bin/sh "${0%/*}/relay.sh" "$ALLRANKS_MPI_ENDS" >&2 &
  allranks_relay_pid=$!
  exec 4>&-
  exec 3>&2 2>/dev/null # a shell has words of its own for a child that a signal ended
  /bin/sh -c "$allranks_command" 2>&3 3>&-
  allranks_code=$?
  echo over 1<>"$ALLRANKS_MPI_ENDS"
  wait "$allranks_relay_pid"
  rm -f "$ALLRANKS_MPI_ENDS"
  exit "$allranks_code"
}

case $allranks_command in
  "allranks:end "*)
    allranks_end_ranks "${allranks_command#* }"
    exec cat "$ALLRANKS_STATE/instance"
    ;;
  allranks:instance) exec cat "$ALLRANKS_STATE/instance" ;;
  allranks:begin)
    rm -rf "$ALLRANKS_STATE/ending"
    allranks_end_leftovers
    exec cat "$ALLRANKS_STATE/instance"
    ;;
  allranks:look | allranks:where)
    # shellcheck source=/dev/null
    [ ! -r "$ALLRANKS_STATE/env" ] || . "$ALLRANKS_STATE/env"
    for allranks_python in python3 python; do
      ! command -v "$allranks_python" >/dev/null ||
        exec "$allranks_python" -I -S -B "${0%/*}/standstill.py" "${allranks_command#*:}"
    done
    exit 127
    ;;
  allranks:stop)
    : >"$ALLRANKS_STATE/stop" || exit 1
    exec cat "$ALLRANKS_STATE/instance"
    ;;
esac

# shellcheck source=/dev/null
. "$ALLRANKS_STATE/env"
read -r allranks_folder <"$ALLRANKS_STATE/folder"
cd "$allranks_folder" || exit 1
: >"$ALLRANKS_STATE/used"
ALLRANKS_MPI_SESSION=$ALLRANKS_STATE
export ALLRANKS_MPI_SESSION
unset SSH_ORIGINAL_COMMAND
if [ -z "$allranks_command" ]; then
  exec /bin/sh -i # someone looks around
fi
case $allranks_command in
  *orted* | *prted* | *hydra_*proxy*) [ -n "${ALLRANKS_MPI_ENDS:-}" ] || allranks_run_daemon ;;
esac
exec /bin/sh -c "$allranks_command"
