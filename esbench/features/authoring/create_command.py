"""`esbench create-track`: creates a track from existing indices."""

from __future__ import annotations

from typing import Any

import click

from esbench.cli.command import EsbenchCommand, UserPath
from esbench.cli.option import option
from esbench.cli.progress_options import progress_of, progress_options
from esbench.errors import UsageError
from esbench.errors.printable import printable
from esbench.numbers import whole_of


@click.command(
    "create-track",
    cls=EsbenchCommand,
    examples=(
        "esbench create-track --track=shop --indices=orders,customers --target-hosts=10.0.0.1:9200",
        "esbench create-track --track=logs --data-streams='logs-*' --documents=100000 --target-hosts=10.0.0.1:9200",
    ),
    docs="docs/tracks.md",
)
@option("--track", required=True, metavar="NAME", help="The name of the track and of its folder.")
@option(
    "--output-path",
    type=UserPath(),
    default="tracks",
    help="The folder that the track's folder is made in.",
)
@option(
    "--indices",
    default="",
    metavar="LIST",
    needed="required unless --data-streams",
    help="Names, aliases or patterns of indices.",
)
@option("--data-streams", matters=True, default="", metavar="LIST", help="Names or patterns of data streams.")
@option("--target-hosts", required=True, metavar="HOSTS", help="The cluster to read from: host:port,...")
@option(
    "--client-options",
    matters=True,
    default="",
    metavar="OPTIONS",
    help="How to connect: timeout:60,use_ssl:true,api_key:KEY...",
)
@option(
    "--documents",
    matters=True,
    default="all",
    metavar="N",
    help="How many documents of each index, chosen at random; or by index: orders:1000,logs-*:all.",
)
@option("--keep-ids", is_flag=True, help="Documents keep their ids.")
@option(
    "--batch-size",
    type=click.IntRange(1, 10_000),
    default=1000,
    help="How many documents a request reads, 10000 at most.",
)
@option(
    "--slices",
    type=click.IntRange(1, 10),
    default=4,
    help="How many requests read an index at the same time, 10 at most.",
)
@option(
    "--compression",
    type=click.Choice(["zst", "gz", "bz2"]),
    default="zst",
    help="How files of documents are packed.",
)
@progress_options
def create_track(**flags: Any) -> None:
    """Make a track of indices of a cluster: their settings, mappings and documents.

    The cluster is only read.
    """
    from esbench.features.authoring.create import result_lines, run

    with progress_of(flags) as progress:
        options = _options(flags)
        with progress:
            for warning in options.client_options.warnings:
                progress.warn(warning)
            made = run(options, progress)
    for line in result_lines(*made):
        click.echo(printable(line))


def _options(flags: dict[str, Any]) -> Any:
    """Return CreateTrackOptions from flags. UsageError for a wrong value."""
    from esbench.cli.values import parse_client_options, parse_list, parse_target_hosts
    from esbench.cluster.options import ClientOptions, parse_hosts
    from esbench.features.authoring.create import CreateTrackOptions

    indices = parse_list(flags["indices"], "--indices")
    data_streams = parse_list(flags["data_streams"], "--data-streams")
    if bool(indices) == bool(data_streams):
        what = "a track has either indices or data streams" if indices else "nothing to make a track of"
        raise UsageError(what, hint="say --indices=a,b-* or --data-streams=logs-*")
    client_options = ClientOptions.from_mapping(parse_client_options(flags["client_options"]))
    per_index = _per_index(flags["documents"])
    hosts, client_options = parse_hosts(parse_target_hosts(flags["target_hosts"]), client_options)
    return CreateTrackOptions(
        name=flags["track"],
        output_path=flags["output_path"],
        hosts=hosts,
        client_options=client_options,
        indices=indices,
        data_streams=data_streams,
        documents=None if per_index else _documents(flags["documents"]),
        documents_of=per_index,
        keep_ids=flags["keep_ids"],
        page_size=flags["batch_size"],
        readers=flags["slices"],
        packing=flags["compression"],
    )


def _per_index(text: str) -> dict[str, int | None]:
    """Parse the numbers of documents by the names or patterns of indices; none if the text is one number for all."""
    if ":" not in text:
        return {}
    from esbench.cli.values import parse_mapping

    return {name: _documents(str(number)) for name, number in parse_mapping(text, "--documents").items()}


def _documents(text: str) -> int | None:
    """Parse the number of documents; None for all."""
    if text.strip().lower() == "all":
        return None
    number = whole_of(text.replace("_", "").replace(",", ""))
    if not number:
        raise UsageError(f'"{text}" is not a number of documents', where="--documents", hint="say 100000, or all")
    return number
