# No signal that only saves.
rgt_save() {
  echo "save needs a save signal other than TERM and no launcher; stop saves and ends" >&2
  return 2
}
