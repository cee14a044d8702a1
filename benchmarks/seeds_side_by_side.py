"""What training S seeds in one process could gain: PPO on MountainCar's shapes, seeds stacked along an axis or apart.

    python benchmarks/seeds_side_by_side.py --json results/benchmarks/seeds_side_by_side.json

A bound, not an implementation: only what a stacked agent could not do without is run, so a real one would be slower.
A cycle is that of `lpm train lpm/MountainCar-v0` with its defaults: 8 environments × 128 steps, then 4 passes in 4
minibatches through an actor and a critic of 64 × 64 tanh units. Measured in processor time, in turns, for S seeds
together and for the library's own PPO S times:

- acting: three matrix products and a Gaussian sample for each of 128 steps, as one batched product over the seeds;
- environments: S × 8 cars stepped as one batch, which the library can do already;
- learning: forward and backward passes as batched products, the loss's elementwise part, clipping and Adam over all
  seeds at once, written out by hand;
- the bonus, if any: nothing. With one, the share of what cannot be stacked better than this only grows.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import gymnasium
import numpy as np
import torch
from torch import Tensor

import lpm.envs  # registers the environments
from lpm.agents import PPOConfig
from lpm.runs import RunConfig, build
from lpm.runs.machine import machine
from lpm.storage.files import write_atomic

ENVS, STEPS, EPOCHS, MINIBATCHES, HIDDEN = 8, 128, 4, 4, 64
ROWS = ENVS * STEPS // MINIBATCHES


class Stacked:
    """Networks of S seeds with two inputs as in MountainCar: actor (mean of one action) and critic."""

    def __init__(self, seeds: int) -> None:
        self.seeds = seeds
        sizes = [(2, HIDDEN), (HIDDEN, HIDDEN), (HIDDEN, 1)]
        shapes = [shape for _ in range(2) for a, b in sizes for shape in ((a, b), (1, b))]
        count = sum(a * b for a, b in shapes)
        self.vector = torch.randn(seeds, count).mul_(0.1)
        self.gradient = torch.zeros_like(self.vector)
        self.moments = torch.zeros(2, *self.vector.shape)
        self.layers, self.gradients, start = [], [], 0
        for a, b in shapes:
            span = slice(start, start + a * b)
            self.layers.append(self.vector[:, span].view(seeds, a, b))
            self.gradients.append(self.gradient[:, span].view(seeds, a, b))
            start += a * b
        self.count = 0

    def forward(self, x: Tensor, net: int) -> list[Tensor]:
        """What enters each layer of network 0 (actor) or 1 (critic), and its output; (S, B, width) each."""
        values = [x]
        for i in range(3):
            weight, bias = self.layers[6 * net + 2 * i : 6 * net + 2 * i + 2]
            factor = 2 if i < 2 else 1  # tanh x = 2 σ(2x) − 1, and σ is faster
            out = torch.baddbmm(bias, values[-1], weight, beta=factor, alpha=factor)
            values.append(out.sigmoid_().mul_(2).sub_(1) if i < 2 else out)
        return values

    def backward(self, values: list[Tensor], gradient: Tensor, net: int) -> None:
        """Set the gradients of a network from that of its output."""
        for i in reversed(range(3)):
            if i < 2:
                gradient = torch.ops.aten.tanh_backward(gradient, values[i + 1])
            self.gradients[6 * net + 2 * i].copy_(torch.bmm(values[i].mT, gradient))
            torch.sum(gradient, dim=1, keepdim=True, out=self.gradients[6 * net + 2 * i + 1])
            if i:
                gradient = torch.bmm(gradient, self.layers[6 * net + 2 * i].mT)

    def adam(self) -> None:
        """Each seed's gradient bounded by its own norm, then one step for all."""
        norm = torch.linalg.vector_norm(self.gradient, dim=1, keepdim=True)
        self.gradient.mul_((0.5 / (norm + 1e-6)).clamp_(max=1))
        self.count += 1
        first, second = self.moments
        first.lerp_(self.gradient, 0.1)
        second.mul_(0.999).addcmul_(self.gradient, self.gradient, value=0.001)
        rate = 1e-3 / (1 - 0.9**self.count)
        self.vector.addcdiv_(first, (second / (1 - 0.999**self.count)).sqrt_().add_(1e-5), value=-rate)


def act(nets: Stacked, noise: Tensor, step: Callable[[np.ndarray], np.ndarray], obs: Tensor) -> Tensor:
    """A block of experience; returns its observations (S, T·N, 2)."""
    seen = torch.empty(STEPS, nets.seeds, ENVS, 2)
    with torch.inference_mode():
        for t in range(STEPS):
            seen[t] = obs
            mean = nets.forward(obs, 0)[-1]
            action = (mean + noise[t]).clamp_(-1, 1).view(-1, 1).numpy()
            obs = torch.from_numpy(step(action)).view(nets.seeds, ENVS, 2)
    return seen.permute(1, 0, 2, 3).reshape(nets.seeds, -1, 2).clone()


@torch.no_grad()
def learn(nets: Stacked, obs: Tensor, columns: Tensor) -> None:
    """Four passes in four minibatches; `columns` (S, B, 4) are action, old log-probability, advantage and return."""
    seeds, rows = obs.shape[:2]
    both = torch.cat([obs, columns], 2)
    for _ in range(EPOCHS):
        order = torch.rand(seeds, rows).argsort(1)
        shuffled = both.gather(1, order.unsqueeze(2).expand(-1, -1, both.shape[2]))
        for part in torch.split(shuffled, ROWS, dim=1):
            x = part[..., :2].contiguous()
            choice, old, advantage, returns = part[..., 2:].unbind(2)
            advantage = (advantage - advantage.mean(1, keepdim=True)) / (advantage.std(1, keepdim=True) + 1e-8)
            actor, critic = nets.forward(x, 0), nets.forward(x, 1)
            difference = choice - actor[-1].squeeze(2)
            ratio = (-0.5 * difference.square() - old).exp()
            clipped = ratio.clamp(0.8, 1.2)
            counts = ratio * advantage <= clipped * advantage  # where the smaller of both moves with the policy
            gradient = torch.where(counts, -advantage * ratio, 0) * difference / rows
            nets.backward(actor, gradient.unsqueeze(2), 0)
            nets.backward(critic, ((critic[-1].squeeze(2) - returns) * (0.5 / rows)).unsqueeze(2), 1)
            nets.adam()


def stacked_cycle(seeds: int) -> Callable[[], dict[str, float]]:
    """A cycle of all seeds at once, with the processor seconds of its parts."""
    nets = Stacked(seeds)
    envs = gymnasium.make_vec("lpm/MountainCar-v0", num_envs=seeds * ENVS)
    first, _ = envs.reset(seed=0)
    state = {"obs": torch.from_numpy(np.array(first)).view(seeds, ENVS, 2)}
    spent = {"env": 0.0}

    def step(action: np.ndarray) -> np.ndarray:
        start = time.process_time()
        obs: np.ndarray = envs.step(action)[0]
        spent["env"] += time.process_time() - start
        return obs

    def cycle() -> dict[str, float]:
        spent["env"] = 0.0
        start = time.process_time()
        seen = act(nets, torch.randn(STEPS, seeds, ENVS, 1), step, state["obs"])
        acted = time.process_time()
        learn(nets, seen, torch.randn(seeds, ENVS * STEPS, 4))
        end = time.process_time()
        return {
            "env": spent["env"],
            "policy": acted - start - spent["env"],
            "learn": end - acted,
            "whole": end - start,
        }

    return cycle


def apart(seed: int) -> Callable[[], dict[str, float]]:
    """A cycle of the library's PPO of one seed."""
    agent = build(RunConfig("lpm/MountainCar-v0", bonus="none", seed=seed, device="cpu", agent=PPOConfig()))

    def cycle() -> dict[str, float]:
        start = time.process_time()
        agent.cycle()
        return {"whole": time.process_time() - start}

    return cycle


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 5, 10, 20])
    parser.add_argument("--rounds", type=int, default=15, help="turns; the median of the paired ratios counts")
    parser.add_argument("--json", type=Path, help="also write the numbers here")
    options = parser.parse_args()
    torch.set_num_threads(1)
    assert lpm.envs
    together = {count: stacked_cycle(count) for count in options.seeds}
    alone = apart(0)
    found: dict[int, list[dict[str, float]]] = {count: [] for count in options.seeds}
    for number in range(options.rounds + 1):
        before = alone()["whole"]
        for count, cycle in together.items():
            parts = cycle()
            after = alone()["whole"]
            if number:  # the first round warms up
                found[count].append({**parts, "apart": count * (before + after) / 2})
            before = after
    columns = ["seeds", "together, ms a cycle", "acting", "environments", "learning", "apart, ms", "ratio, at most"]
    rows = []
    for count, rounds in found.items():
        middle = {part: 1000 * statistics.median(turn[part] for turn in rounds) for part in rounds[0]}
        ratio = statistics.median(turn["apart"] / turn["whole"] for turn in rounds)
        parts = (middle["whole"], middle["policy"], middle["env"], middle["learn"], middle["apart"])
        rows.append([str(count), *(f"{part:,.1f}" for part in parts), f"{ratio:.2f}"])
    for row in (columns, *rows):
        print("| " + " | ".join(row) + " |", flush=True)
    if options.json:
        table = {"machine": machine(), "rounds": options.rounds, "columns": columns, "rows": rows}
        write_atomic(options.json, json.dumps(table, indent=1).encode())


if __name__ == "__main__":
    main()
