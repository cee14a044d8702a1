"""The page as text: structure, escaping, size. How it behaves in a browser is in test_browser.py."""

from __future__ import annotations

import base64
import dataclasses
import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest
from synthetic_evidence import hostile, mountain_car

from lpm.experiments.evidence import Curve, Heatmap
from lpm.report.analysis import analyse
from lpm.report.families import DASHES, FAMILIES, RECOMMENDED, TINTS, family_of, looks
from lpm.report.html import Payload, page, write_page


class Tree(HTMLParser):
    """Collects elements and text, and checks that they nest."""

    void = frozenset({"meta", "link", "img", "br"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in self.void:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


def data_of(text: str) -> dict:
    match = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)
    assert match is not None
    return json.loads(match.group(1))


@pytest.fixture(scope="module")
def plain() -> str:
    return page([analyse(mountain_car())], ["somewhere/seed_1.json: skipped: half of it is missing"])


def test_structure(plain):
    tree = Tree(plain)
    ids = [a["id"] for _, a in tree.elements if a.get("id")]
    assert len(ids) == len(set(ids))
    assert {"summary", "mountain-car-short", "data"} <= set(ids)
    links = {a["href"] for a in tree.all("a")}
    assert links == {"#ranking", "#summary", "#mountain-car-short"}
    words = " ".join(tree.words)
    for expected in (
        "LPM leads: ", "by all seeds together", "Every number is per seed",
        "Table 2 · short scale · 5 seeds", "MountainCar with a noisy action", "91.22 ± 2.04", "LPM beats NGU",
        "no runs of ngu", "How the verdicts are reached", "Where the agents went",
        "mixer.weight", "2.13.0", "half of it is missing", "runs/stochastic/eme/seed_4.json", "drop (%)",
    ):  # fmt: skip
        assert expected in words


def test_the_page_asks_about_noise_only_where_there_is_some(plain):
    analysis = analyse(mountain_car())
    noisy = dict.fromkeys(analysis.evidence.conditions, "noise action")
    other = dataclasses.replace(analysis, evidence=dataclasses.replace(analysis.evidence, conditions=noisy))
    assert "noise" in re.findall("<h1>(.*?)</h1>", page([other]))[0]
    assert "noise" not in re.findall("<h1>(.*?)</h1>", plain)[0]


def test_every_chart_has_its_data(plain):
    tree, data = Tree(plain), data_of(plain)
    charts = [int(a["data-chart"]) for a in tree.all("figure") if "data-chart" in a]
    assert sorted(charts) == list(range(len(data["charts"])))
    heat = [int(a["data-heat"]) for a in tree.all("canvas")]
    assert sorted(heat) == list(range(len(data["heat"])))
    used = {s["m"] for chart in data["charts"] for s in chart.get("series", []) + chart.get("rows", [])}
    assert used <= set(data["methods"])


def test_every_section_has_its_own_names_of_methods():
    other = dataclasses.replace(mountain_car(methods=2), name="maze", methods={"lpm": "LPM (log)", "ensemble": "E"})
    labels = data_of(page([analyse(other), analyse(mountain_car(methods=2))]))["labels"]
    assert labels["maze-short"] == {"lpm": "LPM (log)", "ensemble": "E"}
    assert labels["mountain-car-short"] == {"lpm": "LPM", "ensemble": "Ensemble"}


def test_nothing_is_fetched(plain):
    assert not re.search(r'(?:src|href)="(?!data:|#)', plain)
    assert "url(" not in plain
    assert "@import" not in plain
    policy = next(a["content"] for a in Tree(plain).all("meta") if a.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    assert policy.startswith("default-src 'none'; img-src data:;")


def test_the_policy_allows_exactly_the_script_of_the_page(plain):
    import hashlib

    script = plain.rsplit("<script>", 1)[1].split("</script>")[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'\"" in plain


def test_names_are_text():
    text = page([analyse(hostile())], ["</ul><script>alert(1)</script>"])
    tree = Tree(text)
    assert len(tree.all("script")) == 2
    assert len(tree.all("style")) == 1
    assert not any("onerror" in attributes for _, attributes in tree.elements)
    assert not tree.all("img")
    data = data_of(text)
    assert "</script><script>window.hacked=1</script>" in data["methods"]
    (group,) = (a["data-methods"] for a in tree.all("div") if "data-methods" in a)
    assert "</script><script>window.hacked=1</script>" in json.loads(group or "")


def test_many_conditions_have_one_column_each():
    base = mountain_car(methods=2)
    more = {"c": "third", "d": "fourth"}
    extra = tuple(dataclasses.replace(s, condition=c) for c in more for s in base.scores[:2])
    wide = dataclasses.replace(base, conditions=dict(base.conditions) | more, scores=base.scores + extra, claims=())
    text = page([analyse(wide)])
    Tree(text)
    heads = [head for head in re.findall(r"<thead>(.*?)</thead>", text, re.S) if "fourth" in head][-1]
    assert heads.count('colspan="1"') == 4
    assert ">paper<" not in heads


def test_one_seed_is_said():
    assert "one seed: no interval" in page([analyse(mountain_car(seeds=1))])


def test_nothing_at_all():
    Tree(page([]))
    bare = dataclasses.replace(
        mountain_car(), scores=(), curves=(), heatmaps=(), claims=(), settings={}, versions={}, warnings=()
    )
    text = page([analyse(bare)])
    Tree(text)
    assert "no runs" in text


def test_same_page_every_time(tmp_path):
    first, second = (page([analyse(mountain_car(methods=2))]) for _ in range(2))
    assert first == second
    size = write_page(tmp_path / "deep" / "page.html", [analyse(mountain_car(methods=2))])
    assert (tmp_path / "deep" / "page.html").read_text(encoding="utf-8") == first
    assert size == len(first.encode())


def test_a_full_page_stays_small():
    """Sixteen experiments, nine methods, two conditions of 72 × 48 heat maps, curves of 5,000 points."""
    one = mountain_car(seeds=3)
    rng = np.random.default_rng(0)
    steps = tuple(float(x) for x in range(5000))
    walk = tuple(rng.normal(size=5000).cumsum().tolist())
    curves = tuple(Curve(c.condition, c.metric, c.method, steps, {0: walk, 1: walk}) for c in one.curves) * 2
    maps = tuple(Heatmap(h.condition, h.method, rng.integers(0, 99, (48, 72)) * 1.0) for h in one.heatmaps)
    full = analyse(dataclasses.replace(one, curves=curves, heatmaps=maps))
    text = page([full] * 16)
    assert len(text.encode()) < 6_000_000


def test_methods_keep_their_look():
    assert looks(["none", "x", "lpm"])["lpm"] == looks(["lpm", "rnd"])["lpm"]
    many = looks(f"m{i}" for i in range(len(TINTS) * DASHES))
    assert len(set(many.values())) == len(TINTS) * DASHES
    assert {
        look.family for look in looks(["x", "none", "rnd", "etd", "icm", "ensemble", "lpm-slow", "lgn"]).values()
    } == set(FAMILIES)
    assert len(looks(f"m{i}" for i in range(100))) == 100


def test_the_recommended_bonus_is_first_and_alone_in_its_hue():
    base = mountain_car(methods=3)
    renamed = {"lpm": "lpm", "ensemble": "ensemble", "rnd": RECOMMENDED}
    ours = tuple(dataclasses.replace(s, method=renamed[s.method]) for s in base.scores)
    lines = tuple(dataclasses.replace(c, method=renamed[c.method]) for c in base.curves)
    evidence = dataclasses.replace(
        base,
        methods={"lpm": "LPM", "ensemble": "Ensemble", RECOMMENDED: "Ours"},
        scores=ours,
        curves=lines,
        heatmaps=(),
    )
    text = page([analyse(evidence)])
    (legend,) = (json.loads(a["data-methods"] or "") for a in Tree(text).all("div") if "data-methods" in a)
    assert legend == [RECOMMENDED, "lpm", "ensemble"]
    data = data_of(text)
    assert data["recommended"] == RECOMMENDED
    assert data["methods"][RECOMMENDED] == {"family": "recommended", "tint": 0.0, "dash": 0}
    assert RECOMMENDED in data["focus"]["mountain-car-short"]
    assert [family_of(m) for m in legend].count("recommended") == 1


def test_heat_maps_are_encoded_on_a_log_scale():
    payload = Payload()
    index = payload.heatmap(np.array([[0.0, 1.0], [100.0, np.nan]]), 1.0, 100.0)
    stored = payload.heat[index]
    assert list(base64.b64decode(stored["cells"])) == [0, 1, 254, 255]
    assert (stored["rows"], stored["columns"]) == (2, 2)


def test_unusable_grids_are_left_out():
    for bad in (np.full((2, 2), np.nan), np.array([[-1.0]]), np.array([[np.inf]]), np.zeros(3), np.zeros((0, 2))):
        heatmaps = (Heatmap("deterministic", "lpm", bad),)
        assert analyse(dataclasses.replace(mountain_car(), heatmaps=heatmaps)).maps == {}
    text = page(
        [analyse(dataclasses.replace(mountain_car(), heatmaps=(Heatmap("deterministic", "lpm", np.zeros((0, 2))),)))]
    )
    assert "Where the agents went" not in text
