"""LAM14: the script asks for the state until the check's words say done, and a wait differs from a bill."""

import re

from remote_gpu_trainer.catalogue import bundle

GONE = (404, {"error": {"code": "global/object-does-not-exist", "message": "no such instance"}})
BUSY = (503, {"error": {"code": "provider/internal-unavailable", "message": "try again"}})


def states(provider, *answers, terminate=None):
    provider.program("sleep", "#!/bin/sh\n")
    provider.program("seq", "#!/bin/sh\necho 1 2 3 4\n")
    provider.answers["cloud.lambda.ai/api/v1/instance-operations/terminate"] = terminate or {}
    provider.answers["cloud.lambda.ai/api/v1/instances/ID"] = list(answers)
    code = re.search(r"```bash\n(.*?)```", bundle.load().get("LAM14").fix, re.S)[1]
    return provider.run(code).splitlines()


def state(word):
    return {"data": {"id": "ID", "status": word}}


def test_the_states_lead_to_a_word_that_the_check_calls_done(provider, says):
    said = states(provider, state("terminating"), GONE, terminate=BUSY)
    assert [said[0].rpartition("}")[2], *said[1:]] == ["terminating", GONE[1]["error"]["code"]]
    assert f"`{said[-1]}` means done" in bundle.load().get("LAM14").check
    says("LAM14", BUSY[1]["error"]["code"])
    assert len([1 for method, _ in provider.asked if method == "POST"]) == 1


def test_an_instance_that_lives_on_stays_active_which_the_check_calls_billed(provider):
    said = states(provider, state("active"))
    assert said[-3:] == ["active"] * 3
    assert "`active` means still billed" in bundle.load().get("LAM14").check
