# The rehearsal's own folder of checkpoints in place of the run's.

# A text with the folder of checkpoints replaced by the rehearsal's, in rgt_text, and only where it
# stands as a path: out and out/x and --dir=out, but neither --timeout nor layout/x. An absolute
# path is looked for inside of words too.
rgt_swap_folder() {
  local rest=$1 folder=${2%/} left right before after
  while [[ $folder == ./* ]]; do folder=${folder#./}; done
  rgt_text=$1
  [[ -n $folder && $folder != . && $folder != '~' ]] || return 0
  case $folder-$3 in
    /*) left=$' \t\n=\'"();&|<>`:,[@' right=$' \t\n\'"();&|<>`:,]' ;;
    *-line) left=$' \t\n=\'"();&|<>`' right=$' \t\n\'"();&|<>`' ;;
    *) left='=' right='' ;;
  esac
  rgt_text=''
  while [[ $rest == *"$folder"* ]]; do
    before=${rest%%"$folder"*}
    after=${rest:${#before}+${#folder}}
    rgt_text+=$before
    # ./out is the same folder.
    before=$rgt_text
    while [[ $folder != /* && $before == *./ ]]; do before=${before%./}; done
    if [[ (-z $before || $left == *"${before: -1}"*) &&
      (-z $after || $after == /* || $right == *"${after:0:1}"*) ]]; then
      rgt_text=$before$mark
    else
      rgt_text+=$folder
    fi
    rest=$after
  done
  rgt_text+=$rest
}

# Both forms, the absolute one and the user's; the new folder may lie below the old one, so it comes
# in last.
rgt_swap_folders() {
  local mark=$'\1'
  rgt_swap_folder "$1" "$given" "$2"
  rgt_swap_folder "$rgt_text" "$real" "$2"
  [[ -z $real ]] || rgt_swap_folder "$rgt_text" "$(realpath -ms -- "$real")" "$2"
  rgt_text=${rgt_text//"$mark"/"$RGT_CHECKPOINT_DIR"}
}
