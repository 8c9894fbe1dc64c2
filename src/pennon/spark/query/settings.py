"""The settings of a Spark session that change what a query means."""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ZONE = "spark.sql.session.timeZone"
_OTHER_NAMES = ("spark.sql.ansi.doubleQuotedIdentifiers", "spark.sql.parser.quotedRegexColumnNames")
_OFFSET = re.compile(r"([+-])(\d{2}):(\d{2})")
_UTC = {"UTC", "ETC/UTC", "GMT", "Z", "UCT", "ETC/UCT", "ETC/GMT", "ZULU"}


@dataclass(frozen=True)
class SessionSettings:
    """How a session reads names and constants.

    `zone` is its time zone. `plain_names` is False if a string literal may be a name, or a quoted name a pattern for
    several columns. `plain_strings` is False if string literals may contain escapes.
    """

    zone: str | None = None
    plain_names: bool = True
    plain_strings: bool = True

    def fixed_offset(self) -> dt.timezone | None:
        """Return the session's offset from UTC, or None if its zone has no fixed offset."""
        if self.zone is None:
            return None
        if self.zone.upper() in _UTC:
            return dt.timezone.utc
        match = _OFFSET.fullmatch(self.zone)
        if match is None:
            return None
        distance = dt.timedelta(hours=int(match[2]), minutes=int(match[3]))
        return dt.timezone(-distance if match[1] == "-" else distance)


def read_settings(spark: SparkSession) -> SessionSettings:
    """Return the settings of a session."""
    other_names = any((spark.conf.get(key) or "false").lower() == "true" for key in _OTHER_NAMES)
    return SessionSettings(spark.conf.get(_ZONE), plain_names=not other_names)
