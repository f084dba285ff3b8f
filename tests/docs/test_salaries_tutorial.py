"""The commands and the code of the tutorial "Salaries", as they stand on the page, on other ports."""

from __future__ import annotations

import json
import re
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.small_fleets import free_ports
from tests.support.terminal import ROOT, Terminal
from tests.support.waiting import until

PAGE = (ROOT / "docs" / "tutorials" / "salaries.md").read_text()


def test_the_code_prints_what_the_page_says(capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = re.findall(r"```py\n(.*?)```", PAGE, re.DOTALL)
    exec(code, {})
    assert f"It prints `{capsys.readouterr().out.strip()}`" in PAGE


@pytest.mark.slow
def test_the_commands_average_salaries_and_protect_the_average(tmp_path: Path) -> None:
    write, init, agents, status, init_private, agents_private = re.findall(
        r"```sh\n(.*?)```", PAGE, re.DOTALL
    )
    terminal = Terminal(tmp_path)

    def run(block: str) -> str:
        return terminal.run(block.replace("--out", f"--port {free_ports(8)[0]} --out"))

    @contextmanager
    def running(block: str):
        process = terminal.start(block)
        try:
            yield
        finally:
            terminal.end(process)

    run(write)
    average = sum(48000 + k * 4300 % 19000 for k in range(8)) / 8
    assert f"{average:,.0f}" in PAGE
    run(init)
    with running(agents):
        until(lambda: _all_near(status, average, 0.01, run), f"the average {average}")
    said = run(init_private)
    noise = float(re.findall(r"adds noise of standard deviation (\S+) to", said)[0])
    epsilon = float(re.findall(r"epsilon is (\S+) at", said)[0])
    assert 0.8 < epsilon < 1.0
    private = status.replace("office", "private")
    with running(agents_private):
        until(lambda: _all_near(private, average, 6 * noise / 8**0.5, run), "an average with noise")
        values = [row["estimate"] for row in json.loads(run(f"{private.strip()} --json"))]
        assert abs(values[0] - average) > 1e-3


def _all_near(status: str, average: float, tolerance: float, run) -> bool:
    try:
        rows = json.loads(run(f"{status.strip()} --json"))
    except (AssertionError, ValueError):
        return False
    return len(rows) == 8 and all(
        row.get("estimate") is not None and row.get("settled") and abs(row["estimate"] - average) < tolerance
        for row in rows
    )
