"""Trains in small steps that a test can watch, and goes on from the last one it saved.

Each step takes $PACE seconds; there are $STEPS of them; after each, rank 0 saves to $CHECKPOINTS
and says so in a line of JSON. A line tells how many ranks there are, and where this start began.
A pod whose index is $SLOW takes three times as long by itself. With $HOLD, who comes to that step
stays at it, its ranks still in touch, until it is ended: who begins with it goes on.
Gradients are averaged by hand: to load DistributedDataParallel takes longer than all the steps.
"""

import json
import os
import pathlib
import sys
import time

import torch
import torch.distributed as dist
from allranks_progress import report, work

STEPS = int(os.environ["STEPS"])
PACE = float(os.environ["PACE"])
OWN = 3 * PACE if os.environ.get("SLOW") == os.environ["ALLRANKS_NODE_RANK"] else PACE
HOLD = int(os.environ.get("HOLD", "0"))
CHECKPOINT = pathlib.Path(os.environ["CHECKPOINTS"]) / "state.pt"


def say(**fields: object) -> None:
    """One line of JSON, from rank 0 alone, in one write."""
    if dist.get_rank() == 0:
        sys.stdout.write(json.dumps(fields) + "\n")
        sys.stdout.flush()


dist.init_process_group("gloo")
world = dist.get_world_size()
torch.manual_seed(0)
network = torch.nn.Linear(4, 1)
began = 0
if CHECKPOINT.exists():
    state = torch.load(CHECKPOINT, weights_only=True)
    network.load_state_dict(state["network"])
    began = state["step"]
optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
generator = torch.Generator().manual_seed(1000 * began + dist.get_rank())
loss = torch.zeros(())
say(began=began, world=world)
for step in range(began + 1, STEPS + 1):
    x = torch.randn(64, 4, generator=generator)
    loss = ((network(x) - x.sum(1, keepdim=True)) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    for parameter in network.parameters():
        assert parameter.grad is not None
        dist.all_reduce(parameter.grad)
        parameter.grad.div_(world)
    optimizer.step()
    if dist.get_rank() == 0:
        partial = CHECKPOINT.with_suffix(".partial")
        torch.save({"step": step, "network": network.state_dict()}, partial)
        partial.replace(CHECKPOINT)
    say(step=step, world=world, began=began)
    while step == HOLD:
        dist.all_reduce(torch.zeros(()))  # which ends with an error where a peer is lost
        time.sleep(PACE)
    with work():
        time.sleep(OWN)
    report(step=step, total=STEPS)
say(final=True, world=world, began=began, loss=loss.item())
dist.barrier()
dist.destroy_process_group()
sys.stdout.flush()
os._exit(0)  # without torch's teardown, which may abort on a busy machine
