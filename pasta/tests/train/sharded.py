"""What FSDP does to a training step, rehearsed by two processes on CPUs: `torchrun --nproc_per_node 2 sharded.py BASE`.

accelerate shards on accelerators alone, so torch's own `fully_shard`, which it calls, is called here. Prints, as JSON,
how far loss, gradients and the gathered adapter are from those of one process with whole weights.
"""

from __future__ import annotations

import copy
import json
import sys
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from pasta.core.positions import Positions
from pasta.data.batch import collate, model_inputs
from pasta.models import load_model
from pasta.models.lora import new_adapter
from pasta.train.examples import make_examples
from pasta.train.head import target_logits
from pasta.train.loss import token_losses
from support import toy_rows


def step(model: Any, batch: dict[str, torch.Tensor]) -> float:
    loss = token_losses(target_logits(model, model_inputs(batch), batch["learned"]), batch["targets"]).mean()
    loss.backward()
    return float(loss.detach())


def main(base: str) -> None:
    dist.init_process_group("gloo")
    loaded = load_model(base, device="cpu", tags=True)
    assert loaded.vocabulary.tags is not None
    torch.manual_seed(0)
    whole = new_adapter(loaded.model, loaded.vocabulary.tags.all, 4, 8.0)
    for name, parameter in whole.named_parameters():
        if ".lora_B." in name:  # so that every matrix has a gradient
            torch.nn.init.normal_(parameter, std=0.05)
    whole.get_base_model().set_attn_implementation("sdpa")
    sharded = copy.deepcopy(whole)
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for layer in sharded.get_base_model().model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(sharded, mesh=mesh)
    batch = collate([make_examples(toy_rows(4), loaded.vocabulary, Positions()).layouts])
    losses = step(whole, batch), step(sharded, batch)
    worst, compared = 0.0, 0
    for (name, one), (other_name, other) in zip(whole.named_parameters(), sharded.named_parameters(), strict=True):
        assert name == other_name
        if one.grad is not None:
            worst = max(worst, float((other.grad.full_tensor() - one.grad).abs().max()))
            compared += bool(one.grad.any())
    options = StateDictOptions(full_state_dict=True, cpu_offload=True)
    gathered = get_model_state_dict(sharded, options=options)
    if dist.get_rank() == 0:
        own = {
            name: value for name, value in whole.state_dict().items() if "lora" in name or "trainable_tokens" in name
        }
        kept = max(float((gathered[name] - value).abs().max()) for name, value in own.items())
        trained = sum(parameter.requires_grad for parameter in whole.parameters())
        print(
            json.dumps({"losses": losses, "gradient": worst, "adapter": kept, "trained": trained, "compared": compared})
        )
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
