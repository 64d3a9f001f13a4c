"""What the probe can report: each kind of finding, the catalogue's entry, and what to do."""

WRONG, HINT = "wrong", "hint"
SOUND, SUSPICIOUS, NOT_LOOKED = "sound", "suspicious", "not looked at"

# kind: (entry, level, what is the matter, what it would be if all were well, what to do)
KINDS = {
    "weights stand still": (
        "O2", WRONG, "gradients arrive, but the weights stay as they are",
        "each weight with a gradient moves at each step",
        "give the optimizer the parameters of the model that computes the loss",
    ),
    "outside the optimizer": (
        "O2", HINT, "parameters get a gradient that no optimizer uses",
        "what gets a gradient is in an optimizer, or is frozen",
        "add these parameters to the optimizer, or freeze them",
    ),
    "no gradient": (
        "O3", HINT, "parameters ran in the forward pass and never got a gradient",
        "each trainable parameter that computes something gets a gradient",
        "look for detach(), no_grad() or .item() between these layers and the loss",
    ),
    "gradients pile up": (
        "O4", WRONG, "gradients are never set back",
        "the gradients of one step are gone before the next backward()",
        "call optimizer.zero_grad() once for each optimizer.step()",
    ),
    "left in evaluation mode": (
        "O5", WRONG, "the model is in evaluation mode while it trains",
        "after an evaluation model.train() comes before the next step",
        "call model.train() at the start of each training epoch",
    ),
    "evaluation mode from the start": (
        "O5", HINT, "the model trains in evaluation mode from the first step on",
        "dropout and batch norm are in training mode while the model trains",
        "call model.train() before the loop",
    ),
    "evaluated in training mode": (
        "O5", HINT, "the model is evaluated in training mode",
        "dropout is off and batch norm uses its running statistics in an evaluation",
        "call model.eval() before the evaluation, and model.train() after it",
    ),
    "decay in Adam": (
        "O6", HINT, "Adam has a weight decay",
        "AdamW, where the decay acts on the weights and not through the gradient",
        "use torch.optim.AdamW with the decay of the recipe",
    ),
    "tiny updates": (
        "O7", HINT, "the steps are tiny beside the weights",
        "a step changes a weight matrix by about a thousandth of its size",
        "raise the learning rate tenfold until the loss falls visibly",
    ),
    "huge updates": (
        "O22", HINT, "the steps are large beside the weights",
        "a step changes a weight matrix by about a thousandth of its size",
        "lower the learning rate tenfold, or warm it up",
    ),
    "rate is zero": (
        "O8", WRONG, "the learning rate is 0",
        "the rate is above 0 from the second step on",
        "step the scheduler after the optimizer, and check its warm-up",
    ),
    "rate fell to zero": (
        "O8", HINT, "the learning rate fell to 0 and training goes on",
        "the rate reaches 0 at the last step",
        "give the scheduler the number of optimizer steps of the whole run",
    ),
    "scheduler too fast": (
        "O8", HINT, "the scheduler takes more steps than the optimizer",
        "one step of the scheduler for each step of the optimizer, or for each epoch",
        "call scheduler.step() only where optimizer.step() was called",
    ),
    "scheduler never steps": (
        "O23", HINT, "a scheduler exists, but nobody calls its step()",
        "the scheduler steps at least once an epoch",
        "call scheduler.step() after optimizer.step(), or once an epoch",
    ),
    "scheduler of another optimizer": (
        "O23", HINT, "the scheduler changes an optimizer that never steps",
        "the scheduler holds the optimizer that trains",
        "make the scheduler from the optimizer that steps, after it was made for the last time",
    ),
    "undivided accumulation": (
        "O9", HINT, "losses that are means are added up over several batches",
        "each loss is divided by the number of batches in a step",
        "divide the loss by the number of accumulated batches before backward()",
    ),
    "softmax twice": (
        "O12", WRONG, "the loss gets probabilities where it wants raw scores",
        "cross entropy gets the model's raw scores",
        "drop the softmax or sigmoid at the end of the model while training",
    ),
    "not log-probabilities": (
        "O16", WRONG, "nll_loss gets no log-probabilities",
        "each row's exponentials add up to 1",
        "apply log_softmax first, or use cross_entropy on the raw scores",
    ),
    "padding counts": (
        "O15", WRONG, "the loss counts padding",
        "labels are -100 where the attention mask is 0",
        "set the labels to -100 where the attention mask is 0",
    ),
    "padding seems to count": (
        "O15", HINT, "the loss seems to count padding",
        "labels are -100, or the loss's ignore_index, where rows are padded",
        "give the loss ignore_index=PAD, or set these labels to -100",
    ),
    "end is never learned": (
        "L11", HINT, "the last token of each text has no label",
        "the token that ends a text has itself as label",
        "mask padding by the attention mask, not by the id of the end token",
    ),
    "frozen weight moves": (
        "O17", WRONG, "frozen weights change in optimizer.step()",
        "a weight with requires_grad=False stays as it is",
        "set their .grad to None when you freeze them, or leave them out of the optimizer",
    ),
    "frozen statistics move": (
        "O18", HINT, "running statistics move under frozen weights",
        "batch norm in a frozen part is in evaluation mode",
        "call .eval() on the frozen part after each model.train()",
    ),
    "adapters don't train": (
        "O21", HINT, "adapter weights are there and don't train",
        "lora_A and lora_B require a gradient and are in the optimizer",
        "set requires_grad on the adapters, and make the optimizer afterwards",
    ),
    "scaler skips": (
        "O24", WRONG, "the gradient scaler skips every step",
        "the scaler skips a few steps at the start and one now and then",
        "find what is inf or nan in the gradients; bf16 needs no scaler",
    ),
    "dead units": (
        "O25", HINT, "units output zero for every input",
        "about half of a ReLU's outputs are above zero",
        "lower the learning rate, check the initialisation and biases, or use GELU",
    ),
    "saturated layer": (
        "O26", HINT, "a layer is saturated",
        "most outputs of a tanh or sigmoid inside the model lie between its ends",
        "scale the layer's inputs, or normalise before it",
    ),
    "fp16 without scaler": (
        "P5", HINT, "fp16 gradients are lost without a gradient scaler",
        "a scaler lifts fp16 gradients above the smallest number",
        "use torch.amp.GradScaler, or bf16",
    ),
    "clipped while scaled": (
        "P7", WRONG, "gradients are clipped while they carry the loss scale",
        "scaler.unscale_(optimizer) comes before clip_grad_norm_",
        "call scaler.unscale_(optimizer) once a step, before the clipping",
    ),
    "loss isn't finite": (
        "P9", WRONG, "the loss is not finite",
        "the loss is finite at each step",
        "look at the first layer whose output is not finite",
    ),
    "gradient spikes": (
        "P13", HINT, "the gradient norm jumps on single batches",
        "the norm stays within a few times its median",
        "look at the batches of these steps, and clip the norm",
    ),
    "always clipped": (
        "P13", HINT, "clipping shrinks every step by far",
        "clipping fires on rare batches",
        "set the limit near the median norm, or lower the rate",
    ),
    "nan enters the weights": (
        "P14", WRONG, "a gradient that is not finite went into the weights",
        "a step with a gradient that is not finite is skipped",
        "skip the step when the norm that clip_grad_norm_ returns is not finite",
    ),
    "large attention scores": (
        "P16", HINT, "attention scores are in the hundreds",
        "scores before the softmax stay below about 50",
        "normalise queries and keys, or lower the rate",
    ),
    "first loss too high": (
        "P17", HINT, "the first loss is far above that of an even guess",
        "an untrained classifier starts near ln(classes)",
        "check the spread of the initial weights, or whether the loss is a sum",
    ),
    "gradients fade": (
        "P18", HINT, "gradients shrink or grow by orders of magnitude through the layers",
        "gradients of the first and the last layers have a like size",
        "add residual connections or norm layers, or another initialisation",
    ),
    "bf16 swallows steps": (
        "P20", WRONG, "most of a step is lost in rounding: the weights are half precision",
        "the optimizer holds the weights in float32",
        "keep the weights in float32 and use autocast",
    ),
    "loss stands still": (
        "O1", HINT, "the loss is the same at each step",
        "the loss differs from batch to batch and falls",
        "overfit one batch: if that fails, the model doesn't see its inputs",
    ),
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
    "workers share random numbers": (
        "DP1", WRONG, "all workers draw the same random numbers",
        "each worker's generators begin in another state",
        "seed them in worker_init_fn from torch.initial_seed()",
    ),
    "pinning has no effect": (
        "DP5", HINT, "pin_memory=True has no effect on this batch",
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
        "T12", HINT, "anomaly detection is on",
        "it is off in a real run",
        "remove detect_anomaly",
    ),
    "loading in the way": (
        "T4", HINT, "training waits for data, which one process loads",
        "the next batch is ready when the step is over",
        "set num_workers to a few cores",
    ),
    "loader too slow": (
        "U24", HINT, "training waits for data in spite of workers",
        "the next batch is ready when the step is over",
        "measure the loader alone; then more workers, or less work per sample",
    ),
    "workers start anew": (
        "T5", HINT, "each epoch waits for new workers",
        "workers stay from epoch to epoch",
        "set persistent_workers=True",
    ),
    "checkpoint lacks the optimizer": (
        "C1", HINT, "the checkpoint holds only the model's weights",
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
    "uneven experts": (
        "MOE2", HINT, "the router sends most tokens to few experts",
        "the busiest expert gets at most about twice the mean",
        "switch the balancing loss on",
    ),
}  # fmt: skip

# What is looked at, and the kinds of findings that each part can give.
OBSERVATIONS = {
    "parameters": (
        "weights stand still", "outside the optimizer", "no gradient", "frozen weight moves",
        "adapters don't train", "bf16 swallows steps", "tiny updates", "huge updates",
        "decay in Adam", "nan enters the weights", "connector is frozen", "one vision rate",
    ),
    "gradients": (
        "gradients pile up", "undivided accumulation", "gradient spikes", "always clipped",
        "gradients fade", "fp16 without scaler", "clipped while scaled", "scaler skips",
    ),
    "rates": (
        "rate is zero", "rate fell to zero", "scheduler too fast", "scheduler never steps",
        "scheduler of another optimizer",
    ),
    "modes": (
        "left in evaluation mode", "evaluation mode from the start", "evaluated in training mode",
        "frozen statistics move",
    ),
    "losses": (
        "softmax twice", "not log-probabilities", "padding counts", "padding seems to count",
        "loss isn't finite", "first loss too high", "loss stands still", "one class dominates",
    ),
    "batches": (
        "same order each epoch", "set_epoch missing", "workers repeat the stream",
        "pinning has no effect", "images from 0 to 255", "images aren't normalised",
        "random evaluation data", "end is never learned",
    ),
    "activations": (
        "dead units", "saturated layer", "large attention scores", "uneven experts",
    ),
    "time and memory": (
        "graphs are kept", "hooks pile up", "anomaly detection", "loading in the way",
        "loader too slow", "workers start anew",
    ),
    "checkpoints": (
        "checkpoint lacks the optimizer", "optimizer not restored", "scheduler not restored",
        "nothing was loaded",
    ),
}  # fmt: skip


def finding(kind, step, evidence, level=None, **numbers):
    """One finding. `numbers` are JSON values."""
    entry, usual, told, well, do = KINDS[kind]
    return {
        "id": entry, "kind": kind, "level": level or usual, "step": step, "what": told,
        "evidence": evidence, "well": well, "do": do, "numbers": numbers,
    }  # fmt: skip
