# shellcheck shell=sh
# shellcheck disable=SC2034,SC2154 # what is set here is read by who sources it, and the other way round
# Which rank failed first. Sourced by launcher.sh.
#
# Where the launcher put mpirun before the command, each rank's rank.sh has reported how it ended, and
# the first of these that nobody had told to end is blamed. A rank that is blamed last is one whose MPI
# said that it lost a peer: its end may arrive before that of the peer.
#
# Else mpirun is asked. Each says it in words of its own, on its stdout or stderr, where the ranks
# write too. So the command writes into pipes; `tee` passes all on as it comes, and `tail` keeps the
# end. A rank is named only where mpirun knows: Hydra also reports ranks that it killed itself, and
# Open MPI 5 one that aborted because it lost its peer.

allranks_tail_bytes=262144 # bytes of each stream; mpirun speaks last
# What mpirun says of a failure: Open MPI between two lines of dashes.
allranks_block='mpirun detected that one or more|prterun detected that one or more|Primary job +termin'
allranks_block="$allranks_block|(mpirun|prterun) (noticed that|has exited due to)|MPI_ABORT was invoked"
allranks_mark="$allranks_block|BAD TERMINATION OF ONE|^Abort\\([0-9]+\\) on node"

# Make a pipe for a stream: what comes in goes out to where the stream goes now, and its end is kept.
#   allranks_open_pipe NAME FILE-DESCRIPTOR
allranks_open_pipe() {
  allranks_pipe=$ALLRANKS_STATE/said/$1
  mkfifo "$allranks_pipe.in" "$allranks_pipe.copy" || return 1
  # Whoever tells this pod to end wants to read what its ranks say about it.
  (
    trap '' TERM INT HUP USR1
    exec tail -c "$allranks_tail_bytes" <"$allranks_pipe.copy" >"$allranks_pipe"
  ) &
  allranks_tail_pids="$allranks_tail_pids $!"
  (
    trap '' TERM INT HUP USR1
    exec tee "$allranks_pipe.copy" <"$allranks_pipe.in" >&"$2"
  ) &
  allranks_tee_pids="$allranks_tee_pids $!"
}

# Make the pipes of both streams. Fails where the image lacks a program for it, and on a terminal.
allranks_open_pipes() {
  allranks_tee_pids='' allranks_tail_pids=''
  for allranks_program in mkfifo tee tail grep sed; do
    command -v "$allranks_program" >/dev/null 2>&1 || return 1
  done
  [ ! -t 1 ] && [ ! -t 2 ] || return 1
  rm -rf "$ALLRANKS_STATE/said"
  mkdir -p "$ALLRANKS_STATE/said" && allranks_open_pipe out 1 && allranks_open_pipe err 2 &&
    allranks_open_relay
}

# Copy what ranks of this very pod, or of this machine, write to stderr (relay.sh).
allranks_open_relay() {
  allranks_relay_pid=''
  rm -f "$ALLRANKS_STATE/left.in"
  : >"$ALLRANKS_STATE/left"
  [ "${ALLRANKS_MPI_IMPLEMENTATION:-}" = MPICH ] && mkfifo "$ALLRANKS_STATE/left.in" || return 0
  exec 4<>"$ALLRANKS_STATE/left.in" # as in remote.sh
  /bin/sh "$ALLRANKS_FILES/relay.sh" "$ALLRANKS_STATE/left.in" '' >>"$ALLRANKS_STATE/left" &
  allranks_relay_pid=$!
  exec 4>&-
}

# Wait for the last words of ranks where the command has failed: an mpirun may end before its daemons,
# whose connections last until all that ranks have reported has arrived.
allranks_await_ends() {
  allranks_deadline=$(($(allranks_now) + 5))
  for allranks_pipe in "$ALLRANKS_STATE"/errors.*; do
    while [ -p "$allranks_pipe" ] && kill -0 "${allranks_pipe##*.}" 2>/dev/null &&
      [ "$(allranks_now)" -lt "$allranks_deadline" ]; do
      allranks_nap 0.1
    done
  done
  [ ! -s "$ALLRANKS_STATE/left" ] ||
    grep -q 'application called MPI_Abort(' "$ALLRANKS_STATE/said/err" ||
    tee -a "$ALLRANKS_STATE/said/err" <"$ALLRANKS_STATE/left" >&2
}

# Wait until all is passed on. A process that the command left behind may hold a pipe open.
allranks_drain_pipes() {
  [ -n "$allranks_tee_pids" ] || return 0
  (
    allranks_nap 10
    # shellcheck disable=SC2086 # process ids
    kill -s KILL $allranks_tee_pids 2>/dev/null
  ) &
  allranks_timeout_pid=$!
  for allranks_pid in $allranks_tee_pids $allranks_tail_pids; do
    while kill -0 "$allranks_pid" 2>/dev/null; do
      wait "$allranks_pid"
    done
  done
  kill "$allranks_timeout_pid" 2>/dev/null
  [ -n "$allranks_relay_pid" ] || return 0
  echo over 1<>"$ALLRANKS_STATE/left.in"
  wait "$allranks_relay_pid"
}

# Find the rank that failed first: $allranks_rank, $allranks_rank_code and $allranks_rank_host, of
# which the first is empty where none is known, and the last where it is not known.
allranks_find_rank() {
  allranks_rank='' allranks_rank_code='' allranks_rank_host='' allranks_followers=' '
  allranks_abort_codes=' '
  [ -z "$allranks_tee_pids" ] || allranks_await_ends
  [ -z "$allranks_tee_pids" ] || allranks_find_followers
  allranks_read_ends
  # MPICH crashes over a lost peer without a word, and its end may arrive before that of the peer. A rank
  # that was killed alone followed nobody.
  if [ "$allranks_rank_code" = 139 ] && [ "${ALLRANKS_MPI_IMPLEMENTATION:-}" = MPICH ]; then
    allranks_rank=''
    allranks_read_ends 137
    [ -n "$allranks_rank" ] || allranks_read_ends
  fi
  [ -n "$allranks_rank" ] || [ -z "$allranks_tee_pids" ] || allranks_ask_mpirun
  allranks_followers=' '
  allranks_read_ends
}

# Whether a rank that was killed has lived to report that it was not with its whole group (rank.sh).
#   allranks_is_confirmed HOST RANK
allranks_is_confirmed() {
  while read -r allranks_line; do
    [ "$allranks_line" != "$1 $2 137 alone" ] || return 0
  done <"$ALLRANKS_STATE/ends"
  return 1
}

# Read what ranks reported of their ends (rank.sh), in the order in which they arrived.
#   allranks_read_ends [CODE: no others count]
allranks_read_ends() {
  [ -s "$ALLRANKS_STATE/ends" ] || return 0
  while read -r allranks_end_host allranks_end_rank allranks_end_code allranks_end_cause; do
    [ "$allranks_end_cause" != told ] || continue
    [ -z "${1:-}" ] || [ "$allranks_end_code" = "$1" ] || continue
    [ "$allranks_end_cause" != killed ] ||
      allranks_is_confirmed "$allranks_end_host" "$allranks_end_rank" || continue
    case $allranks_followers in *" $allranks_end_rank "*) continue ;; esac
    case $allranks_end_code$allranks_abort_codes in
      "137 "*" $allranks_end_rank:"*)
        allranks_end_code=${allranks_abort_codes#*" $allranks_end_rank:"}
        allranks_end_code=${allranks_end_code%% *}
        ;;
    esac
    [ "$allranks_end_rank" = - ] ||
      allranks_blame "$allranks_end_rank" "$allranks_end_code" "$allranks_end_host"
  done <"$ALLRANKS_STATE/ends"
}

# Read whose MPI said that it ends because it lost a peer: their numbers are in $allranks_followers; and
# who called MPI_Abort: in $allranks_abort_codes each as " RANK:CODE ". Hydra kills such a rank before it
# can end by itself. Open MPI 5 says it before the number or after, MPICH and Intel MPI after.
allranks_find_followers() {
  cat "$ALLRANKS_STATE/said/err" "$ALLRANKS_STATE/said/out" | tr -d '\000' | sed -n -E \
    -e 's/^.*\*\*\* An error occurred in Socket closed.*$/closed/p' \
    -e 's/^.*\*\*\* reported by process \[[0-9]+,([0-9]+)\].*$/by \1/p' \
    -e 's/^.*\*\*\* MPI_ERR_(PROC_FAILED|PROC_ABORTED|REVOKED).*$/lost/p' \
    -e 's/^.*Abort\([-0-9]+\) on node ([0-9]+) \(rank [0-9]+ in comm [0-9]+\): Fatal error.*$/by \1/p' \
    -e 's/^.*Abort\(([0-9]+)\) on node ([0-9]+) \(rank [0-9]+ in comm [0-9]+\): application called.*$/called \2:\1/p' \
    -e 's/^.*(Communication error with rank|Connection (reset|closed|refused)|Broken pipe).*$/lost/p' \
    -e 's/^.*(process failed|PROC_FAILED|endpoint is not connected|OFI poll failed).*$/lost/p' \
    >"$ALLRANKS_STATE/said/words"
  allranks_is_closed='' allranks_named_rank=''
  while read -r allranks_clue allranks_value; do
    case $allranks_clue in
      closed) allranks_is_closed=yes ;;
      by)
        allranks_named_rank=$allranks_value
        [ -z "$allranks_is_closed" ] || allranks_followers="$allranks_followers$allranks_named_rank "
        allranks_is_closed=''
        ;;
      called) allranks_abort_codes="$allranks_abort_codes$allranks_value " ;;
      lost) [ -z "$allranks_named_rank" ] || allranks_followers="$allranks_followers$allranks_named_rank " ;;
    esac
  done <"$ALLRANKS_STATE/said/words"
}

# Read what mpirun said of the rank that failed first.
allranks_ask_mpirun() {
  # shellcheck disable=SC2016 # sed's own
  cat "$ALLRANKS_STATE/said/err" "$ALLRANKS_STATE/said/out" | tr -d '\000' | sed -n \
    -e 's/^ *Process name: \[.*,\([0-9]*\)\].*$/name \1/p' \
    -e 's/^ *Exit code: *\([0-9]*\) *$/code \1/p' \
    -e 's/^.*noticed that process rank \([0-9]*\) with PID [0-9]* on node \([^ ]*\) exited on signal \([0-9]*\).*$/signal \1 \3 \2/p' \
    -e 's/^.*noticed that process rank \([0-9]*\) with PID [0-9]* on node \([^ ]*\) exited on *$/name \1 \2/p' \
    -e 's/^signal \([0-9]*\) (.*).*$/sent \1/p' \
    -e 's/^MPI_ABORT was invoked on rank \([0-9]*\) in communicator MPI_COMM_WORLD *$/name \1/p' \
    -e 's/^ *Errorcode: *\([0-9]*\) *$/code \1/p' \
    -e 's/^ *with errorcode \([0-9]*\)\.* *$/code \1/p' \
    -e 's/^.*Abort(\([0-9]*\)) on node \([0-9]*\) (rank [0-9]* in comm [0-9]*): application called.*$/both \2 \1/p' \
    -e 's/^= *RANK \([0-9]*\) PID [0-9]* RUNNING AT \([^ ]*\) *$/name \1 \2/p' \
    -e 's/^= *EXIT STATUS: *\([0-9]*\).*$/code \1/p' \
    -e 's/^= *KILLED BY SIGNAL: *\([0-9]*\).*$/killed \1/p' >"$ALLRANKS_STATE/said/words"
  allranks_named_rank='' allranks_named_host=''
  while read -r allranks_clue allranks_field_1 allranks_field_2 allranks_field_3; do
    case $allranks_clue in
      name) allranks_named_rank=$allranks_field_1 allranks_named_host=$allranks_field_2 ;;
      code) allranks_blame "$allranks_named_rank" "$allranks_field_1" "$allranks_named_host" ;;
      both) allranks_blame "$allranks_field_1" "$allranks_field_2" "" ;;
      signal) allranks_blame "$allranks_field_1" $((128 + allranks_field_2)) "$allranks_field_3" ;;
      sent) allranks_blame "$allranks_named_rank" $((128 + allranks_field_1)) "$allranks_named_host" ;;
      # With these it ends the others.
      killed) case $allranks_field_1 in
        9 | 15) ;;
        *) allranks_blame "$allranks_named_rank" $((128 + allranks_field_1)) "$allranks_named_host" ;;
      esac ;;
    esac
  done <"$ALLRANKS_STATE/said/words"
}

# Keep the first that is named.
#   allranks_blame RANK CODE HOST
allranks_blame() {
  [ -z "$allranks_rank" ] && [ -n "$1" ] && [ -n "$2" ] || return 0
  [ "$2" -gt 0 ] && [ "$2" -lt 256 ] || return 0
  allranks_rank=$1 allranks_rank_code=$2
  allranks_find_alias "$3"
  allranks_rank_host=${allranks_alias%%.*}
  [ -n "$3" ] || allranks_find_host "$1"
}

# The host of a rank where mpirun fills each host's slots in turn, as it does unless it is told
# otherwise.
allranks_find_host() {
  [ -z "$allranks_is_mapped" ] || return 0
  allranks_slot_count=0
  while read -r allranks_host allranks_slots _ || [ -n "$allranks_host" ]; do
    case $allranks_host in
      '' | '#'*) continue ;;
      *:*) allranks_slots=${allranks_host##*:} ;;
    esac
    allranks_slots=${allranks_slots#slots=}
    allranks_slot_count=$((allranks_slot_count + ${allranks_slots:-1}))
    if [ "$1" -lt "$allranks_slot_count" ]; then
      allranks_host=${allranks_host%%:*}
      allranks_find_alias "${allranks_host%%:*}"
      allranks_rank_host=${allranks_alias%%.*}
      return
    fi
  done <"$ALLRANKS_MPI_HOSTFILE"
}

# What the ranks wrote to stderr before mpirun spoke, without what an MPI says of a lost peer. What
# Open MPI says of MPI_Abort comes by another way, and at times before it.
allranks_last_lines() {
  tr -d '\000' <"$ALLRANKS_STATE/said/err" |
    sed -E -e '/^-{60,}$/{' -e ':more' -e '$!{' -e N -e '/\n-{60,}$/!b more' -e '}' \
      -e "/$allranks_block/d" -e '}' | sed -E "/$allranks_mark/,\$d" |
    sed '/^An MPI communication peer process has unexpectedly/,/^ *Peer host:/d' |
    grep -v '^[-= ]*$' | grep -vE '^ *\[[^]]*\] (plm:|\*\*\* |[0-9]+ more process|Set MCA parameter)' |
    tail -n 12 | tail -c 800
}
