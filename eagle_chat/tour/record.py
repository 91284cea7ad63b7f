"""Records the rounds of the tour anew with the default model: `python -m eagle_chat.tour.record`.

Seeds, format and tree sizes are fixed, so texts and trees come out the same; only the times are those of the
machine. Run it on one that does nothing else, then the tests, which look for what each step shows.
"""

from __future__ import annotations

import gzip
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from eagle_chat.tour.chapters import TRACES

CODE = "Write a Python function that reverses a list, and explain it."
SKY = "Explain in two sentences why the sky is blue."
POEM = "Write a short poem about the sea in winter."
COMMON = ("--dtype", "fp32", "--device", "cpu")
CODING = (CODE, "--seed", "7", "--max-new-tokens", "96")
WARM = (SKY, "--seed", "3", "--max-new-tokens", "64", "--temperature", "1")
LOSING = (POEM, "--seed", "5", "--max-new-tokens", "64", "--temperature", "1")
PLAIN = ("--method", "none")
RECORDINGS = {
    "code": (*CODING, "--nodes", "12", "--depth", "4", "--beam", "4"),
    "code-plain": (*CODING, *PLAIN),
    "warm": (*WARM, "--nodes", "8", "--depth", "3", "--beam", "4"),
    "warm-plain": (*WARM, *PLAIN),
    "poem": (*LOSING, "--nodes", "60", "--depth", "6", "--beam", "10"),
    "poem-plain": (*LOSING, *PLAIN),
}


def record(name: str, arguments: tuple[str, ...]) -> None:
    """Run one of them and keep its trace, compressed."""
    with TemporaryDirectory() as folder:
        trace = Path(folder) / f"{name}.jsonl"
        command = [sys.executable, "-m", "eagle_chat", "run", *arguments, *COMMON, "--trace", str(trace)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        packed = gzip.compress(trace.read_bytes(), mtime=0)
    (TRACES / f"{name}.jsonl.gz").write_bytes(packed)


if __name__ == "__main__":
    for each in sys.argv[1:] or RECORDINGS:
        record(each, RECORDINGS[each])
