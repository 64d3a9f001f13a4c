"""LAM5: sold out, free, and a name that no type has are three answers; the loop ends as soon as a region is free."""

import re

from remote_gpu_trainer.catalogue import bundle

API = "cloud.lambda.ai/api/v1/instance-types"


def types(*regions, name="gpu_1x_a100_sxm4"):
    free = [{"name": region, "description": "USA"} for region in regions]
    kind = {"name": name, "price_cents_per_hour": 129}
    return {"data": {name: {"instance_type": kind, "regions_with_capacity_available": free}}}


def test_sold_out_differs_from_free_and_from_a_wrong_name(provider, shell_of):
    line = shell_of("LAM5", "instance-types")
    provider.answers[API] = types()
    assert provider.run(line) == "[]"
    provider.answers[API] = types("us-west-1")
    assert "us-west-1" in provider.run(line)
    provider.answers[API] = types("us-west-1", name="gpu_1x_h100")
    assert provider.run(line) == "null"


def test_the_loop_asks_until_a_region_is_free(provider):
    provider.program("sleep", "#!/bin/sh\n")
    provider.answers[API] = [types(), "", types("us-east-1")]  # "": no answer came
    loop = re.search(r"```bash\n(.*?)```", bundle.load().get("LAM5").fix, re.S)[1]
    assert provider.run(loop).endswith("free in us-east-1")
    assert len(provider.asked) == 3
