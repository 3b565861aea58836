# --- sweep: the parameters of this trial, then its program ----------------------------------------
#
# A table has a line for each trial: its index, then its choices as words of this shell. sweep.sh says
# where each of them goes. The first argument says how the program runs, the words of it follow.

allranks_newline='
'
allranks_open='${sweep.'
allranks_close='}'

# Set $allranks_line to this trial's line of a table.
allranks_find() {
  while IFS= read -r allranks_line; do
    case $allranks_line in
      "$allranks_index "*) return 0 ;;
    esac
  done <"$1"
  return 1
}

# Set $allranks_1, $allranks_2, … to the words.
allranks_take() {
  allranks_count=0
  for allranks_word do
    allranks_count=$((allranks_count + 1))
    eval "allranks_$allranks_count=\$allranks_word"
  done
}

# Set $allranks_filled to a text with the choices in place of ${sweep.NAME}. What a choice says is
# taken as it is, whatever it looks like.
allranks_fill() {
  allranks_rest=$1
  allranks_filled=
  while :; do
    case $allranks_rest in
      *"$allranks_open"*"$allranks_close"*) ;;
      *) break ;;
    esac
    allranks_filled=$allranks_filled${allranks_rest%%"$allranks_open"*}
    allranks_rest=${allranks_rest#*"$allranks_open"}
    allranks_value "${allranks_rest%%"$allranks_close"*}"
    allranks_filled=$allranks_filled$allranks_text
    allranks_rest=${allranks_rest#*"$allranks_close"}
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
  allranks_told=yes
  allranks_index=$JOB_COMPLETION_INDEX
else
  allranks_told=no
  ALLRANKS_TRIAL=${ALLRANKS_TRIAL:-$JOB_COMPLETION_INDEX}
  ALLRANKS_TRIAL_NAME=$ALLRANKS_SWEEP-$ALLRANKS_TRIAL
  export ALLRANKS_TRIAL ALLRANKS_TRIAL_NAME
  allranks_index=$ALLRANKS_TRIAL
fi
if ! allranks_find "$ALLRANKS_TRIALS/$((allranks_index / ALLRANKS_TRIALS_EACH))"; then
  allranks_say "there is no trial $allranks_index in $ALLRANKS_TRIALS"
  exit 1
fi
eval "allranks_take ${allranks_line#* }"
allranks_say "trial $ALLRANKS_TRIAL: ${allranks_line#* }"

allranks_how=$1
shift
allranks_left=$#
[ "$allranks_told" = no ] || allranks_left=0 # its words were filled in before
. "$allranks_here/sweep.sh"
# sweep.sh has put its words behind those that were there before, and only these have placeholders.
allranks_all=$#
while [ "$allranks_all" -gt 0 ]; do
  allranks_filled=$1
  [ "$allranks_left" -le 0 ] || allranks_fill "$1"
  shift
  set -- "$@" "$allranks_filled"
  allranks_left=$((allranks_left - 1))
  allranks_all=$((allranks_all - 1))
done

allranks_mounted=$allranks_here
for allranks_file in ${ALLRANKS_FILL:-}; do
  if ! allranks_fill_file "$allranks_mounted/$allranks_file" "$ALLRANKS_FILLED/$allranks_file"; then
    allranks_say "the parameters could not be filled into $allranks_file"
    exit 1
  fi
  [ "$allranks_file" != setup.sh ] || allranks_here=$ALLRANKS_FILLED
done
allranks_setup
allranks_here=$allranks_mounted
if [ "$allranks_how" = torchrun ]; then
  # The rest of a torchrun pod's own entry, which has no setup to run any more.
  allranks_setup() { :; }
  . "$allranks_here/torchrun.sh"
fi
exec "$@"
