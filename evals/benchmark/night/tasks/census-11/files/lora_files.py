"""pytorch_lora_weights.safetensors, and the state of the training around it."""
import json
import os
import time

from safetensors.torch import load_file, save_file

NAME = "pytorch_lora_weights.safetensors"
WRITE_SECONDS = 0.2  # for the trial: so long takes each of the two parts of a save


def save_lora_weights(folder, unet, global_step):
    """Writes the LoRA weights, with their rank and step in the file's metadata."""
    about = {"r": unet.attentions[0].to_q.lora_A.out_features, "global_step": global_step}
    os.makedirs(folder, exist_ok=True)
    save_file({k: v.contiguous() for k, v in unet.lora_state_dict().items()}, os.path.join(folder, NAME),
              metadata={"format": "pt", "lora_adapter_metadata": json.dumps(about)})


def settle():
    time.sleep(WRITE_SECONDS)


def save_state(accelerator, folder):
    """Saves weights, optimizer, scheduler and random states into a checkpoint's folder."""
    accelerator.save_state(folder)
    settle()


def register_hooks(accelerator, step):
    """Makes accelerate save and load the LoRA weights alone instead of the whole model."""

    def save_model_hook(models, weights, output_dir):
        save_lora_weights(output_dir, accelerator.unwrap_model(models[0]), step())
        weights.clear()
        settle()

    def load_model_hook(models, input_dir):
        unet = accelerator.unwrap_model(models.pop())
        state = load_file(os.path.join(input_dir, NAME))
        unet.load_state_dict({k.removeprefix("unet."): v for k, v in state.items()}, strict=False)

    accelerator.register_save_state_pre_hook(save_model_hook)
    accelerator.register_load_state_pre_hook(load_model_hook)
