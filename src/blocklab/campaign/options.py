"""Whether programs have the options that a study sets: they are asked once, and a site keeps the answers."""

from __future__ import annotations

from blocklab.errors import BlocklabError, StudyError
from blocklab.model.site import KnownOptions, Site, offered
from blocklab.runner.events import Listener, Preparing
from blocklab.runner.knobs import ask
from blocklab.study import knobs
from blocklab.study.grid import topology
from blocklab.study.types import Study


def check_options(study: Study, site: Site) -> str:
    """Refuse options that programs are known not to have; a note on what is not known, empty where all is. Starts
    nothing. Raises ``StudyError``."""
    if KnownOptions not in site.offers:
        return ""
    tables = offered(site, KnownOptions).options(topology(study, list(study.stacks)).addons)
    for path, problem in knobs.problems(study, tables):
        raise StudyError(path, problem)
    unasked = knobs.unasked(study, tables)
    return (
        f"options of {', '.join(unasked)} are not checked yet: the next run asks the programs" if unasked else ""
    )


def learn_options(study: Study, site: Site, tell: Listener) -> bool:
    """Ask the programs whose options the study sets, of those that nobody asked before; whether there were any.
    That none can be asked is said, and stops nothing."""
    if KnownOptions not in site.offers:
        return False
    memory, addons = offered(site, KnownOptions), topology(study, list(study.stacks)).addons
    unasked = knobs.unasked(study, memory.options(addons))
    if unasked:
        tell(Preparing(f"asking {', '.join(unasked)} for their options, once"))
        try:
            memory.keep_options(ask(site, unasked, lambda text: tell(Preparing(text))), addons)
        except BlocklabError as error:
            tell(Preparing(f"options are not checked: {error}"))
    return bool(unasked)
