"""Scaling windows: which min and max hold at an instant (L-20).

Windows are written in local wall time, and twice a year a local time is missing or comes twice. Comparing the wall
clock alone closes a window again when an hour repeats; comparing instants alone opens it late when an hour is
missing. A window is therefore open when either reading says so: it opens as soon as the clock shows its time, and
stays open through a repeated hour.
"""

from datetime import date, datetime, time, timedelta, tzinfo

from llmgw.config.model import Scaling, ScheduleWindow

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


def minutes(text: str) -> int | None:
    """Return minutes since midnight of `HH:MM`, or None when it is not a time of day."""
    hours, colon, rest = text.partition(":")
    if not (colon and len(hours) == 2 and len(rest) == 2 and (hours + rest).isdecimal() and text.isascii()):
        return None
    return int(hours) * 60 + int(rest) if int(hours) < 24 and int(rest) < 60 else None


def bounds(scaling: Scaling, now_unix: float, zone: tzinfo) -> tuple[int, int]:
    """Return (least, most) replicas at `now_unix`: the first open window's, else scaling's; prewarm raises the least.

    A model with max 0 is stopped and no window starts it.
    """
    if scaling.max == 0:
        return 0, 0
    here = datetime.fromtimestamp(now_unix, zone)
    least, most = next(((w.min, w.max) for w in scaling.schedule if _is_open(w, here)), (scaling.min, scaling.max))
    soon = [w for w in scaling.schedule if _opens_within(w, here, scaling.prewarm)]
    least = max([least, *(w.min for w in soon)])
    return least, max([most, *(min(w.min, w.max) for w in soon)])


def _is_open(window: ScheduleWindow, now: datetime) -> bool:
    start, end = minutes(window.start) or 0, minutes(window.end) or 0
    wall = now.hour * 60 + now.minute
    today, yesterday = now.date(), now.date() - timedelta(days=1)
    if end > start:
        by_clock = _runs_on(window, today) and start <= wall < end
    else:
        by_clock = (_runs_on(window, today) and wall >= start) or (_runs_on(window, yesterday) and wall < end)
    return by_clock or any(_spans(window, day, now) for day in (today, yesterday))


def _spans(window: ScheduleWindow, day: date, now: datetime) -> bool:
    """Return whether the occurrence that starts on `day` holds this instant."""
    if not _runs_on(window, day) or now.tzinfo is None:
        return False
    start, end = minutes(window.start) or 0, minutes(window.end) or 0
    last_day = day if end > start else day + timedelta(days=1)
    opens = _at(day, start, now.tzinfo, fold=0)
    closes = _at(last_day, end, now.tzinfo, fold=1)
    return opens.timestamp() <= now.timestamp() < closes.timestamp()


def _opens_within(window: ScheduleWindow, now: datetime, ahead_s: float) -> bool:
    if ahead_s <= 0 or now.tzinfo is None:
        return False
    start = minutes(window.start) or 0
    for offset in range(min(int(ahead_s // 86_400) + 2, 9)):
        day = now.date() + timedelta(days=offset)
        wait_s = _at(day, start, now.tzinfo, fold=0).timestamp() - now.timestamp()
        if _runs_on(window, day) and 0 < wait_s <= ahead_s:
            return True
    return False


def _runs_on(window: ScheduleWindow, day: date) -> bool:
    return not window.days or DAYS[day.weekday()] in window.days


def _at(day: date, minute: int, zone: tzinfo, fold: int) -> datetime:
    return datetime.combine(day, time(minute // 60, minute % 60, fold=fold), zone)
