# --- elastic: the files beside this one do the rest, in the image's own Python --------------------
#
#   follow.py          a role's program in a job of fixed size (with roles.py and meeting.py)
#   elastic_worker.py  a worker's torchrun in a job whose master decides the size (with
#                      elastic_training.py and elastic_agent.py)
#
# The first argument says which; the words of the user's program follow.

# Set $allranks_python to a Python that runs them.
allranks_find_python() {
  for allranks_python in python3 python; do
    ! "$allranks_python" -c 'import sys; sys.exit(sys.version_info < (3, 8))' 2>/dev/null || return 0
  done
  return 1
}

allranks_setup
allranks_pod_program=$1
shift
if [ "$allranks_pod_program" = exec ]; then
  # A worker that is not torchrun's reports its speed, too: allranks_report.py is there.
  allranks_folder=$(cd "$allranks_here" && pwd)
  PYTHONPATH=${PYTHONPATH:+$PYTHONPATH:}$allranks_folder
  # What arms ranks takes the folder off the front again, and leaves it at the end where it is twice.
  [ ! -e "$allranks_folder/sitecustomize.py" ] || PYTHONPATH=$allranks_folder:$PYTHONPATH
  export PYTHONPATH
  exec "$@"
fi
if ! allranks_find_python; then
  allranks_say "this image has neither python3 nor python of version 3.8 or newer on PATH."
  allranks_say "Use an image with Python, install it in setup, or set PATH in env to where it is."
  exit 127
fi
exec "$allranks_python" -B -u "$allranks_here/$allranks_pod_program.py" "$@"
