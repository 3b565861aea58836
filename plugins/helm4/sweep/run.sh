#!/bin/sh
# Helm starts this for `helm sweep`. It finds the Python that has allranks: the one recorded in the
# file `python` beside it (`allranks plugin install` writes it), else the program allranks-sweep on
# PATH. The same file stands in plugins/helm3/sweep and in plugins/helm4/sweep.
here=${HELM_PLUGIN_DIR:-$(dirname "$0")}

# -I keeps the caller's folder and PYTHON* variables out: a file re.py there must not be imported.
# A recorded Python that has lost allranks starts this file again, without it.
start='
import sys
again = sys.argv.pop(1)
try:
    from allranks.start import program
    main = program("allranks.cli.commands.sweep.helm_plugin")
except ModuleNotFoundError:
    import os
    os.environ["ALLRANKS_PYTHON_STALE"] = "1"
    os.execv("/bin/sh", ["sh", again, *sys.argv[1:]])
sys.exit(main())
'
recorded_python=
if [ -z "${ALLRANKS_PYTHON_STALE-}" ] && [ -r "$here/python" ]; then
  IFS= read -r recorded_python <"$here/python" || :
fi
if [ -n "$recorded_python" ] && [ -x "$recorded_python" ]; then
  exec "$recorded_python" -I -c "$start" "$here/run.sh" "$@"
fi
unset ALLRANKS_PYTHON_STALE
if command -v allranks-sweep >/dev/null 2>&1; then
  exec allranks-sweep "$@"
fi

echo "error: helm sweep finds no Python with allranks" >&2
echo "  fix: run \`allranks plugin install\`, or put allranks-sweep on PATH" >&2
exit 2
