"""DreamBooth with LoRA.  accelerate launch --cpu train_dreambooth_lora.py ... (see train.sh)"""
import argparse
import json
import logging
import math
import os
import shutil

import torch
from accelerate import Accelerator
from accelerate.logging import get_logger
from accelerate.utils import ProjectConfiguration, set_seed
from tqdm.auto import tqdm

from dreambooth import DreamBoothDataset
from lora_files import register_hooks, save_lora_weights, save_state
from unet import Step, UNet

logger = get_logger(__name__)
torch.set_num_threads(1)


def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--instance_prompt", type=str, required=True)
    parser.add_argument("--num_instances", type=int, default=32)
    parser.add_argument("--output_dir", type=str, default="lora-dreambooth-model")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--rank", type=int, default=32, help="The dimension of the LoRA update matrices.")
    parser.add_argument("--train_batch_size", type=int, default=4)
    parser.add_argument("--max_train_steps", type=int, default=100)
    parser.add_argument("--checkpointing_steps", type=int, default=500,
                        help="Save a checkpoint of the training state every X updates. These checkpoints are"
                             " suitable for resuming training using `--resume_from_checkpoint`.")
    parser.add_argument("--checkpoints_total_limit", type=int, default=None,
                        help="Max number of checkpoints to store.")
    parser.add_argument("--resume_from_checkpoint", type=str, default=None,
                        help='A path of a checkpoint saved by `--checkpointing_steps`, or "latest".')
    parser.add_argument("--gradient_accumulation_steps", type=int, default=1)
    parser.add_argument("--learning_rate", type=float, default=5e-4)
    parser.add_argument("--max_grad_norm", default=1.0, type=float)
    parser.add_argument("--logging_dir", type=str, default="logs")
    parser.add_argument("--mixed_precision", type=str, default=None, choices=["no", "fp16", "bf16"])
    return parser.parse_args()


def main(args):
    accelerator = Accelerator(
        gradient_accumulation_steps=args.gradient_accumulation_steps,
        mixed_precision=args.mixed_precision,
        project_config=ProjectConfiguration(project_dir=args.output_dir,
                                            logging_dir=os.path.join(args.output_dir, args.logging_dir)))
    logging.basicConfig(format="%(asctime)s - %(levelname)s - %(name)s - %(message)s",
                        datefmt="%m/%d/%Y %H:%M:%S", level=logging.INFO)
    logger.info(accelerator.state, main_process_only=False)
    if args.seed is not None:
        set_seed(args.seed)
    if accelerator.is_main_process:
        os.makedirs(args.output_dir, exist_ok=True)

    unet = UNet(rank=args.rank)
    lora = [p for p in unet.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(lora, lr=args.learning_rate)
    dataset = DreamBoothDataset(args.num_instances, args.instance_prompt)
    train_dataloader = torch.utils.data.DataLoader(dataset, batch_size=args.train_batch_size, shuffle=True)
    updates_per_epoch = math.ceil(len(train_dataloader) / args.gradient_accumulation_steps)
    lr_scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda _: 1.0)
    unet, optimizer, train_dataloader, lr_scheduler = accelerator.prepare(
        unet, optimizer, train_dataloader, lr_scheduler)
    epochs = math.ceil(args.max_train_steps / updates_per_epoch)

    logger.info("***** Running training *****")
    logger.info(f"  Num examples = {len(dataset)}")
    logger.info(f"  Num Epochs = {epochs}")
    logger.info(f"  Total optimization steps = {args.max_train_steps}")
    global_step, first_epoch = 0, 0
    register_hooks(accelerator, lambda: global_step)

    # Potentially load in the weights and states from a previous save
    if args.resume_from_checkpoint:
        if args.resume_from_checkpoint != "latest":
            path = os.path.basename(args.resume_from_checkpoint)
        else:
            dirs = [d for d in os.listdir(args.output_dir) if d.startswith("checkpoint")]
            dirs = sorted(dirs, key=lambda x: int(x.split("-")[1]))
            path = dirs[-1] if len(dirs) > 0 else None
        if path is None:
            accelerator.print(
                f"Checkpoint '{args.resume_from_checkpoint}' does not exist. Starting a new training run.")
        else:
            accelerator.print(f"Resuming from checkpoint {path}")
            accelerator.load_state(os.path.join(args.output_dir, path))
            global_step = int(path.split("-")[1])
            first_epoch = global_step // updates_per_epoch

    progress_bar = tqdm(range(0, args.max_train_steps), initial=global_step, desc="Steps",
                        disable=not accelerator.is_local_main_process)
    step = Step(accelerator, unet, optimizer, lr_scheduler, args.max_grad_norm)
    for epoch in range(first_epoch, epochs):
        unet.train()
        for batch in train_dataloader:
            if global_step >= args.max_train_steps:
                break
            loss = step.run(global_step + 1, batch)
            if accelerator.sync_gradients:
                progress_bar.update(1)
                global_step += 1
                if accelerator.is_main_process and global_step % args.checkpointing_steps == 0:
                    # _before_ saving state, check if this save would set us over the `checkpoints_total_limit`
                    if args.checkpoints_total_limit is not None:
                        checkpoints = [d for d in os.listdir(args.output_dir) if d.startswith("checkpoint")]
                        checkpoints = sorted(checkpoints, key=lambda x: int(x.split("-")[1]))
                        for old in checkpoints[:max(0, len(checkpoints) - args.checkpoints_total_limit + 1)]:
                            logger.info(f"removing checkpoints: {old}")
                            shutil.rmtree(os.path.join(args.output_dir, old))
                    save_path = os.path.join(args.output_dir, f"checkpoint-{global_step}")
                    save_state(accelerator, save_path)
                    logger.info(f"Saved state to {save_path}")
            progress_bar.set_postfix(loss=loss.item(), lr=lr_scheduler.get_last_lr()[0])

    # Save the lora layers
    accelerator.wait_for_everyone()
    if accelerator.is_main_process:
        save_lora_weights(args.output_dir, accelerator.unwrap_model(unet), global_step)
        with torch.no_grad():  # Final inference
            losses = [step.unet(x[None], torch.tensor([500]), t[None]).pow(2).mean().item()
                      for x, t in (dataset[i] for i in range(4))]
        with open(os.path.join(args.output_dir, "validation.json"), "w") as f:
            json.dump({"global_step": global_step, "images": losses}, f)
    accelerator.end_training()


if __name__ == "__main__":
    main(parse_args())
