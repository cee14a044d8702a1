"""`lpm train ENV_ID`: train PPO or A2C with a bonus, and go on after an interruption."""

import argparse
import dataclasses
import re
import sys
from collections.abc import Sequence
from dataclasses import field, make_dataclass
from pathlib import Path
from time import monotonic
from typing import Annotated, Any, Self, get_type_hints

import tyro
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from lpm.agents import Agent, MixerConfig, NonFiniteError
from lpm.commands.bonuses import field_docs
from lpm.commands.terminal import INTERRUPTED, terminal
from lpm.core.group import ProcessGroup, WorkerLost
from lpm.core.registry import configure
from lpm.envs.third_party import reading_note
from lpm.experiments.experiment import expect_known
from lpm.runs.checkpoint import CheckpointError, checkpoints
from lpm.runs.config import PRESETS, RunConfig
from lpm.runs.distributed import TIMEOUT_SECONDS, expect_same, joined
from lpm.runs.folder import RunFolder
from lpm.runs.metrics import Service
from lpm.runs.train import TrainOptions, train
from lpm.storage.files import printable
from lpm.sweeps.fields import literal
from lpm.sweeps.job import keep_freed_memory

DESCRIPTION = """Train an agent on task reward plus bonus.

Settings of the environment are given as --env.NAME VALUE, for example --env.noise True. Which --ppo.*, --a2c.* and
--bonus.* options there are follows from --algo and --bonus: name these before asking for --help."""


STEPS = """Environment steps, summed over environments. With --resume, more than before extends the run: schedules \
(learning rate, entropy) then take the value that belongs to steps / new total."""
LONGEST_TIMEOUT = 1e6
"""Eleven days; torch counts in nanoseconds, and overflows."""
SHARED = ("policy", "seed", "wrap", "device", "threads", "log_every")
"""Fields of the run's config that are options as they are."""


def run(args: Sequence[str]) -> int:
    """Parse and train; of several processes rank 0 parses, and tells the others, which were given the same words."""
    keep_freed_memory()
    try:
        with joined(_timeout(list(args))) as group:
            expect_same(group, {f"argument {i}": word for i, word in enumerate(args, 1)})
            return _train(*group.broadcast(lambda: _plan(args)), group)
    except WorkerLost as error:  # before there was anything to go on with
        print(f"lpm train: {printable(str(error))}", file=sys.stderr)
        return 1


def _timeout(words: list[str]) -> float:
    """Before everything else: until the processes have found each other they can be told nothing."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--timeout-seconds", "--timeout_seconds", type=float, default=TIMEOUT_SECONDS)
    timeout: float = parser.parse_known_args(words)[0].timeout_seconds
    if not 0 < timeout <= LONGEST_TIMEOUT:
        wanted = f"a number above 0 and at most {LONGEST_TIMEOUT:,.0f}"
        raise ValueError(f"--timeout-seconds: expected {wanted}, got {timeout}")
    return timeout


def _plan(args: Sequence[str]) -> tuple[RunConfig, Path, TrainOptions, bool]:
    """What to train, where to, how, and whether it is an earlier run."""
    words, env = _take_env(list(args))
    choices, saved = _choices(words)
    options = _options(choices, saved)
    given: Any = tyro.cli(options, args=words, prog="lpm train", description=DESCRIPTION, use_underscores=False)
    config = _config(given, choices, saved, env)
    name = re.sub(r"[/:]", "-", f"{config.env_id}-{config.algo}-{config.bonus}-{config.seed}")
    out = given.out or Path("runs") / name
    return config, out, TrainOptions(given.checkpoint_seconds, given.log, extend=True), given.resume


# ---- parsing --------------------------------------------------------------------------------------------------
def _take_env(words: list[str]) -> tuple[list[str], dict[str, Any]]:
    """Split off --env.NAME VALUE and --env.NAME=VALUE; values as in `literal`, or none."""
    rest: list[str] = []
    env: dict[str, Any] = {}
    queue = iter(words)
    for word in queue:
        if not word.startswith("--env."):
            rest.append(word)
            continue
        name, has_value, value = word.removeprefix("--env.").partition("=")
        if not has_value:
            value = next(queue, "")
        if not name or not value or value.startswith("--"):
            raise ValueError(f"expected --env.NAME VALUE, got {word!r} without a value")
        env[name.replace("-", "_")] = None if value.lower() == "none" else literal(value)
    return rest, env


def _choices(words: list[str]) -> tuple[argparse.Namespace, RunConfig | None]:
    """The options that decide which other options there are, and the run to go on with."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for name in ("--algo", "--bonus", "--preset", "--variant"):
        parser.add_argument(name, default=None)
    parser.add_argument("--out", type=Path, default=None)
    parser.add_argument("--resume", action="store_true")
    found, rest = parser.parse_known_args(words)
    saved = None
    if found.resume:
        if found.out is None:
            runs = [word for word in rest if not word.startswith("-") and RunFolder(Path(word)).config_file.exists()]
            if not runs:
                named = "".join(f"; {word} holds none" for word in rest[:1] if not word.startswith("-"))
                raise ValueError(f"--resume: say which run: lpm train RUN --resume, or --out RUN --resume{named}")
            words.remove(runs[0])
            words += ["--out", runs[0]]
            found.out = Path(runs[0])
        saved = RunFolder.open(found.out).config
    found.algo = found.algo or (saved.algo if saved else RunConfig.algo)
    found.bonus = found.bonus or (saved.bonus if saved else RunConfig.bonus)
    expect_known("algorithm", found.algo, PRESETS)
    expect_known(f"preset of {found.algo}", found.preset or "default", PRESETS[found.algo])
    return found, saved


def _options(choices: argparse.Namespace, saved: RunConfig | None) -> type:
    """The dataclass of all options, with the chosen learner's and bonus's settings inside."""
    same_agent = saved is not None and saved.algo == choices.algo and choices.preset is None
    agent = saved.agent if saved and same_agent else PRESETS[choices.algo][choices.preset or "default"]
    same_bonus = saved is not None and saved.bonus == choices.bonus and choices.variant is None
    settings = saved.bonus_settings if saved and same_bonus else configure(choices.bonus, choices.variant)

    def option(kind: Any, text: str, default: Any, **how: Any) -> tuple[Any, Any]:
        return Annotated[kind, tyro.conf.arg(help=text, **how)], field(default=default)

    def table(value: Any) -> tuple[Any, Any]:
        return type(value), field(default_factory=lambda: value)

    base = saved or RunConfig("", bonus="none")
    kinds, texts = get_type_hints(RunConfig), field_docs(RunConfig)
    env_help = "Gymnasium id of the environment; not needed with --resume."
    weight_help = "How much the bonus counts beside the task: short for --mixer.weight, 0.3."
    timeout_help = "Under torchrun: how long a process may keep the others waiting."
    entries: dict[str, tuple[Any, Any]] = {
        "env_id": option(tyro.conf.Positional[str], env_help, base.env_id, metavar="ENV_ID"),
        "bonus_name": option(str, "Name of the bonus; see `lpm bonuses`.", choices.bonus, name="bonus"),
        "variant": option(str | None, "Named settings of the bonus, such as paper.", None),
        "algo": option(str, "The learner: ppo or a2c.", choices.algo),
        "preset": option(str | None, f"Named settings of it: {', '.join(PRESETS[choices.algo])}.", None),
        "steps": option(float, STEPS, float(base.steps)),
        "weight": option(float | None, weight_help, None),
        **{name: option(kinds[name], " ".join(texts[name].split()), getattr(base, name)) for name in SHARED},
        "out": option(Path | None, "Folder of the run; runs/ENV-ALGO-BONUS-SEED if not given.", None),
        "resume": option(bool, "Go on with a run: lpm train RUN --resume. Its settings are the defaults.", False),
        "checkpoint_seconds": option(float, "Time between two checkpoints; 0: after every update.", 60.0),
        "log": option(Service, "Also send metrics to a service.", "none"),
        "timeout_seconds": option(float, timeout_help, TIMEOUT_SECONDS),
        choices.algo: table(agent),
        "mixer": table(saved.mixer if saved else MixerConfig()),
        **({"bonus": table(settings)} if dataclasses.fields(settings) else {}),
    }
    return make_dataclass("Train", [(name, kind, default) for name, (kind, default) in entries.items()], frozen=True)


def _config(given: Any, choices: argparse.Namespace, saved: RunConfig | None, env: dict[str, Any]) -> RunConfig:
    if not given.env_id:
        raise ValueError("say which environment to train in: lpm train ENV_ID (see `lpm envs`)")
    if not given.steps.is_integer():  # nor are inf and nan
        raise ValueError(f"--steps: expected a whole number, got {given.steps}")
    return RunConfig(
        given.env_id,
        given.algo,
        given.bonus_name,
        steps=int(given.steps),
        env={**(saved.env if saved else {}), **env},
        agent=getattr(given, choices.algo),
        bonus_settings=getattr(given, "bonus", None),
        mixer=given.mixer if given.weight is None else dataclasses.replace(given.mixer, weight=given.weight),
        **{name: getattr(given, name) for name in SHARED},
    )


# ---- training -------------------------------------------------------------------------------------------------
def _train(config: RunConfig, out: Path, options: TrainOptions, resume: bool, group: ProcessGroup) -> int:
    if group.rank:
        return INTERRUPTED if train(config, out, options, resume=resume, group=group).status == "interrupted" else 0
    console = terminal()
    again = f"lpm train --out {out} --resume"
    shared = "" if group.is_single else f" on {group.size} processes"
    console.print(f"{config.env_id}, {config.algo} + {config.bonus}, seed {config.seed}, into {out}{shared}")
    if note := reading_note(config.env_id, config.wrap, config.env):
        console.print(note)
    try:
        with _Display(console, config) as display:
            outcome = train(config, out, options, resume=resume, log=display.log, on_cycle=display.show, group=group)
    except (WorkerLost, NonFiniteError, CheckpointError) as error:
        what = {WorkerLost: "On as many processes as you like", NonFiniteError: "The last checkpoint is kept"}
        hint = f"{what.get(type(error), 'Once this is repaired')}: {again}"
        if isinstance(error, NonFiniteError) and not checkpoints(RunFolder(out).checkpoints):
            hint = "There is no checkpoint yet to go on from."
        print(f"lpm train: {printable(str(error))}\n{hint}", file=sys.stderr)
        return 1
    console.print(f"status        {outcome.status}\nsteps         {outcome.steps:,}")
    metrics = display.numbers(outcome.metrics) or "none yet"
    console.print(f"time          {outcome.seconds:,.1f} s\nlast metrics  {metrics}")
    console.print(f"look at it    lpm {'watch' if display.renders else 'report'} {out}")
    if outcome.status == "interrupted":
        console.print(f"Interrupted at step {outcome.steps:,}, and saved. Go on with: {again}")
        return INTERRUPTED
    return 0


class _Display:
    """A progress bar on a terminal, a line now and then elsewhere."""

    quiet_seconds = 30.0

    def __init__(self, console: Console, config: RunConfig) -> None:
        self.console = console
        speed, numbers = TextColumn("{task.fields[speed]:>9}"), TextColumn("{task.fields[numbers]}")
        columns = (speed, BarColumn(bar_width=None), MofNCompleteColumn(), TimeRemainingColumn(compact=True), numbers)
        self.progress = Progress(*columns, console=console, disable=not console.is_terminal)
        self.task = self.progress.add_task("", total=config.steps, speed="", numbers="")
        self.rewarded = config.mixer.weight > 0
        self.renders = False
        self.first: tuple[float, int] | None = None
        self.said = monotonic()

    def __enter__(self) -> Self:
        self.progress.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.progress.stop()

    def log(self, line: str) -> None:
        self.console.print(line)

    def show(self, agent: Agent, metrics: dict[str, float]) -> None:
        now = monotonic()
        self.renders = "rgb_array" in agent.collector.envs.metadata.get("render_modes", ())
        if self.first is None:
            # the first update pays for warming up: speed counts from its end
            self.first = (now, agent.steps)
            return
        speed = (agent.steps - self.first[1]) / max(now - self.first[0], 1e-9)
        numbers = self.numbers(metrics)
        self.progress.update(self.task, completed=agent.steps, speed=f"{speed:,.0f}/s", numbers=numbers)
        if not self.console.is_terminal and now - self.said > self.quiet_seconds:
            self.said = now
            self.console.print(f"step {agent.steps:,}  {speed:,.0f}/s  {numbers}")

    def numbers(self, metrics: dict[str, float]) -> str:
        """What is worth a look; a bonus that counts for nothing is not."""
        shown = [("return", "return", "{:.2f}"), ("coverage", "coverage", "{:.1%}"), ("noise", "noise_share", "{:.0%}")]
        shown[1:1] = [("bonus", "bonus/raw_mean", "{:+.3g}")] if self.rewarded else []
        return "  ".join(f"{label} {form.format(metrics[name])}" for label, name, form in shown if name in metrics)
