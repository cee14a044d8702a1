"""Transitions: shapes, flags, devices, slices, and the order of rows."""

import numpy as np
import pytest
import torch

from lpm import Transitions

T, N = 4, 3


def parts() -> dict[str, torch.Tensor]:
    never = torch.zeros(T, N, dtype=torch.bool)
    return {
        "obs": torch.arange(T * N * 2, dtype=torch.float32).view(T, N, 2),
        "action": torch.arange(T * N).view(T, N),
        "next_obs": torch.zeros(T, N, 2),
        "terminated": never,
        "truncated": never,
        "valid": ~never,
    }


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"obs": torch.zeros(T, N + 1, 2)}, r"obs: expected leading shape \(T, N\) = \(4, 3\), got \(4, 4, 2\)"),
        ({"action": torch.zeros(T)}, r"action: expected leading shape .* got \(4,\)"),
        ({"terminated": torch.zeros(N, dtype=torch.bool)}, r"terminated: expected shape \(T, N\), got \(3,\); add a"),
        ({"valid": torch.ones(T, N, 1, dtype=torch.bool)}, r"valid: expected shape .* got \(4, 3, 1\)"),
        ({"truncated": torch.ones(T, N, 1, dtype=torch.bool)}, r"truncated: expected shape .* got \(4, 3, 1\)"),
        ({"valid": torch.ones(T, N)}, r"valid: expected dtype torch.bool, got torch.float32"),
        ({"terminated": torch.zeros(T, N)}, r"terminated: expected dtype torch.bool, got torch.float32"),
        ({"reward": torch.zeros(T + 1, N)}, r"reward: expected leading shape .* got \(5, 3\)"),
        ({"obs": torch.zeros(T, N, 2, device="meta")}, r"obs: expected device cpu like the other fields, got meta"),
        ({"obs": np.zeros((T, N, 2))}, r"obs: expected a torch tensor, got ndarray"),
        ({"valid": None}, r"valid: expected a torch tensor, got NoneType"),
        ({"policy": [0.0]}, r"policy: expected a torch tensor, got list"),
    ],
)  # fmt: skip
def test_refuses(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Transitions(**{**parts(), **changes})  # type: ignore[arg-type]


def test_build_fills_in_the_flags_that_are_left_out() -> None:
    p = parts()
    batch = Transitions.build(p["obs"], p["action"], p["next_obs"])
    assert batch.shape == (T, N)
    assert batch.valid.all()
    assert not batch.done.any()
    assert batch.reward is None


@pytest.mark.parametrize(
    ("obs", "message"), [(torch.zeros(3), r"\(T, N, ...\), got \(3,\)"), ([1], "tensor, got list")]
)
def test_build_refuses(obs: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Transitions.build(obs, torch.zeros(3), torch.zeros(3))  # type: ignore[arg-type]


def test_done_is_either_reason() -> None:
    terminated, truncated = torch.zeros(2, T, N, dtype=torch.bool)
    terminated[0, 0] = truncated[1, 1] = terminated[2, 2] = truncated[2, 2] = True
    batch = Transitions(**{**parts(), "terminated": terminated, "truncated": truncated})
    assert batch.done.nonzero().tolist() == [[0, 0], [1, 1], [2, 2]]


def test_time_slices_and_environments_reach_every_field() -> None:
    batch = Transitions(**parts(), reward=torch.arange(T * N).view(T, N).float(), policy=torch.rand(T, N, 5))
    order = torch.tensor([2, 0, 1])
    cut = batch[1:3].envs(order)
    assert cut.shape == (2, N)
    for name, value in vars(batch).items():
        assert torch.equal(getattr(cut, name), value[1:3][:, order]), name
    assert batch[:0].shape == (0, N)
    with pytest.raises(ValueError, match="add a leading time axis"):
        batch[1]  # type: ignore[index]


def test_rows_are_time_major_and_valid_only() -> None:
    valid = torch.ones(T, N, dtype=torch.bool)
    valid[0, 1] = valid[2, 0] = valid[3, 2] = False
    rows = Transitions(**{**parts(), "valid": valid}, reward=torch.arange(12.0).view(T, N)).rows()
    expected = [0, 2, 3, 4, 5, 7, 8, 9, 10]
    assert rows.action.tolist() == expected
    assert rows.obs[:, 0].tolist() == [2.0 * i for i in expected]
    assert rows.reward is not None
    assert rows.reward.tolist() == expected
    assert rows.policy is None
    assert Transitions(**parts()).rows().action.tolist() == list(range(12))


def test_rows_do_not_depend_on_memory_layout() -> None:
    valid = torch.rand(T, N, generator=torch.Generator().manual_seed(0)) < 0.5
    batch = Transitions(**{**parts(), "valid": valid})
    flipped = {k: v.transpose(0, 1).contiguous().transpose(0, 1) for k, v in vars(batch).items() if v is not None}
    turned = Transitions(**flipped)
    assert not turned.obs.is_contiguous()
    assert torch.equal(batch.rows().obs, turned.rows().obs)


def test_to_moves_every_field() -> None:
    moved = Transitions(**parts(), reward=torch.zeros(T, N)).to("meta")
    assert {str(v.device) for v in vars(moved).values() if v is not None} == {"meta"}
    assert moved.device.type == "meta"


def test_blocks_compare_by_identity() -> None:
    """Field-wise equality of tensors has no truth value."""
    first, second = Transitions(**parts()), Transitions(**parts())
    assert first == first
    assert first != second
