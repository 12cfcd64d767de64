"""Publishers of the races of a command: metrics while a race runs, say, or documents of it when it has ended."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from esbench.cli.command import C, with_options
from esbench.tables import PUBLISHERS, is_absent, load

if TYPE_CHECKING:
    from esbench.events.listeners import Listener
    from esbench.events.progress import Progress

    Listeners = Mapping[str, Sequence[Listener]]


class Publisher:
    """A way to publish a race. `flags` are a command's arguments by name; by default a method does nothing."""

    def options(self, command: C) -> C:
        """Add the options to a command that races."""
        return command

    def check(self, flags: Mapping[str, Any]) -> None:
        """Raise an EsbenchError, before any race, if a race could not be published afterwards."""

    def follow(
        self, flags: Mapping[str, Any], progress: Progress, sides: Mapping[str, Progress]
    ) -> AbstractContextManager[Listeners]:
        """Context manager for the length of races that are run at once: yields further listeners of each side's race.

        `sides`: the progress of each, by name; the name of a race that is run alone is "". Raises UsageError for wrong
        options.
        """
        return _nobody()

    def publish(self, flags: Mapping[str, Any], home: Path, race_id: str, progress: Progress) -> bool:
        """Publish a race that has ended, if asked for. False if that failed, after printing the reason; else True."""
        return True


def publishing_options(command: C) -> C:
    """Add the options of all publishers to a command that races."""
    return with_options(*(each.options for each in _publishers()))(command)


def check_publishing(flags: Mapping[str, Any]) -> None:
    """Raise an EsbenchError, before any race, if a race could not be published as the flags say."""
    for each in _publishers():
        each.check(flags)


@contextmanager
def followers(flags: Mapping[str, Any], progress: Progress) -> Iterator[Sequence[Listener]]:
    """Context manager for the length of a race: yields the listeners that the options ask for, which may be none.

    Raises UsageError for wrong options, and if a port cannot be listened at.
    """
    with followers_of_sides(flags, progress, {"": progress}) as of_sides:
        yield of_sides[""]


@contextmanager
def followers_of_sides(
    flags: Mapping[str, Any], progress: Progress, sides: Mapping[str, Progress]
) -> Iterator[Listeners]:
    """As `followers`, for races that are run at once: yields the listeners of each side's race by its name.

    `sides`: the progress of each, by name; the name of a race that is run alone is "".
    """
    with ExitStack() as stack:
        found = [stack.enter_context(each.follow(flags, progress, sides)) for each in _publishers()]
        yield {side: [listener for each in found for listener in each.get(side, ())] for side in sides}


def publish(flags: Mapping[str, Any], home: Path, race_id: str, progress: Progress) -> bool:
    """Publish a race that has ended as the flags say. False if that failed, after printing the reason; else True."""
    done = [
        each.publish(flags, home, race_id, progress) for each in _publishers()
    ]  # one that fails keeps no other back
    return all(done)


@contextmanager
def _nobody() -> Iterator[Listeners]:
    yield {}


def _publishers() -> Sequence[Publisher]:
    return [load(location)() for location in PUBLISHERS if not is_absent(location)]
