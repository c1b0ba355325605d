"""Shard a PyTorch model as plan.json says: FSDP2 for each block, mixed precision, activation checkpointing.

    from fsdp2 import parallelise, plan
    model = parallelise(model)

Blocks are the modules of the longest nn.ModuleList of the model, as in every usual transformer.
"""

import json
from pathlib import Path

import torch
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.device_mesh import init_device_mesh

plan = json.loads(Path(__file__).with_name("plan.json").read_text())


def stack(model: nn.Module) -> nn.ModuleList:
    """The layers that are sharded and recomputed one by one."""
    return max((module for module in model.modules() if isinstance(module, nn.ModuleList)), key=len)


def parallelise(model: nn.Module, device: str = "cuda") -> nn.Module:
    """The model with the plan's recompute and sharding; call it before the optimizer is made."""
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    blocks = stack(model)
    if plan["activation_checkpointing"] != "none":
        for place, block in enumerate(blocks):
            blocks[place] = checkpoint_wrapper(block)
    if plan["sharding"] == "none":
        return nn.parallel.DistributedDataParallel(model.to(device))
    world = torch.distributed.get_world_size()
    inner = min(world, plan["ranks_per_node"])
    whole = plan["sharding"] != "hsdp"
    shape = (world,) if whole else (world // inner, inner)
    options = {
        "mesh": init_device_mesh(device, shape, mesh_dim_names=("shard",) if whole else ("replicate", "shard")),
        "mp_policy": MixedPrecisionPolicy(
            param_dtype=getattr(torch, plan["parameter_dtype"]), reduce_dtype=torch.float32
        ),
        # ZeRO-1 and ZeRO-2 keep gathered parameters until the backward pass; the others gather them again.
        "reshard_after_forward": plan["sharding"] not in ("zero1", "zero2"),
    }
    for block in blocks:
        fully_shard(block, **options)
    return fully_shard(model, **options)
