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
  allranks_next=$1 allranks_first=$2
  shift 2
  if [ "${ALLRANKS_MPI_WRAP:-}" = 1 ]; then
    [ "$allranks_first" -ne 0 ] || allranks_mapped=''
    command -v mpirun >/dev/null 2>&1 || allranks_finish 127 \
      "this image has no mpirun on PATH: install an MPI, or set PATH in env or setup to where it is"
    set -- mpirun -np "$ALLRANKS_MPI_NP" "$@"
    allranks_programs=" $((allranks_first + 3)) "
    allranks_index=0
    for allranks_word; do
      [ "$allranks_index" -ge "$((allranks_first + 3))" ] || allranks_read_option "$allranks_word"
      allranks_index=$((allranks_index + 1))
    done
  else
    shift "$allranks_first"
    for allranks_word; do allranks_read_option "$allranks_word"; done
    allranks_find_programs "$@"
  fi
  allranks_index=0 allranks_count=$#
  while [ "$allranks_index" -lt "$allranks_count" ]; do
    case $allranks_programs in
      *" $allranks_index "*) set -- "$@" /bin/sh "$ALLRANKS_FILES/rank.sh" ;;
    esac
    allranks_word=$1
    shift
    set -- "$@" "$allranks_word"
    allranks_index=$((allranks_index + 1))
  done
  "$allranks_next" "$@"
}

# Look at a word for mpirun: with some, a job goes on when a rank has failed.
allranks_read_option() {
  case $1 in
    -disable-auto-cleanup | --disable-auto-cleanup | *enable-recovery | *enable_recovery | \
      --with-ft | *recoverable | *continuous | *abort_on_non_zero_status | *abort-on-non-zero-status)
      allranks_tolerant=yes
      ;;
  esac
}

# Set $allranks_arguments to how many words belong to an option of any mpirun. Fails where it is not known.
allranks_count_arguments() {
  allranks_option=${1#-}
  case ${allranks_option#-} in
    *=*) allranks_arguments=0 ;;
    mca | gmca | omca | prtemca | pmixmca | env | genv) allranks_arguments=2 ;;
    n | np | c | N | npernode | ppn | perhost | host | H | hosts | hostfile | machinefile | f | \
      x | wd | wdir | path | bind-to | map-by | rank-by | membind | envlist | genvlist | genvexcl | \
      iface | outfile-pattern | errfile-pattern | output-filename | output | display | timeout | \
      prefix | cpus-per-proc | cpu-set | rmk | launcher | launcher-exec | bootstrap | bootstrap-exec)
      allranks_arguments=1
      ;;
    v | verbose | q | quiet | l | rr | grr | envall | envnone | genvall | genvnone | oversubscribe | \
      nooversubscribe | allow-run-as-root | tag-output | timestamp-output | display-map | \
      display-allocation | report-bindings | merge-stderr-to-stdout | xterm-off | bynode | byslot | \
      pernode | nolocal | use-hwthread-cpus | prepend-rank | print-rank-map | print-all-exitcodes | \
      disable-auto-cleanup | enable-auto-cleanup | enable-recovery | disable-recovery | continuous | \
      do-not-launch)
      allranks_arguments=0
      ;;
    *) return 1 ;;
  esac
}

# Find the programs among the words of an mpirun of the user's own, which has one, or several between
# colons: where they are is in $allranks_programs, each as " INDEX ".
allranks_find_programs() {
  allranks_programs=' '
  case ${1##*/} in mpirun | mpiexec | mpiexec.hydra | orterun | prterun) ;; *) return 0 ;; esac
  allranks_index=0 allranks_skipped=1 allranks_at=''
  for allranks_word; do
    if [ "$allranks_word" = : ]; then
      allranks_at='' allranks_skipped=0
    elif [ "$allranks_skipped" -gt 0 ]; then
      allranks_skipped=$((allranks_skipped - 1))
    elif [ -z "$allranks_at" ]; then
      case $allranks_word in
        -*)
          if ! allranks_count_arguments "$allranks_word"; then
            allranks_say "what ${1##*/} makes of $allranks_word is not known here: which rank fails \
first is told by ${1##*/} alone"
            allranks_programs=' '
            return 0
          fi
          allranks_skipped=$allranks_arguments
          ;;
        *) allranks_at=$allranks_index allranks_programs="$allranks_programs$allranks_index " ;;
      esac
    fi
    case $allranks_word in
      "$ALLRANKS_FILES/rank.sh") # the user has put it there
        allranks_programs=' '
        return 0
        ;;
    esac
    allranks_index=$((allranks_index + 1))
  done
}

# Another MPI than the values name reads other variables: it would find no hosts, and start all
# ranks on the launcher. Asked is the program given, or the mpirun that it will call.
allranks_check_mpi() {
  allranks_mpirun=mpirun
  case ${1##*/} in mpirun | mpiexec | mpiexec.hydra | orterun | prterun) allranks_mpirun=$1 ;; esac
  case $("$allranks_mpirun" --version 2>/dev/null </dev/null | head -n 3) in
    *'Open MPI'* | *OpenRTE* | *PRRTE*) allranks_found=OpenMPI ;;
    *Intel*) allranks_found=Intel ;;
    *HYDRA*) allranks_found=MPICH ;;
    *) return 0 ;; # none, or one that does not say
  esac
  [ "$allranks_found" = "${ALLRANKS_MPI_IMPLEMENTATION:-$allranks_found}" ] ||
    allranks_finish 1 "$allranks_mpirun is that of $allranks_found, and mpi.implementation is \
$ALLRANKS_MPI_IMPLEMENTATION: set it to $allranks_found, or put another mpirun first on PATH"
}
