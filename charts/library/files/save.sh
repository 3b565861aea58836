#!/bin/sh
# Ask the ranks of this pod to save: `allranks checkpoint` runs it in each pod, and a launcher as its
# pod ends.
#   save.sh ID [stop]
#
# A rank has ALLRANKS_SAVE_FILE in its environment. That file is written as a whole, as one line: the
# ID, a whole number that is larger at each request, and the word "stop" where the pod is about to end.
# Where ALLRANKS_CHECKPOINT_SIGNAL names a signal, the ranks get it, but only those that have a handler:
# it would end the others. Says which of the files cannot be written, how many ranks there are, and how
# many of them got the signal.
#
# POSIX sh with tr and sed. With ALLRANKS_SAVE_ONLY it looks for the ranks of that file alone.

allranks_rank_pids='' allranks_files='' allranks_signal_count=0 allranks_rank_count=0

for allranks_folder in /proc/[0-9]*; do
  allranks_file=$(tr '\0' '\n' <"$allranks_folder/environ" | sed -n 's/^ALLRANKS_SAVE_FILE=//p')
  [ -n "$allranks_file" ] || continue
  [ "${ALLRANKS_SAVE_ONLY:-$allranks_file}" = "$allranks_file" ] || continue
  allranks_pid=${allranks_folder#/proc/}
  [ "$allranks_pid" != $$ ] || continue
  allranks_rank_pids="$allranks_rank_pids $allranks_pid"
  case "
$allranks_files" in *"
$allranks_file
"*) ;; *) allranks_files="$allranks_files$allranks_file
" ;; esac
done 2>/dev/null

# What a rank has started is no rank: a loader of data has its parent's handlers.
for allranks_pid in $allranks_rank_pids; do
  allranks_parent=$(sed -n 's/^PPid:[[:space:]]*//p' "/proc/$allranks_pid/status" 2>/dev/null)
  case " $allranks_rank_pids " in *" $allranks_parent "*) continue ;; esac
  allranks_rank_count=$((allranks_rank_count + 1))
done

printf '%s' "$allranks_files" | while IFS= read -r allranks_file; do
  if ! { [ ! -d "$allranks_file" ] && printf '%s\n' "$*" >"$allranks_file.new" && mv -f "$allranks_file.new" "$allranks_file"; }; then
    printf 'unwritten %s\n' "$allranks_file"
  fi
done

# allranks_has_handler PID NUMBER: whether the process has a handler for the signal.
allranks_has_handler() {
  allranks_mask=$(sed -n 's/^SigCgt:[[:space:]]*//p' "/proc/$1/status" 2>/dev/null)
  [ -n "$allranks_mask" ] || return 1
  [ "$((0x$allranks_mask >> ($2 - 1) & 1))" -eq 1 ]
}

if [ -n "${ALLRANKS_CHECKPOINT_SIGNAL:-}" ]; then
  allranks_signal_name=${ALLRANKS_CHECKPOINT_SIGNAL#SIG}
  case $allranks_signal_name in # the numbers of Linux, which not every sh's `kill -l` gives
    USR1) allranks_signal_number=10 ;;
    USR2) allranks_signal_number=12 ;;
    CONT) allranks_signal_number=18 ;;
    URG) allranks_signal_number=23 ;;
    WINCH) allranks_signal_number=28 ;;
    IO) allranks_signal_number=29 ;;
    *) allranks_signal_number='' ;;
  esac
  allranks_signalled_pids=' '
  # A parent has a smaller number than its children, but where numbers have begun anew.
  # shellcheck disable=SC2086 # process ids
  for allranks_pid in ${allranks_signal_number:+$(printf '%s\n' $allranks_rank_pids | sort -n)}; do
    allranks_parent=$(sed -n 's/^PPid:[[:space:]]*//p' "/proc/$allranks_pid/status" 2>/dev/null)
    case "$allranks_signalled_pids" in *" $allranks_parent "*)
      allranks_signalled_pids="$allranks_signalled_pids$allranks_pid "
      continue
      ;;
    esac
    if allranks_has_handler "$allranks_pid" "$allranks_signal_number"; then
      kill -s "$allranks_signal_name" "$allranks_pid" 2>/dev/null &&
        allranks_signal_count=$((allranks_signal_count + 1))
      allranks_signalled_pids="$allranks_signalled_pids$allranks_pid "
    fi
  done
fi
printf '%s %s\nallranks-save-done\n' "$allranks_rank_count" "$allranks_signal_count"
