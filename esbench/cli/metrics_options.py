"""`--metrics-port`, `--metrics-buckets` and `--annotate`: further listeners of a running race."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import click

from esbench.errors import UsageError

if TYPE_CHECKING:
    from esbench.events.listeners import Listener
    from esbench.events.progress import Progress

PORT, BUCKETS, ANNOTATE = "--metrics-port", "--metrics-buckets", "--annotate"


def metrics_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --metrics-port, --metrics-buckets and --annotate to a command."""
    for option in (
        click.option(ANNOTATE, default="", metavar="URL", help="A Grafana in which race and tasks are annotated."),
        click.option(BUCKETS, default="", metavar="LIST", help="Upper bounds of its latency buckets in ms: 1,10,50."),
        click.option(PORT, default="", metavar="[HOST:]PORT", help="Serve metrics for Prometheus while the race runs."),
    ):
        command = option(command)
    return command


@contextmanager
def others_who_follow(flags: Mapping[str, Any], progress: Progress) -> Iterator[list[Listener]]:
    """Yield the listeners that the options ask for, for the length of a race. UsageError for wrong options."""
    if flags["metrics_buckets"] and not flags["metrics_port"]:
        raise UsageError(f"{BUCKETS} describes metrics that nobody serves", hint=f"add {PORT}=9108")
    with ExitStack() as stack:
        listeners: list[Listener] = []
        if flags["annotate"]:
            from esbench.publish.grafana import TOKEN, Annotations, parse_grafana

            grafana = parse_grafana(flags["annotate"], os.environ.get(TOKEN, ""))
            listeners.append(stack.enter_context(Annotations(grafana, progress.warn)))
        if flags["metrics_port"]:
            listeners.append(_metrics(flags, progress, stack))
        yield listeners


def _metrics(flags: Mapping[str, Any], progress: Progress, stack: ExitStack) -> Listener:
    from esbench.publish.prometheus.endpoint import Endpoint, parse_address
    from esbench.publish.prometheus.folding import DEFAULT_BOUNDS, parse_bounds
    from esbench.publish.prometheus.following import Following

    bounds = parse_bounds(flags["metrics_buckets"] or DEFAULT_BOUNDS, BUCKETS)
    following = Following()
    endpoint = stack.enter_context(Endpoint(parse_address(flags["metrics_port"]), following, bounds))
    progress.say(f"metrics at {endpoint.url}")
    return following
