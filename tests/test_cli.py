"""The command line: dispatch, listing, errors."""

import dataclasses

import pytest

import lpm
from lpm import __version__
from lpm.cli import COMMANDS, main
from lpm.commands.bonuses import field_docs
from lpm.core.registry import lookup


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"lpm-exploration {__version__}\n"


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    text = capsys.readouterr().out
    assert all(name in text for name in COMMANDS)


def test_unknown_command_suggests(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bonus"]) == 2
    assert "did you mean bonuses?" in capsys.readouterr().err


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_every_command_has_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main([command, "--help"])
    assert stopped.value.code == 0
    assert f"lpm {command}" in capsys.readouterr().out


def test_bonuses_lists_lpm_with_reference_variants_and_fields(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bonuses", "lpm", "lpm_release"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    for expected in ("Learning progress", "Hou, An & Du 2026", "release-montezuma", "queue_size=None", "form='exp'"):
        assert expected in text


def test_bonuses_marks_the_one_to_use(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bonuses"]) == 0
    headings = [line for line in capsys.readouterr().out.splitlines() if line and not line.startswith(" ")]
    assert headings[0].startswith("lgn ")
    assert "start with this one" in headings[0]
    assert sorted(line.split()[0] for line in headings) == lpm.names()
    assert not [line for line in headings if "(" not in line]


@pytest.mark.parametrize("name", ["lgn", "rnd", "lpm", "lpm_release"])
def test_named_bonuses_are_shown_with_the_meaning_of_each_field(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    config = lookup(name).bonus.Config
    assert main(["bonuses", name]) == 0
    text = " ".join(capsys.readouterr().out.split())
    meanings = field_docs(config)
    assert set(meanings) >= {field.name for field in dataclasses.fields(config)}
    for field, meaning in meanings.items():
        assert f" {field}=" in text
        assert " ".join(meaning.split()) in text


def test_errors_are_one_line_and_status_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bonuses", "lmp"]) == 1
    assert "lpm bonuses: unknown bonus 'lmp'; did you mean lpm" in capsys.readouterr().err
