"""A rehearsal takes the user's program through train, save, kill and resume beside the run."""

from tests.runner_box import Box

pytest_plugins = ["tests.runner_box"]


def test_a_rehearsal_goes_through_all_phases_and_touches_no_checkpoint_of_the_run(box: Box):
    box.make("--sleep", 0.05, RGT_REHEARSE=["--steps", "200"])
    done = box.verb("rehearse")
    assert done.returncode == 0, done.stdout + done.stderr
    assert [line.split(":")[0] for line in done.stdout.splitlines()] == ["ok train", "ok save", "ok kill", "ok resume"]
    assert "a save takes" in done.stdout
    assert not list(box.checkpoints.glob("*")) and not (box.run_dir / "steps.log").exists()
    assert not box.processes()
    assert not list((box.run_dir / "rehearsal").glob("checkpoints-*"))
    box.start()
    assert box.wait()["phase"] == "done" and box.steps()[0][1] == 1


def test_a_rehearsal_that_ends_looks_for_the_results(box: Box):
    box.make("--sleep", 0.03, RGT_REHEARSE=["--steps", "9", "--every", "5"], RGT_EXPECT=["nowhere.bin"])
    done = box.verb("--rehearse")
    assert done.returncode == 1 and "failed evaluate: missing nowhere.bin" in done.stdout


def test_a_program_that_saves_elsewhere_or_fails_is_told(box: Box):
    box.make(RGT_COMMAND=["python3", "-c", "import sys; print('x'); sys.exit(4)"], RGT_EXPECT=[])
    done = box.verb("rehearse")
    assert done.returncode == 1 and "failed train: ended with 4 before the first checkpoint" in done.stdout


def test_a_program_that_cannot_resume_is_told(box: Box):
    never = "import os, sys, time, zipfile, glob\nd=os.environ['RGT_CHECKPOINT_DIR']\n"
    never += "if glob.glob(d+'/*.pt'): sys.exit('cannot load')\n"
    never += "z=zipfile.ZipFile(d+'/step-1.pt','w'); z.writestr('a','b'); z.close(); time.sleep(60)"
    box.make(RGT_COMMAND=["python3", "-c", never], RGT_EXPECT=[])
    done = box.verb("rehearse")
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1].startswith("failed resume: ended with 1")
    kept = list((box.run_dir / "rehearsal").glob("checkpoints-*"))
    assert len(kept) == 1 and list(kept[0].iterdir())
    box.verb("rehearse")
    assert not kept[0].exists()
