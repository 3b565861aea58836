# shellcheck shell=sh
# shellcheck disable=SC2034 # what is set here is read by who sources it
# The words that are run: mpirun, its options, rank.sh around each rank, the program. Sourced by launcher.sh.
#
# Where the command is no mpirun, it is put before it. One of the user's own is read up to the program:
# no MPI but Open MPI 4 can be told from outside to start its ranks through another program. With an
# option that is not known here, whose number of arguments is not either, it is left as it is; ranks
# report nothing then, and what mpirun says of them is all there is.

# Call a function with the words to run.
#   allranks_with_words FUNCTION COUNT MPIRUN-ARG... COMMAND WORD...
allranks_with_words() {
  allranks_function=$1 allranks_mpirun_arg_count=$2
  shift 2
  if [ "${ALLRANKS_MPI_WRAP:-}" = 1 ]; then
    [ "$allranks_mpirun_arg_count" -ne 0 ] || allranks_is_mapped=''
    command -v mpirun >/dev/null 2>&1 || allranks_finish 127 \
      "this image has no mpirun on PATH: install an MPI, or set PATH in env or setup to where it is"
    set -- mpirun -np "$ALLRANKS_MPI_NP" "$@"
    allranks_programs=" $((allranks_mpirun_arg_count + 3)) "
    allranks_word_index=0
    for allranks_word; do
      [ "$allranks_word_index" -ge "$((allranks_mpirun_arg_count + 3))" ] ||
        allranks_read_option "$allranks_word"
      allranks_word_index=$((allranks_word_index + 1))
    done
  else
    shift "$allranks_mpirun_arg_count"
    for allranks_word; do allranks_read_option "$allranks_word"; done
    allranks_find_programs "$@"
  fi
  allranks_word_index=0 allranks_word_count=$#
  while [ "$allranks_word_index" -lt "$allranks_word_count" ]; do
    case $allranks_programs in
      *" $allranks_word_index "*) set -- "$@" /bin/sh "$ALLRANKS_FILES/rank.sh" ;;
    esac
    allranks_word=$1
    shift
    set -- "$@" "$allranks_word"
    allranks_word_index=$((allranks_word_index + 1))
  done
  "$allranks_function" "$@"
}

# Look at a word for mpirun: with some, a job goes on when a rank has failed.
allranks_read_option() {
  case $1 in
    -disable-auto-cleanup | --disable-auto-cleanup | *enable-recovery | *enable_recovery | \
      --with-ft | *recoverable | *continuous | *abort_on_non_zero_status | *abort-on-non-zero-status)
      allranks_is_tolerant=yes
      ;;
  esac
}

# Set $allranks_argument_count to how many words belong to an option of any mpirun. Fails where it is
# not known.
allranks_count_arguments() {
  allranks_option=${1#-}
  case ${allranks_option#-} in
    *=*) allranks_argument_count=0 ;;
    mca | gmca | omca | prtemca | pmixmca | env | genv) allranks_argument_count=2 ;;
    n | np | c | N | npernode | ppn | perhost | host | H | hosts | hostfile | machinefile | f | \
      x | wd | wdir | path | bind-to | map-by | rank-by | membind | envlist | genvlist | genvexcl | \
      iface | outfile-pattern | errfile-pattern | output-filename | output | display | timeout | \
      prefix | cpus-per-proc | cpu-set | rmk | launcher | launcher-exec | bootstrap | bootstrap-exec)
      allranks_argument_count=1
      ;;
    v | verbose | q | quiet | l | rr | grr | envall | envnone | genvall | genvnone | oversubscribe | \
      nooversubscribe | allow-run-as-root | tag-output | timestamp-output | display-map | \
      display-allocation | report-bindings | merge-stderr-to-stdout | xterm-off | bynode | byslot | \
      pernode | nolocal | use-hwthread-cpus | prepend-rank | print-rank-map | print-all-exitcodes | \
      disable-auto-cleanup | enable-auto-cleanup | enable-recovery | disable-recovery | continuous | \
      do-not-launch)
      allranks_argument_count=0
      ;;
    *) return 1 ;;
  esac
}

# Find the programs among the words of an mpirun of the user's own, which has one, or several between
# colons: where they are is in $allranks_programs, each as " INDEX ".
allranks_find_programs() {
  allranks_programs=' '
  case ${1##*/} in mpirun | mpiexec | mpiexec.hydra | orterun | prterun) ;; *) return 0 ;; esac
  allranks_word_index=0 allranks_skip_count=1 allranks_program_index=''
  for allranks_word; do
    if [ "$allranks_word" = : ]; then
      allranks_program_index='' allranks_skip_count=0
    elif [ "$allranks_skip_count" -gt 0 ]; then
      allranks_skip_count=$((allranks_skip_count - 1))
    elif [ -z "$allranks_program_index" ]; then
      case $allranks_word in
        -*)
          if ! allranks_count_arguments "$allranks_word"; then
            allranks_say "what ${1##*/} makes of $allranks_word is not known here: which rank fails \
first is told by ${1##*/} alone"
            allranks_programs=' '
            return 0
          fi
          allranks_skip_count=$allranks_argument_count
          ;;
        *)
          allranks_program_index=$allranks_word_index
          allranks_programs="$allranks_programs$allranks_word_index "
          ;;
      esac
    fi
    case $allranks_word in
      "$ALLRANKS_FILES/rank.sh") # the user has put it there
        allranks_programs=' '
        return 0
        ;;
    esac
    allranks_word_index=$((allranks_word_index + 1))
  done
}

# Another MPI than the values name reads other variables: it would find no hosts, and start all
# ranks on the launcher. Asked is the program given, or the mpirun that it will call.
allranks_check_mpi() {
  allranks_mpirun=mpirun
  case ${1##*/} in mpirun | mpiexec | mpiexec.hydra | orterun | prterun) allranks_mpirun=$1 ;; esac
  case $("$allranks_mpirun" --version 2>/dev/null </dev/null | head -n 3) in
    *'Open MPI'* | *OpenRTE* | *PRRTE*) allranks_actual_mpi=OpenMPI ;;
    *Intel*) allranks_actual_mpi=Intel ;;
    *HYDRA*) allranks_actual_mpi=MPICH ;;
    *) return 0 ;; # none, or one that does not say
  esac
  [ "$allranks_actual_mpi" = "${ALLRANKS_MPI_IMPLEMENTATION:-$allranks_actual_mpi}" ] ||
    allranks_finish 1 "$allranks_mpirun is that of $allranks_actual_mpi, and mpi.implementation is \
$ALLRANKS_MPI_IMPLEMENTATION: set it to $allranks_actual_mpi, or put another mpirun first on PATH"
}
