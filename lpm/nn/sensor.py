"""Noise of a sensor: how much there is, and the state behind it.

A reading that was only noise is taken back by the next one; a real change is not. With e_t the surprise of a step
against "nothing changes but what the action usually does", noise of variance R and real changes of variance Q,

    E[e_t²] = Q + 2R,    E[e_t · e_{t+1}] = −R,

so the lag-1 product tells noise from change. Kalman's steady gain follows from ρ = R / E[e_t²].
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from lpm.core.spaces import Spaces
from lpm.core.transitions import Transitions

SAME = 1e-5
"""Readings this near are the same one: what float32 makes of one number computed twice."""
EXACT = 0.001
"""A sensor whose changes go back and forth between the same two readings this often has no noise: noise never does."""
CERTAIN = 3.0
"""Standard errors by which a correlation, or what an action changes, must differ from 0 before it counts."""
CUT = 5.0
"""Geometric mean sizes at which surprises are cut: 2.7 standard deviations of a normal one. Glitches are no noise."""
NEVER = 1e30
"""Stands for a reading that there has not been."""


BINS = (-0.5, 0.0, 0.5)
"""Where the range of a continuous action is divided: noise may begin at any of its values."""


# ---- the formulas ---------------------------------------------------------------------------------------------
def steady_gain(rho: Tensor) -> Tensor:
    """Kalman's gain K = (√(q² + 4q) − q) / 2 with q = Q/R = 1/ρ − 2: 1 without noise (ρ ≤ 0), 0 for noise alone.

    >>> steady_gain(torch.tensor([-0.5, 0.0, 1 / 3, 0.5, 1.0])).tolist()
    [1.0, 1.0, 0.6180340051651001, 0.0, 0.0]
    """
    q = (1 / rho.clamp(1e-6, 0.5) - 2).clamp_min(0)
    gain = 2 / (1 + (1 + 4 / q).sqrt())  # the same, without a difference of large numbers
    return torch.where(rho <= 0, torch.ones_like(gain), gain)


def action_code(spaces: Spaces, action: Tensor) -> Tensor:
    """(..., k): one-hot codes of discrete actions; of continuous ones the numbers, and one-hot codes of their bins."""
    lead = action.shape[: action.ndim - len(spaces.action_shape)]
    code = spaces.encode_action(action.reshape(-1, *spaces.action_shape))
    if spaces.action_kind == "continuous":
        bins = torch.bucketize(code, code.new_tensor(BINS))
        code = torch.cat([code, nn.functional.one_hot(bins, len(BINS) + 1).flatten(1)], 1)
    elif not code.shape[1]:
        code = code.new_ones(len(code), 1)
    return code.view(*lead, -1)


def code_width(spaces: Spaces) -> int:
    """Width k of an action's code."""
    return max(spaces.action_width * (1 if spaces.factors else len(BINS) + 2), 1)


class Surprises(NamedTuple):
    """What a block says about the noise of the n sensors that are watched: surprises of steps, and of those before."""

    code: Tensor  # (T, N, k) of the action
    reading: Tensor  # (T, N, n) after it
    change: Tensor  # (T, N, n)
    moved: Tensor  # (T, N, n) from the state before the action to the reading after it
    now: Tensor  # (T, N, n) surprise
    before: Tensor  # (T, N, n) surprise of the step before
    code_before: Tensor  # (T, N, k)
    paired: Tensor  # (T, N) there was a step before, in the same episode
    turns: Tensor  # (2, n) changes, and those back and forth


class SensorNoise(nn.Module):
    """How noisy each of W readings is after an action: sums over transitions that fade, and what follows from them.

    All is regressed on the code of the action: a mean each for discrete actions, linear for continuous ones.
    """

    gram: Tensor  # (k, k) of all steps
    pair_gram: Tensor  # (k, k) of those with a next one
    sums: Tensor  # (5, k, W) changes of the reading, and from the state; of pairs: next surprise, squares, products
    turns: Tensor  # (2, W) changes of a reading, and those back and forth
    moments: Tensor  # (6, W) readings: count, sum, squares; their changes: squares, how many, log |change|
    usual: Tensor  # (k, W) change that an action usually makes
    lasting: Tensor  # (k, W) of which the next step takes nothing back
    drift: Tensor  # (k, W) change that an action usually makes from the state behind the reading
    noise: Tensor  # (k, W) R
    power: Tensor  # (k, W) E[e²]
    spread: Tensor  # (k, k) inverse of the pairs' Gram matrix
    rarity: Tensor  # (W,) 1 / number of changes of a reading
    centre: Tensor  # (W,) mean reading
    signal: Tensor  # (W,) 1 − R/V, the share of a reading's variance that is no noise
    watched: Tensor  # (W,) bool: which sensors may have noise
    noisy: Tensor  # (W,) bool: which readings are filtered
    most: Tensor  # (W,) size at which surprises are cut; 0 until it is known

    def __init__(self, codes: int, width: int, *, discrete: bool = False) -> None:
        super().__init__()
        self.discrete = discrete
        for name, shape in {
            "gram": (codes, codes),
            "pair_gram": (codes, codes),
            "sums": (5, codes, width),
            "turns": (2, width),
            "moments": (6, width),
        }.items():
            self.register_buffer(name, torch.zeros(shape, dtype=torch.float64))
        for name in ("usual", "lasting", "drift", "noise", "power"):
            self.register_buffer(name, torch.zeros(codes, width))
        self.register_buffer("spread", torch.eye(codes))
        self.register_buffer("rarity", torch.ones(width))
        self.register_buffer("centre", torch.zeros(width))
        self.register_buffer("signal", torch.ones(width))
        self.register_buffer("watched", torch.ones(width, dtype=torch.bool))
        self.register_buffer("noisy", torch.zeros(width, dtype=torch.bool))
        self.register_buffer("most", torch.zeros(width))

    def gain(self, code: Tensor) -> tuple[Tensor, Tensor]:
        """Lasting change and gain (..., n) of the n noisy readings, after actions with a code (..., k)."""
        noise, power, chance = self._measured(code)
        change = code @ self.lasting[:, self.noisy]
        rho = noise / power
        least = change.square()
        if self.discrete:  # a policy that acts on the noise of a reading seems to undo it; the state has no noise
            least = least.minimum((code @ self.drift[:, self.noisy]).square())
        change = torch.where(least > chance.square() * power, change, 0.0)
        # one standard error less: a gain of 0 by chance would lose sight of what moves slowly
        return change, steady_gain(torch.where(rho > chance, rho - chance / CERTAIN, 0.0))

    def _measured(self, code: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """R and E[e²] of the noisy readings after these actions, and how large a correlation may be by chance."""
        noise, power = code @ self.noise[:, self.noisy], (code @ self.power[:, self.noisy]).clamp_min(1e-12)
        leverage = ((code @ self.spread) * code).sum(-1, keepdim=True).clamp_min(0)
        return noise, power, CERTAIN * (leverage + self.rarity[self.noisy]).sqrt()

    def left(self, code: Tensor) -> Tensor:
        """Variance (W,) that noise still has in filtered states, after actions like these: K·R, shrunk."""
        left = torch.zeros_like(self.signal)
        variance = self.gain(code)[1] * (code @ self.noise[:, self.noisy]).clamp_min(0)
        left[self.noisy] = variance.median(0).values * self.signal[self.noisy].square()
        return left

    def shrunk(self, state: Tensor) -> Tensor:
        """States (..., W) as near to the mean as their readings are noise: nothing is left of what is noise alone."""
        if not bool(self.noisy.any()):
            return state
        shrunk: Tensor = torch.lerp(self.centre, state, torch.where(self.noisy, self.signal, 1.0))
        return shrunk

    def add(self, found: Surprises, valid: Tensor) -> None:
        """Take in a block. Sensors that turned out to be exact stay so, and are not looked at again."""
        most = self.most[self.watched]
        known = bool((self.most > 0).any())  # until sizes are, surprises cannot be cut
        paired, taken = found.paired & known, valid & known
        code, earlier = found.code[taken], found.code_before[paired]
        change, rows = found.change[valid], found.reading[valid]
        now, before = (part[paired].clamp(-most, most) for part in (found.now, found.before))
        size = change.abs()
        moved = size > SAME
        sums, turns, moments = (torch.zeros_like(total) for total in (self.sums, self.turns, self.moments))
        sums[..., self.watched] = torch.stack(
            [
                *(code.T @ part[taken].clamp(-most, most) for part in (found.change, found.moved)),
                *(earlier.T @ part for part in (now, before.square(), before * now)),
            ]
        ).double()
        turns[:, self.watched] = found.turns
        moments[:, self.watched] = torch.stack(
            [
                torch.full_like(most, len(rows)),
                rows.sum(0),
                rows.square().sum(0),
                change.square().sum(0),
                moved.sum(0).float(),
                torch.where(moved, size, 1).log().sum(0),
            ]
        ).double()
        added = (code.T @ code).double(), (earlier.T @ earlier).double(), sums, turns, moments
        for total, new in zip(self._totals, added, strict=True):
            total += new

    @property
    def _totals(self) -> tuple[Tensor, ...]:
        return self.gram, self.pair_gram, self.sums, self.turns, self.moments

    def solve(self, keep: float, code: Tensor) -> None:
        """Make what was added take effect; it will count `keep` times as much from now on.

        `code` (B, k) are actions that were taken.
        """
        inverse, pair_inverse = _ridge_inverse(self.gram), _ridge_inverse(self.pair_gram)
        usual, drift = inverse @ self.sums[:2]
        after, power, product = pair_inverse @ self.sums[2:]
        self.usual.copy_(usual)
        self.drift.copy_(drift)
        self.lasting.copy_(usual + after)
        self.noise.copy_(-product)
        self.power.copy_(power)
        self.spread.copy_(pair_inverse)
        count, sums, squares, changes, moved, logs = self.moments
        self.most.copy_(torch.where(moved > 0, CUT * (logs / moved.clamp_min(1)).exp(), 0))
        changed, back = self.turns
        self.rarity.copy_(1 / changed.clamp_min(1))
        self.watched.copy_(back <= EXACT * changed)
        self.noisy.copy_(self.watched & (changed > 0) & (self.noise > 0).any(0))
        mean = sums / count.clamp_min(1)
        variance = (squares / count.clamp_min(1) - mean.square()).clamp_min(1e-12)
        self.centre.copy_(mean)
        noise, power, chance = self._measured(code)
        # of the action with the least: an episode does not start with the one that shows a TV
        rho = (noise / power + chance).clamp(0, 0.5).amin(0)
        share = rho * (changes / count.clamp_min(1) / variance)[self.noisy]
        self.signal.fill_(1)
        self.signal[self.noisy] = (1 - share).clamp(0, 1).to(self.signal.dtype)
        for total in self._totals:
            total.mul_(keep)


def _ridge_inverse(gram: Tensor) -> Tensor:
    """(G + I)⁻¹: without data 0 is expected."""
    inverse: Tensor = torch.linalg.inv(gram + torch.eye(len(gram), dtype=gram.dtype, device=gram.device))
    return inverse


class Readings(nn.Module):
    """Where each environment's filter stands: the state behind its latest reading, and what came just before."""

    state: Tensor  # (N, W) x̂
    surprise: Tensor  # (N, W) of the latest step
    code: Tensor  # (N, k) of its action
    latest: Tensor  # (N, 2, W) the two readings before the latest, each different from the next, newest first

    def __init__(self, num_envs: int, codes: int, width: int) -> None:
        super().__init__()
        for name, shape in {"state": (width,), "surprise": (width,), "code": (codes,), "latest": (2, width)}.items():
            self.register_buffer(name, torch.zeros(num_envs, *shape))

    def filtered(
        self, starts: Tensor, valid: Tensor, phi: Tensor, following: Tensor, code: Tensor, noise: SensorNoise
    ) -> tuple[Tensor, Tensor]:
        """x̂ before and after each step, (T, N, W), of readings before and after; `starts` (T, N) begin an episode.

        x̂' = p + K(a) · (φ' − p) with p = x̂ + u(a); at the start of an episode x̂ is the reading, shrunk to the mean by
        the share of it that is noise.
        """
        noisy = noise.noisy
        if not bool(noisy.any()):
            return phi, following
        before, after = phi.clone(), following.clone()
        first = torch.lerp(noise.centre[noisy], phi[..., noisy], noise.signal[noisy])
        change, gain = noise.gain(code)
        state, seen = self.state[:, noisy], following[..., noisy]
        states = []
        for t in range(len(phi)):
            begun = torch.where(starts[t].unsqueeze(1), first[t], state)
            new = torch.lerp(begun + change[t], seen[t], gain[t])
            states.append((begun, new))
            state = torch.where(valid[t].unsqueeze(1), new, begun)
        before[..., noisy], after[..., noisy] = (torch.stack(part) for part in zip(*states, strict=True))
        return before, after

    def observe(
        self,
        batch: Transitions,
        starts: Tensor,
        phi: Tensor,
        following: Tensor,
        states: tuple[Tensor, Tensor],
        code: Tensor,
        noise: SensorNoise,
    ) -> Surprises:
        """Go on from a block, whose states before and after each step `filtered` gave; what it says about the noise."""
        valid, at = batch.valid, noise.watched
        phi, following = phi[..., at], following[..., at]
        change = following - phi
        now = change - code @ noise.usual[:, at]
        changed = valid.unsqueeze(2) & (change.abs() > SAME * (1 + phi.abs()))
        old, older = self.latest[..., at].unbind(1)
        back = torch.zeros(phi.shape[2], dtype=torch.float64, device=phi.device)
        never = torch.full_like(old, NEVER)
        for t in range(len(phi)):
            if bool(starts[t].any()):
                old, older = (torch.where(starts[t].unsqueeze(1), never, values) for values in (old, older))
            back += (changed[t] & _same(following[t], old) & _same(phi[t], older)).sum(0)
            old, older = torch.where(changed[t], phi[t], old), torch.where(changed[t], old, older)
        turns = torch.stack([changed.sum((0, 1)).double(), back])
        before, code_before = previous(now, self.surprise[:, at], valid), previous(code, self.code, valid)
        self.state[:, at] = last(states[1][..., at], self.state[:, at], valid)
        self.surprise[:, at] = last(now, self.surprise[:, at], valid)
        self.code.copy_(last(code, self.code, valid))
        self.latest[..., at] = torch.stack([old, older], 1)
        moved = following - states[0][..., at]
        return Surprises(code, following, change, moved, now, before, code_before, valid & ~starts, turns)


def previous(values: Tensor, carry: Tensor, valid: Tensor) -> Tensor:
    """For each of (T, N, ...) the value of the valid step before it; `carry` (N, ...) where there is none."""
    line = torch.cat([carry.unsqueeze(0), values])
    if bool(valid.all()):
        return line[:-1]
    time = torch.arange(1, len(values), device=values.device).unsqueeze(1)
    latest = torch.where(valid[:-1], time, 0).cummax(0).values
    return line[torch.cat([torch.zeros_like(valid[:1], dtype=torch.int64), latest]), torch.arange(values.shape[1])]


def last(values: Tensor, carry: Tensor, valid: Tensor) -> Tensor:
    """The value of the last valid step of (T, N, ...); `carry` (N, ...) where there is none."""
    one_more = torch.zeros_like(valid[:1])
    return previous(torch.cat([values, values[:1]]), carry, torch.cat([valid, one_more]))[-1]


def _same(a: Tensor, b: Tensor) -> Tensor:
    return (a - b).abs() <= SAME * (1 + a.abs())
