"""The options of DRBD: which a study may set, which there are, and what is the same value."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TypeAlias

from blocklab.model.allowed import PLAIN, WORD, Allowed, Shape, entries
from blocklab.model.dialect import BINARY, Dialect, size
from blocklab.model.knobs import Knob, Question, Table, Tell, number

Value: TypeAlias = str | int | bool
Options: TypeAlias = Mapping[str, Mapping[str, Value]]
"""Section (``net``, ``disk``, ``options``) -> name -> value."""

# Of DRBD 8.4 and 9. Handlers, which are programs, have a section of their own, which a study cannot write; these
# may call one by its name.
ALLOWED = Allowed(
    "DRBD",
    entries(
        WORD,
        """
        after-sb-0pri after-sb-1pri after-sb-2pri rr-conflict on-congestion cram-hmac-alg shared-secret
        data-integrity-alg csums-alg verify-alg transport ping-timeout timeout on-io-error fencing read-balancing
        resync-after cpu-mask on-no-data-accessible on-no-quorum quorum quorum-minimum-redundancy
        on-suspended-primary-outdated
        """,
    ),
    others=PLAIN,
    # DRBD's own names are lower-case words with dashes; anything else could end the option and start another.
    names=(r"[a-z][a-z0-9-]*", "is not a DRBD option's name; see drbd.conf(5)"),
)
_HOLDS = Shape("a value that drbd.conf can hold", r"[A-Za-z0-9_.:/,%-]+")
# "250k", "102400k", "100s" (sectors), "2M", "8000", as drbdsetup prints them.
_UNITS = {"s": 512, **{case: BINARY[unit] for unit in ("", "k", "m", "g") for case in (unit, unit.upper())}}
# What a bare number means, where it is not bytes or a count.
BARE = {
    "resync-rate": "k", "c-max-rate": "k", "c-min-rate": "k",
    "c-fill-target": "s", "congestion-fill": "s", "size": "s", "peer-ack-window": "s",
}  # fmt: skip
# Tenths of a second that DRBD waits for an answer before it drops the connection, where the study has no others.
PATIENCE = {"ping-timeout": 5, "timeout": 60}
# The activity log that create-md makes has 8 blocks of 4 KiB, one of them in use, of 919 extents each.
EXTENTS = 7 * 919
# The first ones of DRBD 9 that anybody asks for.
QUORUM = frozenset({"quorum", "on-no-quorum"})
# Whether two sides know each other is the layer's to decide: a study is stored, so nothing in it is a secret.
SECRETS = frozenset({"shared-secret"})
_AUTHENTICATION = frozenset({"cram-hmac-alg", *SECRETS})
# The commands that take a section's options, and have beside them only flags of their own. drbdsetup itself tells
# those of DRBD 9, whatever module is loaded.
_SECTIONS_8 = {"net": ("net-options",), "disk": ("attach",), "options": ("resource-options",)}
_SECTIONS_9 = {**_SECTIONS_8, "net": ("new-peer",), "disk": ("attach", "peer-device-options")}


def problems(options: Options) -> Iterator[tuple[str, str]]:
    """``(section.name, problem)`` of each option that a study may not have, whatever DRBD takes."""
    return _each(options, _problem)


def unknown(options: Options, table: Table) -> Iterator[tuple[str, str]]:
    """``(section.name, problem)`` of each option that DRBD would refuse or take another value for."""
    return _each(options, partial(_unknown, table=table))


def _each(options: Options, problem: Callable[[str, str, str], str | None]) -> Iterator[tuple[str, str]]:
    for section, values in options.items():
        for name, value in values.items():
            if why := problem(section, name, text_of(value)):
                yield f"{section}.{name}", why


def _problem(section: str, name: str, value: str) -> str | None:
    if bad := _HOLDS.problem(value):
        return bad
    if name in _AUTHENTICATION:
        return "is set by the layer itself, with a secret of the run's own on hosts of yours; leave it out"
    if (section, name) == ("net", "protocol"):
        return "give the protocol as the layer's own field"
    if (section, name) == ("options", "auto-promote"):
        return "is always off, since a mirror is promoted on purpose; leave it out"
    # Without a handler's success ``fencing`` lets no side be promoted alone.
    # call-local-io-error, call-pri-lost, call-pri-lost-after-sb
    if value.startswith("call-") or (name == "fencing" and value != "dont-care"):
        return f"{value!r} calls a handler of drbd.conf, and a node has none; leave it out"
    if name in PATIENCE and size(value, _UNITS) is None:
        return f"{value!r} is not a number; write it in tenths of a second"
    if name == "al-extents" and value.isdecimal() and int(value) > EXTENTS:
        return f"{value} is more than the activity log has room for: at most {EXTENTS}, as the kernel would take"
    return ALLOWED.problem(name, value)


def ask(tell: Tell, where: str) -> Table:
    """The options that ``drbdsetup`` takes, by the sections of drbd.conf: those of the driver that would be
    loaded."""
    newer = tell("modinfo", "--field", "version", "drbd").startswith("9.")
    setup, sections = ("drbdsetup", _SECTIONS_9) if newer else ("/usr/lib/drbd/drbdsetup-84", _SECTIONS_8)
    return {
        name: {option: knob for each in commands for option, knob in parse_help(tell(setup, "xml-help", each))}
        for name, commands in sections.items()
    }


def parse_help(text: str) -> Iterator[tuple[str, Knob]]:
    """What ``drbdsetup xml-help COMMAND`` says of its options."""
    # <option name="c-fill-target" type="numeric"><min>0</min><max>1048576</max><default>100</default>
    #   <unit_prefix>s</unit_prefix><unit>bytes</unit></option>
    # <option name="quorum" type="numeric-or-symbol"><min>1</min><max>32</max><default>off</default>
    #   <symbol>off</symbol><symbol>majority</symbol><symbol>all</symbol></option>
    # <option name="on-congestion" type="handler"><handler>block</handler><handler>pull-ahead</handler></option>
    try:
        options = list(ElementTree.fromstring(text).iter("option"))
    except ElementTree.ParseError as error:
        raise ValueError(f"drbdsetup listed no options: {text[:200]!r}") from error
    for option in options:
        name, kind = option.attrib["name"], option.attrib["type"]
        if kind.startswith("numeric"):
            unit = option.findtext("unit_prefix", "1").removeprefix("1")
            bounds = number(option.findtext("min")), number(option.findtext("max"))
            yield (
                name,
                Knob("integer", *bounds, unit=unit, words=tuple(s.text or "" for s in option.iter("symbol"))),
            )
        elif kind == "handler":
            yield name, Knob("word", words=tuple(each.text or "" for each in option.iter("handler")))
        elif kind != "flag":
            yield name, Knob("truth" if kind == "boolean" else "text")


QUESTION = Question("drbd", ask)


def _unknown(section: str, name: str, value: str, table: Table) -> str | None:
    """Why DRBD would refuse an option, or take another value."""
    owners = [other for other, options in table.items() if name in options]
    if not owners and name in QUORUM:
        return "needs DRBD 9, and the driver of the image is 8.4; `blocklab image build --modules` takes another"
    if owners and section not in owners:
        other = owners[0]
        return f"is an option of DRBD's {other} section; write it there"
    # drbd.conf has a resource's name, which drbdadm makes a number of.
    return None if name == "resync-after" else _dialect(section).problem(name, value, table[section])


def _amount(value: str, knob: Knob) -> float:
    found = size(value, _UNITS, knob.unit)
    if found is None:
        words = f", nor one of {', '.join(knob.words)}" if knob.words else ""
        raise ValueError(f"{value!r} is not a number{words}; write it like 8000 or 2M")
    # Bounds are in the option's own unit, sectors or KiB for some.
    return found / _UNITS[knob.unit]


def _dialect(section: str) -> Dialect:
    truths = {"yes": "yes", "no": "no"}
    missing = f"DRBD has no such {section} option"
    return Dialect(missing, _amount, true="yes", false="no", truths=truths, cased=True)


def text_of(value: Value) -> str:
    """A value as drbd.conf has it."""
    return _dialect("").text(value)


def canonical(value: str, bare: str = "") -> str:
    """``2M`` and ``2048k`` are the same to DRBD, which shows either: sizes as a plain number of bytes.

    ``bare`` is the unit of a number without one.
    """
    found = size(value, _UNITS, bare)
    return value if found is None else str(found)
