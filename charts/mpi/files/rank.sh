#!/bin/sh
# A rank, as the launcher's mpirun starts it: run the command, and report its end where it failed.
#   rank.sh COMMAND WORD...
#
# mpirun ends ranks itself and hears of ends late, so that it may name one that only followed. This
# shell is the command's parent, and so knows how it ended before any MPI does: it writes
# "HOST RANK CODE HOW" to $ALLRANKS_MPI_ENDS, a file of the launcher's or a pipe of remote.sh's, and
# then ends as the command did, by a code or a signal. HOW is "told" where a signal had come to end it, and else "alone";
# "killed" where a line with one of these two is to follow.
#
# The command is in the foreground: its stdin, its group and its signals are those of a command that
# mpirun starts. Every MPI signals the whole group; so this shell passes nothing on, and only
# remembers that a signal came.

allranks_cause=alone
trap 'allranks_cause=told' HUP INT QUIT TERM
trap ':' USR1 USR2 ALRM

# A shell has words of its own for a child that a signal ended ("Killed"). They are none of the
# command's: its stderr waits in another descriptor, one that the MPI does not use.
allranks_fd=''
for allranks_candidate_fd in 9 8 7 6 5 4 3; do
  [ -e "/proc/$$/fd/$allranks_candidate_fd" ] || allranks_fd=$allranks_candidate_fd
done
if [ -z "${ALLRANKS_MPI_ENDS:-}" ]; then # this is the launcher's own pod
  ALLRANKS_MPI_ENDS=${ALLRANKS_STATE:-/var/run/allranks}/ends
  ALLRANKS_MPI_HOST=${ALLRANKS_MPI_LAUNCHER:-}
fi
[ -z "$allranks_fd" ] || eval "exec $allranks_fd>&2 2>/dev/null"

# With MPICH the command's stderr goes through relay.sh, which ends after the daemon: the words of a
# rank that calls MPI_Abort are lost else at times. The fifo opens when it is read.
allranks_relay_pipe=$ALLRANKS_MPI_ENDS allranks_fifo=''
[ ! -f "$allranks_relay_pipe" ] || allranks_relay_pipe=${allranks_relay_pipe%/*}/left.in
if [ "${ALLRANKS_MPI_IMPLEMENTATION:-}" = MPICH ] && [ -p "$allranks_relay_pipe" ] &&
  [ -n "$allranks_fd" ] && command -v tee >/dev/null && command -v tail >/dev/null; then
  allranks_fifo=$allranks_relay_pipe.$$
  rm -f "$allranks_fifo"
  if mkfifo "$allranks_fifo"; then
    printf 'copy %s\n' "$allranks_fifo /proc/$$/fd/$allranks_fd" 1<>"$allranks_relay_pipe"
  else
    allranks_fifo=''
  fi
fi

if [ "${ALLRANKS_COMPAT:-}" = slurm ] && [ -r "${ALLRANKS_FILES:=${0%/*}}/slurm.sh" ]; then
  # shellcheck source=charts/library/files/slurm.sh
  . "$ALLRANKS_FILES/slurm.sh"
  allranks_slurm_rank
fi

ALLRANKS_SAVE_FILE=${ALLRANKS_STATE:=/var/run/allranks}/save
export ALLRANKS_SAVE_FILE
if [ -d "$ALLRANKS_STATE/python" ]; then
  PYTHONPATH=${PYTHONPATH:+$PYTHONPATH:}$ALLRANKS_STATE/python
  export PYTHONPATH
fi
# `allranks why` may ask the rank then: its Python imports what lies here, and takes this folder off again.
if [ -e "${0%/*}/sitecustomize.py" ]; then
  PYTHONPATH=${0%/*}${PYTHONPATH:+:$PYTHONPATH}
  export PYTHONPATH
fi

# `exec` takes no builtin for the program, and a group of its own would not be signalled.
if [ -z "$allranks_fd" ]; then
  (exec "$@")
elif [ -n "$allranks_fifo" ]; then
  eval "(exec \"\$@\" 2>\"\$allranks_fifo\" $allranks_fd>&-)"
else
  eval "(exec \"\$@\" 2>&$allranks_fd $allranks_fd>&-)"
fi
allranks_code=$?
[ "$allranks_code" -ne 0 ] || exit 0

allranks_rank=${OMPI_COMM_WORLD_RANK:-${PMIX_RANK:-${PMI_RANK:-}}}
allranks_report() {
  allranks_end_line="${ALLRANKS_MPI_HOST:--} ${allranks_rank:--} $allranks_code $1"
  if [ -p "$ALLRANKS_MPI_ENDS" ]; then
    # Opened for both ways: a pipe that nobody reads any more must not hold this up.
    printf '%s\n' "$allranks_end_line" 1<>"$ALLRANKS_MPI_ENDS"
  elif [ -f "$ALLRANKS_MPI_ENDS" ]; then
    printf '%s\n' "$allranks_end_line" >>"$ALLRANKS_MPI_ENDS"
    read -r allranks_launcher_pid <"${ALLRANKS_MPI_ENDS%/*}/pid" &&
      kill -s USR2 "$allranks_launcher_pid"
  fi
}

# Hydra kills a rank's group after MPI_Abort, and the kernel reaches one process after the other: where
# the command is dead and this shell not yet, it has a moment to be. The first report keeps the rank's
# place among those that peers send meanwhile; it counts when the second has come.
if [ "$allranks_code" -eq 137 ] && [ -n "${PMI_RANK:-}" ]; then
  allranks_report killed
  sleep 0.05 2>/dev/null
fi
allranks_report "$allranks_cause"
# Hydra kills all ranks when it hears of one end. The peers of a killed rank fall at once: were theirs
# heard of within the moment above, the second report would never come.
[ -z "${PMI_RANK:-}" ] || sleep 0.5 2>/dev/null
# mpirun shall see what it saw without this shell: Hydra lets ranks go on whose peer ended with a code.
# Of an exit code it cannot be told whether it stands for a signal; a signal that ends is safe.
case $((allranks_code - 128)) in
  [1-9] | 1[1345] | 2[45])
    # shellcheck disable=SC3045 # every shell that images bring has it
    ulimit -c 0 2>/dev/null # the core is the command's
    trap - HUP INT QUIT TERM ALRM
    kill -"$((allranks_code - 128))" "$$"
    ;;
esac
exit "$allranks_code"
