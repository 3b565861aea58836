#!/bin/sh
# How a training container starts. The first half is shared by all workloads of allranks, the second
# is the workload's own. POSIX sh: images bring dash, busybox or bash. Names of ours have a prefix,
# because a user's setup runs in the same shell.

# The folder this file is in; setup.sh, script and the launcher lie beside it.
allranks_here=${0%/*}

allranks_say() {
  printf 'allranks: %s\n' "$*" >&2
}

# A user that the image does not know (runAsUser: 1000) has / as its home folder, where it may write
# nothing, and no name. What keeps models or compiled kernels in ~/.cache ends there, and so does
# Python's getpass.getuser(), by which torch.compile names its folder.
if allranks_user=$(id -u 2>/dev/null) && [ "$allranks_user" != 0 ]; then
  if [ "${HOME:-/}" = / ] && [ -w /tmp ]; then
    HOME=/tmp
    export HOME
  fi
  # There pip installs what it may not write into the image's Python: the programs, too, are found.
  case :$PATH: in
    *:"$HOME/.local/bin":*) ;;
    *)
      PATH=$PATH:$HOME/.local/bin
      export PATH
      ;;
  esac
  if [ -z "${USER:-}${LOGNAME:-}" ] && ! id -un >/dev/null 2>&1; then
    LOGNAME=$allranks_user
    export LOGNAME
  fi
fi

# With `compat: slurm` setup is lines of a batch script, which are bash's. Where sh is bash, it ends at
# more errors than bash does, such as a file to source that is not there.
if [ "${ALLRANKS_COMPAT:-}" = slurm ] && [ -n "${BASH_VERSION:-}" ]; then
  # shellcheck disable=SC3040 # bash alone comes here
  set +o posix
elif [ "${ALLRANKS_COMPAT:-}" = slurm ]; then
  ! command -v bash >/dev/null 2>&1 || exec bash "$0" "$@"
  allranks_say "this image has no bash: setup is run by sh"
fi

# Run the user's setup, in this shell, so that what it exports and activates holds for the command.
# The first command of it that fails ends the pod. A setup with a #! line runs on its own instead.
allranks_setup() {
  if [ "${ALLRANKS_COMPAT:-}" = slurm ]; then
    # shellcheck source=charts/library/files/slurm.sh
    . "$allranks_here/slurm.sh"
    allranks_slurm_node
  fi
  [ -f "$allranks_here/setup.sh" ] || return 0
  allranks_say "running setup"
  trap 'allranks_setup_ended $?' EXIT
  set -e
  IFS= read -r allranks_line <"$allranks_here/setup.sh" || :
  case $allranks_line in
    '#!'*) "$allranks_here/setup.sh" ;;
    *) . "$allranks_here/setup.sh" ;;
  esac
  set +e
  trap - EXIT
  # What `declare` makes in a function of bash ends with that function, and so does what a file declares
  # that `export -p` has written, where setup sources it. Make it the shell's own.
  # shellcheck disable=SC3043 # bash alone runs it
  [ -z "${BASH_VERSION:-}" ] || eval "$(local -p | sed 's/^declare /declare -g /')"
}

allranks_setup_ended() {
  if [ "$1" -eq 0 ]; then
    allranks_say "setup ended this shell with 'exit 0' before the command could run: leave exit out"
    exit 1
  fi
  allranks_say "setup failed with exit code $1; the command was not run"
  exit "$1"
}

