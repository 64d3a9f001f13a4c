# Whole and torn checkpoints, and which one a program goes on from.

: "${RGT_CHECKPOINT_GLOB=}" "${RGT_RESUME:=automatic}" "${RGT_RESUME_NAME=}"
rgt_torn=()
rgt_entries+=('torn * C2' 'lost * C4')

rgt_resolve_checkpoints() {
  rgt_checkpoint_as_given=$RGT_CHECKPOINT_DIR
  rgt_home "$RGT_CHECKPOINT_DIR" && RGT_CHECKPOINT_DIR=${rgt_path%/}
  [[ -z $RGT_CHECKPOINT_DIR || $RGT_CHECKPOINT_DIR == /* ]] ||
    RGT_CHECKPOINT_DIR=$RGT_WORK_DIR/$RGT_CHECKPOINT_DIR
}

rgt_find_python() {
  local name
  for name in python3 "$RGT_PYTHON" python; do
    rgt_found_python=$(type -P -- "$name") && return
  done
  return 1
}

# What the program says of a folder, in rgt_told: kind, path, text, and so on to the kind `end`.
# Fails without Python.
rgt_ask_about_checkpoints() {
  local file=$RGT_RUN_DIR/check_checkpoint.py
  rgt_told=()
  rgt_find_python || return
  [[ -s $file ]] || rgt_write "$file" "$(rgt_check_checkpoint_program)"
  mapfile -d '' -t rgt_told < <("$rgt_found_python" -I "$file" "$@" \
    2>>"$RGT_RUN_DIR/log/runner.log" 9>&- && [[ -s $file ]] && printf 'end\0\0\0')
}

# The newest whole checkpoint in rgt_checkpoint ('' for none), a text that changes with it in
# rgt_checkpoint_id, torn newer ones in rgt_torn (path, reason, path, reason).
rgt_look_for_checkpoint() {
  local at newest='' file
  rgt_checkpoint='' rgt_checkpoint_id='' rgt_torn=()
  [[ -n $RGT_CHECKPOINT_GLOB && -d $RGT_CHECKPOINT_DIR ]] || return 0
  if rgt_ask_about_checkpoints "$RGT_CHECKPOINT_DIR" "$RGT_CHECKPOINT_GLOB" \
    "$RGT_RUN_DIR/whole.cache"; then
    for ((at = 0; at + 2 < ${#rgt_told[@]}; at += 3)); do
      case ${rgt_told[at]} in
        whole)
          rgt_checkpoint=${rgt_told[at + 1]}
          rgt_checkpoint_id="$rgt_checkpoint ${rgt_told[at + 2]}"
          ;;
        torn) rgt_torn+=("${rgt_told[at + 1]}" "${rgt_told[at + 2]}") ;;
        end) return 0 ;;
        unread) rgt_log "can't read ${rgt_told[at + 1]}: ${rgt_told[at + 2]}" ;;
      esac
    done
    # A check that failed isn't "no checkpoint": a program that was told so would begin again from
    # nothing.
    [[ -z $rgt_checkpoint ]] || return 0
    rgt_torn=()
    rgt_log 'checking the checkpoints failed; using the newest unchecked'
  fi
  # Without Python nothing can be checked: the newest that isn't empty.
  local IFS=''
  for file in "$RGT_CHECKPOINT_DIR"/$RGT_CHECKPOINT_GLOB; do
    [[ -s $file && $file != *.tmp && $file != *.torn ]] || continue
    if [[ -z $newest ]] || rgt_is_newer "$file" "$newest"; then newest=$file; fi
  done
  rgt_checkpoint=$newest
  [[ -z $newest ]] || rgt_checkpoint_id=$(stat -c '%n %Y %s' -- "$newest")
}

# By the number where the names differ in nothing else, as in check_checkpoint.py.
rgt_is_newer() {
  if [[ $1 != *[0-9].[0-9]* && $1 != "$2" && ${1//[0-9]/} == "${2//[0-9]/}" ]]; then
    [[ $(printf '%s\0' "$1" "$2" | LC_ALL=C sort -zV | tail -zn 1 | tr -d '\0') == "$1" ]]
  else
    [[ $1 -nt $2 ]]
  fi
}

# Only the first node touches what all see, and only what nobody has written to for a minute.
rgt_is_quiet() {
  [[ $rgt_rank == 0 && -z $(find "$1" -newermt '-60 seconds' -print -quit 2>&1) ]]
}

# Gives a checkpoint that nothing must go on from another name, in rgt_moved. Nothing is deleted.
rgt_move_away() {
  local number=2
  rgt_moved=$1.torn
  while [[ -e $rgt_moved ]]; do rgt_moved=$1.torn.$((number++)); done
  mv -n -- "$1" "$rgt_moved" && rgt_event renamed from "$1" to "$rgt_moved"
}

# Before an attempt: a torn file must not be in the way of an automatic resume.
rgt_choose_checkpoint() {
  local at path
  rgt_look_for_checkpoint
  for ((at = 0; at + 1 < ${#rgt_torn[@]}; at += 2)); do
    path=${rgt_torn[at]}
    rgt_entry_of torn
    rgt_event torn-checkpoint path "$path" why "${rgt_torn[at + 1]}" entry "$rgt_id"
    rgt_log "torn checkpoint ($rgt_id): $path: ${rgt_torn[at + 1]}"
    [[ $RGT_RESUME == automatic ]] || continue
    # Where nodes share the folder, another node may be writing it at this moment.
    if ((RGT_NODES > 1)) && ! rgt_is_quiet "$path"; then continue; fi
    rgt_move_away "$path"
  done
}

# Did this attempt get to a second step? The bars of a program that loads count none.
rgt_has_stepped() {
  [[ -n $RGT_STEP_PATTERN && $(rgt_attempt_tail 65536 | LC_ALL=C grep -av 'oading' |
    LC_ALL=C grep -aoE -e "$RGT_STEP_PATTERN" | sort -u | head -n 2 | wc -l) == 2 ]]
}

# After a failed attempt: the newest checkpoint as it is now. Succeeds where a resume from one
# that no attempt ever loaded crashed, and it was set aside for an older one: the end of an old
# pickle can't be checked. If the older one crashes too, it gets its name back. Not on several
# nodes, which would have to agree.
rgt_doubt_checkpoint() {
  local from
  rgt_look_for_checkpoint
  from=$rgt_checkpoint
  [[ $rgt_class == @(bug|unknown) && $rgt_exit != 0 && -n $from && $RGT_NODES == 1 &&
    $rgt_checkpoint_id == "$rgt_held" && $RGT_RESUME != none ]] && ! rgt_has_stepped || return 1
  if [[ -n ${rgt_doubted:-} ]]; then
    [[ -e $rgt_doubted || ! -e $rgt_moved ]] || {
      mv -n -- "$rgt_moved" "$rgt_doubted" && rgt_event renamed from "$rgt_moved" to "$rgt_doubted"
      rgt_look_for_checkpoint
    }
    return 1
  fi
  rgt_doubted=$from
  rgt_move_away "$from" || return 1
  rgt_look_for_checkpoint
  if [[ -z $rgt_checkpoint ]]; then
    mv -n -- "$rgt_moved" "$from"
    rgt_look_for_checkpoint
    rgt_reason+="; $from is the only checkpoint, and no attempt has loaded it"
    return 1
  fi
  rgt_entry_of torn
  rgt_log "no attempt has loaded $from ($rgt_id): set aside as $rgt_moved"
  rgt_notify "the resume from $from failed, and no attempt has ever loaded it ($rgt_id): \
it is now $rgt_moved, and training goes on from $rgt_checkpoint"
}

# At a heartbeat: the newest checkpoint, for when there is none. An empty folder starts no Python.
rgt_note_checkpoint() {
  local held=("$RGT_CHECKPOINT_DIR"/*)
  [[ -e ${held[0]} && $RGT_CHECKPOINT_DIR -nt $RGT_RUN_DIR/last-checkpoint ]] &&
    rgt_ask_about_checkpoints --list "$RGT_CHECKPOINT_DIR" "$RGT_CHECKPOINT_GLOB" || return 0
  [[ ${rgt_told[0]:-} != there ]] ||
    rgt_write "$RGT_RUN_DIR/last-checkpoint" "${rgt_told[1]}"$'\n'
}

rgt_begin_with_checkpoint() {
  rgt_choose_checkpoint
  rgt_tell_lost
}

# A run that had a checkpoint and finds none has lost its disk: said aloud, for it starts from
# nothing.
rgt_tell_lost() {
  local before=''
  { IFS= read -r before <"$RGT_RUN_DIR/last-checkpoint"; } 2>/dev/null
  if [[ -n $rgt_checkpoint ]]; then
    [[ $before == "$rgt_checkpoint" ]] ||
      rgt_write "$RGT_RUN_DIR/last-checkpoint" "$rgt_checkpoint"$'\n'
  elif [[ -n $before ]]; then
    rgt_entry_of lost
    rgt_event lost-checkpoints entry "$rgt_id" last "$before"
    rgt_log "no checkpoint left ($rgt_id): the last one was $before"
    rgt_notify "no checkpoint left ($rgt_id), the last one was $before; \
training starts from nothing"
  fi
}

# The program's further arguments that name the checkpoint, in rgt_resume_with.
rgt_resume_words() {
  rgt_resume_with=()
  [[ $RGT_RESUME == flag && -n $rgt_checkpoint ]] || return 0
  if [[ $RGT_RESUME_NAME == *= ]]; then
    rgt_resume_with=("$RGT_RESUME_NAME$rgt_checkpoint")
  else
    rgt_resume_with=("$RGT_RESUME_NAME" "$rgt_checkpoint")
  fi
}

# A variable that names the checkpoint, in the program's environment.
rgt_resume_variable() {
  [[ $RGT_RESUME != variable || -z $rgt_checkpoint ]] || export "$RGT_RESUME_NAME=$rgt_checkpoint"
}
