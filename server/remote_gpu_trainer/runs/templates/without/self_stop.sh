# A box that can't stop itself, or is not to.
rgt_self_stop() {
  rgt_why='the job says: keep the box'
  [[ $RGT_AT_END != stop ]] ||
    rgt_why="a box of ${RGT_PROFILE:-this kind} can't stop itself and keep its disk"
  return 1
}
