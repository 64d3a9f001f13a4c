"""Kinds of findings about parameters, gradients, losses and layers, and what to do about each."""

WRONG, HINT = "wrong", "hint"
NOTE = "note"  # about speed or taste, or of what is often meant: it leaves the verdict alone

# kind: (entry, level, what is the matter, what it would be if all were well, what to do)
IN_THE_MODEL = {
    "weights stand still": (
        "O2", WRONG, "gradients arrive, but the weights stay as they are",
        "each weight with a gradient moves at each step",
        "give the optimizer the parameters of the model that computes the loss",
    ),
    "forgotten weights": (
        "O2", WRONG, "the optimizer holds weights that nothing computes with, in place of others",
        "the optimizer's weights are those of the model that computes the loss",
        "make the optimizer after the model has its last form, from that model's parameters",
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
    "no gradient arrives": (
        "O3", WRONG, "no gradient reaches any weight of the optimizer",
        "each step has gradients that aren't all zero",
        "look for detach(), no_grad(), .item() or a factor of 0 between the model and the loss",
    ),
    "lost loss": (
        "O3", WRONG, "a loss is computed in each step and never goes back",
        "each loss that trains a part of the model is a part of what backward() is called on",
        "add this loss to the one that goes back, or compute it under no_grad()",
    ),
    "output without a loss": (
        "O3", NOTE, "parameters ran in the forward pass, and no loss depends on them",
        "each trainable parameter that computes something gets a gradient",
        "freeze or drop the layer if it isn't wanted; else use its output in the loss",
    ),
    "gradients gone before the step": (
        "O4", WRONG, "gradients are set back before the step that should use them",
        "zero_grad() comes before backward(), or after step()",
        "keep one order: zero_grad(), forward, backward(), step()",
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
    "adapters get no gradient": (
        "O21", WRONG, "adapter weights are in the optimizer, and never get a gradient",
        "at least one of the two matrices of an adapter isn't zero at the start",
        "let lora_A begin with random numbers and lora_B with zeros; look for no_grad() and "
        "reentrant checkpointing",
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
    "uneven experts": (
        "MOE2", HINT, "the router sends most tokens to few experts",
        "the busiest expert gets at most about twice the mean",
        "switch the balancing loss on",
    ),
    "targets are broadcast": (
        "O29", WRONG, "predictions and targets have different shapes, and each meets each",
        "the loss gets two tensors of one shape",
        "squeeze the predictions, or give the targets their last dimension",
    ),
    "differences are broadcast": (
        "O29", HINT, "a difference of N predictions and N targets is an N by N matrix",
        "predictions and targets have one shape",
        "squeeze the predictions, or give the targets their last dimension",
    ),
    "returns of any scale": (
        "R3", HINT, "log-probabilities are weighted with numbers of a large scale",
        "advantages have a mean near 0 and a deviation near 1",
        "normalise rewards and observations, and the advantages in each batch",
    ),
    "preferences stand still": (
        "L9", HINT, "the preference loss stays at ln 2",
        "the margin between chosen and rejected grows, and the loss falls below 0.693",
        "raise the rate, and check that the reference model doesn't train along",
    ),
    "loss jumps": (
        "P12", HINT, "the loss jumped and stayed up",
        "the loss falls, or returns to where it was after a spike",
        "lower the highest rate, warm up longer, or clip the norm",
    ),
    "tiny batch norm": (
        "V7", HINT, "batch norm takes its statistics from one or two samples",
        "a batch norm layer sees 16 or more samples at once",
        "use GroupNorm, frozen batch norm, or larger batches",
    ),
    "batch norm of one rank": (
        "D10", HINT, "each rank normalises its few samples alone",
        "SyncBatchNorm, or 16 and more samples on each rank",
        "convert the model by SyncBatchNorm.convert_sync_batchnorm before wrapping it",
    ),
    "autocast doesn't reach": (
        "T13", NOTE, "autocast is on, and most of the products run in float32",
        "under autocast linear layers and convolutions give half precision",
        "look for autocast(enabled=False), .float() and casts within forward()",
    ),
    "longer than the positions": (
        "L5", HINT, "sequences are longer than the positions that the model was made for",
        "sequences fit max_position_embeddings, or a RoPE scaling is set",
        "set rope_parameters for the new length, or cut the sequences",
    ),
    "causal mask as a matrix": (
        "T14", NOTE, "attention gets a causal mask as a matrix, which rules out flash kernels",
        "is_causal=True and no attn_mask",
        "pass is_causal=True instead of the mask",
    ),
    "old and new at one rate": (
        "O19", HINT, "loaded weights and new ones train at one high rate",
        "loaded weights train at a tenth of the new head's rate, or less",
        "make two parameter groups, or train the head alone at first",
    ),
    "new connector trains along": (
        "X2", HINT, "a connector without loaded weights trains together with the language model",
        "a new connector trains alone first, or its weights are loaded",
        "freeze the rest for a first phase, or load the connector's file",
    ),
}  # fmt: skip

# Check and fix of kinds whose entry has another case in front.
OWN_ADVICE = {
    "weights stand still": {
        "check": "Print `w[0].item()` of a named weight before and after optimizer.step(): equal "
        "numbers in each step prove it.",
        "fix": "Look into the optimizer's step(): a class of your own, a wrapper or a hook that "
        "doesn't write to the weights.",
    },
    "no gradient arrives": {
        "check": "After backward(): `print([n for n, p in model.named_parameters() if p.grad is "
        "not None and p.grad.any()])`. `[]` proves it.",
        "fix": "Find where the graph ends: detach(), no_grad(), .item(), .data, argmax, a factor "
        "of 0, or a loss of another model.",
    },
    "lost loss": {
        "check": "`print(loss.grad_fn)` and follow next_functions: the second loss isn't in it.",
        "fix": "loss = main + weight * auxiliary, before backward().",
    },
    "gradients gone before the step": {
        "check": "Print a weight's .grad right before optimizer.step(): None or zeros prove it.",
        "fix": "zero_grad() comes before backward(), or after step(); never between them.",
    },
}
