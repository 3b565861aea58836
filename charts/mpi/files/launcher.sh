# shellcheck shell=sh
# The launcher: wait for the workers, run the command, end the job. Sourced by entry.sh.
#
# Its exit code is the command's, and decides over the job. 214 says "a worker was lost", which the
# Job does not count as a failure: the loss is counted where it happened, in the worker's own Job.

# shellcheck source=charts/mpi/files/blame.sh
# shellcheck disable=SC2034,SC2154 # variables that blame.sh reads and sets
. "$ALLRANKS_FILES/blame.sh"
# shellcheck source=charts/mpi/files/mpirun.sh
. "$ALLRANKS_FILES/mpirun.sh"

allranks_lost_code=214
allranks_stalled_code=218 # see names.py
allranks_aftermath_seconds=5 # seconds that mpirun has to end the others when a rank has failed
allranks_denied_seconds=15 # how long a host may refuse our key

# allranks_launcher COUNT MPIRUN-ARG... COMMAND WORD...
allranks_launcher() {
  allranks_command_pid='' allranks_loss=''
  allranks_is_starting='' allranks_is_ending='' allranks_is_checking='' allranks_is_tolerant=''
  allranks_lane_pids=''
  trap allranks_on_term TERM
  trap allranks_on_lost USR1
  trap allranks_on_end USR2
  allranks_record ""
  rm -rf "$ALLRANKS_STATE/lost"
  echo $$ >"$ALLRANKS_STATE/pid" || allranks_fail 1 "cannot write to $ALLRANKS_STATE: disk full?"
  allranks_setup
  allranks_install_progress
  allranks_prepare
  allranks_hosts >"$ALLRANKS_STATE/hostlist"
  allranks_wait_for_workers
  allranks_is_mapped=yes # by options of the user's, perhaps
  allranks_with_words allranks_conduct "$@"
}

# Run the words given, and decide what their end means.
allranks_conduct() {
  allranks_check_mpi "$1"
  allranks_run "$@"
  allranks_judge "$1"
}

# --- before ---------------------------------------------------------------------------------------

# Make the transport ready, and put it on PATH as ssh, for programs that call that by themselves.
allranks_prepare() {
  mkdir -p "$ALLRANKS_STATE/bin"
  case $(allranks_transport) in
    ssh)
      ALLRANKS_MPI_SSH=$(command -v ssh) || allranks_fail 127 \
        "this image has no ssh client: install openssh-client, or set mpi.transport: exec"
      allranks_prepare_user
      allranks_prepare_key
      allranks_write_ssh_config
      export ALLRANKS_MPI_SSH
      ;;
    exec)
      allranks_find_python
      [ -n "${ALLRANKS_MPI_PYTHON:-}" ] || command -v kubectl >/dev/null 2>&1 || allranks_fail 127 \
        "transport exec needs Python 3.6 or newer, or kubectl, in the launcher's image: add one, or \
set mpi.transport: ssh"
      export ALLRANKS_MPI_PYTHON
      ;;
  esac
  cat >"$ALLRANKS_STATE/bin/ssh" <<END
#!/bin/sh
exec /bin/sh '$ALLRANKS_FILES/rsh.sh' "\$@"
END
  chmod 755 "$ALLRANKS_STATE/bin/ssh"
  cp -f "$ALLRANKS_STATE/bin/ssh" "$ALLRANKS_STATE/bin/rsh"
  PATH=$ALLRANKS_STATE/bin:$PATH
  export PATH
}

# Set $ALLRANKS_MPI_PYTHON to a Python that exec.py runs with, where there is one.
allranks_find_python() {
  for allranks_python in python3 python; do
    "$allranks_python" -c 'import sys; sys.exit(sys.version_info < (3, 6))' 2>/dev/null &&
      ALLRANKS_MPI_PYTHON=$(command -v "$allranks_python") && return
  done
}

# Wait until as many hosts answer as the job needs, or say which do not and why.
allranks_wait_for_workers() {
  allranks_answer_folder=$ALLRANKS_STATE/hosts
  allranks_ask_all "$allranks_answer_folder" allranks:begin 0 <"$ALLRANKS_STATE/hostlist" ||
    allranks_fail 1 "cannot write to $ALLRANKS_STATE: is the disk full?"
  # shellcheck disable=SC2154 # set by allranks_ask_all
  [ "$allranks_host_count" -gt 0 ] || allranks_fail 1 "$ALLRANKS_MPI_HOSTFILE names no host"
  allranks_total_hosts=$allranks_host_count allranks_min_hosts=${ALLRANKS_MPI_MIN_HOSTS:-0}
  [ "$allranks_min_hosts" -gt 0 ] || allranks_min_hosts=$allranks_total_hosts
  allranks_start_time=$(allranks_now) allranks_report_time=$((allranks_start_time + 1))
  while :; do
    allranks_count_answers "$allranks_answer_folder"
    # shellcheck disable=SC2154 # set by allranks_count_answers
    [ "$allranks_answer_count" -lt "$allranks_min_hosts" ] || break
    allranks_survey
    allranks_nap 0.2
  done
  allranks_end_lanes
  allranks_say "$(allranks_proportion "$allranks_answer_count" "$allranks_total_hosts" \
    host answers answer); starting"
}

# Look at the hosts that have not answered: end when too many never will, say a word now and then.
allranks_survey() {
  allranks_time=$(allranks_now) allranks_overdue_count=0 allranks_open_count=0
  allranks_summary='' allranks_overdue_summary=''
  while read -r allranks_host; do
    [ ! -e "$allranks_answer_folder/$allranks_host.id" ] || continue
    allranks_open_count=$((allranks_open_count + 1))
    allranks_kind=away allranks_since=0
    if [ -e "$allranks_answer_folder/$allranks_host.why" ]; then
      read -r allranks_kind allranks_since allranks_reason <"$allranks_answer_folder/$allranks_host.why"
    else
      allranks_find_wait_reason "$allranks_answer_folder" "$allranks_host"
    fi
    allranks_find_alias "$allranks_host"
    allranks_reason="$allranks_alias: $allranks_reason"
    allranks_add_to_summary "$allranks_open_count" "$allranks_reason"
    if allranks_is_overdue; then
      allranks_overdue_count=$((allranks_overdue_count + 1))
      allranks_overdue_summary="$allranks_overdue_summary${allranks_overdue_summary:+; }$allranks_reason"
    fi
  done <"$allranks_answer_folder/hosts"
  if [ $((allranks_total_hosts - allranks_overdue_count)) -lt "$allranks_min_hosts" ]; then
    allranks_end_lanes
    allranks_finish 1 "$(allranks_proportion "$allranks_overdue_count" "$allranks_total_hosts" host) \
did not answer within $((allranks_time - allranks_start_time)) s: $allranks_overdue_summary"
  fi
  if [ "$allranks_time" -ge "$allranks_report_time" ]; then
    allranks_waited_seconds=$((allranks_time - allranks_start_time))
    # After 1 s, 5 s, and then whenever twice as much time has passed.
    allranks_next_seconds=$((allranks_waited_seconds < 3 ? 5 : 2 * allranks_waited_seconds))
    allranks_report_time=$((allranks_start_time + allranks_next_seconds))
    allranks_say "waiting for $(allranks_proportion "$allranks_open_count" "$allranks_total_hosts" host) \
($allranks_waited_seconds s): $allranks_summary"
  fi
}

# Add a host to $allranks_summary, where the first three are named and the others counted.
allranks_add_to_summary() {
  case $1 in
    1) allranks_summary=$2 ;;
    2 | 3) allranks_summary="$allranks_summary; $2" ;;
    *) allranks_summary="${allranks_summary%; and * more}; and $(($1 - 3)) more" ;;
  esac
}

# Whether the host that survey looks at will not come any more. One that has no address may still be
# in a scheduler's queue; for one that has, the clock runs from when it had.
allranks_is_overdue() {
  allranks_clock_start=$allranks_start_time allranks_max_seconds=${ALLRANKS_WAIT_SECONDS:-300}
  if [ "$allranks_kind" = denied ] && [ "$allranks_max_seconds" -gt "$allranks_denied_seconds" ]; then
    allranks_max_seconds=$allranks_denied_seconds allranks_clock_start=$allranks_since
  elif [ "${ALLRANKS_MPI_WAIT_FOR_PODS:-bounded}" = scheduler ]; then
    [ "$allranks_kind" != away ] || return 1
    allranks_clock_start=$allranks_since
  fi
  [ $((allranks_time - allranks_clock_start)) -ge "$allranks_max_seconds" ]
}

allranks_end_lanes() {
  # shellcheck disable=SC2086 # process ids
  [ -z "$allranks_lane_pids" ] || kill $allranks_lane_pids 2>/dev/null
  # shellcheck disable=SC2086
  [ -z "$allranks_lane_pids" ] || wait $allranks_lane_pids 2>/dev/null
  allranks_lane_pids=''
}

# --- the command ----------------------------------------------------------------------------------

# Run it as a child, so that signals and lost workers are seen meanwhile; its code is in
# $allranks_code.
allranks_run() {
  mkdir -p "$ALLRANKS_STATE/lost"
  # Hydra hands the launcher's environment to the ranks: what is true of this pod alone stays here.
  case ${ALLRANKS_MPI_IMPLEMENTATION:-} in MPICH | Intel) unset HOSTNAME ALLRANKS_POD_UID ;; esac
  grep -qxF "${ALLRANKS_MPI_LAUNCHER:-}" "$ALLRANKS_STATE/hostlist" ||
    unset NVIDIA_VISIBLE_DEVICES NVIDIA_DRIVER_CAPABILITIES
  allranks_killer_pid='' allranks_ender_pid='' allranks_aftermath_pid='' allranks_is_starting=yes
  rm -f "$ALLRANKS_STATE/overdue"
  : >"$ALLRANKS_STATE/ends"
  if allranks_open_pipes; then
    "$@" >"$ALLRANKS_STATE/said/out.in" 2>"$ALLRANKS_STATE/said/err.in" &
  else
    "$@" &
  fi
  allranks_command_pid=$!
  allranks_catch_up
  allranks_watcher_pid=''
  rm -f "$ALLRANKS_STATE/stalled"
  if [ "${ALLRANKS_STALL_SECONDS:-0}" -gt 0 ]; then
    allranks_watch_ranks &
    allranks_watcher_pid=$!
  fi
  # A trap ends `wait` early, and may have waited for others: then it is asked again, and knows
  # nothing (127) where it had given the code already.
  allranks_code=''
  while :; do
    allranks_is_interrupted=''
    wait "$allranks_command_pid"
    allranks_wait_code=$?
    [ "$allranks_wait_code" -ne 127 ] || [ -z "$allranks_code" ] || break
    allranks_code=$allranks_wait_code
    [ -n "$allranks_is_interrupted" ] || break
  done
  allranks_command_pid=''
  trap '' USR1 USR2 TERM # what is left to do is short, and must not be told otherwise
  # shellcheck disable=SC2086 # process ids
  [ -z "$allranks_killer_pid$allranks_ender_pid$allranks_aftermath_pid$allranks_watcher_pid" ] ||
    kill $allranks_killer_pid $allranks_ender_pid $allranks_aftermath_pid $allranks_watcher_pid 2>/dev/null
  allranks_drain_pipes
  rm -rf "$ALLRANKS_STATE/lost.seen" && mv "$ALLRANKS_STATE/lost" "$ALLRANKS_STATE/lost.seen"
}

# Do what was asked for before this shell knew its child: a rank may fail within milliseconds.
allranks_catch_up() {
  allranks_is_starting=''
  [ -z "$allranks_is_ending" ] || allranks_on_term
  [ ! -s "$ALLRANKS_STATE/ends" ] || allranks_on_end
  for allranks_host in "$ALLRANKS_STATE/lost"/*; do
    [ -e "$allranks_host" ] && allranks_on_lost
    break
  done
}

# Look whether the ranks go on (standstill.py), and end the command where they do not and that is asked.
allranks_watch_ranks() {
  trap 'kill "$!" 2>/dev/null; exit 0' TERM
  allranks_find_python
  "${ALLRANKS_MPI_PYTHON:-python3}" -I -S -B "$ALLRANKS_FILES/standstill.py" watch "$ALLRANKS_STALL_SECONDS" &
  wait $!
  [ -s "$ALLRANKS_STATE/stalled" ] || return 0
  allranks_record "$(cat "$ALLRANKS_STATE/stalled")"
  [ "${ALLRANKS_STALL_ENDS:-}" = 1 ] || return 0
  allranks_say "ending this attempt with exit code $allranks_stalled_code (runPolicy.onStall)"
  allranks_end_command
  allranks_nap 10
  allranks_signal KILL "$allranks_command_pid"
}

allranks_on_term() {
  allranks_is_ending=yes allranks_is_interrupted=yes
  if [ -z "$allranks_command_pid" ]; then
    [ -z "$allranks_is_starting" ] || return 0
    allranks_end_lanes
    exit 143
  fi
  [ -z "$allranks_ender_pid" ] || return 0
  allranks_end_command &
  allranks_ender_pid=$!
}

# End the ranks first, on their hosts: every mpirun that is told to end kills them after a second.
allranks_end_command() {
  ALLRANKS_MPI_CONNECT_SECONDS=3
  # shellcheck disable=SC2034 # used by allranks_ask_all_and_wait
  allranks_lanes=512 # one that waits for its ranks must not hold up the next
  export ALLRANKS_MPI_CONNECT_SECONDS
  allranks_ask_all_and_wait "$ALLRANKS_STATE/ended" "allranks:end $(allranks_time_to_end)" 1 \
    <"$ALLRANKS_STATE/hostlist"
  allranks_signal TERM "$allranks_command_pid"
}

# A rank has failed, says rsh.sh or the rank's own rank.sh. An mpirun ends the others then; but
# Hydra waits for ever for those that wait in MPI_Init for one that never came there.
allranks_on_end() {
  allranks_is_interrupted=yes
  [ -n "$allranks_command_pid" ] &&
    [ -z "$allranks_aftermath_pid$allranks_ender_pid$allranks_is_tolerant" ] || return 0
  (
    trap 'kill "$!" 2>/dev/null; exit 0' TERM
    allranks_nap "$allranks_aftermath_seconds"
    : >"$ALLRANKS_STATE/overdue"
    allranks_say "a rank has failed, and mpirun has not ended the others for $allranks_aftermath_seconds s; \
ending them"
    allranks_end_command
    allranks_nap 10
    allranks_signal KILL "$allranks_command_pid"
  ) &
  allranks_aftermath_pid=$!
}

# Send a signal to a command. A shell that waits for its child passes none on (Intel's mpirun is such
# a script, and many a user's), so its children get it from here.
allranks_signal() {
  case $(readlink "/proc/$2/exe" 2>/dev/null) in
    */sh | */bash | */dash | */busybox | */ash | */ksh* | */mksh | */zsh*)
      # shellcheck disable=SC2013 # words on one line
      for allranks_process in $(cat "/proc/$2/task"/*/children 2>/dev/null); do
        (allranks_signal "$1" "$allranks_process")
      done
      ;;
  esac
  kill -s "$1" "$2" 2>/dev/null
}

# A connection to a worker was lost, says rsh.sh. Where the worker itself is lost the command cannot
# go on (an elastic one can), and not every MPI notices: tell it to end, and end it.
allranks_on_lost() {
  allranks_is_interrupted=yes allranks_is_stale=yes
  [ -z "$allranks_is_checking" ] && [ -n "$allranks_command_pid" ] && [ -z "$allranks_loss" ] &&
    [ "$allranks_min_hosts" -eq "$allranks_total_hosts" ] || return 0
  allranks_is_checking=yes
  while [ -n "$allranks_is_stale" ] && [ -z "$allranks_loss" ]; do
    allranks_is_stale=''
    (cd "$ALLRANKS_STATE/lost" && for allranks_host in *; do
      [ ! -e "$allranks_host" ] || echo "$allranks_host"
    done) >"$ALLRANKS_STATE/suspects"
    # Those that still are what they were ended their command with 255, as Intel's daemon does.
    allranks_find_lost_hosts <"$ALLRANKS_STATE/suspects"
  done
  allranks_is_checking=''
  [ -n "$allranks_loss" ] || return 0
  allranks_say "$allranks_loss; ending the command"
  allranks_signal TERM "$allranks_command_pid"
  (
    allranks_nap 10
    allranks_signal KILL "$allranks_command_pid"
  ) &
  allranks_killer_pid=$!
}

# --- after ----------------------------------------------------------------------------------------

# Ask hosts whether they still are what they were when the command began: $allranks_loss names those
# that are not.
#   allranks_find_lost_hosts < hosts
allranks_find_lost_hosts() {
  allranks_loss='' allranks_lost_count=0 allranks_check_folder=$ALLRANKS_STATE/check
  ALLRANKS_MPI_CONNECT_SECONDS=3
  export ALLRANKS_MPI_CONNECT_SECONDS
  allranks_ask_all_and_wait "$allranks_check_folder" allranks:instance 3
  while read -r allranks_host; do
    # One that was not there at the start either is an elastic job's.
    [ -e "$allranks_answer_folder/$allranks_host.id" ] || continue
    if [ ! -e "$allranks_check_folder/$allranks_host.id" ]; then
      allranks_kind=''
      [ ! -e "$allranks_check_folder/$allranks_host.why" ] ||
        read -r allranks_kind _ <"$allranks_check_folder/$allranks_host.why"
      allranks_reason='it does not answer any more'
      [ "$allranks_kind" != away ] || allranks_reason='its name has no address any more'
    elif read -r allranks_first_instance <"$allranks_answer_folder/$allranks_host.id" &&
      read -r allranks_current_instance <"$allranks_check_folder/$allranks_host.id" &&
      [ "$allranks_first_instance" != "$allranks_current_instance" ]; then
      allranks_reason='it was started again'
    else
      continue
    fi
    allranks_lost_count=$((allranks_lost_count + 1))
    allranks_find_alias "$allranks_host"
    allranks_add_to_summary "$allranks_lost_count" "$allranks_alias: $allranks_reason"
  done <"$allranks_check_folder/hosts"
  [ "$allranks_lost_count" -eq 0 ] ||
    allranks_loss="lost $(allranks_proportion "$allranks_lost_count" "$allranks_total_hosts" host): \
$allranks_summary"
}

# Decide what the command's end means for the job.
allranks_judge() {
  [ -z "$allranks_is_ending" ] || exit "$allranks_code" # the pod is to go, not the job
  if [ -s "$ALLRANKS_STATE/stalled" ] && [ "${ALLRANKS_STALL_ENDS:-}" = 1 ]; then
    # How a command ends that was told to says nothing of the job.
    read -r allranks_outcome <"$ALLRANKS_STATE/stalled"
    allranks_finish "$allranks_stalled_code" "$allranks_outcome"
  fi
  allranks_outcome="${1##*/} ended with exit code $allranks_code" allranks_log_lines=''
  if [ "$allranks_code" -ne 0 ] || [ -e "$ALLRANKS_STATE/overdue" ]; then
    allranks_name_rank "${1##*/}"
  fi
  if allranks_is_listed "$allranks_code" "${ALLRANKS_FATAL_EXIT_CODES:-}"; then
    allranks_finish "$allranks_code" "$allranks_outcome, which is fatal: no retry"
  fi
  # Also after a 0: Open MPI 5 ends with it when a worker was lost. An elastic job may lose some.
  if [ -z "$allranks_loss" ] &&
    { [ "$allranks_code" -ne 0 ] || [ "$allranks_min_hosts" -eq "$allranks_total_hosts" ]; }; then
    allranks_find_lost_hosts <"$ALLRANKS_STATE/hostlist"
  fi
  if [ -n "$allranks_loss" ]; then
    allranks_fail "$allranks_lost_code" "$allranks_loss ($allranks_outcome)"
  fi
  # Its meaning is ours: from the command it would be retried for ever.
  [ "$allranks_code" -ne "$allranks_lost_code" ] || allranks_code=1
  allranks_finish "$allranks_code" "$allranks_outcome"
}

# Name the rank that failed first in $allranks_outcome, and give its exit code: mpirun has one of its own
# now and then, and Intel's ends with 255 whatever the rank gave. A command that was ended because a rank
# had failed has not succeeded, though it may end with 0 then.
allranks_name_rank() {
  allranks_find_rank
  [ -z "$allranks_tee_pids" ] || allranks_log_lines=$(allranks_last_lines)
  [ -n "$allranks_rank" ] || return 0
  case $1 in
    mpirun | mpiexec | mpiexec.hydra | orterun | prterun) allranks_code=$allranks_rank_code ;;
    *)
      [ "$allranks_code" -ne 0 ] || allranks_code=$allranks_rank_code
      [ "$allranks_code" = "$allranks_rank_code" ] || return 0 # a script has decided otherwise
      ;;
  esac
  if [ -n "$allranks_rank_host" ]; then
    allranks_outcome="failed first: rank $allranks_rank in pod $allranks_rank_host ended with exit code \
$allranks_code"
  else
    allranks_outcome="$allranks_outcome: rank $allranks_rank ended with exit code $allranks_rank_code"
  fi
}

# Whether a number is in a list such as "3,13".
allranks_is_listed() {
  case ,$2, in *",$1,"*) return 0 ;; esac
  return 1
}

# End with a code; where this is the job's end too, the workers are told first. It is, unless the
# Job will try again: Kubernetes counts the failures of this pod's index in an annotation.
allranks_finish() {
  if [ "$1" -eq 0 ] || allranks_is_listed "$1" "${ALLRANKS_FATAL_EXIT_CODES:-}" ||
    [ "${ALLRANKS_MPI_FAILURES:-0}" -ge "${ALLRANKS_MPI_BACKOFF_LIMIT:-0}" ]; then
    allranks_stop_workers
  fi
  [ "$1" -ne 0 ] || exit 0
  allranks_fail "$1" "$2" "${allranks_log_lines:-}"
}

# The names of the workers' controllers: those of the pods, up to the number.
allranks_controllers() {
  while read -r allranks_host; do
    allranks_host=${allranks_host%%.*}
    [ "$allranks_host" = "${ALLRANKS_MPI_LAUNCHER%%.*}" ] || echo "${allranks_host%-*}"
  done <"$ALLRANKS_STATE/hostlist" | sort -u
}

allranks_stop_workers() {
  [ "${ALLRANKS_MPI_CLEAN:-Running}" != None ] || return 0
  if [ "${ALLRANKS_MPI_CONTROLLER:-Job}" = StatefulSet ] && [ -n "${KUBERNETES_SERVICE_HOST:-}" ]; then
    # A StatefulSet would start a worker again that has ended.
    [ -n "${ALLRANKS_MPI_PYTHON:-}" ] || allranks_find_python
    # shellcheck disable=SC2046 # names have no blanks
    [ -n "${ALLRANKS_MPI_PYTHON:-}" ] && "$ALLRANKS_MPI_PYTHON" "$ALLRANKS_FILES/exec.py" \
      --scale-to-zero $(allranks_controllers) && return
    allranks_say "the StatefulSet was not scaled to 0 (that needs Python in this image): its pods stay \
until the release is deleted"
  fi
  # A worker that is not told stays for ten minutes: one on a busy machine gets more time than elsewhere.
  ALLRANKS_MPI_CONNECT_SECONDS=10
  export ALLRANKS_MPI_CONNECT_SECONDS
  allranks_ask_all_and_wait "$ALLRANKS_STATE/stopped" allranks:stop 3 <"$ALLRANKS_STATE/hostlist"
  allranks_count_answers "$ALLRANKS_STATE/stopped"
  allranks_untold_count=0 allranks_summary=''
  while read -r allranks_host; do
    [ ! -e "$ALLRANKS_STATE/stopped/$allranks_host.id" ] || continue
    allranks_kind='' allranks_reason='it did not answer'
    [ ! -e "$ALLRANKS_STATE/stopped/$allranks_host.why" ] ||
      read -r allranks_kind _ allranks_reason <"$ALLRANKS_STATE/stopped/$allranks_host.why"
    [ "$allranks_kind" != away ] || continue # no pod, nobody to tell
    allranks_untold_count=$((allranks_untold_count + 1))
    allranks_find_alias "$allranks_host"
    allranks_add_to_summary "$allranks_untold_count" "$allranks_alias: $allranks_reason"
  done <"$ALLRANKS_STATE/stopped/hosts"
  allranks_say "$(allranks_proportion "$allranks_answer_count" "$allranks_host_count" worker was were) \
told to stop${allranks_summary:+; one that was not ends by itself after ${ALLRANKS_MPI_LOST_SECONDS:-600} s without \
a launcher ($allranks_summary)}"
}
