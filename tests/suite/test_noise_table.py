import math
from typing import Any

import pytest

from lpm.suite.noise_table import run, summarise, table_rows


def curves(method: str, seed: int, learnable: list[float], noise: list[float], unseen: float) -> dict[str, Any]:
    return {"method": method, "seed": seed, "learnable": learnable, "noise": noise, "unseen": unseen}


def test_forward_error_keeps_paying_for_noise_and_lpm_does_not() -> None:
    rows = {row.method: row for row in summarise([run(m, 0, 40) for m in ("forward_error", "lpm", "pointwise")])}
    assert rows["forward_error"].final[0] < 0.05 * rows["forward_error"].start[0]
    assert rows["forward_error"].share > 0.4
    assert abs(rows["lpm"].final[1]) < 0.15  # nats; the standard error of ten updates is about 0.015
    assert abs(rows["pointwise"].final[1]) < 0.05


def test_summary_by_hand() -> None:
    curve = [0.0, -2.0, *[0.5] * 10]
    row = summarise([curves("m", 0, curve, curve, 4.0), curves("m", 1, curve, [0.0] * 12, 6.0)])[0]
    assert row.start == (-2.0, -1.0)
    assert row.final == (0.5, 0.25)
    assert row.unseen == 5.0
    assert table_rows([row])[0] == ("m", "-2", "0.5", "-1", "0.25", "5", "12.5 %")
    silent = summarise([curves("none", 0, [0.0] * 10, [0.0] * 10, 0.0)])[0]
    assert math.isnan(silent.share)
    assert table_rows([silent])[0][-1] == "–"


def test_what_was_never_seen_is_paid_more_than_what_was() -> None:
    for method in ("forward_error", "rnd", "count", "lgn"):
        found = run(method, 0, 20)
        assert found["unseen"] > 3 * found["learnable"][-1]


def test_is_deterministic() -> None:
    assert run("rnd", 0, 3) == run("rnd", 0, 3)
    assert run("rnd", 0, 3) != run("rnd", 1, 3)


def test_unknown_bonus() -> None:
    with pytest.raises(ValueError, match="unknown bonus"):
        run("rdn", 0, 1)
