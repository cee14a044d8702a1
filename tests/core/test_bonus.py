"""The base class: what it checks, masks and saves for every method."""

import copy
import io

import pytest
import torch
from gymnasium.spaces import Box, Discrete
from tiny_bonus import Tiny
from torch import Tensor

import lpm
from lpm import IntrinsicReward, Spaces, Transitions
from lpm.core.check import random_block

SPACES = Spaces(Box(-1, 1, (3,)), Discrete(2))


def trained(seed: int = 0) -> Tiny:
    bonus = Tiny(SPACES, num_envs=3, seed=seed)
    for cycle in range(3):
        bonus.step(random_block(SPACES, seed=cycle))
        bonus.update()
    return bonus


def test_invalid_transitions_are_masked_whatever_the_method_returns() -> None:
    class Everywhere(Tiny):
        def _score(self, batch: Transitions) -> Tensor:
            return torch.full(batch.shape, torch.nan)

    block = random_block(SPACES, filler=True)
    for reward in (Everywhere(SPACES).score(block), Everywhere(SPACES).step(block)):
        assert (reward[~block.valid] == 0).all()
        assert reward[block.valid].isnan().all()


def test_a_bonus_without_episodes_has_none_to_end() -> None:
    """lgn_lifelong holds its parts for one environment, whatever their number."""
    bonus = lpm.make("lgn_lifelong", SPACES, num_envs=3)
    bonus.end_episodes(torch.tensor([True, False, True]))


@pytest.mark.parametrize("shape", [(), (3,), (24,), (8, 1), (8, 3, 1)])
def test_rewards_of_the_wrong_shape_never_broadcast(shape: tuple[int, ...]) -> None:
    class Wrong(Tiny):
        def _score(self, batch: Transitions) -> Tensor:
            return torch.zeros(shape)

    with pytest.raises(ValueError, match=r"Wrong: expected rewards of shape \(T, N\) = \(8, 3\), got \("):
        Wrong(SPACES).score(random_block(SPACES))


@pytest.mark.parametrize(("metric", "came"), [(1.0, "1.0"), (torch.zeros(2), r"shape \(2,\)")])
def test_metrics_are_zero_dimensional_tensors(metric: object, came: str) -> None:
    class Wrong(Tiny):
        def _update(self, generator: torch.Generator) -> dict[str, Tensor]:
            return {"loss": metric}  # type: ignore[dict-item]

    with pytest.raises(ValueError, match=f"Wrong.update: expected metric 'loss' as a 0-d tensor, got {came}"):
        Wrong(SPACES).update()


def test_no_gradients_out_and_training_inside_no_grad() -> None:
    bonus = Tiny(SPACES)
    with torch.no_grad():
        reward = bonus.step(random_block(SPACES))
        before = bonus.head.weight.clone()
        metrics = bonus.update()
    assert not reward.requires_grad
    assert not metrics["loss"].requires_grad
    assert not torch.equal(before, bonus.head.weight)


def test_update_draws_from_the_given_generator_or_its_own() -> None:
    bonus, twin = trained(), trained()
    own = bonus.generator.get_state()
    bonus.update(torch.Generator().manual_seed(7))
    assert torch.equal(own, bonus.generator.get_state())
    twin.update(torch.Generator().manual_seed(7))
    assert torch.equal(bonus.head.weight, twin.head.weight)
    bonus.update()
    assert not torch.equal(own, bonus.generator.get_state())


def test_needs_are_said() -> None:
    class Needy(Tiny):
        needs = ("reward", "policy")

    p = random_block(SPACES)
    bare = Transitions.build(p.obs, p.action, p.next_obs)
    with pytest.raises(ValueError, match=r"Needy needs Transitions.reward.*extrinsic rewards \(T, N\)"):
        Needy(SPACES).score(bare)
    rewarded = Transitions.build(p.obs, p.action, p.next_obs, reward=p.reward)
    with pytest.raises(ValueError, match=r"Needy needs Transitions.policy.*\(T, N, 2\): logits"):
        Needy(SPACES).observe(rewarded)
    Needy(SPACES).step(p)


def test_episodic_methods_insist_on_their_environments() -> None:
    class Episodic(Tiny):
        episodic = True

    with pytest.raises(ValueError, match=r"Episodic keeps a memory per environment: expected blocks of 2.*got 3"):
        Episodic(SPACES, num_envs=2).step(random_block(SPACES))
    Tiny(SPACES, num_envs=2).step(random_block(SPACES))


@pytest.mark.parametrize("verb", ["score", "observe", "step"])
def test_devices_must_agree(verb: str) -> None:
    with pytest.raises(ValueError, match=r"Tiny is on cpu, the transitions are on meta: move one with .to\(device\)"):
        getattr(Tiny(SPACES), verb)(random_block(SPACES).to("meta"))
    with pytest.raises(ValueError, match="Tiny is on meta, the transitions are on cpu"):
        getattr(Tiny(SPACES).to("meta"), verb)(random_block(SPACES))


@pytest.mark.parametrize("verb", ["score", "observe", "step"])
def test_every_verb_checks_the_block(verb: str) -> None:
    block = random_block(SPACES)
    block.obs[1, 2, 0] = torch.nan
    with pytest.raises(ValueError, match=r"Transitions.obs\[1, 2, 0\]"):
        getattr(Tiny(SPACES), verb)(block)
    with pytest.raises(ValueError, match=r"Tiny: expected lpm.Transitions, got Tensor"):
        getattr(Tiny(SPACES), verb)(block.obs)


@pytest.mark.parametrize("name", lpm.names())
def test_empty_blocks_change_nothing(name: str) -> None:
    bonus, empty = lpm.make(name, SPACES, num_envs=3, rollout_steps=8), random_block(SPACES)[:0]
    bonus.step(random_block(SPACES))
    before = copy.deepcopy(bonus.state_dict())
    assert bonus.score(empty).shape == bonus.step(empty).shape == (0, 3)
    assert bonus.step(empty).dtype == torch.float32
    bonus.observe(empty)
    after = bonus.state_dict()
    assert all(torch.equal(before[k], after[k]) for k in before if isinstance(before[k], Tensor))


def test_a_bonus_without_a_score_is_not_one() -> None:
    with pytest.raises(NotImplementedError):
        IntrinsicReward(SPACES).score(random_block(SPACES))
    assert IntrinsicReward(SPACES).update() == {}


# ---- state ----------------------------------------------------------------------------------------------------
def test_deepcopy_is_independent_and_equal() -> None:
    bonus = trained()
    twin = copy.deepcopy(bonus)
    kept = twin.head.weight.clone()
    first = bonus.update()
    assert torch.equal(twin.head.weight, kept)
    second = twin.update()
    assert torch.equal(first["loss"], second["loss"])
    assert torch.equal(bonus.head.weight, twin.head.weight)


def test_loading_does_not_tie_two_bonuses_together() -> None:
    """Adam's load_state_dict keeps references to the moments it is given."""
    bonus, other = trained(), Tiny(SPACES, num_envs=3, seed=5)
    other.load_state_dict(bonus.state_dict())
    reference = copy.deepcopy(bonus)
    for _ in range(3):
        other.update()
    bonus.update()
    reference.update()
    assert torch.equal(bonus.head.weight, reference.head.weight)


def test_state_is_plain_data() -> None:
    stream = io.BytesIO()
    torch.save(trained().state_dict(), stream)
    stream.seek(0)
    Tiny(SPACES).load_state_dict(torch.load(stream, weights_only=True))


def test_state_of_another_shape_or_method_is_refused() -> None:
    wide = Tiny(Spaces(Box(-1, 1, (4,)), Discrete(2)))
    with pytest.raises(ValueError, match=r"head.weight: .* of shape \(1, 3\), got .* of shape \(1, 4\)"):
        trained().load_state_dict(wide.state_dict())
    state = trained().state_dict()
    state["_extra_state"]["optimizers"] = {"body": {}}
    with pytest.raises(ValueError, match=r"optimisers: the same names, .* body, head"):
        trained().load_state_dict(state)


def test_lpm_survives_empty_and_split_blocks_at_the_chunk_edge() -> None:
    """Rewards do not depend on where blocks of more than 1,024 rows are cut."""
    for steps in (1023, 1024, 1025):
        whole, split = (lpm.make("lpm", SPACES, num_envs=1, rollout_steps=steps, queue_size=1000, dynamics_steps=1,
                                 error_steps=1, normalise="none", buffer_size=2048) for _ in range(2))  # fmt: skip
        for cycle in range(2):
            block = random_block(SPACES, steps=steps, envs=1, seed=cycle)
            block.valid[998:1001] = False  # the queue of 1,000 fills three rows later
            reward = whole.step(block)
            parts = torch.cat([split.step(block[a:b]) for a, b in ((0, 0), (0, 999), (999, 1002), (1002, steps))])
            torch.testing.assert_close(reward, parts, atol=1e-5, rtol=1e-5)
            whole.update()
            split.update()
        assert (reward[block.valid] != 0).all()
        assert (reward[~block.valid] == 0).all()


def test_lpm_pays_the_dth_valid_transition_first_with_invalid_rows_around_it() -> None:
    bonus = lpm.make("lpm", SPACES, num_envs=2, rollout_steps=5, variant="paper", queue_size=4)
    block = random_block(SPACES, steps=5, envs=2)
    for where in ((0, 1), (1, 1), (2, 0)):  # valid rows in order: 00, 10, 21, 30, 31, ...
        block.valid[where] = False
    paid = bonus.step(block) != 0
    assert paid.int().tolist() == [[0, 0], [0, 0], [0, 0], [1, 1], [1, 1]]
