"""Times as foreign files write them: with or without a zone, a year, a date, in any order of day and month."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from itertools import pairwise
from statistics import median
from typing import TypeAlias

import msgspec

from blocklab.errors import StudyError

DAY = 86400.0
# A log without a sure date belongs to one with a sure date where it is no further away than this.
NEAR = 1.5 * DAY
DAMAGED = 0.05
_HALF_A_YEAR = 183
_LONGEST_DATE = 60
# What puts a time before a line may do so this much later than the line was written, or in whole seconds.
_LATE = 1.25
ORDERS = ("ymd", "mdy", "dmy")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")

# 1597113422   1597113422.367
_EPOCH = re.compile(r"\[?(\d{10}(?:\.\d+)?)\]?")
# 2020-08-11T00:29:55+0900   20/08/11 00:29:55   08/11/2020 12:29:55 AM   11.08.2020 00:29:55   11-08 00:30:04
_DATED = re.compile(
    r"\[?(?P<a>\d{1,4})[-/.](?P<b>\d{1,2})(?:[-/.](?P<c>\d{1,4}))?[T ] ?(?P<time>[\d:.,]+)\s?(?P<half>[AaPp][Mm])?"
    r"\s?(?P<zone>Z|UTC|[+-]\d\d:?\d\d)?\]?"
)
# Aug 11 00:29:55   Tue Aug 11 00:29:55 UTC 2020   Tue 11 Aug 2020 12:29:55 AM UTC
_NAMED = re.compile(
    r"\[?(?:[A-Z][a-z]{2},? )?"
    r"(?:(?P<month>[A-Z][a-z]{2}) +(?P<day>\d{1,2})|(?P<day2>\d{1,2}) (?P<month2>[A-Z][a-z]{2}))"
    r"(?: (?P<year>\d{4}))? (?P<time>[\d:.,]+)(?: (?P<half>[AaPp][Mm]))?(?: (?P<zone>[A-Z]{3,4}))?"
    r"(?: (?P<year2>\d{4}))?\]?"
)
# 2023年11月20日 10時00分00秒   2023年11月20日 10时00分00秒   2023년 11월 20일 10시 00분 00초
# 2024年  3月 25日 月曜日 10:00:00 JST   2024. 03. 25. (월) 10:00:00 KST   (date)
_EASTERN = re.compile(
    r"(?P<year>\d{4})[年년.] {0,2}(?P<month>\d{1,2})[月월.] {0,2}(?P<day>\d{1,2})[日일.]"
    r"(?: {0,2}\(?[^\W\d_]{1,3}\)?(?= ))?"
    r"(?: (?P<hour>\d{1,2})[時时시:] ?(?P<minute>\d{1,2})[分분:] ?(?P<second>\d{1,2})[秒초]?"
    r"(?: (?P<zone>[A-Z]{3,5})(?= |$))?)?"
)
# What `date` prints in other languages: Mo 25. Mär 10:00:00 CET 2024   lun. 25 mars 2024 10:00:00 CET
_WORDS = re.compile(r"(?:[^\W\d_]{2,12}\.?,?|\d{1,2}\.?|\d{4}|\d{1,2}:\d\d:\d\d)(?: +(?!$)|$)")
_ZONE_NAME = re.compile(r"[A-Z]{2,5}")
# Of each month how it begins in the languages of sysstat's users; without accents and dots.
_BEGINNINGS = (
    "jan|gen|ene|янв|sty|led|oca", "fe|fev|feb|фев|lut|uno|sub", "mar|mrt|maa|мар|bre",
    "apr|abr|avr|апр|kwi|dub|nis",
    "mai|may|maj|mag|mei|мая|май|kve", "jun|juin|giu|июн|cze|haz", "jul|juil|lug|июл|lip|tem|cerv",
    "aug|ago|aou|авг|sie|srp|agu", "sep|set|сен|wrz|zar|eyl", "oct|okt|ott|out|окт|paz|rij|eki",
    "nov|ноя|lis|kas", "dec|dez|dic|дек|gru|pro|ara",
)  # fmt: skip
# 00:29:55   12:29:55 AM   Time: 12:29:55 AM   (sysstat before 10)
_TIMED = re.compile(r"(?:Time: )?\[?(?P<time>\d{1,2}:\d\d:\d\d(?:[.,]\d+)?)\s?(?P<half>[AaPp][Mm])?\]?")
_CLOCK = re.compile(r"(\d{1,2}):(\d\d):(\d\d)(?:[.,](\d+))?")
Numbers: TypeAlias = tuple[int, ...]


class Stamp(msgspec.Struct, frozen=True):
    """One time. ``numbers`` are those of the date in the file's order; three with a year of four digits are
    ``sure`` year, month, day. ``seconds`` is since midnight, or since the epoch where there is no date and
    ``offset`` is 0. ``offset`` from UTC in seconds, where the file tells."""

    numbers: Numbers
    seconds: float
    sure: bool = False
    offset: float | None = None


class Clock(msgspec.Struct, frozen=True):
    """The times of a file, in its order. ``day``: the date that its first line tells, for times without one.
    ``near``: a sure time in the file itself, for dates that lack a year or may mean several. ``jitter``: another
    program wrote them, a moment after the interval ended."""

    stamps: tuple[Stamp, ...]
    day: Numbers | None = None
    near: float | None = None
    jitter: bool = False


def stamp(text: str) -> Stamp | None:
    """A time as it stands in a file; None for what is none."""
    text = text.strip()
    if not text.isascii():
        text = _western(text)
    if match := _EPOCH.fullmatch(text):
        return Stamp((), float(match[1]), offset=0.0)
    for pattern, make in ((_TIMED, _timed), (_DATED, _dated), (_NAMED, _named)):
        if match := pattern.fullmatch(text):
            return make(match)
    return _of_date(text) if len(text) < _LONGEST_DATE else None


def _of_date(text: str) -> Stamp | None:
    """What ``date`` prints in another language: a month's name, day, year and time, in any order."""
    text = text.replace(",", " ").strip()
    words = [word[0].strip() for word in _WORDS.finditer(text)]
    if sum(len(word) for word in words) < len(text.replace(" ", "")):
        return None
    times = [word for word in words if ":" in word]
    years = [int(word) for word in words if len(word) == 4 and word.isdigit()]
    days = [int(word.strip(".")) for word in words if len(word) < 4 and word.strip(".").isdigit()]
    names = [word for word in words if not word[0].isdigit()]
    zones = [name for name in names if _ZONE_NAME.fullmatch(name)]
    # A weekday stands first.
    months = [month for name in names if name not in zones and (month := _month(name)) and name is not words[0]]
    if not (len(times) == len(years) == len(days) == len(months) == 1) or len(names) - len(zones) > 2:
        return None
    match = _TIMED.fullmatch(times[0])
    seconds = _seconds(match) if match else None
    if seconds is None:
        return None
    offset = 0.0 if set(zones) & {"UTC", "GMT"} else None
    return Stamp((years[0], months[0], days[0]), seconds, True, offset)


def _month(name: str) -> int:
    """The number of a month by its name in some language; 0 for what is none."""
    plain = "".join(each for each in unicodedata.normalize("NFD", name.lower()) if not unicodedata.combining(each))
    several = [
        number
        for number, known in enumerate(_BEGINNINGS, 1)
        for each in known.split("|")
        if plain.startswith(each)
    ]
    return several[0] if len(set(several)) == 1 else 0


def _western(text: str) -> str:
    """The same with values alone, where units stand behind them."""

    def in_digits(match: re.Match[str]) -> str:
        day = "-".join(match.group("year", "month", "day"))
        if not match["hour"]:
            return day
        zone = ["UTC"] if match["zone"] in ("UTC", "GMT") else []
        return " ".join([day, ":".join(match.group("hour", "minute", "second")), *zone])

    return _EASTERN.sub(in_digits, text)


def _seconds(match: re.Match[str]) -> float | None:
    found = _CLOCK.fullmatch(match["time"])
    if found is None:
        return None
    hour, minute, second = (int(part) for part in found.group(1, 2, 3))
    if half := (match["half"] or "").lower():
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + (12 if half == "pm" else 0)
    if hour > 23 or minute > 59 or second > 60:
        return None
    return hour * 3600 + minute * 60 + second + float(f"0.{found[4] or 0}")


def _timed(match: re.Match[str]) -> Stamp | None:
    seconds = _seconds(match)
    return None if seconds is None else Stamp((), seconds)


def _dated(match: re.Match[str]) -> Stamp | None:
    seconds = _seconds(match)
    if seconds is None:
        return None
    numbers = tuple(int(part) for part in match.group("a", "b", "c") if part)
    return Stamp(numbers, seconds, len(match["a"]) == 4 and len(numbers) == 3, _offset(match["zone"]))


def _named(match: re.Match[str]) -> Stamp | None:
    seconds = _seconds(match)
    month = (match["month"] or match["month2"]).lower()
    if seconds is None or month not in _MONTHS:
        return None
    year, day = match["year"] or match["year2"], int(match["day"] or match["day2"])
    number = _MONTHS.index(month) + 1
    # Other names of zones mean several of them.
    offset = 0.0 if match["zone"] in ("UTC", "GMT") else None
    if year:
        return Stamp((int(year), number, day), seconds, True, offset)
    # As if it were month and day in values; a name leaves no doubt about which is which.
    return Stamp((number, day), seconds, True, offset)


def _offset(text: str | None) -> float | None:
    if not text:
        return None
    if text in ("Z", "UTC"):
        return 0.0
    sign = -1 if text[0] == "-" else 1
    return float(sign * (int(text[1:3]) * 3600 + int(text[-2:]) * 60))


def banner_day(text: str) -> Numbers | None:
    """The date in a line such as ``Linux 5.4.0 (host) 08/11/2020 ...``; None without a year of four digits first
    or last."""
    match = re.search(r"(?<!\d)(\d{1,4})[-/.](\d{1,2})[-/.](\d{2,4})(?!\d)", _western(text))
    return tuple(int(part) for part in match.groups()) if match else None


def _days(numbers: Numbers, order: str, year: int) -> date | None:
    """The date of three numbers, or of two in that year; None where there is no such day."""
    places = dict(zip(order if len(numbers) == 3 else order.replace("y", ""), numbers, strict=True))
    named = places.get("y", year)
    try:
        return date(named + 2000 if named < 100 else named, places["m"], places["d"])
    except ValueError:
        return None


def readings(clock: Clock, order: str, year: int) -> dict[str, date]:
    """What the first date may mean by each order in which the dates of the file exist and follow each other, one
    for each outcome. One in twenty may be damaged."""
    found: dict[str, date] = {}
    dates = list(dict.fromkeys(each.numbers for each in clock.stamps if each.numbers))
    sure = all(each.sure for each in clock.stamps if each.numbers)
    orders = ("ymd",) if sure else tuple(each for each in ORDERS if order in ("", each))
    for each in orders:
        days = [_days(numbers, each, year) for numbers in dates]
        known = [day for day in days if day is not None]
        back = sum(after < before for before, after in pairwise(known))
        if not known or known[0] in found.values():
            continue
        if len(days) - len(known) + back <= DAMAGED * len(clock.stamps):
            found[each] = known[0]
    return found


def _year_of(clock: Clock, anchors: Sequence[float]) -> int:
    if anchors:
        return datetime.fromtimestamp(anchors[0], UTC).year
    return datetime.now(UTC).year


def resolve(
    clock: Clock, where: str, *, zone: tzinfo, order: str, anchors: Sequence[float]
) -> tuple[list[float | None], list[str]]:
    """The times in seconds since the epoch (None for a damaged date), and what had to be assumed.

    ``anchors``: times that are sure, of files beside this one. Raises ``StudyError`` with the hint where the
    dates may mean several days and nothing decides.
    """
    said: list[str] = []
    stamps = clock.stamps
    if clock.near is not None:
        anchors = (clock.near,)
    beside = "the sure times beside it" if clock.near is None else "the date in its header"
    year = _year_of(clock, anchors)
    dated = any(each.numbers for each in stamps)
    chosen, first = "ymd", None
    if dated:
        chosen, note = _order(clock, where, order, anchors, year, beside)
        said += note
        if any(len(each.numbers) == 2 for each in stamps):
            year, note = _year(clock, chosen, anchors, year, beside)
            said += note
    elif any(each.offset is None for each in stamps):
        first, note = _first_day(clock, where, order, anchors, zone)
        said += note
    if any(each.offset is None for each in stamps):
        said.append(f"its times have no zone: read as {zone}")
    if len({each.offset for each in stamps}) > 1:
        said.append("its times are of several zones, or some have none")
    times = list(_times(stamps, chosen, year, first, zone))
    return _even(times) if clock.jitter else times, said


def _even(times: Sequence[float | None]) -> list[float | None]:
    """Times that follow each other by the whole seconds that the tool waits, as far as they are near enough: when
    a line was written says little of when its interval ended."""
    steps = [after - before for before, after in pairwise(at for at in times if at is not None) if after > before]
    usual = float(round(median(steps))) if steps else 0.0
    if usual < 1:
        return list(times)
    near = min(_LATE, usual / 2)
    found: list[float | None] = []
    before: float | None = None
    for at in times:
        if at is not None and before is not None and abs(at - before - usual) < near:
            at = before + usual
        before = at if at is not None else before
        found.append(at)
    return found


def _order(
    clock: Clock, where: str, order: str, anchors: Sequence[float], year: int, beside: str
) -> tuple[str, list[str]]:
    found = readings(clock, order, year)
    if not found:
        raise StudyError(
            "", f"{where}: its dates are not valid in any order of day, month and year", hint="--dates dmy"
        )
    _agrees(clock, where, order, found, anchors, year)
    if len(found) == 1:
        return next(iter(found)), []
    chosen = _near(found, f"{where}: its first date", anchors)
    return chosen, [f"its dates are read as {_spell(chosen)}: so they are near {beside}"]


def _agrees(
    clock: Clock, where: str, order: str, found: Mapping[str, date], anchors: Sequence[float], year: int
) -> None:
    """Raises ``StudyError`` where the order that somebody gave contradicts the times that are sure."""
    if order not in found or not anchors:
        return

    def near(day: date) -> bool:
        return any(abs(_noon(day) - at) <= NEAR for at in anchors)

    others = {each: day for each, day in readings(clock, "", year).items() if each != order and near(day)}
    if others and not near(found[order]):
        said = ", ".join(f"{day:%Y-%m-%d} ({each})" for each, day in others.items())
        sure = datetime.fromtimestamp(anchors[0], UTC)
        raise StudyError(
            "", f"{where}: --dates {order} makes its first date {found[order]:%Y-%m-%d}, but the sure times "
            f"beside it are of {sure:%Y-%m-%d}, as is {said}", hint="leave --dates out, or give another order",
        )  # fmt: skip


def _near(found: Mapping[str, date], what: str, anchors: Sequence[float]) -> str:
    """The one of several orders whose day is near the sure times. Raises ``StudyError`` without just one."""
    near = [each for each, day in found.items() if any(abs(_noon(day) - at) <= NEAR for at in anchors)]
    if len(near) == 1:
        return near[0]
    meant = ", ".join(f"{day:%Y-%m-%d} ({each})" for each, day in found.items())
    raise StudyError("", f"{what} may mean {meant}", hint="say which: --dates " + "|".join(found))


def _noon(day: date) -> float:
    return datetime(day.year, day.month, day.day, 12, tzinfo=UTC).timestamp()


def _spell(order: str) -> str:
    return {"ymd": "year, month, day", "mdy": "month, day, year", "dmy": "day, month, year"}[order]


def _year(clock: Clock, order: str, anchors: Sequence[float], year: int, beside: str) -> tuple[int, list[str]]:
    if anchors:
        return year, [f"its dates have no year: {year}, as of {beside}"]
    first = next(each.numbers for each in clock.stamps if each.numbers)
    day = _days(first, order, year)
    if day is not None and day > datetime.now(UTC).date():
        year -= 1
    return year, [f"its dates have no year: read as {year}, the last one that is possible"]


def _first_day(
    clock: Clock, where: str, order: str, anchors: Sequence[float], zone: tzinfo
) -> tuple[date, list[str]]:
    if clock.day is not None:
        head = Clock((Stamp(clock.day, 0.0, clock.day[0] > 31),))
        found = readings(head, order, 1970)
        if found:
            several = len(found) > 1
            chosen = _near(found, f"{where}: its first line", anchors) if several else next(iter(found))
            day = found[chosen]
            read = f", read as {_spell(chosen)}: so it is near the sure times beside it" if several else ""
            return day, [f"its times have no date: {day:%Y-%m-%d}, as its first line says{read}"]
    if anchors:
        day = _day_beside(clock.stamps, anchors, zone)
        return day, [f"its times have no date: {day:%Y-%m-%d}, as of the sure times beside it"]
    return date(1970, 1, 1), ["its times have no date: put on 1970-01-01"]


def _day_beside(stamps: Sequence[Stamp], anchors: Sequence[float], zone: tzinfo) -> date:
    """The first day that brings times without a date as near to the sure ones as can be: that of the first sure
    one, the day before where midnight is passed, the day after where the sure ones end before it."""
    same = datetime.fromtimestamp(anchors[0], zone).date()

    def away(day: date) -> float:
        times = [at for at in _times(stamps, "ymd", day.year, day, zone) if at is not None]
        return sum(max(times[0] - at, at - times[-1], 0.0) for at in anchors)

    return min((same, same - timedelta(days=1), same + timedelta(days=1)), key=away)


def _times(
    stamps: Sequence[Stamp], order: str, year: int, first: date | None, zone: tzinfo
) -> Iterator[float | None]:
    day, before = first, -1.0
    for each in stamps:
        if not each.numbers and each.offset is not None:
            yield each.seconds
            continue
        if each.numbers:
            last, day = day, _days(each.numbers, "ymd" if each.sure else order, year)
            if (
                len(each.numbers) == 2
                and last is not None
                and day is not None
                and (last - day).days > _HALF_A_YEAR
            ):
                # Past New Year's Eve.
                year += 1
                day = _days(each.numbers, "ymd" if each.sure else order, year)
        elif each.seconds < before - DAY / 2 and day is not None:
            day += timedelta(days=1)
        before = each.seconds
        if day is None:
            yield None
            continue
        at = zone if each.offset is None else timezone(timedelta(seconds=each.offset))
        start = datetime(day.year, day.month, day.day, tzinfo=at) + timedelta(seconds=each.seconds)
        yield start.timestamp()
