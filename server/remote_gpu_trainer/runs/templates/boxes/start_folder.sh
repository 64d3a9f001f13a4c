# A work folder that is named from where the script begins.

# In a container it may be "where the image begins"; the keeper and a detached run begin elsewhere.
rgt_resolve_start_folder() {
  [[ $RGT_WORK_DIR != /* ]] || return 0
  export rgt_here=${rgt_here:-$PWD}
  RGT_WORK_DIR=$rgt_here/$RGT_WORK_DIR
  while [[ $RGT_WORK_DIR == */. ]]; do RGT_WORK_DIR=${RGT_WORK_DIR%/.}; done
  [[ -n $RGT_WORK_DIR ]] || RGT_WORK_DIR=/
}
