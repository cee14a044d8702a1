"""Settings that would do nothing are refused, whichever config they stand in."""

from __future__ import annotations

from typing import Any

import pytest

from lpm.bonuses.lgn import LGNConfig
from lpm.bonuses.lpm_anchored import LPMAnchoredConfig
from lpm.bonuses.lpm_release import LPMReleaseConfig
from lpm.bonuses.lpm_slow import LPMSlowConfig
from lpm.experiments.lgn_forms import NetworksConfig

IDLE: dict[type, tuple[dict[str, Any], str, Any, str]] = {
    LGNConfig: ({"gate": False}, "power", 2.0, "its default 1.0 with gate=False, where it has no effect, got 2.0"),
    LPMSlowConfig: ({"form": "linear"}, "relative_floor", 0.2, "its default 0.1 with form='linear'"),
    LPMAnchoredConfig: ({"form": "linear"}, "relative_floor", 0.2, "its default 0.1 with form='linear'"),
    LPMReleaseConfig: ({"form": "linear"}, "weight", 0.5, "with form='linear', where it has no effect"),
    NetworksConfig: ({}, "ridge", 0.5, "with networks, where it has no effect"),
}


@pytest.mark.parametrize("config", IDLE, ids=lambda config: config.__name__)
def test_a_setting_without_effect_is_refused(config: type) -> None:
    given, name, value, message = IDLE[config]
    config(**given)
    with pytest.raises(ValueError, match=rf"^{config.__name__}\.{name}: expected .*{message}"):
        config(**given, **{name: value})
