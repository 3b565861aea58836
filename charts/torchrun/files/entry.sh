# --- torchrun: the launcher beside this file does the rest, in the image's own Python -------------

# Whether a Python is there, has torch, and runs the launcher. One that is too old is kept to be named.
allranks_has_torch() {
  "$1" -c 'import importlib.util as u, sys
sys.exit(u.find_spec("torch") is None or 3 * (sys.version_info < (3, 8)))' >/dev/null 2>&1 && return
  [ "$?" != 3 ] || allranks_old_python=$1
  return 1
}

# Set $allranks_python to the Python that torch is installed in. The one that torchrun names in its
# first line comes first: an image may well have another python3 earlier on PATH.
allranks_find_python() {
  if allranks_python=$(command -v torchrun); then
    IFS= read -r allranks_python <"$allranks_python" || :
    allranks_python=${allranks_python#'#!'}
    ! allranks_has_torch "$allranks_python" || return 0
  fi
  for allranks_python in python3 python; do
    ! allranks_has_torch "$allranks_python" || return 0
  done
  return 1
}

# A rank that has finished must not train again where the container is restarted all the same (a
# StatefulSet does that): the launcher then only waits to be stopped, and needs no setup.
if [ ! -e "${ALLRANKS_FINISHED_MARKER:-}" ]; then
  allranks_setup
fi
allranks_old_python=
if ! allranks_find_python; then
  if [ -n "$allranks_old_python" ]; then
    allranks_say "the Python of this image that has torch ($allranks_old_python) is older than 3.8."
    allranks_say "Use an image with torch 1.13 or newer, on Python 3.8 or newer."
    exit 127
  fi
  allranks_say "this image has no torchrun, and neither python3 nor python on PATH has torch."
  allranks_say "Use an image with PyTorch, install it in setup, or set PATH in env to where it is."
  exit 127
fi
exec "$allranks_python" -u "$allranks_here/launch.py" "$@"
