# A script of this machine is a file.
rgt_keep_script_from_memory() {
  echo 'this script was read from a pipe: start it from its file' >&2
  return 1
}
