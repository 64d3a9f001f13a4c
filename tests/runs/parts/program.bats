#!/usr/bin/env bats
# The program: its arguments, its launcher, its results, its checkpoints.

bats_require_minimum_version 1.5.0
load load

@test "arguments reach a list, and a line before its last tee" {
  parts core/quote.sh program/shell_line.sh
  RGT_COMMAND=(python t.py)
  rgt_with_arguments --lr "it's"
  [ "${rgt_argv[*]}" = "python t.py --lr it's" ]
  RGT_COMMAND=(bash -c 'python t.py | tee log')
  rgt_with_arguments "a b"
  [ "${rgt_argv[2]}" = $'set -o pipefail\npython t.py \'a b\' | tee log' ]
}

@test "torchrun starts a script on one node" {
  parts launchers/launcher.sh launchers/torchrun.sh
  RGT_PYTHON=python3 RGT_PROCS=4 RGT_NODES=1
  rgt_argv=(python3 -u t.py --lr 1)
  rgt_add_launcher
  [ "${rgt_argv[*]}" = 'python3 -m torch.distributed.run --nproc-per-node=4 --max-restarts=0 --nnodes=1 --standalone t.py --lr 1' ]
}

@test "accelerate and DeepSpeed start a program that isn't Python" {
  parts core/tools.sh launchers/launcher.sh launchers/accelerate.sh
  RGT_PYTHON=python3 RGT_PROCS=1 RGT_NODES=1 RGT_LAUNCHER=accelerate
  rgt_argv=(/opt/train --x)
  rgt_add_launcher
  [ "${rgt_argv[*]}" = 'python3 -m accelerate.commands.launch --num_processes=1 --num_machines=1 --main_process_port=0 --cpu --no_python /opt/train --x' ]
  parts launchers/deepspeed.sh
  RGT_LAUNCHER=deepspeed rgt_argv=(/opt/train)
  rgt_add_launcher
  [[ ${rgt_argv[*]} == *'--num_gpus=1 --no_python --no_local_rank /opt/train' ]]
}

@test "a node other than the first has a folder of its own" {
  parts launchers/nodes.sh
  RGT_NODES=2 rgt_base=$RGT_RUN_DIR
  rgt_find_node 1
  rgt_resolve_node
  [ "$rgt_rank ${RGT_RUN_DIR##*/}" = '1 node-1' ]
}

@test "a result from before the run counts as missing until it is written again" {
  parts core/tools.sh program/results.sh
  RGT_WORK_DIR=$BATS_TEST_TMPDIR RGT_EXPECT=(out.bin)
  echo old >"$BATS_TEST_TMPDIR/out.bin"
  call rgt_note_results
  call rgt_missing_results
  [ "${rgt_missing[*]} ${rgt_stale[*]}" = 'out.bin out.bin' ]
  sleep 0.02
  echo new >"$BATS_TEST_TMPDIR/out.bin"
  call rgt_missing_results
  [ "${#rgt_missing[@]}" = 0 ]
}

@test "a checkpoint reaches the program by a flag" {
  parts checkpoints/choose.sh
  RGT_RESUME=flag rgt_checkpoint=/c/step-2.pt
  RGT_RESUME_NAME=--resume && rgt_resume_words
  [ "${rgt_resume_with[*]}" = '--resume /c/step-2.pt' ]
  RGT_RESUME_NAME=--resume= && rgt_resume_words
  [ "${rgt_resume_with[*]}" = '--resume=/c/step-2.pt' ]
}

@test "without Python the newest checkpoint that isn't empty is taken" {
  parts core/tools.sh checkpoints/choose.sh
  rgt_find_python() { return 1; }
  RGT_CHECKPOINT_DIR=$BATS_TEST_TMPDIR RGT_CHECKPOINT_GLOB='step-*.pt'
  echo x >"$BATS_TEST_TMPDIR/step-9.pt"
  echo x >"$BATS_TEST_TMPDIR/step-10.pt"
  touch -d '-1 hour' "$BATS_TEST_TMPDIR/step-10.pt"
  : >"$BATS_TEST_TMPDIR/step-11.pt"
  rgt_look_for_checkpoint
  [ "${rgt_checkpoint##*/}" = step-10.pt ]
}

@test "secrets are read from a file, and a missing one is refused" {
  parts core/tools.sh core/failure_names.sh program/variables.sh program/secrets.sh
  rgt_refuse() { echo "$2"; }
  echo s3cret >"$BATS_TEST_TMPDIR/key"
  RGT_SECRET_FILES=("A_KEY=$BATS_TEST_TMPDIR/key" "B_KEY=/nowhere")
  [ "$(rgt_check_secrets)" = 'the secret B_KEY has no readable file /nowhere' ]
  RGT_SECRET_FILES=("A_KEY=$BATS_TEST_TMPDIR/key")
  rgt_load_secrets
  [ "$A_KEY" = s3cret ]
}

@test "a secret is masked in what a tool for copies said, and a short one is left" {
  parts core/tools.sh program/secrets.sh
  RGT_SECRET_VARS=(LONG SHORT=OTHER) LONG=s3cr3t-1 SHORT=ab
  rgt_detail='401 for s3cr3t-1 at ab'
  rgt_mask_detail
  [ "$rgt_detail" = '401 for *** at ab' ]
}

@test "an end with 0 before its final step is no end" {
  parts core/tools.sh core/failure_names.sh core/evidence.sh without/checkpoints.sh run/early_end.sh
  RGT_FINAL_STEP=10 rgt_step=9 rgt_held=''
  call rgt_judge_end
  [ "$rgt_class $rgt_reason" = 'bug it ended with 0 at step 9 of 10' ]
  rgt_class='' rgt_step=10
  call rgt_judge_end
  [ -z "$rgt_class" ]
}
