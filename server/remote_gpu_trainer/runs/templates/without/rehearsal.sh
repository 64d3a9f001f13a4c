# Nothing to rehearse.
rgt_rehearse() {
  echo 'a rehearsal saves and resumes a checkpoint; set checkpoint.folder in the job' >&2
  return 1
}
