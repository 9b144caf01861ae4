"""A lab of the site that tests run on, with all that it offers."""

from __future__ import annotations

from blocklab.runner.workshop import Standing
from blocklab.sites.uml.site import UmlLab


def uml(stand: Standing) -> UmlLab:
    """The lab that a stack stands on."""
    assert isinstance(stand.lab, UmlLab)
    return stand.lab
