"""A study's folder on this machine: what has to be right before the first cell, and the cells themselves."""

from __future__ import annotations

from pathlib import Path

import msgspec

from blocklab.campaign.floor import fresh_floor
from blocklab.campaign.labs import Labs
from blocklab.campaign.needs import addons_of, at_once, fitting, learn_options, same_machine
from blocklab.campaign.remaining import Machine, Remaining
from blocklab.campaign.start import asked, site_of
from blocklab.model.site import OwnTime, Site
from blocklab.runner.estimate import Cost, costs
from blocklab.runner.events import Listener
from blocklab.runner.run import run_study
from blocklab.sites import DEFAULT
from blocklab.store.floor import Floor, keep_floor
from blocklab.store.folder import Manifest, StudyFolder
from blocklab.study.types import Cell


class Campaign(msgspec.Struct, frozen=True):
    """Cells that can be measured on this machine. ``notes``: what they ask for and have otherwise; ``cpus``: those
    of labs in parallel, none for a single lab."""

    folder: StudyFolder
    manifest: Manifest
    site: Site
    volumes: Path | None
    todo: tuple[Cell, ...]
    costs: tuple[Cost, ...]
    machine: Machine
    remaining: Remaining
    notes: tuple[str, ...]
    cpus: tuple[int, ...]

    def run(self, tell: Listener) -> int:
        """Measure them. The number of those that did not end ``ok``."""
        tell = self.remaining.announcing(tell)
        if self.cpus:
            return Labs(self.folder, self.todo, tell, self.volumes).run(self.cpus)
        return run_study(self.site, self.manifest.study, self.todo, self.folder, tell, self.manifest.seed)


def prepared(
    folder: StudyFolder, tell: Listener, volumes: Path | None = None, parallel: int | None = None
) -> Campaign:
    """What the folder lacks, with all that it needs. ``volumes`` is another folder for them, ``parallel`` another
    number of labs. Raises ``StudyError``, ``StoreError``, ``SetupError``, before anything starts."""
    manifest = folder.manifest()
    study = manifest.study
    wanted, todo = asked(folder, manifest)
    site = site_of(manifest, volumes)
    # Every stack's needs are checked before the first one starts.
    notes = fitting(study, todo, folder.path / "study.yaml", site, quick=manifest.quick)
    left_out: list[str] = []
    floor: Floor | None = None
    # A missing image or add-on is found before the first stack starts, not after hours.
    for addons in addons_of(study, todo):
        environment = site.environment(addons)
        same_machine(folder, wanted, todo, environment)
        floor = fresh_floor(manifest.site or DEFAULT, addons, environment, tell) or floor
        left_out.append(keep_floor(folder.path, environment))
    if learn_options(study, site, tell):
        notes = fitting(study, todo, folder.path / "study.yaml", site, quick=manifest.quick)
    machine, parts = Machine.of(floor), costs(study, todo)
    cpus = at_once(site, study, todo, parallel or manifest.parallel)
    if OwnTime in site.offers:
        machine, parts = Machine(1 / max(1, len(cpus))), tuple(each.computed for each in parts)
    notes += filter(None, left_out)
    remaining = Remaining(parts, machine)
    return Campaign(folder, manifest, site, volumes, todo, parts, machine, remaining, tuple(notes), tuple(cpus))
