"""Java Flight Recorder: what Java is asked for, and what is said of its files."""

from __future__ import annotations

from pathlib import Path

from idle_process import idle

from esbench.cluster.client import Cluster, ClusterInfo
from esbench.features.devices.java import RECORDING, Jfr
from esbench.telemetry.device import Scene
from esbench.telemetry.processes import file_in_command

PARAMS = {param.name: param.default for param in Jfr.params}


def test_a_recording_has_no_limits_unless_they_are_given() -> None:
    recording, repository = Jfr.java_options(PARAMS)
    assert recording == (
        "-XX:StartFlightRecording=filename={logs}/esbench.jfr,settings=default,dumponexit=true,maxsize=0,maxage=0s"
    )
    assert repository == "-XX:FlightRecorderOptions=repository={logs}/jfr"
    given = {"recording-template": "own.jfc", "jfr-delay": 2.5, "jfr-duration": 60.0}
    recording, _ = Jfr.java_options(given)
    assert f"settings={Path.cwd()}/own.jfc," in recording
    assert recording.endswith(",delay=2500ms,duration=60000ms")


def test_the_files_of_nodes_are_named_and_what_a_killed_one_leaves(tmp_path: Path) -> None:
    options = [option.replace("{logs}", str(tmp_path)) for option in Jfr.java_options(PARAMS)]
    with idle(*options) as process:
        assert file_in_command(process.pid, RECORDING) == tmp_path / RECORDING
        pids = {"node-0": process.pid}
        scene = Scene(Cluster(["http://127.0.0.1:1"]), ClusterInfo("elasticsearch", "7.10.2"), (), Path(), pids)
        watch = Jfr(scene, PARAMS)
        watch.begin()
        assert watch.end() == {"files": {"node-0": "logs/node-0/esbench.jfr"}}
        assert watch.notes == []
    watch.end()
    assert watch.notes == ["node-0 has ended by itself: what it had recorded is in logs/node-0/jfr"]
