"""A small transformer in training, as a user's script: what the tests of the probe launch. It times its own steps."""

import json
import os
import sys
import time

import torch
import torch.distributed as dist
from torch import nn

STALL_S, SLOW_S = (float(os.environ.get(name, "0")) for name in ("STALL_S", "SLOW_S"))
SHARDED = os.environ.get("SHARDED") == "1"
STEPS, WARMUP = 14, 3


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(1000, 128)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(128, 4, 512, batch_first=True, dropout=0.0) for _ in range(4)
        )
        self.head = nn.Linear(128, 1000)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


class Data(torch.utils.data.Dataset):
    def __len__(self) -> int:
        return 4 * STEPS

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(STALL_S / 4)
        return torch.randint(0, 1000, (64,))


def late(state: object, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """A slow link: every bucket arrives later than it would."""
    future = dist.all_reduce(bucket.buffer(), async_op=True).get_future()

    def arrived(done: torch.futures.Future) -> torch.Tensor:
        time.sleep(SLOW_S)
        return done.value()[0] / dist.get_world_size()

    return future.then(arrived)


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    joined = "RANK" in os.environ
    if joined:
        dist.init_process_group("gloo")
    model: nn.Module = Net()
    if joined and SHARDED:
        from torch.distributed.fsdp import fully_shard

        for block in model.blocks:
            fully_shard(block)
        fully_shard(model)
    elif joined:
        model = nn.parallel.DistributedDataParallel(model)
        if SLOW_S:
            model.register_comm_hook(None, late)
    optimizer = torch.optim.AdamW(model.parameters())
    took, before = [], time.perf_counter()
    for step, tokens in enumerate(torch.utils.data.DataLoader(Data(), batch_size=4)):
        loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
        loss.backward()
        optimizer.step()
        took.append(time.perf_counter() - before)
        before = time.perf_counter()
        optimizer.zero_grad()
        if step == WARMUP + 2 and not SHARDED and (not joined or dist.get_rank() == 0):
            torch.save(model.state_dict(), sys.argv[1] + ".pt")
            torch.load(sys.argv[1] + ".pt")
    rank = dist.get_rank() if joined else 0
    with open(f"{sys.argv[1]}.{rank}.json", "w", encoding="utf-8") as file:
        json.dump(sum(took[WARMUP:]) / len(took[WARMUP:]), file)
    if joined:
        dist.barrier()
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
