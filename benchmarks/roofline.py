"""How near each bonus comes to the limit of the processor: arithmetic and memory against measured rates.

    python benchmarks/roofline.py --rates bonuses.json --json results/benchmarks/roofline.json

For the settings that are matched to RLeXplore's, a cycle's products are counted (multiply and add are two
operations): every linear layer and convolution, forward and backward, as often as the method needs them at least.
The limit is the time they take at the rates that this machine reaches, measured here on one thread: each matrix
product and each convolution with its own shape, forward and backward; plus reading and writing every
observation as often as it must be, at the measured rate of copying. Beside it, the cycle that `bonuses.py --json`
measured. What is left out of the limit (activations, Adam, gathering, statistics, memories) is what keeps a method
from 100 %.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch

from lpm.nn.networks import conv_layers
from lpm.runs.machine import machine
from lpm.storage.files import write_atomic

FEATURES, HIDDEN, ACTIONS, MEMBERS, BATCH = 128, 256, 6, 4, 256
NARROW_FEATURES = 32  # of NGU
NUMBERS = {"vector": 8, "image": 4 * 84 * 84}
FLAT = 64 * 7 * 7
CHUNK = 1024  # rows that are scored at a time
METHODS = ("rnd", "icm", "ensemble", "e3b", "re3", "ride", "ngu")
CONVOLUTIONS = 2 * (20 * 20 * 32 * 4 * 64 + 9 * 9 * 64 * 32 * 16 + 7 * 7 * 64 * 64 * 9)
"""Operations of one frame, forward."""


def fastest(function: Callable[[], object], turns: int = 30) -> float:
    """Processor seconds of the fastest call."""
    times = []
    for _ in range(turns):
        start = time.process_time()
        function()
        times.append(time.process_time() - start)
    return min(times[1:])


@cache
def product_seconds(rows: int, inner: int, columns: int) -> float:
    """Of (rows, inner) times (inner, columns)."""
    a, b, out = torch.randn(rows, inner), torch.randn(inner, columns), torch.empty(rows, columns)
    return fastest(lambda: torch.mm(a, b, out=out), 100)


@dataclass(frozen=True)
class Rates:
    """What this machine reaches on one thread, beside `product_seconds`."""

    forward: float
    """Seconds of a frame through the three convolutions, without gradient."""
    trained: float
    """The same, forward and backward."""
    copied: float
    """Bytes per second, read and written."""


def measured() -> Rates:
    """The rates of the present machine."""
    layers = conv_layers(4, "relu").to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    frames = torch.rand(BATCH, 4, 84, 84)

    def ahead() -> None:
        with torch.no_grad():
            layers(frames)

    there = layers(frames)
    gradient = torch.rand_like(there)
    source, target = torch.zeros(2**24), torch.zeros(2**24)
    copied = 2 * 4 * 2**24 / fastest(lambda: target.copy_(source), 10)
    return Rates(
        fastest(ahead, 8) / BATCH,
        fastest(lambda: layers(frames).backward(gradient), 8) / BATCH,
        copied,
    )


@dataclass(frozen=True)
class Layer:
    """A linear layer, and how often a transition passes it."""

    inputs: int
    outputs: int
    scored: float
    """Forward, without learning."""
    trained: float
    """Forward, and backward to the weights."""
    moved: float
    """Backward to the inputs."""

    def operations(self) -> float:
        """Of one transition."""
        return 2 * self.inputs * self.outputs * (self.scored + 2 * self.trained + self.moved)

    def seconds(self) -> float:
        """Of one transition, at the rate of each product's own shape."""
        forward = product_seconds(BATCH, self.inputs, self.outputs)
        # many rows at a time where nothing is learnt: take the faster of the two
        scored = min(forward / BATCH, product_seconds(CHUNK, self.inputs, self.outputs) / CHUNK)
        weights = product_seconds(self.inputs, BATCH, self.outputs)
        inputs = product_seconds(BATCH, self.outputs, self.inputs)
        return self.scored * scored + (self.trained * (forward + weights) + self.moved * inputs) / BATCH


def encoder(shape: str, features: int, scored: float, trained: float) -> list[Layer]:
    """The linear layers of an encoder; observations need no gradient."""
    if shape == "image":
        return [Layer(FLAT, features, scored, trained, trained)]
    return [
        Layer(NUMBERS[shape], HIDDEN, scored, trained, 0),
        Layer(HIDDEN, features, scored, trained, trained),
    ]


def inverse(features: int) -> list[Layer]:
    """From both features to the action, trained."""
    return [Layer(2 * features, HIDDEN, 0, 1, 1), Layer(HIDDEN, ACTIONS, 0, 1, 1)]


def forward(members: int, scored: float, moved: float) -> list[Layer]:
    """From features and action to features; `moved`: whether the features are trained by it."""
    return [
        Layer(FEATURES + ACTIONS, HIDDEN, members * scored, members, members * moved),
        Layer(HIDDEN + ACTIONS, FEATURES, members * scored, members, members),
    ]


def work(method: str, shape: str) -> tuple[float, float, list[Layer]]:
    """What one transition needs: encodings without and with gradient, and all linear layers."""
    # images: the successor of a step is the observation of the next, and is encoded once
    pair = 2.0 if shape == "vector" else 1.0
    ahead, trained, others = {
        "rnd": (3.0, 1.0, []),  # predictor and target to score, target to learn, predictor trained
        "icm": (pair, 2.0, [*forward(1, 1, 1), *inverse(FEATURES)]),
        "ride": (pair, 2.0, [*forward(1, 0, 1), *inverse(FEATURES)]),
        "e3b": (1.0, 2.0, inverse(FEATURES)),
        "ensemble": (1 + pair, 0.0, forward(MEMBERS, 1, 0)),
        "re3": (1.0, 0.0, [Layer(FEATURES, 1000, 1, 0, 0)]),  # distances to a thousand states
        # embedding, predictor and target to score, target to learn; both encodings and the predictor trained
        "ngu": (4.0, 3.0, inverse(NARROW_FEATURES)),
    }[method]
    features = NARROW_FEATURES if method == "ngu" else FEATURES
    return ahead, trained, [*encoder(shape, features, ahead, trained), *others]


def limit(method: str, shape: str, rates: Rates) -> tuple[float, float]:
    """Operations of a transition, and the least seconds it can take."""
    ahead, trained, layers = work(method, shape)
    operations = sum(layer.operations() for layer in layers)
    seconds = sum(layer.seconds() for layer in layers)
    if shape == "image":
        operations += CONVOLUTIONS * (ahead + 3 * trained)
        seconds += ahead * rates.forward + trained * rates.trained
    # each encoding reads its observation and writes it as floats
    seconds += (ahead + trained) * NUMBERS[shape] * (8 if shape == "vector" else 5) / rates.copied
    return operations, seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rates", type=Path, required=True, help="what bonuses.py --rllte VENV --json wrote")
    parser.add_argument("--json", type=Path, help="also write the table here")
    options = parser.parse_args()
    torch.set_num_threads(1)
    found, rates = json.loads(options.rates.read_text()), measured()
    layers = [layer for shape in NUMBERS for method in METHODS for layer in work(method, shape)[2]]
    slow, *_, fast = sorted(
        2e-9 * BATCH * layer.inputs * layer.outputs / product_seconds(BATCH, layer.inputs, layer.outputs)
        for layer in layers
    )
    said = (
        f"matrix products {slow:.0f} to {fast:.0f} GFLOP/s by their shape; a frame through the convolutions "
        f"{1e3 * rates.forward:.3f} ms, with gradients {1e3 * rates.trained:.3f} ms; "
        f"copying {rates.copied / 1e9:.1f} GB/s"
    )
    print(said)
    columns = ["method", "shape", "MFLOP a transition", "at most, per s", "measured, per s", "share of the limit"]
    rows = []
    for shape in NUMBERS:
        for method in METHODS:
            rate = found.get(f"{shape}/{method}, matched", {}).get("rate")
            if rate is None:
                continue
            operations, seconds = limit(method, shape, rates)
            numbers = (f"{operations / 1e6:.2f}", f"{1 / seconds:,.0f}", f"{rate:,.0f}", f"{rate * seconds:.0%}")
            rows.append([method, shape, *numbers])
    for row in (columns, *rows):
        print("| " + " | ".join(row) + " |")
    if options.json:
        table = {"machine": machine(), "rates": said, "columns": columns, "rows": rows}
        write_atomic(options.json, json.dumps(table, indent=1).encode())


if __name__ == "__main__":
    main()
