"""RIDE's noisy TV in MiniGrid: rooms to cross, and in the first one a ball whose colour the agent can change at will.

Rebuilt from the description in Raileanu and Rocktäschel (2020): the ball's colour is drawn anew, uniformly, whenever
the agent takes the action `drop`. Needs minigrid; `lpm.envs` registers `lpm/MultiRoomNoisyTV-N7-S4-v0`.
"""

from typing import Any

from minigrid.core.constants import COLOR_NAMES
from minigrid.core.world_object import Ball
from minigrid.envs.multiroom import MultiRoomEnv


class MultiRoomNoisyTV(MultiRoomEnv):
    """MultiRoom with the ball; `info["noise"]` says whether a step drew its colour."""

    def _gen_grid(self, width: int, height: int) -> None:
        super()._gen_grid(width, height)  # type: ignore[no-untyped-call]
        self._ball = Ball(self._rand_elem(COLOR_NAMES))  # type: ignore[no-untyped-call]
        self.place_obj(self._ball, self.rooms[0].top, self.rooms[0].size)

    def reset(self, **options: Any) -> Any:
        observation, info = super().reset(**options)
        return observation, {**info, "noise": False}

    def step(self, action: Any) -> Any:
        """As in MultiRoom; `drop` draws the colour before the agent looks."""
        drawn = bool(action == self.actions.drop)
        if drawn:
            self._ball.color = self._rand_elem(COLOR_NAMES)
        observation, reward, terminated, truncated, info = super().step(action)
        return observation, reward, terminated, truncated, {**info, "noise": drawn}
