"""Programs that save by the own code of their framework, on a slow disk, with a model of a few weights."""

import functools
import json
import os
import shutil
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import torch
from journal import Journal, digest_folder

os.environ.update(HF_HUB_OFFLINE="1", WANDB_MODE="disabled", CUDA_VISIBLE_DEVICES="")
torch.set_num_threads(1)


def import_torchvision():
    """Import it, though it may be built for another torch: no program here needs an image."""
    for _ in range(20):
        try:
            import torchvision  # noqa: F401

            return
        except RuntimeError as error:
            name = str(error).partition("operator ")[2].split(" ")[0]
            torch.library.define(name, "(Tensor images) -> Tensor")
        except ImportError:
            return


import_torchvision()


class Program:
    """What they have in common: settings, journal, and when a step saves."""

    def __init__(self, settings):
        self.settings, self.out = settings, Path(settings["out"])
        self.journal = Journal(settings["journal"])
        self.out.mkdir(parents=True, exist_ok=True)
        self.slow_down()

    def slow_down(self):
        """Each file that torch writes takes its share of a save's seconds, as on a network disk."""
        save, pause = torch.save, self.settings["save_seconds"] / self.settings.get("files", 2)

        def slow(*words, **named):
            time.sleep(pause)  # before, so that a save is whole only when it has ended
            save(*words, **named)

        torch.save = slow

    def is_due(self, step):
        named, every = self.settings["saves"], self.settings["every"]
        return step in named or (step > max(named) and step % every == 0)

    def start(self, source="", step=0):
        self.journal.start(self.find_line(Path(source)) if source else "", step, source)

    def find_line(self, path):
        """The line of the save that wrote what lies here."""
        here = (
            set(digest_folder(path).values())
            if path.is_dir()
            else {digest_folder(path.parent)[path]}
        )
        lines = {}
        for text in Path(self.settings["journal"]).read_text().splitlines():
            event = json.loads(text)
            if event["event"] == "begin":
                lines[event["id"]] = event["line"]
            if event["event"] == "end" and here & set(event["files"].values()):
                return lines[event["id"]]
        return ""

    def noted(self, role, step, path, save):
        """Let the framework save, and write down when, and what came of it."""
        name = self.journal.begin(role, step, [path])
        given = save()
        files = digest_folder(path) if Path(path).is_dir() else digest_folder(Path(path).parent)
        wanted = [file for file in files if file == Path(path) or Path(path) in file.parents]
        self.journal.end(name, {file: files[file] for file in wanted})
        return given

    def finish(self, *paths):
        files = {}
        for path in map(Path, paths):
            files.update(
                {
                    str(file.absolute()): sha
                    for file, sha in digest_folder(path.parent).items()
                    if file == path
                }
            )
        self.journal.write("result", files=files)
        self.journal.write("finish", step=self.settings["steps"])


def small_gpt2():
    import transformers

    config = transformers.GPT2Config(n_layer=1, n_head=2, n_embd=32, vocab_size=128, n_positions=32)
    return transformers.GPT2LMHeadModel(config)


class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 100_000

    def __getitem__(self, index):
        row = torch.arange(16) % 100
        return {"input_ids": row, "labels": row}


def watch(program, trainer_class):
    """A subclass of a Trainer whose saves are written down, and a callback that says when it saves."""
    import transformers

    class Watched(trainer_class):
        def _save_checkpoint(self, *words, **named):
            step = self.state.global_step
            folder = Path(self.args.output_dir) / f"checkpoint-{step}"
            save = super()._save_checkpoint
            return program.noted("checkpoint", step, folder, lambda: save(*words, **named))

    class When(transformers.TrainerCallback):
        def on_step_end(self, args, state, control, **named):
            time.sleep(program.settings["step_seconds"])
            control.should_save = program.is_due(state.global_step)
            return control

    return Watched, When()


class RealHuggingFace(Program):
    """transformers.Trainer, which goes on from the last checkpoint by itself."""

    def run(self):
        import transformers
        from transformers.trainer_utils import get_last_checkpoint

        kind, when = watch(self, transformers.Trainer)
        arguments = transformers.TrainingArguments(
            str(self.out), max_steps=self.settings["steps"], per_device_train_batch_size=2, logging_steps=1,
            save_strategy="no", report_to=[], use_cpu=True, disable_tqdm=True,
        )  # fmt: skip
        last = get_last_checkpoint(str(self.out))
        trainer = kind(small_gpt2(), arguments, train_dataset=Rows(), callbacks=[when])
        self.start(last or "", int(last.rpartition("-")[2]) if last else 0)
        trainer.train(resume_from_checkpoint=last)
        trainer.save_model()
        self.finish(self.out / "model.safetensors")


class RealTRL(Program):
    """trl.SFTTrainer, which nothing resumes."""

    def run(self):
        import tokenizers
        import transformers
        import trl
        from datasets import Dataset

        words = {"<pad>": 0, "<eos>": 1, **{f"w{n}": n for n in range(2, 100)}}
        model = tokenizers.models.WordLevel(words, unk_token="<pad>")
        raw = tokenizers.Tokenizer(model)
        raw.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
        tokenizer = transformers.PreTrainedTokenizerFast(
            tokenizer_object=raw, pad_token="<pad>", eos_token="<eos>"
        )
        kind, when = watch(self, trl.SFTTrainer)
        arguments = trl.SFTConfig(
            str(self.out), max_steps=self.settings["steps"], per_device_train_batch_size=2, logging_steps=1,
            save_strategy="no", report_to=[], use_cpu=True, max_length=16, bf16=False,
        )  # fmt: skip
        data = Dataset.from_dict({"text": ["w2 w3 w4 w5 w6 w7"] * 400})
        trainer = kind(
            small_gpt2(),
            arguments,
            train_dataset=data,
            processing_class=tokenizer,
            callbacks=[when],
        )
        self.start()
        trainer.train()
        trainer.save_model()
        self.finish(self.out / "model.safetensors")


class RealAccelerate(Program):
    """accelerate's save_state with automatic names and total_limit=1: the old folder goes before the new one is whole."""

    def run(self):
        from accelerate import Accelerator
        from accelerate.utils import ProjectConfiguration

        told = ProjectConfiguration(str(self.out), automatic_checkpoint_naming=True, total_limit=1)
        accelerator = Accelerator(cpu=True, project_config=told)
        model = torch.nn.Linear(64, 64)
        model, optimizer = accelerator.prepare(model, torch.optim.AdamW(model.parameters()))
        found = sorted(
            (self.out / "checkpoints").glob("*"), key=lambda p: int(p.name.rpartition("_")[2])
        )
        first, saved = 0, 0
        counter = Counter()
        accelerator.register_for_checkpointing(counter)
        if found:
            accelerator.load_state()
            first, saved = counter.step, int(found[-1].name.rpartition("_")[2]) + 1
            told.iteration = saved
        self.start(found[-1] if found else "", first)
        for step in range(first + 1, self.settings["steps"] + 1):
            loss = model(torch.ones(2, 64)).square().mean()
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            counter.step = step
            print(f"step {step} loss {loss.item():.4f}", flush=True)
            time.sleep(self.settings["step_seconds"])
            if self.is_due(step):
                folder = self.out / "checkpoints" / f"checkpoint_{saved}"
                for old in (self.out / "checkpoints").glob("*"):
                    self.journal.write("delete", path=str(old.absolute()))
                self.noted("checkpoint", step, folder, accelerator.save_state)
                saved += 1
        path = self.out / "final.pt"
        self.noted("final", step, path, lambda: torch.save(model.state_dict(), path))
        self.finish(path)


class Counter:
    """The step, as accelerate saves what has a state."""

    step = 0

    def state_dict(self):
        return {"step": self.step}

    def load_state_dict(self, state):
        self.step = state["step"]


class RealLightning(Program):
    """Lightning's ModelCheckpoint, every save in a file of its own, the newest three kept; nothing resumes."""

    def run(self):
        import lightning

        program = self

        class Module(lightning.LightningModule):
            def __init__(self):
                super().__init__()
                self.layer = torch.nn.Linear(64, 64)

            def training_step(self, batch, index):
                time.sleep(program.settings["step_seconds"])
                return self.layer(torch.ones(2, 64)).square().mean()

            def configure_optimizers(self):
                return torch.optim.AdamW(self.parameters())

        class When(lightning.Callback):
            def on_train_batch_end(self, trainer, *words):
                step = trainer.global_step
                if program.is_due(step):
                    path = Path(trainer.log_dir) / "checkpoints" / f"epoch=0-step={step}.ckpt"
                    program.noted("checkpoint", step, path, lambda: trainer.save_checkpoint(path))

        trainer = lightning.Trainer(
            max_steps=self.settings["steps"], default_root_dir=self.out.parent, accelerator="cpu",
            logger=lightning.pytorch.loggers.CSVLogger(self.out.parent), callbacks=[When()],
            enable_checkpointing=False,
        )  # fmt: skip
        self.start()
        trainer.fit(Module(), torch.utils.data.DataLoader(range(100_000)))
        path = Path(trainer.log_dir) / "checkpoints" / "final.ckpt"
        self.noted("final", trainer.global_step, path, lambda: trainer.save_checkpoint(path))
        self.finish(path)


class RealDeepSpeed(Program):
    """DeepSpeed's engine in one process, which goes on from `latest`."""

    def run(self):
        os.environ.update(
            DS_ACCELERATOR="cpu",
            GLOO_SOCKET_IFNAME="lo",  # a cell has no other network
            RANK="0",
            LOCAL_RANK="0",
            WORLD_SIZE="1",
            MASTER_ADDR="127.0.0.1",
            MASTER_PORT="29511",
        )
        import deepspeed

        # It would compile, for a minute, a collective that one process doesn't need.
        # By its name in sys.modules: the attribute `deepspeed.comm.torch` is torch itself.
        sys.modules["deepspeed.comm.torch"].build_shm_op = lambda: None
        torch.distributed.init_process_group("gloo")
        deepspeed.init_distributed("gloo", dist_init_required=False)
        model = torch.nn.Linear(64, 64)
        config = {"train_batch_size": 2, "zero_optimization": {"stage": 1}}
        engine, *_ = deepspeed.initialize(
            model=model,
            optimizer=torch.optim.AdamW(model.parameters()),
            config=config,
            dist_init_required=False,
        )
        source, state = engine.load_checkpoint(str(self.out))
        first = state["step"] if source else 0
        self.start(Path(source).parent if source else "", first)
        for step in range(first + 1, self.settings["steps"] + 1):
            loss = engine(torch.ones(2, 64)).square().mean()
            engine.backward(loss)
            engine.step()
            print(f"step {step} loss {loss.item():.4f}", flush=True)
            time.sleep(self.settings["step_seconds"])
            if self.is_due(step):
                self.save(engine, step)
        self.save(engine, step)
        self.finish(self.out / f"global_step{step}" / "mp_rank_00_model_states.pt")

    def save(self, engine, step):
        tag = f"global_step{step}"
        state = {"step": step}
        self.noted(
            "checkpoint",
            step,
            self.out / tag,
            lambda: engine.save_checkpoint(str(self.out), tag, state),
        )


class RealDiffusers(Program):
    """The diffusers examples' loop: a hook saves the U-Net, the oldest folder goes first, a pipeline at the end."""

    LIMIT = 2  # --checkpoints_total_limit

    def run(self):
        from accelerate import Accelerator
        from diffusers import DDPMPipeline, DDPMScheduler, UNet2DModel

        accelerator = Accelerator(cpu=True)
        unet = UNet2DModel(
            sample_size=8, in_channels=1, out_channels=1, layers_per_block=1, norm_num_groups=4,
            block_out_channels=(8, 8), down_block_types=("DownBlock2D",) * 2, up_block_types=("UpBlock2D",) * 2,
        )  # fmt: skip

        def save_unet(models, weights, folder):
            for model in models:
                model.save_pretrained(os.path.join(folder, "unet"))
                weights.pop()

        accelerator.register_save_state_pre_hook(save_unet)
        scheduler = DDPMScheduler(num_train_timesteps=10)
        unet, optimizer = accelerator.prepare(unet, torch.optim.AdamW(unet.parameters()))
        self.start()
        for step in range(1, self.settings["steps"] + 1):
            clean, noise = torch.ones(1, 1, 8, 8), torch.randn(1, 1, 8, 8)
            at = torch.tensor([step % 10])
            loss = (unet(scheduler.add_noise(clean, noise, at), at).sample - noise).square().mean()
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            print(f"step {step} loss {loss.item():.4f}", flush=True)
            time.sleep(self.settings["step_seconds"])
            if self.is_due(step):
                self.save(accelerator, step)
        path = self.out / "unet" / "diffusion_pytorch_model.safetensors"
        pipeline = DDPMPipeline(unet=accelerator.unwrap_model(unet), scheduler=scheduler)
        self.noted("final", step, path, lambda: pipeline.save_pretrained(self.out))
        self.finish(path)

    def save(self, accelerator, step):
        held = sorted(
            self.out.glob("checkpoint-*"), key=lambda path: int(path.name.rpartition("-")[2])
        )
        for old in held[: max(len(held) - self.LIMIT + 1, 0)]:
            self.journal.write("delete", path=str(old.absolute()))
            shutil.rmtree(old)
        folder = self.out / f"checkpoint-{step}"
        self.noted("checkpoint", step, folder, lambda: accelerator.save_state(str(folder)))


class RealUltralytics(Program):
    """The trainer's save_model: last.pt and best.pt in place, from the same bytes; nothing resumes."""

    def slow_down(self):
        """torch.save fills a buffer there; it is the buffer that the disk writes slowly."""
        pause = self.settings["save_seconds"] / 32

        def write_bytes(path, data):
            size = -(-len(data) // 16)
            with open(path, "wb") as file:
                for at in range(0, len(data), size):
                    time.sleep(pause)
                    file.write(data[at : at + size])
                    file.flush()
            return len(data)

        Path.write_bytes = write_bytes

    def run(self):
        os.environ.update(YOLO_OFFLINE="1", YOLO_AUTOINSTALL="0")
        from ultralytics.engine.trainer import BaseTrainer
        from ultralytics.utils.torch_utils import ModelEMA

        class Trainer(BaseTrainer):
            def __init__(self, folder):
                self.model = torch.nn.Linear(64, 64)
                self.optimizer = torch.optim.AdamW(self.model.parameters())
                self.ema, self.scaler = (
                    ModelEMA(self.model),
                    torch.amp.GradScaler("cpu", enabled=False),
                )
                self.args, self.metrics = SimpleNamespace(task="detect", imgsz=64), {}
                self.stopper = SimpleNamespace(best_fitness=0.0, best_epoch=0)
                self.wdir = folder / "weights"
                self.last, self.best = self.wdir / "last.pt", self.wdir / "best.pt"
                self.save_period, self.epoch, self.fitness, self.best_fitness = -1, 0, 0.0, 0.0

            def read_results_csv(self):
                return {}

        trainer = Trainer(self.out)
        self.start()
        for step in range(1, self.settings["steps"] + 1):
            loss = trainer.model(torch.ones(2, 64)).square().mean()
            loss.backward()
            trainer.optimizer.step()
            trainer.optimizer.zero_grad()
            trainer.ema.update(trainer.model)
            print(f"step {step} loss {loss.item():.4f}", flush=True)
            time.sleep(self.settings["step_seconds"])
            if self.is_due(step) or step == self.settings["steps"]:
                trainer.epoch, trainer.fitness = step, float(step)
                trainer.best_fitness = trainer.fitness
                best = functools.partial(self.noted, "best", step, trainer.best, trainer.save_model)
                self.noted("last", step, trainer.last, best)
        self.finish(trainer.best)


class RealTorch(Program):
    """torch.save into one name, through a file object that writes slowly, and resumed from there."""

    def slow_down(self):
        """The file is slow, not torch.save."""

    def run(self):
        model = torch.nn.Linear(256, 256)
        path = self.out / "checkpoint.pt"
        first = 0
        if path.exists():
            state = torch.load(path, weights_only=True)
            model.load_state_dict(state["model"])
            first = state["step"]
        self.start(path if first else "", first)
        for step in range(first + 1, self.settings["steps"] + 1):
            print(f"step {step} loss {1 / step:.4f}", flush=True)
            time.sleep(self.settings["step_seconds"])
            if self.is_due(step) or step == self.settings["steps"]:
                self.noted("last", step, path, lambda step=step: self.save(path, model, step))
        self.finish(path)

    def save(self, path, model, step):
        pause = self.settings["save_seconds"] / 16
        with open(path, "wb") as file:
            torch.save({"step": step, "model": model.state_dict()}, Slow(file, pause))


class Slow:
    """A file that takes its time for each piece of 16 kB."""

    def __init__(self, file, pause):
        self.file, self.pause = file, pause

    def write(self, data):
        view = memoryview(data)
        for at in range(0, len(view), 1 << 14):
            time.sleep(self.pause if len(view) > 1000 else 0)
            self.file.write(view[at : at + (1 << 14)])
            self.file.flush()
        return len(view)

    def flush(self):
        self.file.flush()
