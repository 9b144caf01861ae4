"""Folders of logs to import."""

from __future__ import annotations

from pathlib import Path


def log(count: int = 500, latency: int = 1000, start: int = 1597113422) -> str:
    """A transaction log of 100 TPS."""
    return "".join(f"0 {at} {latency + at % 7} 0 {start + at // 100} {at % 100 * 10000}\n" for at in range(count))


def two(folder: Path) -> dict[str, list[str]]:
    """Two stacks with a log each."""
    for name, latency in (("local", 1000), ("mirror", 2000)):
        (folder / name).mkdir()
        (folder / name / "tx.log").write_text(log(latency=latency))
    return {name: [str(folder / name)] for name in ("local", "mirror")}
