# shellcheck shell=sh
# What Slurm tells a task, told to the processes of a run with `compat: slurm`. Sourced: by entry.sh
# before setup, and by the shell around each rank.
#
# The chart sets what the whole job shares: SLURM_JOB_ID, SLURM_JOB_NAME, SLURM_NNODES, SLURM_NTASKS,
# SLURM_TASKS_PER_NODE, SLURM_JOB_NODELIST, SLURM_GPUS_ON_NODE, SLURM_CPUS_PER_TASK, … What the user
# has set stays as it is, and what the value slurm.unset names is not set here either.

# A pod, as a batch script sees its node: it is the first task there.
allranks_slurm_node() {
  # shellcheck disable=SC3028 # Kubernetes sets it
  allranks_slurm_hostname=${HOSTNAME:-$(uname -n)}
  if [ -n "${ALLRANKS_NODE_RANK:-}" ]; then
    : "${SLURM_NODEID:=$ALLRANKS_NODE_RANK}"
  elif [ -z "${SLURM_NODEID:-}" ] && [ -r "${ALLRANKS_MPI_HOSTFILE:-/etc/mpi/hostfile}" ]; then
    # Its line among the hosts; a launcher without ranks is none of them, and runs as on the first.
    allranks_slurm_index=0
    SLURM_NODEID=0
    while read -r allranks_slurm_host _; do
      allranks_slurm_host=${allranks_slurm_host%%:*}
      case $allranks_slurm_host in
        "$allranks_slurm_hostname" | "$allranks_slurm_hostname".*) SLURM_NODEID=$allranks_slurm_index ;;
      esac
      allranks_slurm_index=$((allranks_slurm_index + 1))
    done <"${ALLRANKS_MPI_HOSTFILE:-/etc/mpi/hostfile}"
  fi
  : "${SLURM_NODEID:=0}" "${SLURM_LOCALID:=0}"
  # 4(x3): four tasks on each of three nodes.
  allranks_slurm_tasks=${SLURM_TASKS_PER_NODE:-${SLURM_NTASKS_PER_NODE:-1}}
  : "${SLURM_PROCID:=$((SLURM_NODEID * ${allranks_slurm_tasks%%[!0-9]*}))}"
  : "${SLURM_SUBMIT_DIR:=$PWD}" "${SLURMD_NODENAME:=$allranks_slurm_hostname}"
  : "${SLURM_JOB_NODELIST:=$SLURMD_NODENAME}"
  if [ -z "${SLURM_CPUS_ON_NODE:-}" ]; then
    SLURM_CPUS_ON_NODE=$(nproc 2>/dev/null) || SLURM_CPUS_ON_NODE=1
  fi
  if [ -z "${SLURM_JOB_CPUS_PER_NODE:-}" ]; then
    # The job asks for no CPUs: those of this node, as if the others had as many.
    SLURM_JOB_CPUS_PER_NODE=$SLURM_CPUS_ON_NODE
    [ "${SLURM_NNODES:-1}" = 1 ] || SLURM_JOB_CPUS_PER_NODE="$SLURM_CPUS_ON_NODE(x$SLURM_NNODES)"
  fi
  if [ -n "${SLURM_ARRAY_TASK_ID:-}" ] && [ -z "${SLURM_ARRAY_JOB_ID:-}" ]; then
    # Each task of an array has a number of its own, besides that of the array.
    SLURM_ARRAY_JOB_ID=${SLURM_JOB_ID:-0}
    if [ -n "${ALLRANKS_SWEEP:-}" ]; then
      # A trial is a release with a name of its own, and the array has one for all.
      allranks_slurm_sum=$(printf %s "$ALLRANKS_SWEEP" | cksum)
      SLURM_ARRAY_JOB_ID=$((${allranks_slurm_sum%% *} % 268435456 + 268435456))
      [ "${SLURM_JOB_NAME:-}" != "${ALLRANKS_TRIAL_NAME:-}" ] || SLURM_JOB_NAME=$ALLRANKS_SWEEP
    fi
    SLURM_JOB_ID=$((SLURM_ARRAY_JOB_ID + 1 + SLURM_ARRAY_TASK_ID))
    SLURM_JOBID=$SLURM_JOB_ID
    export SLURM_ARRAY_JOB_ID SLURM_JOB_ID SLURM_JOBID SLURM_JOB_NAME
  fi
  if [ ! -r "${ALLRANKS_MPI_HOSTFILE:-/etc/mpi/hostfile}" ]; then
    # No chart has told an mpirun how to start its ranks, and each that finds SLURM_JOBID calls srun.
    : "${OMPI_MCA_plm:=^slurm}" "${OMPI_MCA_ras:=^slurm}" "${PRTE_MCA_plm:=^slurm}" \
      "${PRTE_MCA_ras:=^slurm}" "${HYDRA_LAUNCHER:=fork}" "${I_MPI_HYDRA_BOOTSTRAP:=fork}"
    export OMPI_MCA_plm OMPI_MCA_ras PRTE_MCA_plm PRTE_MCA_ras HYDRA_LAUNCHER I_MPI_HYDRA_BOOTSTRAP
  fi
  allranks_slurm_resolver=${ALLRANKS_RESOLV_CONF:-/etc/resolv.conf}
  if [ -z "${LOCALDOMAIN:-}" ] && [ "${SLURM_NNODES:-1}" != 1 ] && [ -r "$allranks_slurm_resolver" ]; then
    # Slurm's nodes have no domain in a host list, and programs take the name of the first without
    # it (DINOv2). glibc looks for such a name in these domains (resolv.conf(5)), the pods' first.
    allranks_slurm_domain=${SLURM_JOB_NODELIST#*.}
    while read -r allranks_slurm_word allranks_slurm_search; do
      case "$allranks_slurm_word $allranks_slurm_search" in
        "search "*.svc.*)
          LOCALDOMAIN="${allranks_slurm_domain%%[.,]*}.$allranks_slurm_search"
          LOCALDOMAIN="${LOCALDOMAIN%% *} $allranks_slurm_search"
          export LOCALDOMAIN
          ;;
      esac
    done <"$allranks_slurm_resolver"
  fi
  SLURM_NODELIST=$SLURM_JOB_NODELIST
  export SLURM_NODEID SLURM_LOCALID SLURM_PROCID SLURM_SUBMIT_DIR SLURMD_NODENAME \
    SLURM_JOB_NODELIST SLURM_NODELIST SLURM_CPUS_ON_NODE SLURM_JOB_CPUS_PER_NODE
}

# The nodes of a step, the name of the first written out: JAX takes it for rank 0's, and reads no more
# of it than up to a bracket.
allranks_slurm_step() {
  SLURM_STEP_NODELIST=${SLURM_JOB_NODELIST:-}
  allranks_slurm_head=${SLURM_STEP_NODELIST%%\[0-*}
  case $allranks_slurm_head in
    "$SLURM_STEP_NODELIST" | *,*) return ;;
  esac
  allranks_slurm_tail=${SLURM_STEP_NODELIST#*\[0-}
  allranks_slurm_last=${allranks_slurm_tail%%]*}
  case $allranks_slurm_last in
    1) allranks_slurm_numbers=1 ;;
    *[!0-9]*) return ;;
    *) allranks_slurm_numbers="[1-$allranks_slurm_last]" ;;
  esac
  allranks_slurm_tail=${allranks_slurm_tail#*]}
  allranks_slurm_domain=${allranks_slurm_tail%%,*}
  SLURM_STEP_NODELIST="${allranks_slurm_head}0$allranks_slurm_domain"
  SLURM_STEP_NODELIST="$SLURM_STEP_NODELIST,$allranks_slurm_head$allranks_slurm_numbers$allranks_slurm_tail"
}

# A rank: what torchrun or an MPI has told it, as srun tells it.
allranks_slurm_rank() {
  SLURM_PROCID=${RANK:-${OMPI_COMM_WORLD_RANK:-${PMIX_RANK:-${PMI_RANK:-${SLURM_PROCID:-0}}}}}
  SLURM_LOCALID=${LOCAL_RANK:-${OMPI_COMM_WORLD_LOCAL_RANK:-${MPI_LOCALRANKID:-0}}}
  SLURM_NTASKS=${WORLD_SIZE:-${OMPI_COMM_WORLD_SIZE:-${PMI_SIZE:-${SLURM_NTASKS:-1}}}}
  SLURM_NODEID=${GROUP_RANK:-${SLURM_NODEID:-0}}
  SLURM_NNODES=${GROUP_WORLD_SIZE:-${SLURM_NNODES:-1}}
  SLURM_NPROCS=$SLURM_NTASKS SLURM_JOB_NUM_NODES=$SLURM_NNODES
  SLURM_STEP_ID=0 SLURM_STEPID=0 SLURM_STEP_NUM_TASKS=$SLURM_NTASKS SLURM_STEP_NUM_NODES=$SLURM_NNODES
  SLURM_TASK_PID=$$
  allranks_slurm_step
  : "${SLURM_STEP_TASKS_PER_NODE:=${SLURM_TASKS_PER_NODE:-1}}"
  # The numbers of the GPUs that a pod sees begin at 0; programs split them at the commas.
  [ -z "${SLURM_JOB_GPUS:-}" ] || export SLURM_STEP_GPUS="${SLURM_STEP_GPUS:-$SLURM_JOB_GPUS}"
  if [ -z "${SLURM_LAUNCH_NODE_IPADDR:-}" ]; then
    SLURM_LAUNCH_NODE_IPADDR=${MASTER_ADDR:-}
    if [ -z "$SLURM_LAUNCH_NODE_IPADDR" ] && [ -r "${ALLRANKS_MPI_HOSTFILE:-/etc/mpi/hostfile}" ]; then
      read -r SLURM_LAUNCH_NODE_IPADDR _ <"${ALLRANKS_MPI_HOSTFILE:-/etc/mpi/hostfile}" || :
      SLURM_LAUNCH_NODE_IPADDR=${SLURM_LAUNCH_NODE_IPADDR%%:*}
    fi
    : "${SLURM_LAUNCH_NODE_IPADDR:=${SLURMD_NODENAME:-localhost}}"
  fi
  : "${SLURM_SRUN_COMM_HOST:=$SLURM_LAUNCH_NODE_IPADDR}"
  export SLURM_PROCID SLURM_LOCALID SLURM_NTASKS SLURM_NPROCS SLURM_NODEID SLURM_NNODES \
    SLURM_JOB_NUM_NODES SLURM_STEP_ID SLURM_STEPID SLURM_STEP_NUM_TASKS SLURM_STEP_NUM_NODES \
    SLURM_STEP_NODELIST SLURM_TASK_PID SLURM_STEP_TASKS_PER_NODE SLURM_LAUNCH_NODE_IPADDR \
    SLURM_SRUN_COMM_HOST
}
