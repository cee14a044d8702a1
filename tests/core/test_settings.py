"""Settings that would do nothing beside others, and schedules that lead nowhere, are refused; the others are taken."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from lpm.agents import A2CConfig, PPOConfig
from lpm.bonuses.lgn import LGNConfig
from lpm.bonuses.lpm_slow import LPMSlowConfig
from lpm.core.settings import reject_unused
from lpm_paper.lpm_anchored import LPMAnchoredConfig
from lpm_paper.lpm_release import LPMReleaseConfig

# config, what makes a setting idle, what does not (None: nothing), the setting, another value, the message
IDLE: list[tuple[type, dict[str, Any], dict[str, Any] | None, str, Any, str]] = [
    (
        LGNConfig,
        {"memory": "lifelong"},
        {},
        "filter",
        False,
        "its default True with memory='lifelong', where it has no",
    ),
    (LPMSlowConfig, {"form": "linear"}, {}, "relative_floor", 0.2, "its default 0.1 with form='linear'"),
    (LPMAnchoredConfig, {"form": "linear"}, {}, "relative_floor", 0.2, "its default 0.1 with form='linear'"),
    (LPMReleaseConfig, {"form": "linear"}, {"form": "rnd"}, "weight", 0.5, "with form='linear', where it has no"),
]


@pytest.mark.parametrize(("config", "idle", "active", "name", "value", "message"), IDLE)
def test_a_setting_without_effect_is_refused(
    config: type, idle: dict[str, Any], active: dict[str, Any] | None, name: str, value: Any, message: str
) -> None:
    config(**idle)
    with pytest.raises(ValueError, match=rf"^{config.__name__}\.{name}: expected .*{message}"):
        config(**idle, **{name: value})
    if active is not None:
        assert getattr(config(**active, **{name: value}), name) == value


def test_a_default_may_be_made_anew_each_time() -> None:
    @dataclass(frozen=True)
    class Config:
        parts: list[int] = field(default_factory=list)

    reject_unused(Config(), "here", "parts")
    with pytest.raises(ValueError, match=r"Config\.parts: expected its default \[\] here"):
        reject_unused(Config([1]), "here", "parts")


SCHEDULES = [
    (PPOConfig, "learning_rate_schedule", "learning_rate", "final_learning_rate"),
    (A2CConfig, "learning_rate_schedule", "learning_rate", "final_learning_rate"),
    (PPOConfig, "entropy_schedule", "entropy", "final_entropy"),
    (A2CConfig, "entropy_schedule", "entropy", "final_entropy"),
]


@pytest.mark.parametrize(("config", "name", "start", "end"), SCHEDULES)
def test_a_schedule_that_leads_nowhere_is_refused(config: Any, name: str, start: str, end: str) -> None:
    with pytest.raises(ValueError, match=rf"\.{name}: expected 'constant' or .*'cosine', got 'linaer'"):
        config(**{name: "linaer"})
    assert getattr(config(**{name: "exponential", start: 0.5, end: 0.25}), name) == "exponential"
    for wrong, values in ((start, {start: 0.0, end: 0.25}), (end, {start: 0.5, end: 0.0}), (end, {start: 0.5})):
        with pytest.raises(ValueError, match=rf"\.{wrong}: expected a number above 0 with {name}='exponential', got 0"):
            config(**{name: "exponential", **values})
    assert getattr(config(**{name: "linear", start: 0.0}), start) == 0.0
