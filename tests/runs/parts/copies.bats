#!/usr/bin/env bats
# Copies, rehearsal, queue, and what stands in for a part that a job leaves out.

bats_require_minimum_version 1.5.0
load load

@test "a copy within the box is compared with its source" {
  parts core/tools.sh copies/copy.sh copies/rsync.sh without/cloud.sh
  mkdir -p "$BATS_TEST_TMPDIR/from/sub"
  echo data >"$BATS_TEST_TMPDIR/from/sub/file"
  rgt_copy_out full "$BATS_TEST_TMPDIR/from" "$BATS_TEST_TMPDIR/to" ''
  [ "$(<"$BATS_TEST_TMPDIR/to/sub/file")" = data ]
}

@test "a link that leads nowhere is told" {
  parts core/tools.sh copies/copy.sh copies/rsync.sh without/cloud.sh
  mkdir "$BATS_TEST_TMPDIR/from"
  ln -s /nowhere "$BATS_TEST_TMPDIR/from/link"
  run ! rgt_copy_out full "$BATS_TEST_TMPDIR/from" "$BATS_TEST_TMPDIR/to" ''
}

@test "an address in a cloud goes to the cloud's tools, any other to rsync" {
  parts core/tools.sh copies/copy.sh
  rgt_copy_to_cloud() { echo "cloud $1"; }
  rgt_copy_by_rsync() { echo "rsync $1"; }
  [ "$(rgt_copy quick /a rclone:b:c '')" = 'cloud rclone' ]
  [ "$(rgt_copy quick s3://a /b '')" = 'cloud s3' ]
  [ "$(rgt_copy quick /a gs://b '')" = 'cloud gs' ]
  [ "$(rgt_copy quick /a /b '')" = 'rsync local' ]
  [ "$(rgt_copy quick /a host:b '')" = 'rsync ssh' ]
}

@test "a name becomes a pattern that fits nothing else" {
  parts copies/cloud.sh
  rgt_as_pattern 'a[1]*.pt' '*?[]{}\' '\'
  [ "$rgt_pattern" = 'a\[1\]\*.pt' ]
}

@test "a rehearsal puts its own folder only where a path stands" {
  parts rehearsal/folders.sh
  RGT_CHECKPOINT_DIR=/new given=out real=/w/out
  rgt_swap_folders --dir=out/x word
  [ "$rgt_text" = --dir=/new/x ]
  rgt_swap_folders --timeout word
  [ "$rgt_text" = --timeout ]
}

@test "a box that is kept says so, and one that can't stop says why" {
  parts without/self_stop.sh
  run ! rgt_self_stop
  RGT_AT_END=stop RGT_PROFILE=vastai
  rgt_self_stop || [[ $rgt_why == "a box of vastai can't stop itself"* ]]
}

@test "a job without signal, durable place or checkpoint says what a verb would need" {
  parts without/save.sh without/durable.sh without/rehearsal.sh
  run -2 rgt_save
  [[ $output == 'save needs a save signal'* ]]
  run -1 rgt_sync_by_hand
  [ "$output" = 'no durable place is set' ]
  run -1 rgt_rehearse
  [[ $output == 'a rehearsal saves and resumes a checkpoint'* ]]
}

@test "a cell's name and arguments come from one line of the roster" {
  parts core/tools.sh without/shell_line.sh queue/cells.sh queue/roster.sh
  RGT_CELLS=($'a\x1f--lr\x1fit\'s') RGT_COMMAND=(train) rgt_queue_names=(a)
  rgt_queue_add_arguments 0
  [ "${RGT_COMMAND[*]}" = "train --lr it's" ]
  rgt_queue_as_line 0
  [ "$rgt_queue_text" = "a --lr 'it'\"'\"'s'" ]
}

@test "a notice of a provider is handed on once it is there" {
  parts core/tools.sh notices/preemption.sh
  rgt_up=0 RGT_NOTICE=''
  run ! rgt_has_notice
  echo 'notice from aws' >"$RGT_RUN_DIR/notice"
  rgt_has_notice
  [ "$rgt_notice" = 'notice from aws' ]
}
