"""`--metrics-port` and `--metrics-buckets`: a further listener of a running race."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from esbench.cli.command import C, with_options
from esbench.cli.option import of_publishing
from esbench.cli.publishing import Publisher
from esbench.errors import UsageError
from esbench.events.progress import Progress

if TYPE_CHECKING:
    from esbench.events.listeners import Listener

PORT, BUCKETS = "--metrics-port", "--metrics-buckets"

metrics_options = with_options(
    of_publishing(PORT, default="", metavar="[HOST:]PORT", help="Serve metrics for Prometheus while the race runs."),
    of_publishing(
        BUCKETS,
        default="",
        metavar="LIST",
        show_default="1,2,3 ... 500,1000",
        help="With --metrics-port: upper bounds of the latency buckets, in ms.",
    ),
)


class MetricsPublisher(Publisher):
    """The endpoint for Prometheus, which follows a running race."""

    def options(self, command: C) -> C:
        return metrics_options(command)

    def check(self, flags: Mapping[str, Any]) -> None:
        """Raise a UsageError, before any race, for what `follow` would refuse."""
        with self.follow(flags, Progress(), {}):
            pass

    @contextmanager
    def follow(
        self, flags: Mapping[str, Any], progress: Progress, sides: Mapping[str, Progress]
    ) -> Iterator[Mapping[str, Sequence[Listener]]]:
        """Context manager: yields the listeners. Raises UsageError, too, if the port cannot be listened at."""
        if flags["metrics_buckets"] and not flags["metrics_port"]:
            raise UsageError(f"{BUCKETS} describes metrics that are not served", hint=f"add {PORT}=9108")
        with ExitStack() as stack:
            listeners: dict[str, list[Listener]] = {side: [] for side in sides}
            if flags["metrics_port"]:
                for side, following in _metrics(flags, progress, tuple(sides), stack).items():
                    listeners[side].append(following)
            yield listeners


def _metrics(
    flags: Mapping[str, Any], progress: Progress, sides: Sequence[str], stack: ExitStack
) -> Mapping[str, Listener]:
    from esbench.features.publish.prometheus.endpoint import MetricsEndpoint, parse_address
    from esbench.features.publish.prometheus.folding import DEFAULT_BOUNDS, parse_bounds
    from esbench.features.publish.prometheus.following import FollowedRace

    bounds = parse_bounds(flags["metrics_buckets"] or DEFAULT_BOUNDS, BUCKETS)
    following = {side: FollowedRace(side=side) for side in sides}
    address = parse_address(flags["metrics_port"])
    endpoint = stack.enter_context(MetricsEndpoint(address, tuple(following.values()), bounds))
    everyone = "" if address.is_loopback else ", for everyone who can reach this host"
    progress.say(f"metrics at {endpoint.url}{everyone}")
    return following
