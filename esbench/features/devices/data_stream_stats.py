"""data-stream-stats: number of backing indices, size and newest document of data streams."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from esbench.cluster.client import index_path
from esbench.cluster.replies import count, counted, listed, mapping, text
from esbench.telemetry.device import IndexDevice, Param, Reading, Scene, TaskSpan, Unseen
from esbench.telemetry.series import SeriesOf

_GROUP = "data-stream"
_API = "_data_stream"
_STREAMS_AT_MOST = 100
_SINCE = (7, 9)
_NO_SUCH = (400, 404, 405)  # of a server without data streams; 404 also of a data stream that is not there


class DataStreamStats(IndexDevice):
    """Backing indices, size and newest timestamp of the track's data streams."""

    name = "data-stream-stats"
    help = "backing indices, size and newest document of each data stream"
    params = (Param("data-stream-stats-sample-interval", "duration", 10.0, "time between two samples"),)

    def __init__(self, scene: Scene, params: Mapping[str, Any]) -> None:
        super().__init__(scene, params)
        self._last: dict[str, Mapping[str, Any]] = {}

    def begin(self) -> None:
        if self.scene.info.distribution == "elasticsearch" and self.scene.info.version_tuple < _SINCE:
            raise Unseen(f"Elasticsearch {self.scene.info.version} has no data streams: they came with 7.9")
        super().begin()

    def sample(self) -> Iterable[Reading]:
        streams = self._ask(self.names)
        if streams is None:  # one is not there (yet), which hides the others
            streams = [stream for name in self.names for stream in self._ask([name]) or ()]
        self._last = {text(stream["data_stream"]): _gauges(stream) for stream in streams}
        return [Reading(name, _GROUP, self._last[name]) for name in self._largest()]

    def of_task(self, span: TaskSpan, series: Mapping[tuple[str, str], SeriesOf]) -> Mapping[str, Any]:
        """Return the totals over all data streams at the task's end: data_streams, backing_indices, store_bytes.

        `series`: (data stream, group) -> its readings; those that are gone have none in the task. Empty without data
        streams.
        """
        streams = [
            figures
            for (_, group), figures in series.items()
            if group == _GROUP and figures.times_s[-1] > span.window_start_s
        ]
        if not streams:
            return {}
        found = {
            name: [value for stream in streams if (value := stream.last(name, span.ended_s)) is not None]
            for name in ("backing_indices", "store_bytes")
        }
        return {"data_streams": len(streams), **{name: sum(values) for name, values in found.items()}}

    def end(self) -> Mapping[str, Any]:
        """Return `data_streams` as of the last sample, the largest first, at most 100; empty without any.

        Each is {data_stream, backing_indices, store_bytes, newest_ms}; newest_ms, the latest @timestamp in ms since the
        epoch, is None without documents.
        """
        if (left_out := len(self._last) - _STREAMS_AT_MOST) > 0:
            self.note(f"{left_out} of {len(self._last)} data streams are left out: the largest are kept")
        kept = [{"data_stream": name, **self._last[name]} for name in self._largest()]
        return {"data_streams": kept} if kept else {}

    def _largest(self) -> list[str]:
        return sorted(self._last, key=lambda name: (-self._last[name]["store_bytes"], name))[:_STREAMS_AT_MOST]

    def _ask(self, names: Iterable[str]) -> Sequence[Mapping[str, Any]] | None:
        """Return the statistics of data streams; None if one of them does not exist. Indices are left out.

        Raises Unseen if the cluster does not report data streams.
        """
        path = f"/{_API}{index_path(names)}/_stats"
        reply = mapping(self.scene.cluster.request("GET", path, ignore=_NO_SUCH))
        if "error" not in reply:
            return listed(reply["data_streams"])
        error = reply["error"]
        if not isinstance(error, Mapping) or error.get("index") == _API:
            # it does not know the path, or takes it for that of an index
            raise Unseen(f"this build of {self.scene.info.distribution} {self.scene.info.version} has no data streams")
        if "index" in error:
            return None
        raise Unseen(f"the cluster does not report data streams: {error.get('reason', '')}")


def _gauges(stream: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "backing_indices": counted(stream["backing_indices"]),
        "store_bytes": counted(stream["store_size_bytes"]),
        "newest_ms": count(stream.get("maximum_timestamp")) or None,  # 0: it has no document
    }
