"""How near each bonus comes to the limit of the processor: arithmetic and memory against measured rates.

    python benchmarks/roofline.py --rates bonuses.json --json results/benchmarks/roofline.json

For the settings that are matched to RLeXplore's, a cycle's products are counted (multiply and add are two
operations): every linear layer and convolution, forward and backward, as often as the method needs them at least.
The limit is the time they take at the rates that this machine reaches, measured here on one thread: matrix products
of the minibatch's size, each convolution with its own shape, forward and backward; plus reading and writing every
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
from pathlib import Path

import torch

from lpm.files import write_atomic
from lpm.nn.networks import conv_layers
from lpm.runs.machine import machine

FEATURES, HIDDEN, ACTIONS, MEMBERS, BATCH = 128, 256, 6, 4, 256
NARROW_FEATURES = 32  # of NGU
NUMBERS = {"vector": 8, "image": 4 * 84 * 84}
FLAT = 64 * 7 * 7
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


@dataclass(frozen=True)
class Rates:
    """What this machine reaches on one thread."""

    product: float
    """Operations per second of a matrix product, 256 × 256 × 256."""
    forward: float
    """Seconds of a frame through the three convolutions, without gradient."""
    trained: float
    """The same, forward and backward."""
    copied: float
    """Bytes per second, read and written."""


def measured() -> Rates:
    """The rates of the present machine."""
    a, b, out = torch.randn(BATCH, HIDDEN), torch.randn(HIDDEN, HIDDEN), torch.empty(BATCH, HIDDEN)
    product = 2 * BATCH * HIDDEN**2 / fastest(lambda: torch.mm(a, b, out=out), 200)
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
        product,
        fastest(ahead, 8) / BATCH,
        fastest(lambda: layers(frames).backward(gradient), 8) / BATCH,
        copied,
    )


def encoder(method: str, shape: str) -> int:
    """Weights of the linear layers of an encoder."""
    features = NARROW_FEATURES if method == "ngu" else FEATURES
    return NUMBERS[shape] * HIDDEN + HIDDEN * features if shape == "vector" else FLAT * features


INVERSE = 2 * FEATURES * HIDDEN + HIDDEN * ACTIONS
FORWARD = (FEATURES + ACTIONS) * HIDDEN + (HIDDEN + ACTIONS) * FEATURES


def work(method: str, shape: str) -> tuple[float, float, float]:
    """What one transition needs: encodings without and with gradient, and weights of other layers, by passes.

    A layer that is trained counts three times: forward, gradient of its weights, gradient of its inputs.
    """
    # images: the successor of a step is the observation of the next, and is encoded once
    pair = 2.0 if shape == "vector" else 1.0
    return {
        "rnd": (3.0, 1.0, 0.0),  # predictor and target to score, target to learn, predictor trained
        "icm": (pair, 2.0, FORWARD + 3 * (INVERSE + FORWARD)),
        "ride": (pair, 2.0, 3.0 * (INVERSE + FORWARD)),
        "e3b": (1.0, 2.0, 3.0 * INVERSE),
        "ensemble": (1 + pair, 0.0, MEMBERS * (FORWARD + 3 * FORWARD - (FEATURES + ACTIONS) * HIDDEN)),
        "re3": (1.0, 0.0, 1000 * FEATURES),  # distances to a thousand states
        # embedding, predictor and target to score, target to learn; both encodings and the predictor trained
        "ngu": (4.0, 3.0, 3.0 * (2 * NARROW_FEATURES * HIDDEN + HIDDEN * ACTIONS)),
    }[method]


def limit(method: str, shape: str, rates: Rates) -> tuple[float, float]:
    """Operations of a transition, and the least seconds it can take."""
    ahead, trained, others = work(method, shape)
    linear = encoder(method, shape)
    weights = ahead * linear + trained * 3 * linear + others
    if shape == "vector":
        weights -= trained * NUMBERS[shape] * HIDDEN  # the first layer's inputs need no gradient
    operations, seconds = 2 * weights, 2 * weights / rates.product
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
    said = (
        f"matrix products {rates.product / 1e9:.0f} GFLOP/s; a frame through the convolutions "
        f"{1e3 * rates.forward:.3f} ms, with gradients {1e3 * rates.trained:.3f} ms; "
        f"copying {rates.copied / 1e9:.1f} GB/s"
    )
    print(said)
    columns = ["method", "shape", "MFLOP a transition", "at most, per s", "measured, per s", "share of the limit"]
    rows = []
    for shape in NUMBERS:
        for method in ("rnd", "icm", "ensemble", "e3b", "re3", "ride", "ngu"):
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
