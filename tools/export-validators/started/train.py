"""
A training script as exported files want one from their reader: a tiny model, a few steps, and what was seen of them.

    READER=torchrun|accelerate|deepspeed SCRIPT=train.py bash launch.sh

Nothing that is written to seen-RANK.json is copied from the plan: shapes, calls and data types come from hooks on the
running model, sharding and counts from the framework. Ranks run on processor cores, with gloo between them.
"""

import json
import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from transformers import LlamaForCausalLM

EXPECTED = json.loads(Path("expected.json").read_text(encoding="utf-8"))
MODEL = "tonnage/tiny"


class Seen:
    """Counts of a running model."""

    def __init__(self, model: torch.nn.Module) -> None:
        self.shape: list[int] = []
        self.calls, self.block_calls, self.dtype = 0, 0, ""
        base = model.get_decoder()
        base.embed_tokens.register_forward_pre_hook(self._enter)
        base.layers[0].self_attn.q_proj.register_forward_hook(self._block)

    def _enter(self, _: torch.nn.Module, given: tuple) -> None:
        self.calls += 1
        self.shape = list(given[0].shape)

    def _block(self, module: torch.nn.Module, given: tuple, out: torch.Tensor) -> None:
        self.block_calls += 1
        self.dtype = str(out.dtype).removeprefix("torch.")


def batch(size: int, length: int) -> torch.Tensor:
    """Random tokens."""
    return torch.randint(2, 258, (size, length))


def by_torchrun() -> dict:
    """A loop of one's own around the exported fsdp2.py and plan.json."""
    sys.path.insert(0, os.getcwd())
    import fsdp2
    from torch.distributed.fsdp import FSDPModule

    dist.init_process_group("gloo")
    plan, model = fsdp2.plan, LlamaForCausalLM.from_pretrained(MODEL)
    seen, config = Seen(model), model.config
    model = fsdp2.parallelise(model, device="cpu")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    steps = 0
    for _ in range(plan["steps"]):
        for _ in range(plan["accumulation"]):
            tokens = batch(plan["micro_batch"], plan["seq_len"])
            (model(input_ids=tokens, labels=tokens).loss / plan["accumulation"]).backward()
        optimizer.step()
        optimizer.zero_grad()
        steps += 1
    sharded = [module for module in model.modules() if isinstance(module, FSDPModule)]
    local = sum(parameter.to_local().numel() for parameter in model.parameters())
    return {
        **seen_of(seen, config, steps),
        "dp": dist.get_world_size(),
        "sharded_modules": len(sharded),
        "sharded_to": round(sum(parameter.numel() for parameter in model.parameters()) / local),
        "reshards": sharded[-1]._get_fsdp_state()._fsdp_param_group.post_forward_mesh_info is not None,
    }


def by_accelerate() -> dict:
    """Accelerate's own settings once it has started; FSDP itself needs an accelerator, its settings do not."""
    from accelerate import Accelerator
    from accelerate.utils import FullyShardedDataParallelPlugin

    made = Accelerator(cpu=True, gradient_accumulation_steps=EXPECTED["accumulation"])
    plain = LlamaForCausalLM.from_pretrained(MODEL)
    seen, config = Seen(plain), plain.config
    model, optimizer = made.prepare(plain, torch.optim.AdamW(plain.parameters(), lr=1e-4))
    steps = 0
    for _ in range(EXPECTED["steps"] * EXPECTED["accumulation"]):
        with made.accumulate(model):
            tokens = batch(EXPECTED["micro_batch"], EXPECTED["seq_len"])
            made.backward(model(input_ids=tokens, labels=tokens).loss)
            optimizer.step()
            optimizer.zero_grad()
        steps += made.sync_gradients
    plugin = FullyShardedDataParallelPlugin()
    return {
        **seen_of(seen, config, steps),
        "dp": made.num_processes,
        "precision": made.mixed_precision,
        "fsdp": os.environ.get("ACCELERATE_USE_FSDP") == "true",
        "fsdp_version": plugin.fsdp_version,
        "reshards": plugin.reshard_after_forward,
        "recomputes": plugin.activation_checkpointing,
    }


def by_deepspeed() -> dict:
    """DeepSpeed's engine from the exported deepspeed.json, which its launcher hands to the script."""
    import deepspeed

    path = sys.argv[sys.argv.index("--deepspeed") + 1]
    deepspeed.init_distributed("gloo")
    plain = LlamaForCausalLM.from_pretrained(MODEL)
    seen, config = Seen(plain), plain.config
    if EXPECTED["recompute"] != "none":  # a line of the exported head: the configuration cannot switch it on
        plain.gradient_checkpointing_enable()
        plain.train()
    optimizer = torch.optim.AdamW(plain.parameters(), lr=1e-4)
    written = json.loads(Path(path).read_text(encoding="utf-8"))
    engine, *_ = deepspeed.initialize(model=plain, optimizer=optimizer, config=written)
    for _ in range(EXPECTED["steps"] * engine.gradient_accumulation_steps()):
        tokens = batch(engine.train_micro_batch_size_per_gpu(), EXPECTED["seq_len"])
        engine.backward(engine(input_ids=tokens, labels=tokens).loss)
        engine.step()
    return {
        **seen_of(seen, config, engine.global_steps),
        "dp": dist.get_world_size(),
        "stage": int(engine.zero_optimization_stage()),
        "global_batch": engine.train_batch_size(),
        "precision": "bf16" if engine.bfloat16_enabled() else "fp16" if engine.fp16_enabled() else "fp32",
    }


def seen_of(seen: Seen, config: object, steps: int) -> dict:
    """What hooks saw, by the plan's names."""
    import tiny

    return {
        **tiny.shape_of(config.to_dict()),
        "micro_batch": seen.shape[0],
        "seq_len": seen.shape[1],
        "steps": steps,
        "accumulation": seen.calls / steps,
        "runs_of_a_block": seen.block_calls / seen.calls,
        "computes_in": seen.dtype,
    }


if __name__ == "__main__":
    torch.manual_seed(0)
    found = globals()[f"by_{os.environ['READER']}"]()
    Path(f"seen-{dist.get_rank()}.json").write_text(json.dumps(found), encoding="utf-8")
    dist.destroy_process_group()
