#!/bin/sh
# Hand on what the ranks of a pod have to say (rank.sh), until the daemon that started them is over.
#   relay.sh PIPE [WORD]
#
# Lines that come in through the pipe:
#   copy FIFO PATH   FIFO is a rank's stderr, which goes to PATH, what the daemon reads; a copy is kept
#   over             the daemon has ended
#   any other        a rank's end, which goes out behind "allranks-end: "
#
# After MPI_Abort MPICH's mpiexec ends at once, and its daemons kill the ranks: what these wrote before
# is lost at times, and with it who called MPI_Abort, and why. The end of such a copy goes out when the
# daemon is over, each line behind WORD ("allranks-left: "). Only who is no child of the daemon is left
# then to do it. `tee` passes on what comes as it comes, and `tail` keeps the end.

allranks_pipe=$1 allranks_prefix=${2-allranks-left: }
allranks_fifos='' allranks_tee_pids='' allranks_tail_pids=''
allranks_tail_bytes=4096 # of each stream

# Copy a rank's stderr, which the rank opens when it has a reader.
#   allranks_copy FIFO PATH
allranks_copy() {
  trap '' TERM HUP INT PIPE
  if (: >"$2") 2>/dev/null; then
    exec 4>"$2"
  else
    exec 4>&2 # nobody may open what another process has open: it goes the way of the daemon's own
  fi
  exec tee "$1.copy" <"$1" >&4 2>/dev/null
}

# Print the end of a rank's stderr where the rank has called MPI_Abort.
allranks_print() {
  allranks_is_abort=''
  while read -r allranks_line || [ -n "$allranks_line" ]; do
    case $allranks_line in *'application called MPI_Abort('*) allranks_is_abort=yes ;; esac
  done <"$1"
  [ -n "$allranks_is_abort" ] || return 0
  while IFS= read -r allranks_line || [ -n "$allranks_line" ]; do
    printf '%s\n' "$allranks_prefix$allranks_line"
  done <"$1"
}

while read -r allranks_first_word allranks_rest && [ "$allranks_first_word" != over ]; do
  if [ "$allranks_first_word" != copy ]; then
    printf 'allranks-end: %s\n' "$allranks_first_word $allranks_rest"
    continue
  fi
  allranks_fifo=${allranks_rest%% *}
  mkfifo "$allranks_fifo.copy"
  (
    trap '' TERM HUP INT
    exec tail -c "$allranks_tail_bytes" <"$allranks_fifo.copy" >"$allranks_fifo.end"
  ) &
  allranks_tail_pids="$allranks_tail_pids $!"
  allranks_copy "$allranks_fifo" "${allranks_rest#* }" &
  allranks_tee_pids="$allranks_tee_pids $!"
  allranks_fifos="$allranks_fifos $allranks_fifo"
done <>"$allranks_pipe"
[ -n "$allranks_fifos" ] || exit 0

# A process that a rank has left behind may have its stderr open without end.
(
  trap 'kill "$!"; exit' TERM
  sleep 3 &
  wait "$!"
  # shellcheck disable=SC2086 # process ids
  kill -s KILL $allranks_tee_pids
) >/dev/null 2>&1 &
allranks_timeout_pid=$!
for allranks_pid in $allranks_tee_pids $allranks_tail_pids; do
  wait "$allranks_pid"
done
kill "$allranks_timeout_pid" 2>/dev/null
for allranks_fifo in $allranks_fifos; do
  allranks_print "$allranks_fifo.end"
  rm -f "$allranks_fifo" "$allranks_fifo.copy" "$allranks_fifo.end"
done
