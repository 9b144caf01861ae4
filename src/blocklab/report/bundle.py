"""Vega, Vega-Lite and Vega-Embed as one script, from the copies inside vl-convert: no network, ever."""

from __future__ import annotations

import contextlib
import functools
import hashlib
from importlib.metadata import version
from pathlib import Path

import vl_convert

from blocklab.model.cache import cache_folder
from blocklab.model.files import write_whole

_SNIPPET = "window.vegaEmbed = vegaEmbed;"


@functools.cache
def bundle() -> str:
    """The script, about 0.9 MB. Kept in the cache folder, since to build it takes vl-convert seconds.

    A cache that cannot be written or read is not an error: the script is built again then.
    """
    path = cache_path()
    with contextlib.suppress(OSError):
        kept = path.read_text(encoding="utf-8")
        digest, _, text = kept.partition("\n")
        if digest == _digest(text):
            return text
    text = vl_convert.javascript_bundle(_SNIPPET)
    # The HTML parser ends a script at this tag, wherever it stands.
    text = text.replace("</script", "<\\/script")
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, f"{_digest(text)}\n{text}".encode())
    return text


def cache_path() -> Path:
    """One file for each version, in the cache folder."""
    return cache_folder() / f"vega-{version('vl-convert-python')}.js"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
