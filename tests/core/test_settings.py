"""Settings that would do nothing beside others are refused where that was written down, and taken otherwise."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from lpm.bonuses.lgn import LGNConfig
from lpm.bonuses.lpm_anchored import LPMAnchoredConfig
from lpm.bonuses.lpm_release import LPMReleaseConfig
from lpm.bonuses.lpm_slow import LPMSlowConfig
from lpm.core.settings import expect_idle
from lpm.experiments.lgn_forms import NetworksConfig

# config, what makes a setting idle, what does not (None: nothing), the setting, another value, the message
IDLE: list[tuple[type, dict[str, Any], dict[str, Any] | None, str, Any, str]] = [
    (LGNConfig, {"gate": False}, {}, "power", 2.0, "its default 1.0 with gate=False, where it has no effect, got 2.0"),
    (LGNConfig, {"units": "none"}, {}, "unit_ridge", 0.5, "its default 0.1 with units='none'"),
    (LGNConfig, {"fourier": 0}, {}, "length_scale", 3.0, "its default 1.0 with fourier=0"),
    (LPMSlowConfig, {"form": "linear"}, {}, "relative_floor", 0.2, "its default 0.1 with form='linear'"),
    (LPMAnchoredConfig, {"form": "linear"}, {}, "relative_floor", 0.2, "its default 0.1 with form='linear'"),
    (LPMReleaseConfig, {"form": "linear"}, {"form": "rnd"}, "weight", 0.5, "with form='linear', where it has no"),
    (NetworksConfig, {}, None, "ridge", 0.5, "with networks, where it has no effect"),
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

    expect_idle(Config(), "here", "parts")
    with pytest.raises(ValueError, match=r"Config\.parts: expected its default \[\] here"):
        expect_idle(Config([1]), "here", "parts")
