"""Which metrics of a workload get a column, as a user chose them: by names, patterns, and what is added; pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from fnmatch import fnmatchcase

from pydantic import BaseModel, ConfigDict

from pytest_vmstorage.errors import ConfigError
from pytest_vmstorage.user_input import shown

_NAME = re.compile(r"\+?[\w*?\[\]!-]+")


class Columns(BaseModel):
    """What a user chose for all workloads: `names` in the place of the usual columns, `added` behind them.

    Each is a metric's name or a pattern of fnmatch.
    """

    model_config = ConfigDict(frozen=True)

    names: tuple[str, ...] = ()
    added: tuple[str, ...] = ()

    @property
    def all_names(self) -> tuple[str, ...]:
        """All that was chosen, in order."""
        return (*self.names, *self.added)

    def of(self, there: Sequence[str], usual: Sequence[str]) -> tuple[str, ...]:
        """The columns of a workload that has these metrics; the usual ones where it has none of those chosen."""
        chosen = [one for name in self.names for one in matching(name, there)] or usual
        return tuple(dict.fromkeys([*chosen, *(one for name in self.added for one in matching(name, there))]))


def parse_columns(texts: Iterable[str], what: str) -> Columns:
    """Columns from texts with commas between names: "iops,clat_p99" or "+usr_cpu". Raises ConfigError.

    `what` is the option's name, for the sentence.
    """
    words = [word.strip() for text in texts for word in text.split(",")]
    for word in filter(None, words):
        if _NAME.fullmatch(word) is None:
            raise ConfigError(
                f"{what} names {shown(word)}, which is no name of a metric.",
                hint=f"Write for example {what}=iops,clat_p99 or {what}=+usr_cpu.",
            )
    return Columns(
        names=tuple(word for word in words if word and not word.startswith("+")),
        added=tuple(word[1:] for word in words if word.startswith("+")),
    )


def matching(name: str, there: Collection[str]) -> list[str]:
    """Those of a workload's metrics that are meant by a name or a pattern.

    Where none is called so, those that end so: of a mixed fio job "clat_p99" means that of reads and that of writes.
    """
    found = [one for one in there if fnmatchcase(one, name)]
    return found or [one for one in there if fnmatchcase(one, f"*_{name}")]
