# --- torchrun -------------------------------------------------------------------------------------

# doubled TEXT: set $text to it with every `$` twice.
allranks_doubled() {
  text=
  rest=$1
  while :; do
    case $rest in
      *'$'*)
        text=$text${rest%%'$'*}'$$'
        rest=${rest#*'$'}
        ;;
      *) break ;;
    esac
  done
  text=$text$rest
}

# torchrun fills in ${local_rank} and halves `$$` in what it hands to the processes. The user's words
# are to arrive as they were typed, so each `$` goes in twice; not in a program's own name, which
# torchrun leaves alone.
allranks_main() {
  set -u
  if allranks_finished; then
    allranks_idle
  fi
  set +u
  allranks_run_setup
  set -u
  allranks_wait_for_name "${ALLRANKS_WAIT_FOR:-}" "${ALLRANKS_WAIT_SECONDS:-0}"

  # Rank 0 keeps the c10d store; each node must be told whether it is the one.
  if [ "${ALLRANKS_HOST_STORE:-}" = 1 ]; then
    [ "$ALLRANKS_NODE_RANK" = 0 ] && is_host=1 || is_host=0
    export PET_RDZV_CONF="${PET_RDZV_CONF:+$PET_RDZV_CONF,}is_host=$is_host"
  fi

  words=$#
  first=1
  while [ "$words" -gt 0 ]; do
    text=$1
    if [ "$first" = 0 ] || [ "${PET_NO_PYTHON:-0}" = 0 ] || [ "${PET_RUN_PATH:-0}" = 1 ]; then
      allranks_doubled "$1"
    fi
    shift
    set -- "$@" "$text"
    first=0
    words=$((words - 1))
  done

  # These two options torchrun does not read from the environment.
  set -- -- "$@"
  [ -z "${ALLRANKS_LOGS_SPECS:-}" ] || set -- --logs-specs "$ALLRANKS_LOGS_SPECS" "$@"
  [ -z "${ALLRANKS_NUMA_BINDING:-}" ] || set -- --numa-binding "$ALLRANKS_NUMA_BINDING" "$@"

  if command -v torchrun >/dev/null 2>&1; then
    allranks_run torchrun "$@"
  fi
  for python in python3 python; do
    if "$python" -c 'import importlib.util as u, sys; sys.exit(u.find_spec("torch") is None)' \
      >/dev/null 2>&1; then
      allranks_run "$python" -m torch.distributed.run "$@"
    fi
  done
  allranks_say "this image has no torchrun, and no python with torch on PATH."
  allranks_say "Use an image with PyTorch, install it in setup, or set PATH in env to where it is."
  exit 127
}

allranks_main "$@"
