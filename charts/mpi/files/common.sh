# shellcheck shell=sh
# shellcheck disable=SC2034 # what is set here is read by who sources it
# What the worker, the launcher and discover_hosts.sh share. Sourced, never run.

: "${ALLRANKS_STATE:=/var/run/allranks}" "${ALLRANKS_MPI_PORT:=2222}"
: "${ALLRANKS_FILES:=${allranks_here:-/etc/allranks}}"
: "${ALLRANKS_MPI_HOSTFILE:=/etc/mpi/hostfile}"
export ALLRANKS_STATE ALLRANKS_MPI_PORT ALLRANKS_FILES ALLRANKS_MPI_HOSTFILE

allranks_lanes=64 # hosts that are asked at the same time

# --- words ----------------------------------------------------------------------------------------

# Leave the reason of an end where Kubernetes shows it; "" clears an earlier one. It keeps 4 KiB.
allranks_record() {
  [ -n "${ALLRANKS_TERMINATION_LOG:-}" ] || return 0
  printf '%.1000s' "$1" 2>/dev/null >"$ALLRANKS_TERMINATION_LOG" ||
    allranks_say "cannot write $ALLRANKS_TERMINATION_LOG"
}

# End with a code and one sentence; lines that the log has already follow it in the message.
#   allranks_fail CODE SENTENCE [LINES]
allranks_fail() {
  allranks_say "error: $2"
  allranks_record "$2${3:+
$3}"
  exit "$1"
}

# --- time -----------------------------------------------------------------------------------------

# Sleep so that a trapped signal is seen at once. POSIX sleep knows whole seconds only.
allranks_nap() {
  { sleep "$1" 2>/dev/null || sleep 1; } &
  wait $!
}

allranks_now() {
  date +%s
}

# --- hosts ----------------------------------------------------------------------------------------

# ssh, exec or local: a map of local hosts is only there where processes stand in for pods.
allranks_transport() {
  if [ -n "${ALLRANKS_MPI_LOCAL_MAP:-}" ]; then
    echo local
  else
    echo "${ALLRANKS_MPI_TRANSPORT:-ssh}"
  fi
}

# The host names of the hostfile, one a line, in the order of the ranks.
allranks_hosts() {
  while read -r allranks_host _ || [ -n "$allranks_host" ]; do
    case $allranks_host in
      '' | '#'*) ;;
      *) printf '%s\n' "${allranks_host%%:*}" ;;
    esac
  done <"$ALLRANKS_MPI_HOSTFILE"
}

# Set $allranks_alias to what people call a host. On one machine pods that have no host name of their
# own stand in the hostfile by address, and the map of local hosts has all their names, one a line.
#   allranks_find_alias HOST
allranks_find_alias() {
  allranks_alias=$1
  case ${ALLRANKS_MPI_LOCAL_MAP:+$1} in '' | *[!0-9.]*) return 0 ;; esac
  allranks_host_state=''
  allranks_tab=$(printf '\t')
  while IFS=$allranks_tab read -r allranks_entry allranks_entry_state _; do
    case $allranks_entry in
      "$1") allranks_host_state=$allranks_entry_state ;;
      *[!0-9.]*)
        if [ "$allranks_entry_state" = "$allranks_host_state" ]; then
          allranks_alias=$allranks_entry
          return 0
        fi
        ;;
    esac
  done <"$ALLRANKS_MPI_LOCAL_MAP"
}

# Whether a name has an address: 0 yes, 1 no, 2 this image has nothing to ask with.
allranks_resolves() {
  if command -v getent >/dev/null 2>&1; then
    getent hosts "$1" >/dev/null 2>&1 || return 1
  elif command -v nslookup >/dev/null 2>&1; then
    nslookup "$1" >/dev/null 2>&1 || return 1
  else
    return 2
  fi
}

# How many of how many: `allranks_proportion 2 3 host answers answer` is "2 of 3 hosts answer", and of
# one alone "the host answers". The verbs may be left out.
allranks_proportion() {
  case $1/$2 in
    0/*) echo "no $3${4:+ $4}" ;;
    1/1) echo "the $3${4:+ $4}" ;;
    1/*) echo "1 of $2 ${3}s${4:+ $4}" ;;
    *) echo "$1 of $2 ${3}s${5:+ $5}" ;;
  esac
}

# How many seconds of the pod's grace period the ranks have: the rest is for mpirun and our scripts.
allranks_time_to_end() {
  allranks_grace=${ALLRANKS_GRACE_SECONDS:-30}
  allranks_reserve=$((allranks_grace / 10 + 2))
  allranks_seconds=$((allranks_grace - (allranks_reserve < 5 ? allranks_reserve : 5)))
  echo $((allranks_seconds > 1 ? allranks_seconds : 1))
}

# --- asking many hosts at once --------------------------------------------------------------------
#
# The hosts are dealt out to 64 lanes, each a process. For each host a lane leaves HOST.asked, and
# then HOST.id (what it answered) or HOST.why ("KIND SINCE TEXT") in a folder, so that who waits for
# them reads files and starts nothing.

# Say why a host did not answer, from the agent's last words: KIND and a sentence.
#   away     no address: its pod is still in the queue, or is gone
#   refused  an address, and nothing listens there
#   denied   it listens and lets us not in: waiting does not help
#   silent   anything else
allranks_reason() {
  # What exec.py says begins with its own name and the host's, which the caller names already.
  set -- "${1#allranks: *: }"
  case $1 in
    *'the API server'* | *'nothing was heard of the pod'*) printf 'silent %s\n' "$1" ;;
    *'Could not resolve hostname'* | *'no such pod'*)
      echo 'away its name has no address (is its pod pending, or gone?)'
      ;;
    *'Connection refused'*)
      echo "refused nothing listens on port $ALLRANKS_MPI_PORT (is it still in setup? see its log)"
      ;;
    *'is not ready'*) echo 'refused it is still starting (pulling its image? in setup?)' ;;
    *'timed out'* | *'No route to host'* | *unreachable*)
      echo "silent no answer on port $ALLRANKS_MPI_PORT (does a network policy keep the pods apart?)"
      ;;
    *'Host key verification failed'*)
      echo 'denied its ssh key is another one (were its pod and this one started with one Secret?)'
      ;;
    *'Permission denied'*)
      echo 'denied it refused the ssh key (the same Secret? the same user in both pods? see its log)'
      ;;
    *forbidden*) printf 'denied %s\n' "$1" ;;
    *) printf 'silent %s\n' "${1:-it ended the connection without a word}" ;;
  esac
}

# What is waited for where a host has neither answered nor failed to: a resolver alone may take a
# minute over a name that is not there yet.
#   allranks_find_wait_reason FOLDER HOST
allranks_find_wait_reason() {
  if [ ! -e "$1/$2.asked" ]; then
    allranks_reason="it is asked after others, $allranks_lanes at a time"
  elif [ "${ALLRANKS_MPI_TRANSPORT:-ssh}" = exec ]; then
    allranks_reason='the API server has not said yet whether its pod runs'
  else
    allranks_reason="its name is looked up, then port $ALLRANKS_MPI_PORT is tried (is its pod running?)"
  fi
}

# Ask one host; what comes of it goes into FOLDER.
#   allranks_ask FOLDER HOST WORD
allranks_ask() {
  if [ "$2" = "${ALLRANKS_MPI_LAUNCHER:-}" ]; then
    # The launcher's own pod, where it has ranks.
    case $3 in "allranks:end "*) /bin/sh "$ALLRANKS_FILES/remote.sh" "$3" >/dev/null 2>&1 ;; esac
    echo self >"$1/$2.id"
    return
  fi
  : >"$1/$2.asked"
  if allranks_answer=$("$ALLRANKS_FILES/rsh.sh" -n "$2" "$3" 2>"$1/$2.err"); then
    printf '%s\n' "$allranks_answer" >"$1/$2.new" && mv -f "$1/$2.new" "$1/$2.id"
    return
  fi
  allranks_reason=$(allranks_reason "$(tail -n 1 "$1/$2.err")")
  # Since when it has an address: a later "away" does not start that clock again.
  allranks_since=0
  [ ! -e "$1/$2.why" ] || read -r _ allranks_since _ <"$1/$2.why"
  case $allranks_reason in
    away*) ;;
    *) [ "$allranks_since" -gt 0 ] || allranks_since=$(allranks_now) ;;
  esac
  printf '%s %s %s\n' "${allranks_reason%% *}" "$allranks_since" "${allranks_reason#* }" \
    >"$1/$2.new" && mv -f "$1/$2.new" "$1/$2.why"
  return 1
}

# One lane: ask its hosts until each has answered, TRIES times at most (0: without end).
#   allranks_lane LANE FOLDER WORD TRIES < hosts
allranks_lane() {
  allranks_lane_hosts='' allranks_host_index=0
  while read -r allranks_host; do
    [ $((allranks_host_index % allranks_lanes)) -ne "$1" ] ||
      allranks_lane_hosts="$allranks_lane_hosts $allranks_host"
    allranks_host_index=$((allranks_host_index + 1))
  done
  allranks_pause=1 allranks_attempts=0
  while :; do
    allranks_open_hosts=''
    for allranks_host in $allranks_lane_hosts; do
      allranks_ask "$2" "$allranks_host" "$3" || allranks_open_hosts="$allranks_open_hosts $allranks_host"
    done
    allranks_attempts=$((allranks_attempts + 1)) allranks_lane_hosts=$allranks_open_hosts
    [ -n "$allranks_lane_hosts" ] && [ "$allranks_attempts" -ne "$4" ] || return 0
    # Tenths of a second: 0.1 to 1.0.
    allranks_nap "$((allranks_pause / 10)).$((allranks_pause % 10))"
    allranks_pause=$((allranks_pause * 2 < 10 ? allranks_pause * 2 : 10))
  done
}

# Start all lanes in the background. Their process ids are in $allranks_lane_pids, the number of
# hosts in $allranks_host_count.
#   allranks_ask_all FOLDER WORD TRIES < hosts
allranks_ask_all() {
  rm -rf "$1" && mkdir -p "$1" && cat >"$1/hosts" || return 1
  allranks_host_count=0 allranks_lane_index=0 allranks_lane_pids=''
  while read -r _; do
    allranks_host_count=$((allranks_host_count + 1))
  done <"$1/hosts"
  while [ "$allranks_lane_index" -lt "$allranks_lanes" ] &&
    [ "$allranks_lane_index" -lt "$allranks_host_count" ]; do
    allranks_lane "$allranks_lane_index" "$1" "$2" "$3" <"$1/hosts" &
    allranks_lane_pids="$allranks_lane_pids $!"
    allranks_lane_index=$((allranks_lane_index + 1))
  done
}

# Wait until each host has answered, or was asked often enough.
allranks_ask_all_and_wait() {
  allranks_ask_all "$@" || return 1
  for allranks_lane_pid in $allranks_lane_pids; do
    while kill -0 "$allranks_lane_pid" 2>/dev/null; do
      wait "$allranks_lane_pid" # which a trapped signal ends early
    done
  done
  allranks_lane_pids=''
}

# The number of hosts that have answered, in $allranks_answer_count.
allranks_count_answers() {
  set -- "$1"/*.id
  allranks_answer_count=$#
  [ -e "$1" ] || allranks_answer_count=0
}

# Have ranks find what says how far they are: `from allranks_progress import report`.
allranks_install_progress() {
  rm -f "$ALLRANKS_STATE/save" # asked of ranks that have ended
  mkdir -p "$ALLRANKS_STATE/python"
  cp "$ALLRANKS_FILES/allranks_progress.py" "$ALLRANKS_STATE/python/"
  return 0
} 2>/dev/null

# --- ssh ------------------------------------------------------------------------------------------

# Copy the job's key to where only this user reads it (ssh insists), and derive its public half.
allranks_prepare_key() {
  allranks_key_file=${ALLRANKS_MPI_KEY:-/etc/allranks-ssh/ssh-privatekey}
  command -v ssh-keygen >/dev/null 2>&1 ||
    allranks_fail 127 "this image has no ssh-keygen: install openssh, or set mpi.transport: exec"
  [ -r "$allranks_key_file" ] ||
    allranks_fail 1 "the ssh key $allranks_key_file cannot be read by $(id -u): is the Secret mounted?"
  allranks_public_key=$(
    umask 077
    rm -f "$ALLRANKS_STATE/ssh_key"
    cat "$allranks_key_file" >"$ALLRANKS_STATE/ssh_key"
    ssh-keygen -y -P '' -f "$ALLRANKS_STATE/ssh_key" 2>&1
  ) || allranks_fail 1 "the Secret's ssh-privatekey is no private key that ssh can use without a \
passphrase: $allranks_public_key"
}

# Make sure that this user has a name, without which neither ssh nor sshd starts.
allranks_prepare_user() {
  ! id -un >/dev/null 2>&1 || return 0
  allranks_uid=$(id -u)
  # Some images let their group write the file, for clusters that pick a user id of their own.
  if [ -w /etc/passwd ]; then
    echo "allranks:x:$allranks_uid:$(id -g)::${HOME:-/}:/bin/sh" >>/etc/passwd
    ! id -un >/dev/null 2>&1 || return 0
  fi
  allranks_fail 1 "user id $allranks_uid has no name in this image's /etc/passwd, and ssh needs one: \
add such a user to the image, run as one that is in it (security.runAsUser), or set \
mpi.transport: exec"
}

# Write the settings of the ssh client. A peer that is gone without a word is noticed in 20 s: when
# it has left three questions unanswered.
allranks_write_ssh_config() {
  printf '* %s\n' "$allranks_public_key" >"$ALLRANKS_STATE/known_hosts"
  cat >"$ALLRANKS_STATE/ssh_config" <<END
Host *
  Port $ALLRANKS_MPI_PORT
  IdentityFile "$ALLRANKS_STATE/ssh_key"
  IdentitiesOnly yes
  UserKnownHostsFile "$ALLRANKS_STATE/known_hosts"
  GlobalKnownHostsFile /dev/null
  StrictHostKeyChecking yes
  CheckHostIP no
  PreferredAuthentications publickey
  BatchMode yes
  ServerAliveInterval ${ALLRANKS_MPI_ALIVE_SECONDS:-5}
  ServerAliveCountMax 3
  LogLevel ERROR
END
}
