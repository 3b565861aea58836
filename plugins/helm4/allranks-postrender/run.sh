#!/bin/sh
# Helm 4 starts this for `--post-renderer allranks-postrender`. It finds the Python that has
# allranks: the one recorded in the file `python` beside it (`allranks plugin install` writes it),
# else the program allranks-postrender on PATH.
here=${HELM_PLUGIN_DIR:-$(dirname "$0")}

# -I keeps the caller's folder and PYTHON* variables out: a file re.py there must not be imported.
# A recorded Python that has lost allranks starts this file again, without it; stdin is untouched.
start='
import sys
again = sys.argv.pop(1)
try:
    from allranks.start import end, program
    main = program("allranks.postrender.__main__")
except ImportError:
    import os
    os.environ["ALLRANKS_PYTHON_STALE"] = "1"
    os.execv("/bin/sh", ["sh", again, *sys.argv[1:]])
end(main)
'
recorded_python=
if [ -z "${ALLRANKS_PYTHON_STALE-}" ] && [ -r "$here/python" ]; then
  IFS= read -r recorded_python <"$here/python" || :
fi
if [ -n "$recorded_python" ] && [ -x "$recorded_python" ]; then
  exec "$recorded_python" -I -c "$start" "$here/run.sh" "$@"
fi
unset ALLRANKS_PYTHON_STALE
if command -v allranks-postrender >/dev/null 2>&1; then
  exec allranks-postrender "$@"
fi

say() {
  echo "allranks-postrender: no Python with allranks was found"
  echo "  fix: run \`allranks plugin install\`, or put allranks-postrender on PATH"
}
say >&2
# Helm 4 shows nothing of a plugin's stderr, so tell Helm's own. Into a file Helm writes after us,
# from where it was: blanks take what it overwrites.
if [ -f "/proc/$PPID/fd/2" ]; then
  { printf '%512s\n' '' >>"/proc/$PPID/fd/2"; } 2>/dev/null
fi
{ say >>"/proc/$PPID/fd/2"; } 2>/dev/null
if [ -n "${ALLRANKS_REPORT-}" ]; then
  { say >"$ALLRANKS_REPORT"; } 2>/dev/null
fi
exit 2
