# --- torchrun: the launcher beside this file does the rest, in the image's own Python -------------

# Whether a Python is there and has torch.
allranks_has_torch() {
  "$1" -c 'import importlib.util as u, sys; sys.exit(u.find_spec("torch") is None)' >/dev/null 2>&1
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
if ! allranks_find_python; then
  allranks_say "this image has no torchrun, and neither python3 nor python on PATH has torch."
  allranks_say "Use an image with PyTorch, install it in setup, or set PATH in env to where it is."
  exit 127
fi
exec "$allranks_python" -u "$allranks_here/launch.py" "$@"
