"""`esbench create-track`: creates a track from existing indices."""

from __future__ import annotations

from typing import Any

import click

from esbench.cli.command import EsbenchCommand, UserPath
from esbench.cli.progress_options import progress_of, progress_options
from esbench.errors import UsageError
from esbench.errors.printable import printable


@click.command("create-track", cls=EsbenchCommand)
@click.option("--track", required=True, metavar="NAME", help="The track's name, and that of its folder.")
@click.option(
    "--output-path",
    type=UserPath(),
    default="tracks",
    show_default=True,
    help="The folder that the track's folder is made in.",
)
@click.option("--indices", default="", metavar="LIST", help="Names, aliases or patterns of indices.")
@click.option("--data-streams", default="", metavar="LIST", help="Instead: names or patterns of data streams.")
@click.option("--target-hosts", required=True, metavar="HOSTS", help="host:port,... of the cluster.")
@click.option(
    "--client-options", default="", metavar="OPTIONS", help="timeout:60,use_ssl:true, basic_auth_user:'x' ..."
)
@click.option(
    "--documents",
    default="all",
    metavar="N",
    show_default=True,
    help="A random sample of each index, or of some: orders:1000,logs-*:all.",
)
@click.option("--keep-ids", is_flag=True, help="Documents keep their ids.")
@click.option(
    "--batch-size", type=click.IntRange(1, 10_000), default=1000, show_default=True, help="Documents per request."
)
@click.option(
    "--slices", type=click.IntRange(1, 10), default=4, show_default=True, help="How many are read at the same time."
)
@click.option(
    "--compression",
    type=click.Choice(["zst", "gz", "bz2"]),
    default="zst",
    show_default=True,
    help="How document files are packed.",
)
@progress_options
def create_track(**flags: Any) -> None:
    """Make a track of indices of a cluster: their settings, mappings and documents. The cluster is only read."""
    from esbench.create_track.create import result_lines, run

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
    from esbench.create_track.create import CreateTrackOptions

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
    digits = text.replace("_", "").replace(",", "")
    if not digits.isdecimal() or int(digits) == 0:
        raise UsageError(f'"{text}" is not a number of documents', where="--documents", hint="say 100000, or all")
    return int(digits)
