# --- sweep: the parameters of this trial, then its program ----------------------------------------
#
# A table has a line for each trial: its index, then its choices as words of this shell. sweep.sh says
# where each of them goes. The first argument says how the program runs, the words of it follow.

allranks_newline='
'
allranks_placeholder_start='${sweep.'
allranks_placeholder_end='}'

# Set $allranks_line to this trial's line of a table.
allranks_find_line() {
  while IFS= read -r allranks_line; do
    case $allranks_line in
      "$allranks_trial_index "*) return 0 ;;
    esac
  done <"$1"
  return 1
}

# Set $allranks_1, $allranks_2, … to the words.
allranks_set_choices() {
  allranks_choice_count=0
  for allranks_word do
    allranks_choice_count=$((allranks_choice_count + 1))
    eval "allranks_$allranks_choice_count=\$allranks_word"
  done
}

# Set $allranks_filled to a text with the choices in place of ${sweep.NAME}. What a choice says is
# taken as it is, whatever it looks like.
allranks_fill() {
  allranks_rest=$1
  allranks_filled=
  while :; do
    case $allranks_rest in
      *"$allranks_placeholder_start"*"$allranks_placeholder_end"*) ;;
      *) break ;;
    esac
    allranks_filled=$allranks_filled${allranks_rest%%"$allranks_placeholder_start"*}
    allranks_rest=${allranks_rest#*"$allranks_placeholder_start"}
    allranks_value "${allranks_rest%%"$allranks_placeholder_end"*}"
    allranks_filled=$allranks_filled$allranks_text
    allranks_rest=${allranks_rest#*"$allranks_placeholder_end"}
  done
  allranks_filled=$allranks_filled$allranks_rest
}

# Copy a file with the choices filled in; what is mounted cannot be written to. A container that was
# started before has left its own copy, which only root could write to.
allranks_fill_file() {
  rm -f "$2"
  {
    while IFS= read -r allranks_line; do
      allranks_fill "$allranks_line"
      printf '%s\n' "$allranks_filled"
    done
    allranks_fill "$allranks_line"
    printf '%s' "$allranks_filled"
  } <"$1" >"$2" && chmod 555 "$2"
}

# A release of `helm sweep` is one trial of many: its table has but one line, and the trial was told
# its number and its name.
if [ -n "${ALLRANKS_TRIAL_NAME:-}" ]; then
  allranks_is_release=yes
  allranks_trial_index=$JOB_COMPLETION_INDEX
else
  allranks_is_release=no
  ALLRANKS_TRIAL=${ALLRANKS_TRIAL:-$JOB_COMPLETION_INDEX}
  ALLRANKS_TRIAL_NAME=$ALLRANKS_SWEEP-$ALLRANKS_TRIAL
  export ALLRANKS_TRIAL ALLRANKS_TRIAL_NAME
  allranks_trial_index=$ALLRANKS_TRIAL
fi
if ! allranks_find_line "$ALLRANKS_TRIALS/$((allranks_trial_index / ALLRANKS_TRIALS_EACH))"; then
  allranks_say "there is no trial $allranks_trial_index in $ALLRANKS_TRIALS"
  exit 1
fi
eval "allranks_set_choices ${allranks_line#* }"
allranks_say "trial $ALLRANKS_TRIAL: ${allranks_line#* }"

allranks_trial_mode=$1
shift
allranks_open_word_count=$#
[ "$allranks_is_release" = no ] || allranks_open_word_count=0 # its words were filled in before
. "$allranks_here/sweep.sh"
# sweep.sh has put its words behind those that were there before, and only these have placeholders.
allranks_word_count=$#
while [ "$allranks_word_count" -gt 0 ]; do
  allranks_filled=$1
  [ "$allranks_open_word_count" -le 0 ] || allranks_fill "$1"
  shift
  set -- "$@" "$allranks_filled"
  allranks_open_word_count=$((allranks_open_word_count - 1))
  allranks_word_count=$((allranks_word_count - 1))
done

allranks_mounted_folder=$allranks_here
for allranks_file in ${ALLRANKS_FILL:-}; do
  if ! allranks_fill_file "$allranks_mounted_folder/$allranks_file" "$ALLRANKS_FILLED/$allranks_file"; then
    allranks_say "the parameters could not be filled into $allranks_file"
    exit 1
  fi
  [ "$allranks_file" != setup.sh ] || allranks_here=$ALLRANKS_FILLED
done
allranks_setup
allranks_here=$allranks_mounted_folder
if [ "$allranks_trial_mode" = torchrun ]; then
  # The rest of a torchrun pod's own entry, which has no setup to run any more.
  allranks_setup() { :; }
  . "$allranks_here/torchrun.sh"
fi
[ "${ALLRANKS_COMPAT:-}" = slurm ] && [ -n "${BASH_VERSION:-}" ] || exec "$@"

# A batch script is a shell that waits for its programs, and Slurm tells them all to end. A container's
# first process alone is told here: a shell would tell none of them, and not end itself. So the script is
# a child in a group of its own, which gets the signal, and has until its last program has ended.
allranks_is_ending=no
allranks_script_pid=

# A launcher of the script's starts its ranks in sessions of their own, and has no handler for a signal
# that asks them to save: those that have one get it first, and the rest when they have ended.
allranks_tell_sessions() {
  case ${ALLRANKS_CHECKPOINT_SIGNAL:-} in # the numbers of Linux
    SIGUSR1) allranks_bit=9 ;;
    SIGUSR2) allranks_bit=11 ;;
    SIGCONT) allranks_bit=17 ;;
    SIGURG) allranks_bit=22 ;;
    SIGWINCH) allranks_bit=27 ;;
    SIGIO) allranks_bit=28 ;;
    *) return 0 ;;
  esac
  allranks_below=" $allranks_script_pid " allranks_before='' allranks_saving_pids=' '
  while [ "$allranks_below" != "$allranks_before" ]; do
    allranks_before=$allranks_below
    for allranks_stat in /proc/[0-9]*/stat; do
      allranks_pid=${allranks_stat#/proc/} allranks_pid=${allranks_pid%/stat}
      { read -r allranks_line <"$allranks_stat"; } 2>/dev/null || continue
      # shellcheck disable=SC2086 # behind the name: state, parent, group
      set -- ${allranks_line##*) }
      case $allranks_below in
        *" $allranks_pid "*) ;;
        *" $2 "*) allranks_below="$allranks_below$allranks_pid " ;;
      esac
    done
  done
  for allranks_pid in $allranks_below; do
    allranks_mask=$(sed -n 's/^SigCgt:[[:space:]]*//p' "/proc/$allranks_pid/status" 2>/dev/null)
    [ "$((0x${allranks_mask:-0} >> allranks_bit & 1))" -eq 1 ] || continue
    { read -r allranks_line <"/proc/$allranks_pid/stat"; } 2>/dev/null || continue
    # shellcheck disable=SC2086
    set -- ${allranks_line##*) }
    [ "$3" != "$allranks_script_pid" ] || return 0 # the script's own program saves
    # What a program has started has its handlers: a loader of data.
    case $allranks_saving_pids in
      *" $2 "*) ;;
      *) kill -s "${ALLRANKS_CHECKPOINT_SIGNAL#SIG}" "$allranks_pid" 2>/dev/null || continue ;;
    esac
    allranks_saving_pids="$allranks_saving_pids$allranks_pid "
  done
  for allranks_pid in $allranks_saving_pids; do
    while kill -0 "$allranks_pid" 2>/dev/null; do
      sleep 0.1
    done
  done
}

allranks_end_script() {
  allranks_is_ending=yes
  [ -z "$allranks_script_pid" ] || allranks_tell_sessions
  allranks_signal=${ALLRANKS_CHECKPOINT_SIGNAL:-SIGTERM}
  [ -z "$allranks_script_pid" ] || kill -s "${allranks_signal#SIG}" -- "-$allranks_script_pid"
}

trap allranks_end_script TERM
set -m
"$@" &
allranks_script_pid=$!
set +m
[ "$allranks_is_ending" = no ] || allranks_end_script
# `wait` ends early where a signal is handled; bash gives an exit code as often as it is asked.
while kill -0 "$allranks_script_pid" 2>/dev/null; do
  wait "$allranks_script_pid"
done
wait "$allranks_script_pid"
allranks_code=$?
while [ "$allranks_is_ending" = yes ] && kill -0 -- "-$allranks_script_pid" 2>/dev/null; do
  sleep 0.1
done
if [ "$allranks_is_ending" = yes ] && [ "$allranks_code" -eq 0 ]; then
  # A script that has saved may end well, and asks Slurm to start again: half a trial is not done.
  allranks_say "the pod was told to end, and its program ended well: the trial is not done"
  allranks_code=143 # as where SIGTERM had ended it
fi
exit "$allranks_code"
