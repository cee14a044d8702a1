"""One run, described completely; written to and read from `config.toml`."""

import dataclasses
import tomllib
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, Self

from lpm.agents import a2c, ppo
from lpm.agents.agent import PolicyKind
from lpm.core.mixer import MixerConfig
from lpm.core.registry import configure, lookup
from lpm.core.settings import UNIONS, Bound, Settings, check_type
from lpm.envs.third_party import Wrap
from lpm.storage.files import to_toml
from lpm.utils.suggest import suggest

Algorithm = Literal["ppo", "a2c"]
AgentConfig = ppo.PPOConfig | a2c.A2CConfig

PRESETS: Mapping[str, Mapping[str, AgentConfig]] = {"ppo": ppo.PRESETS, "a2c": a2c.PRESETS}

MAX_SIZE = 10**8
"""Of every whole number among the settings of learner, bonus and mixer, and of the steps in a block."""


def _from_to(least: int, most: int) -> Bound:
    return Bound(f"{least} to {most:,}", lambda value: least <= value <= most)


@dataclass(frozen=True)
class RunConfig(Settings):
    """Everything that decides the numbers of a run. Two runs of equal configs on one machine are equal bit for bit.

    >>> config = RunConfig("CartPole-v1", bonus="none", steps=1000)
    >>> RunConfig.from_toml(config.to_toml()) == config
    True
    """

    env_id: str
    """Gymnasium id of the environment."""
    algo: Algorithm = "ppo"
    """The learner."""
    bonus: str = "lgn"
    """Name of the bonus; "none" for none."""
    policy: PolicyKind = "learnt"
    """"uniform" draws actions uniformly and learns nothing, "cell_counts" learns from counts of the environment's own
    cells (with the bonus "none"): the two references for coverage."""
    steps: Annotated[int, _from_to(1, 10**15)] = 1_000_000
    """Environment steps, summed over environments; rounded up to whole blocks."""
    seed: Annotated[int, _from_to(0, 2**63 - 1)] = 0
    """Seed of environments, networks, actions and bonus."""
    device: str = "auto"
    """Where networks live: auto, cpu, cuda, mps."""
    threads: Annotated[int, _from_to(1, 1024)] = 1  # torch ends the process when it is asked for too many
    """Threads of torch. More than one helps only with large networks on an idle machine."""
    log_every: Annotated[int, _from_to(0, 10**15)] = 0
    """Steps between two lines of the metrics; 0: about a thousand lines a run."""
    env: dict[str, Any] = field(default_factory=dict)
    """Keyword arguments of the environment."""
    wrap: Wrap = "auto"
    """How observations become one array: auto (only where needed; MiniGrid's codes one-hot, ALE's games preprocessed),
    flatten (one-hot for discrete values), image (the picture of a dictionary) or none."""
    agent: AgentConfig | None = None
    """Settings of the learner; None: its defaults."""
    bonus_settings: Any = None
    """Settings of the bonus, an instance of its Config; None: its defaults."""
    mixer: MixerConfig = field(default_factory=MixerConfig)
    """How task reward and bonus are combined."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.policy == "cell_counts" and self.bonus != "none":
            raise ValueError(f"policy 'cell_counts' is a bonus itself: expected the bonus 'none', got {self.bonus!r}")
        default = PRESETS[self.algo]["default"]
        if self.agent is None:
            object.__setattr__(self, "agent", default)
        elif type(self.agent) is not type(default):
            raise ValueError(f"agent: expected {type(default).__name__} for {self.algo}, got {self.agent!r}")
        if self.bonus_settings is None:
            object.__setattr__(self, "bonus_settings", configure(self.bonus))
        elif ":" in self.bonus and isinstance(self.bonus_settings, Mapping):
            pass  # of a class that is not imported: a description, from which nothing can be built
        elif not isinstance(self.bonus_settings, lookup(self.bonus).bonus.Config):
            raise ValueError(f"bonus_settings: expected the Config of {self.bonus!r}, got {self.bonus_settings!r}")
        block = {"num_envs * rollout_steps": self.learner.num_envs * self.learner.rollout_steps}
        for name, value in {**self.flat(), **block}.items():  # sizes of networks, memories, blocks
            if isinstance(value, int) and value > MAX_SIZE and not name.startswith(("run.", "env.")):
                raise ValueError(f"{name}: expected at most {MAX_SIZE:,}, got {value}")

    @property
    def learner(self) -> AgentConfig:
        assert self.agent is not None
        return self.agent

    def flat(self) -> dict[str, Any]:
        """The values of `to_dict` under dotted names, such as "ppo.network.hidden"."""
        return _flatten(self.to_dict())

    def to_dict(self) -> dict[str, Any]:
        """Nested plain values: the tables of `config.toml`."""
        whole = dataclasses.asdict(self)
        # as in files that were written before there was a choice
        if self.wrap == "auto":
            del whole["wrap"]
        if self.mixer.clip_task is None:
            del whole["mixer"]["clip_task"]
        env, agent, bonus, mixer = (whole.pop(name) for name in ("env", "agent", "bonus_settings", "mixer"))
        return {"run": whole, "env": env, self.algo: agent, "bonus": bonus, "mixer": mixer}

    def to_toml(self) -> str:
        return to_toml(self.to_dict())

    @classmethod
    def from_toml(cls, text: str, *, imports: bool = True) -> Self:
        return cls.from_dict(tomllib.loads(text), imports=imports)

    @classmethod
    def from_dict(cls, tables: Mapping[str, Any], *, imports: bool = True) -> Self:
        """Undo `to_dict`; lists may stand for tuples, as after JSON.

        Without `imports` a bonus given as `package.module:Class` is only described.
        """
        run, bonus = tables.get("run", {}), tables.get("bonus", {})
        if lacking := {"run", "mixer", *({run.get("algo")} & PRESETS.keys())} - tables.keys():
            raise ValueError(f"tables: expected one {sorted(lacking)[0]!r}, got {', '.join(tables) or 'none'}")
        if imports or ":" not in run["bonus"]:
            bonus = _restore(lookup(run["bonus"]).bonus.Config, bonus)
        agent = type(PRESETS[run["algo"]]["default"])
        env, mixer = _tuples_to_lists(tables.get("env", {})), _restore(MixerConfig, tables["mixer"])
        return cls(**run, env=env, agent=_restore(agent, tables[run["algo"]]), bonus_settings=bonus, mixer=mixer)

    def differences(self, other: Self) -> list[str]:
        """One line for each field in which another config differs from this one."""
        mine, theirs = ({n: repr(_tuples_to_lists(v)) for n, v in c.flat().items()} for c in (self, other))
        pairs = {name: (mine.get(name, "not set"), theirs.get(name, "not set")) for name in sorted({*mine, *theirs})}
        return [f"{name}: {saved} -> {given}" for name, (saved, given) in pairs.items() if saved != given]


def _restore(cls: type, table: Mapping[str, Any]) -> Any:
    """A dataclass from its table. What TOML cannot say is left out there, so a missing optional field was None."""
    hints = typing.get_type_hints(cls)
    values: dict[str, Any] = {}
    for item in dataclasses.fields(cls):
        hint = hints[item.name]
        if item.name in table:
            value = table[item.name]
            nested = isinstance(hint, type) and dataclasses.is_dataclass(hint)
            if not nested:
                check_type(f"{cls.__name__}.{item.name}", value, hint)
            values[item.name] = _restore(hint, value) if nested else _lists_to_tuples(value)
        elif typing.get_origin(hint) in UNIONS and type(None) in typing.get_args(hint):
            values[item.name] = None
    unknown = set(table) - {item.name for item in dataclasses.fields(cls)}
    if unknown:
        name = sorted(unknown)[0]
        raise ValueError(f"{cls.__name__} has no field {name!r}{suggest(name, hints)}")
    return cls(**values)


def _lists_to_tuples(value: Any) -> Any:
    return tuple(_lists_to_tuples(item) for item in value) if isinstance(value, list) else value


def _tuples_to_lists(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _tuples_to_lists(item) for key, item in value.items()}
    return [_tuples_to_lists(item) for item in value] if isinstance(value, (list, tuple)) else value


def _flatten(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in table.items():
        if isinstance(value, Mapping):
            flat |= _flatten(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat
