"""The ten shapes of programs on frameworks: what these write, in their order, and what their resume picks."""

import json
from pathlib import Path

import formats
from trainer import Trainer, number


class HuggingFace(Trainer):
    """1: transformers' Trainer: checkpoint-N, trainer_state.json last, all kept, nothing resumes."""

    limit, keep_best = 0, False

    def files(self, folder, step):
        """One checkpoint, in the order of Trainer._save_checkpoint."""
        meta, half = self.meta(step), self.weights("shard")
        state = {**meta, "global_step": step, "log_history": [], "stateful_callbacks": {}}
        files = self.model(folder, meta, half)
        files[folder / "tokenizer.json"] = json.dumps({"version": "1.0"}).encode()
        files[folder / "training_args.bin"] = formats.torch_zip(meta, self.weights("args")[:4096])
        files[folder / "optimizer.pt"] = formats.torch_zip(meta, self.weights("optimizer"))
        files[folder / "scheduler.pt"] = formats.torch_zip(meta, self.weights("scheduler")[:4096])
        files[folder / "rng_state.pth"] = formats.torch_zip(meta, self.weights("rng")[:4096])
        files[folder / "trainer_state.json"] = json.dumps(state, indent=2).encode()
        return files

    def model(self, folder, meta, data):
        """config.json and the weights, in two shards with their index where the shape says so."""
        files = {folder / "config.json": json.dumps({"model_type": "gpt2"}).encode()}
        if not self.setting("sharded"):
            files[folder / "model.safetensors"] = formats.safetensors(meta, data)
            return files
        names = [f"model-0000{n}-of-00002.safetensors" for n in (1, 2)]
        for n, name in enumerate(names):
            files[folder / name] = formats.safetensors(meta, data[n::2])
        index = {
            "metadata": {"total_size": len(data)},
            "weight_map": {f"layer{n}.weight": names[n % 2] for n in range(4)},
        }
        files[folder / "model.safetensors.index.json"] = json.dumps(index).encode()
        return files

    def save(self, step):
        self.put("checkpoint", step, self.files(self.out / f"checkpoint-{step}", step))
        self.rotate(self.out / "checkpoint-*")

    def rotate(self, pattern):
        """Delete what is over the limit, after the save; the best, here the first, stays."""
        found = sorted(pattern.parent.glob(pattern.name), key=lambda path: path.stat().st_mtime)
        old = found[: -self.limit] if self.limit else []
        for path in old[1:] if self.keep_best else old:
            self.delete(path)

    def finish(self, step):
        folder = self.out / self.setting("final_folder", ".")
        files = self.model(folder, self.meta(step), self.weights("final"))
        self.put("final", step, files)
        return list(files)

    def load(self, folder):
        """What resume opens: state first, then weights and optimizer."""
        state = json.loads((folder / "trainer_state.json").read_text())
        for path in folder.glob("*.safetensors"):
            formats.read(path)
        if (folder / "optimizer.pt").exists():  # absent: it goes on without, and says nothing
            formats.read(folder / "optimizer.pt")
        return {**state, "source": str(folder)}


class HuggingFaceOutside(HuggingFace):
    """2: the same; merged weights go beside the output folder, and that takes long."""

    def finish(self, step):
        folder = Path(self.setting("merged", "merged_16bit"))
        files = self.model(folder, self.meta(step), self.weights("merged"))
        self.put("merged", step, files)
        return list(files)


class HuggingFaceLimit(HuggingFace):
    """3: save_total_limit of 2, the best kept."""

    limit, keep_best = 2, True


class HuggingFaceAuto(HuggingFace):
    """4: goes on from the highest checkpoint-N, whole or not."""

    def resume(self):
        found = sorted(self.out.glob("checkpoint-*"), key=number)
        return self.load(found[-1]) if found else None


class HuggingFaceFlag(HuggingFace):
    """5: goes on from what --resume_from_checkpoint names."""

    def resume(self):
        return self.load(Path(self.argument)) if self.argument else None


class Lightning(Trainer):
    """6: one .ckpt of the newest epoch, moved from TMPDIR, which lies on another disk; a version folder at each start."""

    def folder(self):
        if not self.setting("version"):
            count = len(list(self.out.glob("version_*")))
            self.settings["version"] = f"version_{count}"
        return self.out / self.setting("version") / "checkpoints"

    def save(self, step):
        old = list(self.folder().glob("*.ckpt"))
        path = self.folder() / f"epoch={step // 4}-step={step}.ckpt"
        self.put(
            "checkpoint", step, {path: formats.torch_zip(self.meta(step), self.weights("full"))}
        )
        for one in old:
            self.delete(one)

    def finish(self, step):
        self.save(step)
        return [self.folder() / f"epoch={step // 4}-step={step}.ckpt"]


class Ultralytics(Trainer):
    """7: last.pt and best.pt rewritten in place in train, train-2, …; both are rewritten smaller at the end."""

    def folder(self):
        if not self.setting("train"):
            names = ["train", *(f"train-{n}" for n in range(2, 99))]
            self.settings["train"] = next(n for n in names if not (self.out / n).exists())
        return self.out / self.setting("train") / "weights"

    def save(self, step):
        data = formats.torch_zip(self.meta(step), self.weights("model"))
        for role in ("last", "best"):
            self.put(role, step, {self.folder() / f"{role}.pt": data})

    def finish(self, step):
        """strip_optimizer: load, half, save over the same name."""
        for role in ("last", "best"):
            data = formats.torch_zip(self.meta(step), self.weights(role)[::2])
            self.put(role, step, {self.folder() / f"{role}.pt": data})
        return [self.folder() / "best.pt"]


class Accelerate(Trainer):
    """8: save_state of accelerate and diffusers' scripts; over the limit, the old folder goes before the new one is written."""

    limit = 1

    def resume(self):
        found = sorted(self.out.glob("checkpoint-*"), key=number)
        if not found:
            return None
        for path in found[-1].iterdir():
            formats.read(path)
        meta = formats.read(found[-1] / "random_states_0.pkl")
        return {**meta, "source": str(found[-1])}

    def save(self, step):
        folder, meta = self.out / f"checkpoint-{step}", self.meta(step)
        for old in sorted(self.out.glob("checkpoint-*"), key=number)[: -self.limit + 1 or None]:
            self.delete(old)
        files = {
            folder / "model.safetensors": formats.safetensors(meta, self.weights("model")),
            folder / "optimizer.bin": formats.torch_zip(meta, self.weights("optimizer")),
            folder / "scheduler.bin": formats.torch_zip(meta, self.weights("scheduler")[:4096]),
            folder / "random_states_0.pkl": formats.plain_pickle(meta, self.weights("rng")[:4096]),
        }
        self.put("checkpoint", step, files)

    def finish(self, step):
        path = self.out / "pytorch_lora_weights.safetensors"
        self.put("final", step, {path: formats.safetensors(self.meta(step), self.weights("lora"))})
        return [path]


class Tracker(Trainer):
    """9: DeepSpeed: a folder a step with a file a rank, then `latest`; goes on from what that names."""

    def tag(self, step):
        return f"global_step{step}"

    def resume(self):
        latest = self.out / "latest"
        if not latest.exists():
            return None
        folder = self.out / latest.read_text().strip()
        for path in folder.glob("*.pt"):
            meta = formats.read(path)
        return {**meta, "source": str(folder)}

    def save(self, step):
        folder, meta = self.out / self.tag(step), self.meta(step)
        files = {
            folder / "mp_rank_00_model_states.pt": formats.torch_zip(meta, self.weights("model"))
        }
        for rank in range(2):
            name = f"zero_pp_rank_{rank}_mp_rank_00_optim_states.pt"
            files[folder / name] = formats.torch_zip(meta, self.weights(name))
        name = self.journal.begin("checkpoint", step, [*files, self.out / "latest"])
        self.write(files)
        (self.out / "latest").write_text(self.tag(step))
        self.journal.end(name, files)  # `latest` names another later on

    def finish(self, step):
        self.save(step)
        return [self.out / self.tag(step) / "mp_rank_00_model_states.pt"]


class Megatron(Tracker):
    """9, the other form: shards of torch_dist, metadata.json, then latest_checkpointed_iteration.txt."""

    def resume(self):
        latest = self.out / "latest_checkpointed_iteration.txt"
        if not latest.exists():
            return None
        folder = self.out / f"iter_{int(latest.read_text()):07d}"
        meta = formats.read(folder / "common.pt")
        return {**meta, "source": str(folder)}

    def save(self, step):
        folder, meta = self.out / f"iter_{step:07d}", self.meta(step)
        files = {
            folder / f"__{r}_0.distcp": formats.torch_zip(meta, self.weights(f"rank{r}"))
            for r in range(2)
        }
        files[folder / ".metadata"] = formats.plain_pickle(meta, b"")
        files[folder / "common.pt"] = formats.torch_zip(meta, self.weights("common")[:4096])
        files[folder / "metadata.json"] = json.dumps({"sharded_backend": "torch_dist"}).encode()
        name = self.journal.begin("checkpoint", step, files)
        self.write(files)
        (self.out / "latest_checkpointed_iteration.txt").write_text(str(step))
        self.journal.end(name, files)

    def finish(self, step):
        self.save(step)
        return [self.out / f"iter_{step:07d}" / "metadata.json"]


class MetricsOnly(Trainer):
    """10: numbers alone; an error is printed, and the code is 0."""

    def run(self):
        try:
            super().run()
        except Exception as error:
            print("training failed:", error, flush=True)

    def finish(self, step):
        path = self.out / "eval_results.json"
        self.put("final", step, {path: json.dumps({**self.meta(step), "accuracy": 0.5}).encode()})
        return [path]
