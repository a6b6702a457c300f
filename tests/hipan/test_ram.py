"""Memory given back: the pages of the compiler's code, and a compiler that still works without them."""

import re
import subprocess
import sys

import pytest

SCRIPT = """
import mmap
import re
import sys
from pathlib import Path

import numba

from vpunn.hipan._ram import give_back


def resident():
    maps = Path("/proc/self/smaps").read_bytes()
    found = re.findall(rb"lib(?:llvmlite|LLVM).*?Rss: +([0-9]+) kB", maps, re.S)
    return sum(map(int, found)) / 1024


@numba.njit
def thrice(x):
    return 3 * x


with open(sys.argv[1].encode("latin-1"), "rb") as file:  # a name that is not UTF-8
    kept = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)

before = thrice(14)
most = resident()
give_back()
least = resident()


@numba.njit
def squares(n):
    total = 0.0
    for i in range(n):
        total += i * i
    return total


print(before, squares(4), most, least, resident())
"""


@pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="needs Linux: pages of a library are told by its /proc"
)
def test_pages_of_the_compiler_are_given_back_and_read_again(tmp_path):
    odd = str(tmp_path / "caf\xe9\x85")
    with open(odd.encode("latin-1"), "wb") as file:
        file.write(b"x")
    done = subprocess.run([sys.executable, "-c", SCRIPT, odd], capture_output=True, text=True, check=True)
    before, after, most, least, again = map(float, re.findall(r"[0-9.]+", done.stdout))
    assert (before, after) == (42, 14)  # one compiled before, one after
    assert most > 40 and least < 5 < again  # MB
