"""What reproduces "Learning Progress Monitoring" with the library `lpm`: experiments, verdicts on the claims, theory.

One module per table or figure. `lpm` finds them through the entry point `lpm.papers`, and never imports this package.
"""

from lpm.experiments.papers import Paper

PAPER = Paper(
    experiments={
        name: f"lpm_paper.{name.replace('-', '_')}:EXPERIMENT"
        for name in (
            "mnist", "maze", "mountain-car", "atari", "montezuma", "lava", "overhead", "ablation", "lgn-parts",
            "minigrid", "deep-sea", "hostile",
        )
    } | {"lgn-parts-minigrid": "lpm_paper.lgn_parts:ON_MINIGRID"},
    commands={"theory": ("lpm_paper.theory_command", "check the theorems of the LPM paper by running them")},
)  # fmt: skip
