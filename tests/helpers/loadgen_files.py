"""Files of Loadgen: the published example, and how a test writes one."""

from __future__ import annotations

from pathlib import Path

from esbench.features.loadgen.convert import LoadgenTrack, track_of
from esbench.features.loadgen.file import open_loadgen
from esbench.model import Challenge, Track
from esbench.operations import builtin_operations
from esbench.track.loader import load_track, read_track
from esbench.track.rendering import RenderContext

# The example of Loadgen's README ("Reuse variables in Request Context").
PUBLISHED = r"""
variables:
  - {name: id, type: sequence}
  - {name: uuid, type: uuid}
  - {name: now_local, type: now_local}
  - {name: now_utc, type: now_utc}
  - {name: now_unix, type: now_unix}
  - {name: suffix, type: range, from: 10, to: 15}
requests:
  - request:
      method: POST
      runtime_variables:
        batch_no: id
      runtime_body_line_variables:
        routing_no: uuid
      basic_auth:
        username: ingest
        password: password
      #url: http://localhost:8000/_search?q=$[[id]]
      url: http://192.168.3.188:9206/_bulk
      body_repeat_times: 10
      body: "{ \"create\" : { \"_index\" : \"test-$[[suffix]]\",\"_type\":\"doc\", \"_id\" : \"$[[uuid]]\" , \"routing\" : \"$[[routing_no]]\" } }\n{ \"id\" : \"$[[uuid]]\",\"routing_no\" : \"$[[routing_no]]\",\"batch_number\" : \"$[[batch_no]]\", \"random_no\" : \"$[[suffix]]\",\"ip\" : \"$[[ip]]\",\"now_local\" : \"$[[now_local]]\",\"now_unix\" : \"$[[now_unix]]\" }\n"
"""  # noqa: E501


def write(folder: Path, text: str, name: str = "loadgen.yml") -> Path:
    file = folder / name
    file.write_text(text)
    return file


def converted(folder: Path, text: str, host: str = "", **environment: str) -> LoadgenTrack:
    """The track of a file with this text."""
    return track_of(open_loadgen(write(folder, text)).read(environment), host=host)


def loaded(folder: Path, track: LoadgenTrack, **params: object) -> Track:
    """The track as a race loads it."""
    track.write(folder / "made")
    context = RenderContext({**track.params, **params}, distribution="http", version="", now=0.0)
    return load_track(read_track(folder / "made" / "track.yml", context), builtin_operations())


def challenge(folder: Path, text: str, **params: object) -> Challenge:
    return loaded(folder, converted(folder, text), **params).challenges[0]
