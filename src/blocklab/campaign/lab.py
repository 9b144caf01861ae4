"""A lab beside others: ``python -m blocklab.campaign.lab LANGUAGE FOLDER [VOLUMES]``, see ``labs``."""

from __future__ import annotations

import sys
from pathlib import Path

from blocklab.lang import loader


def main() -> None:
    """Chooses the language before any other module is imported."""
    language, folder, *volumes = sys.argv[1:]
    if language != "en":
        loader.install(language)
    from blocklab.campaign.labs import serve

    sys.exit(serve(Path(folder), Path(volumes[0]) if volumes else None))


if __name__ == "__main__":
    main()
