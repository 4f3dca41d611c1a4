"""A short fixed run of the fuzzer; `make fuzz` is a long one."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from fuzz.kinds import KINDS

CASES = 30


@pytest.mark.slow
def test_spoiled_files_are_answered_rightly_or_with_one_message():
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "fuzz",
            "--few",
            f"--cases={CASES}",
            "--processes=1",
            "--patience=900",
        ],
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-5000:]
    for kind in KINDS:
        assert re.search(rf"\b{kind}\W+{CASES}\W+0\b", done.stdout), done.stdout
