# Which code runs: commit, difference, ignored files.

: "${RGT_CODE_COMMIT=}" "${RGT_CODE_DIFF=}" "${RGT_CODE_IGNORED=}"

rgt_write_code_notes() {
  [[ -z $RGT_CODE_COMMIT ]] || rgt_write "$RGT_RUN_DIR/code.commit" "${RGT_CODE_COMMIT%$'\n'}"$'\n'
  [[ -z $RGT_CODE_DIFF ]] || rgt_write "$RGT_RUN_DIR/code.diff" "$RGT_CODE_DIFF"
  [[ -z $RGT_CODE_IGNORED ]] ||
    rgt_write "$RGT_RUN_DIR/code.ignored" "${RGT_CODE_IGNORED%$'\n'}"$'\n'
  return 0
}
