"""The scorecard as one self-contained page: in words, its scores, the baselines beside it, maps and curves."""

from collections.abc import Sequence
from typing import Any

from lpm.report.analysis import analyse
from lpm.report.families import family_of
from lpm.report.html import Payload, document
from lpm.report.text import flatten
from lpm.suite.axes import AXES, LEAST, MOST
from lpm.suite.environments import ENVIRONMENTS, LABELS
from lpm.suite.scorecard import Scorecard, estimate_of, hundredths, in_order, in_words, rows_of
from lpm.sweeps import Result

LOWEST, HIGHEST = LEAST - 0.1, MOST + 0.1
"""Ends of the drawn scale; what lies beyond is drawn at the end, with its number beside it."""
TITLES = {"axes": "Axes", "noise": "Coverage by kind of noise", "environments": "Tasks"}


def scorecard_page(card: Scorecard, others: Sequence[Scorecard], results: Sequence[Result]) -> str:
    """`others` are scorecards to compare with, short ones too; `results` the bonus's runs and those of references."""
    analyses = []
    for environment in ENVIRONMENTS.values():
        experiment = environment.experiment.opened([card["name"]])
        if own := [result for result in results if result["settings"]["experiment"] == experiment.name]:
            analyses.append(analyse(experiment.evidence(own)))
    rivals = [other for other in others if other["name"] != card["name"]]

    def marks(kind: str, name: str) -> list[Any]:
        values = [estimate_of(rival, kind, name).get("value") for rival in rivals]
        return [value for value in values if value is not None]

    settings = {"bonus": card["bonus"], "fields": card["fields"] or "library defaults", "seeds": card["seeds"]}
    settings |= {"reference seeds": card["reference_seeds"], "machine": card["machine"]}
    names = {analysis.name: analysis.evidence.name.removeprefix("suite-") for analysis in analyses}
    return document(
        "scorecard.html",
        packages=["lpm.suite"],
        methods=dict.fromkeys(method for analysis in analyses for method in analysis.methods),
        title=f"{card['label']}: scorecard",
        lead="Exploration under noise: 0 is what random actions reach, 1 what a count of the true cells does.",
        sections={"scorecard": "Scorecard", "baselines": "Baselines", "conditions": "Noise", **names},
        payload=Payload(),
        card=card,
        words=in_words(card).replace(" %", "\u00a0%"),  # no line ends before the sign
        family=family_of(card["bonus"], {card["bonus"]: card.get("family", "")}),
        rivals=rivals,
        rows=[{"kind": kind, "label": words, **estimate_of(card, kind, name), "marks": marks(kind, name)}
              for kind, name, words in rows_of(card)],
        ranked=in_order([card, *rivals]),
        environments={name: ENVIRONMENTS[name] for name in ENVIRONMENTS if name in card["environments"]},
        present={key.partition("/")[2] for key in card["conditions"]},
        settings_shown=dict(flatten(settings)),
        analyses=analyses,
        place=_place,
        hundredths=hundredths,
        TITLES=TITLES,
        AXES=AXES,
        LABELS=LABELS,
        LEAST=LEAST,
        MOST=MOST,
    )  # fmt: skip


def _place(value: float) -> str:
    """In percent of the drawn scale."""
    return f"{100 * (min(max(value, LOWEST), HIGHEST) - LOWEST) / (HIGHEST - LOWEST):.1f}"
