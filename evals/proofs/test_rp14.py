"""RP14: the script deletes only what its key can see, and says gone only after the API answered 404."""

import re

from remote_gpu_trainer.catalogue import bundle

POD = "api.runpod.io/v2/pods/abc123"
LIST = "api.runpod.io/v2/pods?includeClusterPods=true"


def script(provider):
    provider.program("sleep", "#!/bin/sh\n")
    provider.program("seq", "#!/bin/sh\necho 1 2 3\n")
    code = re.search(r"```bash\n(.*?)```", bundle.load().get("RP14").fix, re.S)[1]
    return provider.done(f"{code}\necho left with $?", RUNPOD_API_KEY="k", POD_ID="abc123")


def test_a_pod_that_the_key_does_not_see_is_not_deleted(provider):
    provider.answers[POD] = (404, {"detail": "pod not found"})
    assert "nothing done\nleft with 2" in script(provider).stdout
    assert provider.asked == [("GET", POD)]


def test_gone_is_said_after_the_404_and_the_shell_lives_on(provider):
    provider.answers[f"GET {POD}"] = [{"id": "abc123"}, {"id": "abc123"}, (404, {})]
    provider.answers[f"DELETE {POD}"] = (204, None)
    assert script(provider).stdout == "gone\nleft with 0\n"


def test_a_pod_that_stays_is_never_called_gone(provider):
    provider.answers[f"GET {POD}"] = {"id": "abc123"}
    provider.answers[f"DELETE {POD}"] = (409, {"detail": "pod belongs to a cluster"})
    said = script(provider).stdout
    assert said == "delete not accepted\nstill 200: end it in the console\nleft with 1\n"


def test_the_check_lists_the_pod_as_long_as_it_is_there(provider, shell_of):
    line = shell_of("RP14", "includeClusterPods")
    provider.answers[LIST] = {"pods": [{"id": "abc123", "status": "RUNNING"}]}
    assert provider.run(line, RUNPOD_API_KEY="k") == "abc123 RUNNING"
    provider.answers[LIST] = {"pods": []}
    assert provider.run(line, RUNPOD_API_KEY="k") == ""


def test_a_refused_list_is_no_sign_that_the_pod_is_gone(provider, shell_of):
    provider.answers[LIST] = (401, {"title": "Unauthorized", "status": 401})
    done = provider.done(shell_of("RP14", "includeClusterPods"), RUNPOD_API_KEY="wrong")
    assert done.returncode and "Traceback" in done.stderr
