# shellcheck shell=sh
# The worker: make the environment, open the door, wait. Sourced by entry.sh.
#
# It ends with 0 when the launcher told it to stop; with 143 when it is told by a signal, so that a
# drained worker is not taken for a finished one; with 1 and a reason when no launcher was there for
# ALLRANKS_MPI_LOST_SECONDS. A launcher that never came is waited for without end where a scheduler's
# queue may hold it, and one that is gone is where the workers are to be kept (cleanPodPolicy: None).

allranks_worker() {
  allranks_sshd_pid=''
  trap 'allranks_worker_leave' TERM
  rm -rf "$ALLRANKS_STATE/ending"
  rm -f "$ALLRANKS_STATE/pid" # until setup is done this worker takes no command
  allranks_record ""
  if [ -e "$ALLRANKS_STATE/stop" ]; then
    # Only a StatefulSet starts a container again that has ended well.
    allranks_say "this worker was told to stop; waiting to be deleted"
    while :; do allranks_nap 3600; done
  fi
  allranks_setup
  allranks_install_progress
  allranks_save_environment
  if [ "$(allranks_transport)" = ssh ]; then
    allranks_start_sshd
  fi
  echo $$ >"$ALLRANKS_STATE/pid"
  allranks_say "this worker is ready"
  allranks_watch
}

# Keep what a command of the launcher's shall find: the environment after setup (sshd would hand
# over next to nothing of it), the folder, and a name for this start of the worker.
allranks_save_environment() {
  (
    umask 077
    # In the words of the shell that reads it: this one may be bash, for a setup that asks for it.
    /bin/sh -c 'export -p' >"$ALLRANKS_STATE/env.new" && mv -f "$ALLRANKS_STATE/env.new" "$ALLRANKS_STATE/env"
    pwd -P >"$ALLRANKS_STATE/folder"
    cat /proc/sys/kernel/random/uuid >"$ALLRANKS_STATE/instance" 2>/dev/null ||
      echo "$(uname -n)-$$-$(allranks_now)" >"$ALLRANKS_STATE/instance"
    rm -f "$ALLRANKS_STATE/used"
  ) || allranks_fail 1 "cannot write to $ALLRANKS_STATE: is the disk full?"
}

# Write sshd's settings. It runs as this container's own user, on a port that any user may open, and
# asks no PAM and no file of the system's. The job's key is also the host's, so that each end knows
# the other. Where pods share one machine's network, ALLRANKS_MPI_ADDRESS is this one's own. Each
# connection is a process of sshd's before it has shown a key: one address has some of them, not all.
# There bash would also read a person's own .bashrc for each rank, as it does at the first level under
# sshd: what that starts has ended in the middle, and held up all that came after.
allranks_write_sshd_config() {
  # shellcheck disable=SC2154 # set by allranks_prepare_key
  printf '%s\n' "$allranks_public_key" >"$ALLRANKS_STATE/authorized_keys"
  cat >"$ALLRANKS_STATE/sshd_config" <<END
Port $ALLRANKS_MPI_PORT
${ALLRANKS_MPI_ADDRESS:+ListenAddress $ALLRANKS_MPI_ADDRESS}
${ALLRANKS_MPI_ADDRESS:+SetEnv SHLVL=1}
HostKey "$ALLRANKS_STATE/ssh_key"
AuthorizedKeysFile "$ALLRANKS_STATE/authorized_keys"
PidFile none
StrictModes no
PasswordAuthentication no
ChallengeResponseAuthentication no
AllowTcpForwarding no
AllowAgentForwarding no
X11Forwarding no
PermitTunnel no
LoginGraceTime 60
MaxStartups 4096
PerSourceMaxStartups 128
MaxSessions 4096
ClientAliveInterval 10
ClientAliveCountMax 3
ForceCommand env ALLRANKS_STATE='$ALLRANKS_STATE' /bin/sh '$ALLRANKS_FILES/remote.sh'
END
}

allranks_start_sshd() {
  allranks_sshd=''
  for allranks_file in "$(command -v sshd)" /usr/sbin/sshd /usr/local/sbin/sshd /sbin/sshd; do
    [ -n "$allranks_sshd" ] || [ ! -x "$allranks_file" ] || allranks_sshd=$allranks_file
  done
  [ -n "$allranks_sshd" ] ||
    allranks_fail 127 "this image has no sshd: install openssh-server, or set mpi.transport: exec"
  allranks_prepare_user
  allranks_prepare_key
  allranks_write_sshd_config
  # Before OpenSSH 8.5 there is no limit for each address.
  allranks_sshd_check=$("$allranks_sshd" -t -f "$ALLRANKS_STATE/sshd_config" 2>&1)
  case $allranks_sshd_check in
    *'PerSourceMaxStartups'*)
      allranks_settings=$(grep -v PerSourceMaxStartups "$ALLRANKS_STATE/sshd_config")
      printf '%s\n' "$allranks_settings" >"$ALLRANKS_STATE/sshd_config"
      allranks_sshd_check=$("$allranks_sshd" -t -f "$ALLRANKS_STATE/sshd_config" 2>&1)
      ;;
  esac
  # As root it wants a folder that the package's start script would have made.
  case $allranks_sshd_check in
    *'Missing privilege separation directory: '*)
      allranks_missing_folder=${allranks_sshd_check##*'directory: '}
      allranks_missing_folder=${allranks_missing_folder%%[[:cntrl:]]*}
      mkdir -p "$allranks_missing_folder" && chmod 755 "$allranks_missing_folder"
      ;;
  esac
  : >"$ALLRANKS_STATE/sshd.log"
  "$allranks_sshd" -D -f "$ALLRANKS_STATE/sshd_config" -E "$ALLRANKS_STATE/sshd.log" &
  allranks_sshd_pid=$!
  allranks_try_login
}

# Log in to this very worker: a locked account, a shell that lets nobody in or a missing capability
# show here, with words, and not as a launcher that waits in vain.
allranks_try_login() {
  echo $$ >"$ALLRANKS_STATE/pid"
  allranks_write_ssh_config
  allranks_login_time=$(allranks_now)
  while :; do
    allranks_login_error=$(ssh -F "$ALLRANKS_STATE/ssh_config" "${ALLRANKS_MPI_ADDRESS:-localhost}" \
      allranks:instance 2>&1) && return
    case $? in 127) return ;; esac # no client in this image: the launcher will try
    kill -0 "$allranks_sshd_pid" 2>/dev/null || break
    case $allranks_login_error in *'Permission denied'* | *'not available'*) break ;; esac
    [ $(($(allranks_now) - allranks_login_time)) -lt 10 ] || break
    allranks_nap 0.1
  done
  allranks_log=$(tail -n 3 "$ALLRANKS_STATE/sshd.log" | tr '\n' ' ')
  case $allranks_login_error in
    *'not available'*) allranks_login_error="its login shell lets nobody in (usermod -s /bin/sh mends it)" ;;
  esac
  allranks_worker_end 1 "sshd of this image lets user $(id -un) not in: \
${allranks_login_error:-no reason given}; its log says: ${allranks_log:-nothing}"
}

# Wait to be told to stop, and look after sshd and the launcher.
allranks_watch() {
  allranks_lost_seconds=${ALLRANKS_MPI_LOST_SECONDS:-600}
  allranks_had_launcher='' allranks_launcher_time=$(allranks_now) allranks_turn=0
  allranks_turns=$((allranks_lost_seconds > 10 ? 10 : allranks_lost_seconds + 1))
  while :; do
    allranks_nap 1
    if [ -e "$ALLRANKS_STATE/stop" ]; then
      allranks_say "told to stop"
      allranks_worker_end 0
    fi
    if [ -n "$allranks_sshd_pid" ] && ! kill -0 "$allranks_sshd_pid" 2>/dev/null; then
      allranks_fail 1 "sshd ended: $(tail -n 3 "$ALLRANKS_STATE/sshd.log" | tr '\n' ' ')"
    fi
    allranks_turn=$(((allranks_turn + 1) % allranks_turns))
    [ "$allranks_turn" -ne 0 ] || allranks_look_for_launcher
  done
}

allranks_look_for_launcher() {
  # In the background, so that a signal is seen while a name server keeps silent.
  allranks_resolves "${ALLRANKS_MPI_LAUNCHER:-}" &
  wait $!
  case $? in
    0) allranks_had_launcher=yes allranks_launcher_time=$(allranks_now) ;;
    1) ;;
    *) return ;; # nothing here to ask with, or a signal came
  esac
  [ "${ALLRANKS_MPI_CLEAN:-Running}" != None ] || return 0
  [ -n "$allranks_had_launcher" ] || [ "${ALLRANKS_MPI_WAIT_FOR_PODS:-bounded}" != scheduler ] || return 0
  [ $(($(allranks_now) - allranks_launcher_time)) -ge "$allranks_lost_seconds" ] || return 0
  allranks_worker_end 1 "there was no launcher (${ALLRANKS_MPI_LAUNCHER:-}) for \
$allranks_lost_seconds s: this worker ended by itself"
}

# This pod is to go: its ranks first, which may have something to save. sshd stays meanwhile, as the
# MPI would take a lost connection for a lost worker.
allranks_worker_leave() {
  trap '' TERM
  if [ -e "$ALLRANKS_STATE/used" ]; then
    /bin/sh "$ALLRANKS_FILES/remote.sh" "allranks:end $(allranks_time_to_end)" >/dev/null
  fi
  allranks_worker_end 143
}

# End this worker, with a reason where it failed.
#   allranks_worker_end CODE [REASON]
allranks_worker_end() {
  trap '' TERM
  [ -z "$allranks_sshd_pid" ] || kill "$allranks_sshd_pid" 2>/dev/null
  [ $# -lt 2 ] || allranks_fail "$1" "$2"
  exit "$1"
}
