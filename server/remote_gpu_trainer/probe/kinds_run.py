"""Kinds of findings about data, ranks, time and files, and what to do about each."""

from .kinds_model import HINT, NOTE, WRONG

# kind: (entry, level, what is the matter, what it would be if all were well, what to do)
IN_THE_RUN = {
    "same order each epoch": (
        "C13", HINT, "each epoch has the same order of samples",
        "each epoch has another order",
        "shuffle=True, with a generator that isn't seeded anew in each epoch",
    ),
    "set_epoch missing": (
        "D22", WRONG, "the distributed sampler gives each epoch the same order",
        "sampler.set_epoch(epoch) gives each epoch another order",
        "call sampler.set_epoch(epoch) at the start of each epoch",
    ),
    "workers repeat the stream": (
        "DP2", WRONG, "each worker delivers the same batches",
        "each batch comes from one worker only",
        "split the stream by get_worker_info() in the dataset's __iter__",
    ),
    "ranks share data": (
        "DP2", HINT, "the ranks train on the same batches",
        "each rank gets batches of its own",
        "use a DistributedSampler, or split the stream by rank",
    ),
    "ranks drift apart": (
        "D38", WRONG, "the ranks have different weights under DistributedDataParallel",
        "after each step all ranks have the same weights",
        "call the wrapped model, never model.module, where the loss is computed",
    ),
    "workers share random numbers": (
        "DP1", WRONG, "all workers draw the same random numbers",
        "each worker's generators begin in another state",
        "seed them in worker_init_fn from torch.initial_seed()",
    ),
    "pinning has no effect": (
        "DP5", NOTE, "pin_memory=True has no effect on this batch",
        "the batch is made of tensors, dicts, lists and tuples, or has pin_memory()",
        "give the batch class a method pin_memory()",
    ),
    "images from 0 to 255": (
        "DP12", HINT, "images have values up to 255",
        "images lie between 0 and 1, or around 0 after normalisation",
        "divide by 255 before the normalisation",
    ),
    "images aren't normalised": (
        "DP10", HINT, "a pretrained model gets images that aren't normalised",
        "images have a mean near 0 and a deviation near 1 per channel",
        "use the transforms that belong to the weights",
    ),
    "random evaluation data": (
        "V2", HINT, "the evaluation data come out different each time",
        "each pass over the evaluation data gives the same inputs",
        "use a dataset without random transforms for the evaluation",
    ),
    "one class dominates": (
        "V6", HINT, "nearly all labels are one class",
        "each class has a share of the labels",
        "judge by macro F1, and weight the classes or the sampling",
    ),
    "one vision rate": (
        "X3", HINT, "vision encoder and language model train at one high rate",
        "each part has a rate of its own",
        "make a parameter group for each part",
    ),
    "connector is frozen": (
        "X1", HINT, "the connector between vision and language doesn't train",
        "the connector trains",
        "set requires_grad on the connector, and give it to the optimizer",
    ),
    "graphs are kept": (
        "M20", WRONG, "the graph of each step stays in memory",
        "a step's graph is freed after its backward()",
        "keep loss.item() or loss.detach(), never the loss itself",
    ),
    "hooks pile up": (
        "T25", WRONG, "each step adds hooks to the model",
        "the number of hooks stays the same",
        "register hooks once, before the loop, or remove them after use",
    ),
    "anomaly detection": (
        "T12", NOTE, "anomaly detection is on",
        "it is off in a real run",
        "remove detect_anomaly",
    ),
    "loading in the way": (
        "T4", NOTE, "training waits for data, which one process loads",
        "the next batch is ready when the step is over",
        "set num_workers to a few cores",
    ),
    "loader too slow": (
        "U24", NOTE, "training waits for data in spite of workers",
        "the next batch is ready when the step is over",
        "measure the loader alone; then more workers, or less work per sample",
    ),
    "workers start anew": (
        "T5", NOTE, "each epoch waits for new workers",
        "workers stay from epoch to epoch",
        "set persistent_workers=True",
    ),
    "checkpoint lacks the optimizer": (
        "C1", NOTE, "the checkpoint holds only the model's weights",
        "it holds the optimizer, the scheduler and the step too",
        "save the state_dict() of every object that has one",
    ),
    "optimizer not restored": (
        "C1", HINT, "the file holds the optimizer's state, but nobody loaded it",
        "optimizer.load_state_dict() comes after the model's",
        "load the optimizer's state too",
    ),
    "scheduler not restored": (
        "C14", HINT, "the optimizer goes on, but the scheduler begins anew",
        "optimizer and scheduler stand at the same step",
        "save and load the scheduler's state too",
    ),
    "nothing was loaded": (
        "C18", WRONG, "load_state_dict(strict=False) loaded nothing",
        "the names in the file match those of the model",
        "take the prefix off the names, and load with strict=True",
    ),
    "other inputs in evaluation": (
        "V1", HINT, "inputs of training and evaluation lie on different scales",
        "both are prepared in one way, apart from random augmentation",
        "use one normalisation for training, evaluation and deployment",
    ),
    "bursts of batches": (
        "T7", NOTE, "every N-th batch is waited for, N is the number of workers",
        "batches arrive as fast as steps are made",
        "more workers, less work per sample, or a larger prefetch_factor for uneven samples",
    ),
    "garbage collection": (
        "T20", NOTE, "Python's garbage collector holds up the steps",
        "collections take next to no time",
        "gc.freeze() after set-up, and gc.collect() in rare steps",
    ),
    "checkpointing with room": (
        "T17", NOTE, "activations are computed twice although memory is free",
        "activation checkpointing is on only where memory is short",
        "switch gradient checkpointing off and compare time and memory",
    ),
    "too many threads": (
        "U40", NOTE, "more threads compute than cores may be used",
        "threads of all processes together are as many as the usable cores",
        "set OMP_NUM_THREADS to the usable cores divided by the processes",
    ),
    "compiles again and again": (
        "CMP1", NOTE, "torch.compile goes on compiling after the first steps",
        "no new graph after the first few steps",
        "pad to a few sizes, or let sizes be dynamic",
    ),
    "exchange in each micro-batch": (
        "T23", NOTE, "gradients are exchanged in each micro-batch",
        "ranks exchange gradients once a step",
        "run all micro-batches but the last under no_sync()",
    ),
    "one unit": (
        "D12", NOTE, "FSDP treats the whole model as one unit",
        "each block is a unit of its own",
        "call fully_shard on each block before the model, or give a wrapping policy",
    ),
    "few rows for each gather": (
        "D13", NOTE, "FSDP gathers all weights for a few rows",
        "each gather serves hundreds of rows or tokens",
        "use larger batches for each rank, or DDP where the model fits",
    ),
    "sharded in half precision": (
        "D14", HINT, "FSDP's optimizer holds the weights in half precision",
        "weights are float32, and the policy casts them for computing",
        "load in float32 and set MixedPrecisionPolicy(param_dtype=torch.bfloat16)",
    ),
    "stage 3 for a model that fits": (
        "D16", NOTE, "ZeRO stage 3 splits a model that fits on each device",
        "the lowest stage that fits",
        "use stage 1, or 2 where the gradients don't fit",
    ),
    "accumulated twice": (
        "D18", HINT, "the loop accumulates and DeepSpeed does too",
        "engine.step() follows each engine.backward()",
        "call engine.step() after each micro-batch; the engine counts them",
    ),
    "older checkpoint": (
        "C3", HINT, "an older checkpoint was loaded although a newer one lies beside it",
        "a resumed run loads its newest checkpoint",
        "choose by number, not by name as text",
    ),
    "counting from the start": (
        "C3", HINT, "the run saves under a lower number than a checkpoint that was there before",
        "a relaunched run goes on from the newest checkpoint",
        "find the newest checkpoint at the start and load it",
    ),
    "Trainer began anew": (
        "C9", HINT, "Trainer saves under a lower number than a checkpoint that was there before",
        "a relaunched run goes on from the newest checkpoint",
        "pass the checkpoint to trainer.train(resume_from_checkpoint=...)",
    ),
    "newest was deleted": (
        "C17", HINT, "the newest checkpoint was deleted, older ones remain",
        "the newest checkpoint stays, for a resume",
        "keep the newest apart from the best",
    ),
    "saved by a signal handler": (
        "SLURM1", HINT, "a checkpoint was written inside a signal handler",
        "the handler sets a flag, and the loop saves at the end of a step",
        "set a flag in the handler, and save where the step is over",
    ),
    "ranks write one file": (
        "D23", WRONG, "several ranks write the same file",
        "rank 0 alone writes a shared file",
        "write only where the rank is 0",
    ),
}  # fmt: skip

# Check and fix of kinds whose entry has another case in front.
OWN_ADVICE_OF_RUNS = {
    "ranks share data": {
        "check": "Print the first sample's index or hash on each rank: equal ones prove it.",
        "fix": "Give the loader sampler=DistributedSampler(dataset) and call "
        "sampler.set_epoch(epoch); split a stream by rank.",
    },
    "ranks drift apart": {
        "check": "Print `sum(p.double().sum() for p in model.parameters())` on each rank after a "
        "step: the numbers must be equal.",
        "fix": "Call the DistributedDataParallel model itself: model.module(x) and methods of "
        "model.module bypass the exchange of gradients.",
    },
}
