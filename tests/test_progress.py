"""One progress display: plain lines in a log, a bar in a terminal, nothing when quiet or short."""

from __future__ import annotations

import io

import pytest

from vpunn import _progress
from vpunn._progress import progress_bar
from vpunn._show import rich_table


def test_away_from_a_terminal_one_line_per_step_and_stage(capsys, monkeypatch):
    with progress_bar("fitting [3] rows", 4) as bar, bar.stage("too soon for another line", 2):
        pass
    assert capsys.readouterr().err == "fitting [3] rows\n"
    monkeypatch.setattr(_progress, "SPACING", 0.0)
    with progress_bar("fitting [3] rows", 4) as bar:
        bar()
        bar.say("loss 1")
        with bar.stage("training heads", 2, steps=10) as advance:
            advance(10)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == ["fitting [3] rows", "   25 %  training heads", "fitting [3] rows: loss 1"]


def test_short_and_quiet_steps_say_nothing(capsys, monkeypatch):
    with progress_bar("short", 4, seconds=0.1) as bar:
        bar(4)
    with progress_bar("unwanted", verbose=False) as bar:
        bar.total = 5
        assert bar.total is None
    monkeypatch.setattr(_progress, "quiet", True)
    with progress_bar("silenced", 4, seconds=99, verbose=True) as bar:
        bar.update(4)
        bar.reset()
        bar.close()
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(_progress, "quiet", False)
    with progress_bar("long", 4, seconds=99):
        pass
    assert capsys.readouterr().err == "long\n"


def test_in_a_terminal_stages_fill_their_share_of_the_bar(monkeypatch, capsys):
    import rich.console

    screen = io.StringIO()
    real = rich.console.Console
    monkeypatch.setattr(
        rich.console,
        "Console",
        lambda **options: real(file=screen, force_terminal=True, width=100, **{"stderr": False}),
    )
    with progress_bar("work", 10) as bar:
        with bar.stage("reading", 2, steps=4) as advance:
            advance(3)
            assert bar._display is not None
            assert bar._display.tasks[0].completed == pytest.approx(1.5)
        assert bar._display.tasks[0].completed == pytest.approx(2)
        bar.say("loss 0.5")
        bar.total = 20
        assert bar.total == 20
    assert "work" in screen.getvalue()
    assert "loss 0.5" in screen.getvalue()
    assert capsys.readouterr().err == ""


def test_cells_of_a_table_are_data_not_markup():
    from rich.console import Console

    screen = io.StringIO()
    console = Console(file=screen, width=60, highlight=False)
    console.print(rich_table("[t]", ["[name]", "n"], [False, True], [["[bold]x", "1"], [":dog:", "22"]]))
    lines = [line.rstrip() for line in screen.getvalue().splitlines()]
    assert lines[0] == "[t]"
    assert lines[1:] == ["[name]    n", "[bold]x   1", ":dog:    22"]


def test_a_terminal_gets_no_empty_header_and_lines_that_fit(monkeypatch, capsys):
    from vpunn.cli.common import emit, folded

    monkeypatch.setenv("COLUMNS", "50")
    line = "    Bedding: P 0.934, head -7.949  length=38.1 -1.06, weight=466 -0.34, rest -6.38"
    assert folded(line) == line  # not a terminal
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    lines = folded(f"Pillows: probability 0.934\n{line}").splitlines()
    assert lines[0] == "Pillows: probability 0.934" and max(map(len, lines)) <= 50
    assert lines[2].startswith("        ") and " ".join(" ".join(lines[1:]).split()) == " ".join(line.split())
    emit({"rows": 7, "exact": 0.5}, False)
    emit([{"depth": 1}], False, "a title that is wider than its table")
    said = capsys.readouterr().out.splitlines()
    assert [cells.split() for cells in said[:2]] == [["rows", "7"], ["exact", "0.5"]]
    assert said[2] == "a title that is wider than its table"


def test_compiling_is_announced_once_and_only_when_it_happens(monkeypatch, capsys):
    from numba import njit

    monkeypatch.setattr(_progress, "_announced", False)

    @_progress.announced_compiling()
    def call(kernel, value):
        return kernel(value)

    doubled, squared = njit(lambda x: 2 * x), njit(lambda x: x * x)
    doubled(1)
    assert capsys.readouterr().err == ""  # not our business
    assert call(doubled, 2) == 4
    assert capsys.readouterr().err == ""  # compiled already
    assert call(squared, 3) == 9
    assert call(squared, 0.5) == 0.25
    assert capsys.readouterr().err == "compiling (once)…\n"


def test_a_fit_tells_its_stages_and_their_share(tmp_path, monkeypatch):
    """``vpunn fit`` in a log: plain lines on standard error, shares that grow, none with ``--quiet``."""
    from inputs import run_here

    monkeypatch.setattr(_progress, "SPACING", 0.0)

    rows = [f"small bird {k % 3},bird\nlarge fish {k % 3},fish\n" for k in range(20)]
    (tmp_path / "t.csv").write_text("text,label\n" + "".join(rows))
    fit = ["fit", str(tmp_path / "t.csv"), "--text", "text", "--out", str(tmp_path / "m")]
    told = [line for line in run_here(fit).err.splitlines() if not line.startswith("compiling")]
    shares = [int(line.split("%")[0]) for line in told if "%" in line]
    assert told[0] == "fitting…" and shares == sorted(shares) and shares[0] == 0 and shares[-1] > 80
    stages = [line.split("%")[1].strip() for line in told if "%" in line]
    assert stages[:2] == ["features", "classifier"] and stages[-3:] == ["experts", "combiner", "calibration"]
    folds = len(stages) - 5
    assert folds > 1 and stages[2:-3] == [f"fold {k}/{folds}" for k in range(1, folds + 1)]
    assert run_here(["--quiet", *fit]).err == ""
