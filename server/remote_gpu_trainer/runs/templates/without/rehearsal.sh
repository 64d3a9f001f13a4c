# Nothing to rehearse.
rgt_rehearse() {
  echo 'a rehearsal needs a checkpoint to save and resume: name its folder in the job' >&2
  return 1
}
