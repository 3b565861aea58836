#!/bin/sh
# The hosts that answer now, one a line, in the order of the hostfile: what elastic Horovod asks for
# every second (--host-discovery-script /etc/mpi/discover_hosts.sh, with --slots-per-host). An answer
# is good for some seconds, so that asking often costs nothing.

: "${ALLRANKS_STATE:=/var/run/allranks}" "${ALLRANKS_FILES:=/etc/allranks}"
max_age=${ALLRANKS_MPI_DISCOVER_SECONDS:-5}
hosts_file=$ALLRANKS_STATE/discovered

# shellcheck source=charts/mpi/files/common.sh
. "$ALLRANKS_FILES/common.sh"

now=$(allranks_now)
if [ ! -r "$hosts_file" ] || ! read -r answer_time <"$hosts_file" ||
  [ $((now - answer_time)) -ge "$max_age" ]; then
  answers=$hosts_file.$$
  ALLRANKS_MPI_CONNECT_SECONDS=2
  export ALLRANKS_MPI_CONNECT_SECONDS
  allranks_hosts | allranks_ask_all_and_wait "$answers" allranks:instance 1
  {
    echo "$now"
    while read -r host; do
      [ ! -e "$answers/$host.id" ] || echo "$host"
    done <"$answers/hosts"
  } >"$hosts_file.new.$$" && mv -f "$hosts_file.new.$$" "$hosts_file"
  rm -rf "$answers"
fi
tail -n +2 "$hosts_file"
