# --- mpi: the two roles of a job ------------------------------------------------------------------
#
#   worker    keeps a door open (sshd, or just its container for the API's exec) until it is told to
#             stop, and gives each command that comes in the environment that setup made
#   launcher  waits until every worker answers, runs the command, tells the workers to stop
#
#   common.sh          what both need: hosts, keys, asking many hosts at once, ending with a reason
#   worker.sh launcher.sh
#   mpirun.sh          the words that the launcher runs
#   blame.sh           which rank failed first
#   rank.sh            around each rank: reports how it ended
#   relay.sh           beside them: hands on what they report, and what MPICH loses of it
#   rsh.sh             the agent that every MPI starts its daemons with (and `ssh` on PATH)
#   remote.sh          the other end of it, on the worker
#   exec.py            the agent's way through the Kubernetes API
#   allranks_progress.py  how a rank says how far the training is
#   sitecustomize.py why.py  let `allranks why` see what a rank does
#   standstill.py stall.py   notice that no rank goes on, where that is asked
#   discover_hosts.sh  the hosts that answer now, for elastic Horovod
#
# Files under $ALLRANKS_STATE, a volume that lives as long as the pod:
#   worker    env, folder (after setup), instance (new at each start), pid, stop (told to stop),
#             used (a command came in), ends.PID (a pipe: how ranks ended; ends.PID.* their stderr), ssh_key, authorized_keys, sshd_config, sshd.log
#   launcher  pid, ssh_key, known_hosts, ssh_config, bin/ssh, hosts/ (what each host answered), lost/,
#             said/ (the end of what the command wrote), ends (how ranks ended, in order), left (the last
#             words of ranks that called MPI_Abort), left.in (the pipe of ranks in this pod), errors.PID
#             (the pipe of each connection that started ranks)
#
# What each MPI must find in its environment (the chart sets it). Real runs of Open MPI 4.1 and 5.0,
# MPICH 5.0 and Intel MPI 2021 say:
#   Open MPI  Version 4 reads OMPI_MCA_plm_rsh_agent, OMPI_MCA_orte_default_hostfile and
#             OMPI_MCA_orte_keep_fqdn_hostnames; version 5 PRTE_MCA_plm_ssh_agent and
#             PRTE_MCA_prte_default_hostfile. PRTE_MCA_prte_keep_fqdn_hostnames must not be set:
#             with it version 5 does not know its own host in the hostfile.
#             {OMPI_MCA_plm_rsh,PRTE_MCA_plm_ssh}_no_tree_spawn=1 with .._num_concurrent above the
#             number of hosts: every daemon is started from here, where a lost connection is seen
#             and where the credentials are. Fewer at once than hosts hangs version 5.
#             OMPI_MCA_orte_leave_session_attached=1: else version 4 then cuts its daemons loose,
#             and a host that is gone without a word is never missed.
#             OMPI_MCA_regx=naive where the names of hosts have more than 49 characters before their
#             first digit, or more than 9 digits there: else version 4 writes past a buffer, or
#             changes the digits (4.0.2 or later; the others know no such names).
#             OMPI_MCA_hwloc_base_binding_policy and PRTE_MCA_hwloc_default_binding_policy=none:
#             else all pods of a node bind to its first cores.
#             With SLURM_JOBID (compat: slurm) {OMPI,PRTE}_MCA_{plm,ras}=^slurm: else version 4 has
#             srun start its daemons, and ends where there is none.
#   MPICH     HYDRA_LAUNCHER=ssh, HYDRA_LAUNCHER_EXEC, HYDRA_HOST_FILE.
#   Intel     I_MPI_HYDRA_BOOTSTRAP=ssh, I_MPI_HYDRA_BOOTSTRAP_EXEC, I_MPI_HYDRA_HOST_FILE, and
#             I_MPI_PERHOST (the hostfile's ":n" is ignored), I_MPI_HYDRA_BRANCH_COUNT above the
#             number of hosts (as no_tree_spawn), I_MPI_PIN=0 (as the binding policy).

# shellcheck source=charts/mpi/files/common.sh
. "$allranks_here/common.sh"
case ${ALLRANKS_ROLE:-} in
  worker | launcher)
    mkdir -p "$ALLRANKS_STATE" || allranks_fail 1 "cannot make the folder $ALLRANKS_STATE"
    # shellcheck source=/dev/null
    . "$allranks_here/$ALLRANKS_ROLE.sh"
    "allranks_$ALLRANKS_ROLE" "$@"
    ;;
  *) allranks_fail 1 "ALLRANKS_ROLE is '${ALLRANKS_ROLE:-}': it must be worker or launcher" ;;
esac
