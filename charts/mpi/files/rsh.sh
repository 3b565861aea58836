#!/bin/sh
# The agent that every MPI starts its daemons with, in place of ssh or rsh:
#   rsh.sh [options of ssh] HOST [options] COMMAND...
# Options are skipped: how a host is reached is this job's business, not its caller's. The command's
# words are joined with blanks and read by a shell on the host, as ssh does it. The exit code is the
# command's; 255 also means that the connection failed or was lost.
#
# Beside the environment of the pod:
#   ALLRANKS_MPI_LOCAL_MAP  a file "HOST<tab>STATE FOLDER[<tab>WORD]..." where processes stand in for
#                           pods: the command is started with the words in front
#   ALLRANKS_MPI_CONNECT_SECONDS  how long connecting may take

: "${ALLRANKS_STATE:=/var/run/allranks}" "${ALLRANKS_MPI_HOSTFILE:=/etc/mpi/hostfile}"
here=${0%/*}

die() {
  echo "allranks: $1" >&2
  exit "${2:-255}"
}

# Count the words that are options: "-x -q -n", "-l user", "-oBatchMode=yes".
no_stdin=
skip_options() {
  skip_count=0
  while [ $# -gt 0 ]; do
    case $1 in
      --) skip_count=$((skip_count + 1)) && return ;;
      -n) no_stdin=yes ;;
      -[BbcDEeFIiJLlmOopQRSWw]) [ $# -lt 2 ] || { skip_count=$((skip_count + 1)) && shift; } ;;
      -*) ;;
      *) return ;;
    esac
    skip_count=$((skip_count + 1))
    shift
  done
}

skip_options "$@"
shift "$skip_count"
[ $# -gt 0 ] || die "usage: rsh.sh HOST COMMAND..." 2
host=${1#*@}
shift
skip_options "$@" # ssh takes options behind the host too
shift "$skip_count"

# A name without a domain resolves in its own pod only; the hostfile has it in full.
full_name() {
  while read -r line_host _; do
    line_host=${line_host%%:*}
    case $line_host in "$1" | "$1".*) echo "$line_host" && return ;; esac
  done <"$ALLRANKS_MPI_HOSTFILE"
  echo "$1"
}
case $host in
  *.*) ;;
  *) [ ! -r "$ALLRANKS_MPI_HOSTFILE" ] || host=$(full_name "$host") ;;
esac

# Hydra (MPICH, Intel MPI) tells its daemons to call back this host by its short name.
short_name=$(uname -n)
launcher_name=
[ "${ALLRANKS_ROLE:-}" != launcher ] || launcher_name=${ALLRANKS_MPI_LAUNCHER:-}
command='' previous_word=''
for word; do
  case $previous_word in
    --control-port)
      [ -z "$launcher_name" ] || [ "${word%:*}" != "$short_name" ] || word=$launcher_name:${word##*:}
      ;;
    --upstream-host) [ -z "$launcher_name" ] || [ "$word" != "$short_name" ] || word=$launcher_name ;;
  esac
  previous_word=$word
  command="$command${command:+ }$word"
done

if [ -n "$launcher_name" ] && [ "$host" = "$launcher_name" ]; then
  exec /bin/sh -c "$command" # this very pod, where the launcher has ranks
fi

# Pass a daemon's stderr on, but for the ends of ranks, which are written down for the launcher. What
# it reads is the order in which they arrived.
pass_on() {
  trap '' TERM HUP INT PIPE # an mpirun that is gone reads nothing any more
  while IFS= read -r line || [ -n "$line" ]; do
    case $line in
      *'allranks-end: '*)
        printf '%s' "${line%%allranks-end: *}" >&2
        line=${line#*allranks-end: }
        printf '%s\n' "$host ${line#* }" >>"$ALLRANKS_STATE/ends"
        read -r launcher <"$ALLRANKS_STATE/pid" && kill -s USR2 "$launcher"
        ;;
      'allranks-left: '*) printf '%s\n' "${line#*: }" >>"$ALLRANKS_STATE/left" ;;
      *) printf '%s\n' "$line" >&2 ;;
    esac
  done
}

# Make a pipe for the stderr of a command that starts ranks: $errors is empty where there is none.
open_errors() {
  errors=''
  case $command in *orted* | *prted* | *hydra_*proxy*) ;; *) return ;; esac
  [ -f "$ALLRANKS_STATE/ends" ] || return 0
  errors=$ALLRANKS_STATE/errors.$$
  mkfifo "$errors" 2>/dev/null || errors=''
}

# Start the words given, wait for them, and tell the launcher when the connection was lost: the
# daemons of Hydra outlive it unseen, and mpirun would wait for ever. What ends this ends them.
run() {
  [ -z "$no_stdin" ] || exec </dev/null
  open_errors
  exec 3<&0
  command_pid='' is_ending=''
  trap 'is_ending=yes; [ -z "$command_pid" ] || kill -s TERM "$command_pid" 2>/dev/null' TERM HUP INT
  # A shell gives what it starts in the background no stdin of its own accord.
  if [ -n "$errors" ]; then
    pass_on <"$errors" 3<&- &
    pass_on_pid=$!
    "$@" <&3 3<&- 2>"$errors" &
  else
    "$@" <&3 3<&- &
  fi
  command_pid=$!
  [ -z "$is_ending" ] || kill -s TERM "$command_pid" 2>/dev/null # it came before this shell knew its child
  exec 3<&- </dev/null
  while :; do
    wait "$command_pid"
    code=$?
    kill -0 "$command_pid" 2>/dev/null || break
  done
  case $command in allranks:*) exit "$code" ;; esac # the launcher itself asked
  if [ -n "$errors" ]; then
    wait "$pass_on_pid"
    rm -f "$errors"
  fi
  if [ "$code" -eq 255 ] && [ -d "$ALLRANKS_STATE/lost" ]; then
    # In a shell of its own: the folder goes when the command has ended.
    (: >"$ALLRANKS_STATE/lost/$host") 2>/dev/null && read -r launcher <"$ALLRANKS_STATE/pid" &&
      kill -s USR1 "$launcher" 2>/dev/null
  fi
  exit "$code"
}

run_local() {
  tab=$(printf '\t')
  while IFS=$tab read -r local_host local_state local_words || [ -n "$local_host" ]; do
    [ "$local_host" = "$host" ] || continue
    ALLRANKS_MPI_ENDS=$ALLRANKS_STATE/ends ALLRANKS_MPI_HOST=$host ALLRANKS_STATE=$local_state
    export ALLRANKS_STATE ALLRANKS_MPI_ENDS ALLRANKS_MPI_HOST
    IFS=$tab
    set -f
    # shellcheck disable=SC2086 # its tabs separate words
    set -- $local_words
    [ -z "$no_stdin" ] || exec </dev/null
    # shellcheck disable=SC2093 # the loop was looking for this line
    exec "$@" /bin/sh "$here/remote.sh" "$command"
  done <"$ALLRANKS_MPI_LOCAL_MAP"
  die "Could not resolve hostname $host: it is not in $ALLRANKS_MPI_LOCAL_MAP"
}

run_ssh() {
  ssh=${ALLRANKS_MPI_SSH:-}
  [ -n "$ssh" ] || ssh=$(command -v ssh) || die "this image has no ssh client" 127
  run "$ssh" -F "$ALLRANKS_STATE/ssh_config" \
    -o "ConnectTimeout=${ALLRANKS_MPI_CONNECT_SECONDS:-10}" "$host" "$command"
}

run_exec() {
  for python in "${ALLRANKS_MPI_PYTHON:-}" python3 python; do
    [ -z "$python" ] || ! command -v "$python" >/dev/null 2>&1 ||
      run "$python" "$here/exec.py" "$host" "$command"
  done
  command -v kubectl >/dev/null 2>&1 ||
    die "transport exec needs python3 or kubectl in the launcher's image, and it has neither" 127
  run kubectl exec -i -n "${ALLRANKS_NAMESPACE:-default}" -c "${ALLRANKS_CONTAINER:-trainer}" \
    "${host%%.*}" -- /bin/sh "$here/remote.sh" "$command"
}

if [ -n "${ALLRANKS_MPI_LOCAL_MAP:-}" ]; then
  run_local
fi
case ${ALLRANKS_MPI_TRANSPORT:-ssh} in
  ssh) run_ssh ;;
  exec) run_exec ;;
  *) die "ALLRANKS_MPI_TRANSPORT is '$ALLRANKS_MPI_TRANSPORT': it must be ssh or exec" 2 ;;
esac
