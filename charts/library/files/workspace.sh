# --- the workspace --------------------------------------------------------------------------------
#
# What was sent lies in $ALLRANKS_WORKSPACE_ARCHIVE as archive.0, archive.1, …: a tar, compressed, in
# as many parts as it took. It is unpacked into $ALLRANKS_WORKSPACE_STATE/staging and moved from there
# to $ALLRANKS_WORKSPACE_STATE/code, which is mounted as $ALLRANKS_WORKSPACE_FOLDER. The marker
# $ALLRANKS_WORKSPACE_STATE/digest comes last: a container that is started again finds it, and what
# the program has written meanwhile stays. workspace.py does it; an image without Python has tar.

# End with a code and one sentence, which is left where Kubernetes shows it. 217 says that no restart
# would help.
#   allranks_workspace_fail CODE SENTENCE
allranks_workspace_fail() {
  allranks_say "error: $2"
  [ -z "${ALLRANKS_WORKSPACE_LOG:-}" ] ||
    printf '%.1000s' "$2" 2>/dev/null >"$ALLRANKS_WORKSPACE_LOG" || :
  exit "$1"
}

# Set $allranks_unpacker to a Python that workspace.py runs on and that reads this compression.
allranks_workspace_find_python() {
  [ -z "$allranks_unpacker" ] || return 0
  allranks_module=zlib
  [ "$ALLRANKS_WORKSPACE_COMPRESSION" != xz ] || allranks_module=lzma
  for allranks_unpacker in python3 python; do
    ! command -v "$allranks_unpacker" >/dev/null 2>&1 ||
      ! "$allranks_unpacker" -I -S -c "import sys, $allranks_module
sys.exit(sys.version_info < (3, 8))" >/dev/null 2>&1 || return 0
  done
  allranks_unpacker=''
  return 1
}

# Write the parts, joined in order.
allranks_workspace_join_parts() {
  allranks_part_index=0
  while [ -e "$ALLRANKS_WORKSPACE_ARCHIVE/archive.$allranks_part_index" ]; do
    cat "$ALLRANKS_WORKSPACE_ARCHIVE/archive.$allranks_part_index" || return 1
    allranks_part_index=$((allranks_part_index + 1))
  done
  [ "$allranks_part_index" -gt 0 ]
}

# Whether a link of the archive leads to a place inside: up no further than it is deep, and then down.
#   allranks_workspace_is_inside LINK TARGET
allranks_workspace_is_inside() {
  allranks_link_path=$1 allranks_target_path=$2
  while :; do
    case $allranks_target_path in
      ..) allranks_target_path='' ;;
      ../*) allranks_target_path=${allranks_target_path#../} ;;
      /* | */../* | */..) return 1 ;;
      *) return 0 ;;
    esac
    case $allranks_link_path in
      */*) allranks_link_path=${allranks_link_path#*/} ;;
      *) return 1 ;;
    esac
  done
}

# Unpack with the image's own tar. What is wrong goes to stdout as one sentence, with the exit code.
allranks_workspace_unpack_with_tar() {
  allranks_packer=gzip
  [ "$ALLRANKS_WORKSPACE_COMPRESSION" != xz ] || allranks_packer=xz
  allranks_missing_programs=''
  for allranks_program in tar "$allranks_packer" sha256sum mv rm mkdir; do
    command -v "$allranks_program" >/dev/null 2>&1 ||
      allranks_missing_programs="$allranks_missing_programs $allranks_program"
  done
  if [ -n "$allranks_missing_programs" ]; then
    printf '%s' "this image can unpack no workspace: it has neither Python 3.8 or newer with \
$allranks_module, nor all of tar, $allranks_packer and sha256sum (missing:$allranks_missing_programs); add \
Python to the image, or put the code into it"
    return 217
  fi
  allranks_digest=$(allranks_workspace_join_parts | sha256sum) || allranks_digest=''
  if [ "sha256:${allranks_digest%% *}" != "$ALLRANKS_WORKSPACE_ARCHIVE_DIGEST" ]; then
    printf '%s' "the workspace in $ALLRANKS_WORKSPACE_ARCHIVE is not what was sent: it has the \
digest sha256:${allranks_digest%% *}, not $ALLRANKS_WORKSPACE_ARCHIVE_DIGEST; send it again"
    return 217
  fi
  allranks_listing=$(allranks_workspace_join_parts | "$allranks_packer" -dc | tar -tvf - 2>&1) || {
    printf '%s' "the workspace in $ALLRANKS_WORKSPACE_ARCHIVE is no archive that tar reads: \
$(printf '%.300s' "${allranks_listing##*"$allranks_newline"}")"
    return 217
  }
  allranks_outside_entry=$(printf '%s\n' "$allranks_listing" | allranks_workspace_check_listing) || {
    printf '%s' "the workspace has $allranks_outside_entry, which is not inside of it; send it again"
    return 217
  }
  allranks_staging=$ALLRANKS_WORKSPACE_STATE/staging
  allranks_tar_error=$({
    rm -rf "$allranks_staging" &&
      mkdir -p "$allranks_staging" "$ALLRANKS_WORKSPACE_STATE/code" &&
      allranks_workspace_join_parts | "$allranks_packer" -dc |
      (umask 022 && cd "$allranks_staging" && tar -xmof -) &&
      for allranks_item in "$allranks_staging"/* "$allranks_staging"/.[!.]* "$allranks_staging"/..?*; do
        [ ! -e "$allranks_item" ] && [ ! -L "$allranks_item" ] ||
          mv -f "$allranks_item" "$ALLRANKS_WORKSPACE_STATE/code/" || exit 1
      done &&
      rm -rf "$allranks_staging" &&
      printf '%s\n' "$ALLRANKS_WORKSPACE_DIGEST" >"$ALLRANKS_WORKSPACE_STATE/digest.new" &&
      mv -f "$ALLRANKS_WORKSPACE_STATE/digest.new" "$ALLRANKS_WORKSPACE_STATE/digest"
  } 2>&1) || {
    printf '%s' "the workspace cannot be unpacked into $ALLRANKS_WORKSPACE_FOLDER: \
$(printf '%.300s' "${allranks_tar_error##*"$allranks_newline"}")"
    return 1
  }
}

# Read what `tar -tv` lists; write the first entry that is not inside, and fail.
allranks_workspace_check_listing() {
  while read -r allranks_mode _ allranks_rest; do
    # GNU tar and busybox: size, date and time come before the name.
    case $allranks_rest in
      [0-9]*' '*' '*' '*)
        allranks_entry=${allranks_rest#* }
        allranks_entry=${allranks_entry#* }
        allranks_entry=${allranks_entry#* }
        ;;
      *) allranks_entry=$allranks_rest ;;
    esac
    allranks_entry=${allranks_entry#./}
    allranks_target=''
    case $allranks_mode in
      l*) allranks_target=${allranks_entry#*' -> '} allranks_entry=${allranks_entry%%' -> '*} ;;
      -* | d*)
        case $allranks_entry in # a hard link, as busybox shows it
          *' -> '*) allranks_mode=h ;;
        esac
        ;;
      *) allranks_mode=h ;;
    esac
    if [ "$allranks_mode" = h ]; then
      printf '%s' "$allranks_entry"
      return 1
    fi
    case /$allranks_entry/ in
      //?* | */../*)
        printf '%s' "$allranks_entry"
        return 1
        ;;
    esac
    if [ -n "$allranks_target" ] && ! allranks_workspace_is_inside "$allranks_entry" "$allranks_target"; then
      printf '%s' "the link $allranks_entry to $allranks_target"
      return 1
    fi
  done
}

# Take code that was sent after the job had started, where the workload can take any (sync.py).
allranks_workspace_update() {
  [ -e "${ALLRANKS_WORKSPACE_SYNC:-}/offer.json" ] ||
    [ -e "$ALLRANKS_WORKSPACE_STATE/sync/wanted" ] || return 0
  [ -n "${ALLRANKS_WORKSPACE_SYNC:-}" ] && allranks_workspace_find_python || return 0
  allranks_sentence=$("$allranks_unpacker" -I -S -B -X utf8 "$allranks_here/sync.py" settle) ||
    allranks_workspace_fail $? "${allranks_sentence:-the newer code could not be taken}"
  case $allranks_sentence in
    sha256:*)
      export ALLRANKS_WORKSPACE_DIGEST="${allranks_sentence%% *}"
      export ALLRANKS_WORKSPACE_GENERATION="${allranks_sentence##* }"
      ;;
  esac
}

# Have the workspace at its place, and be in it where the command is to start there.
allranks_workspace() {
  allranks_newline='
'
  allranks_marker=''
  [ ! -e "$ALLRANKS_WORKSPACE_STATE/digest" ] ||
    IFS= read -r allranks_marker <"$ALLRANKS_WORKSPACE_STATE/digest" || :
  if [ "$allranks_marker" != "$ALLRANKS_WORKSPACE_DIGEST" ]; then
    if allranks_workspace_find_python; then
      allranks_sentence=$("$allranks_unpacker" -I -S -B -X utf8 "$allranks_here/workspace.py")
    else
      allranks_sentence=$(allranks_workspace_unpack_with_tar)
    fi
    allranks_exit_code=$?
    [ "$allranks_exit_code" -eq 0 ] ||
      allranks_workspace_fail "$allranks_exit_code" "${allranks_sentence:-the workspace could not be unpacked}"
    allranks_say "unpacked workspace $ALLRANKS_WORKSPACE_DIGEST into $ALLRANKS_WORKSPACE_FOLDER"
  fi
  [ -z "${ALLRANKS_WORKSPACE_START:-}" ] || cd "$ALLRANKS_WORKSPACE_START" 2>/dev/null ||
    allranks_workspace_fail 217 "workingDir $ALLRANKS_WORKSPACE_START is no folder of the workspace"
}

allranks_unpacker=''
if [ -n "${ALLRANKS_WORKSPACE_DIGEST:-}" ]; then
  allranks_workspace_update
  allranks_workspace
fi

