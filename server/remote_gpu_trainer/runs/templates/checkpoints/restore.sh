# Checkpoints that come back from the durable place.

# A new box with an empty checkpoint folder takes the copy from the durable place. Fails where that
# place doesn't answer: to begin again from nothing would be dearer.
rgt_restore() {
  local item code try
  [[ -n $RGT_DURABLE && -n $RGT_CHECKPOINT_GLOB && $RGT_RESUME != none ]] || return 0
  rgt_look_for_checkpoint
  [[ -z $rgt_checkpoint ]] || return 0
  for item in ${RGT_SYNC[@]+"${RGT_SYNC[@]}"}; do
    rgt_item "$item"
    case $RGT_CHECKPOINT_DIR in
      "$rgt_from") ;;
      "$rgt_from"/*) rgt_to+=${RGT_CHECKPOINT_DIR#"$rgt_from"} rgt_from=$RGT_CHECKPOINT_DIR ;;
      *) continue ;;
    esac
    for try in 1 2 3; do
      code=0
      case $(rgt_durable_kind) in local | ssh) rgt_is_folder "$rgt_to" || code=$? ;; esac
      ((code > 1 && try < 3)) && [[ -z $rgt_asked ]] || break
      rgt_nap $((RGT_SYNC_WAIT * try))
    done
    ((code == 1)) && continue
    rgt_detail="no answer ($code)"
    if ((code == 0)) && rgt_fetch "$rgt_to" "$rgt_from" "$1"; then
      rgt_look_for_checkpoint
      [[ -z $rgt_checkpoint ]] || rgt_event restored from "$rgt_to" checkpoint "$rgt_checkpoint"
      continue
    fi
    # What the cloud's tools say of a folder that was never written.
    case $rgt_detail in
      *'irectory not found'* | *'matched no'* | *'not exist'* | *'not name a directory'*)
        continue
        ;;
    esac
    rgt_verdict network network "the checkpoints at $rgt_to can't be looked for: $rgt_detail"
    return 1
  done
  return 0
}
