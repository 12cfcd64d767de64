"""When tasks of a track send: rates and their units, stages, what a `parallel` hands on and who shares clients."""

from __future__ import annotations

from pathlib import Path

import pytest
from track_files import load, write_track

from esbench.errors import EsbenchError
from esbench.load.task_results import params_digest
from esbench.model import ANY_TASK, Schedule, Stage, Step, Task
from esbench.units import PERCENT, Rate

BULK = "{operation-type: bulk, bulk-size: 100}"
REINDEX = "{operation-type: reindex, body: {}}"
STAGES = (Stage(60.0, Rate(100.0, "ops")), Stage(30.0, Rate(200.0, "ops")))


def step_of(tmp_path: Path, text: str) -> Step:
    (step,) = load(write_track(tmp_path, f"schedule: [{text}]")).challenges[0].steps
    return step


def one_task(tmp_path: Path, keys: str, operation: str = "refresh") -> Task:
    (task,) = step_of(tmp_path, f"{{operation: {operation}, {keys}}}").tasks
    return task


def parallel(tmp_path: Path, keys: str, *tasks: str) -> Step:
    inner = ", ".join(f"{{operation: refresh, {task}}}" for task in tasks)
    return step_of(tmp_path, f"{{parallel: {{{keys}, tasks: [{inner}]}}}}")


def failure(tmp_path: Path, text: str) -> str:
    with pytest.raises(EsbenchError) as caught:
        step_of(tmp_path, text)
    assert caught.value.exit_code == 2
    message = str(caught.value)
    assert "\n" not in message
    assert "track.yml:1: " in message
    return message.partition("track.yml:1: ")[2]


# rates


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("200", Rate(200.0, "ops")),
        ('"200"', Rate(200.0, "ops")),
        ("200 ops/s", Rate(200.0, "ops")),
        ("1000 docs/s", Rate(1000.0, "docs")),
        ("5 MB/s", Rate(5.0, "MB")),
        ("512 KB/s", Rate(0.5, "MB")),
    ],
)
def test_a_bulk_is_paced_by_requests_documents_or_bytes(tmp_path: Path, text: str, rate: Rate) -> None:
    assert one_task(tmp_path, f"target-throughput: {text}", BULK).schedule == Schedule(rate=rate)


@pytest.mark.parametrize(
    ("operation", "rate", "expected"),
    [
        ("refresh", "5 docs/s", "the target rate is in docs/s, the operation counts ops (say ops/s)"),
        (
            BULK,
            "5 pages/s",
            "the target rate is in pages/s, the operation counts docs (say docs/s, or ops/s for requests)",
        ),
        (BULK, "1k docs/s", "the target rate is in k docs/s, the operation counts docs"),
        (
            "{operation-type: composite-agg, index: a, body: {aggs: {by: {composite: {}}}}}",
            "100 pages/s",
            "the target rate is in pages/s, and how many pages a request stands for is not known before (say ops/s)",
        ),
        (
            REINDEX,
            "1000 docs/s",
            "the target rate is in docs/s, and how many docs a request stands for is not known before (say ops/s)",
        ),
        (REINDEX, "5 pages/s", "the target rate is in pages/s, the operation counts docs (say ops/s)"),
        ("refresh", "5 MB/s", 'the target rate is in bytes, and how large the requests of "refresh" are is not known'),
        (BULK, "5 Mb/s", '"target-throughput": "5 Mb/s" is a rate in bits (say "MB/s" for bytes)'),
        (BULK, "-7%", '"target-throughput": "-7%" is not a rate (say "70%" of the capacity, or 1000)'),
        (BULK, "70 docs%", '"target-throughput": "70 docs%" is not a rate'),
        (BULK, "5", 'unknown schedule "poison" (did you mean "poisson"?'),
    ],
)
def test_a_rate_that_does_not_fit_is_refused_where_it_stands(
    tmp_path: Path, operation: str, rate: str, expected: str
) -> None:
    keys = ", schedule: poison" if rate == "5" else ""
    assert failure(tmp_path, f"{{operation: {operation}, target-throughput: {rate}{keys}}}").startswith(expected)


def test_a_plain_number_is_in_requests_also_where_their_units_are_not_known(tmp_path: Path) -> None:
    assert one_task(tmp_path, "target-throughput: 5", REINDEX).schedule == Schedule(rate=Rate(5.0, "ops"))


def test_the_units_of_stages_are_looked_at_too(tmp_path: Path) -> None:
    assert "docs/s, the operation counts ops" in failure(tmp_path, '{operation: refresh, stages: "0-5s: 1 docs/s"}')


@pytest.mark.parametrize("operation", ["refresh", BULK])
@pytest.mark.parametrize(("text", "percent"), [("70%", 70.0), ('"150 %"', 150.0), ("12.5%", 12.5)])
def test_a_rate_in_percent_of_a_capacity_is_one_of_any_operation(
    tmp_path: Path, operation: str, text: str, percent: float
) -> None:
    schedule = one_task(tmp_path, f"target-throughput: {text}", operation).schedule
    assert schedule == Schedule(rate=Rate(percent, PERCENT))
    assert str(schedule.rate) == f"{percent:g} % of the capacity"


# stages


@pytest.mark.parametrize(
    ("text", "stages"),
    [
        ("[{for: 60s, target-throughput: 100}, {for: 30, target-throughput: 200/s}]", STAGES),
        ('"0-60s: 100/s, 60-90s: 200/s"', STAGES),
        ('"0-1m: 100, 60s-90s: 200 ops/s"', STAGES),
        ('"0s - 60s : 100/s; 1m-1.5m: 200/s,"', STAGES),
        ('"0-60: 100/s\\n60-90: 200/s"', STAGES),
        ('"0-500ms: 3/s, 500ms-1s: 4/s"', (Stage(0.5, Rate(3.0, "ops")), Stage(0.5, Rate(4.0, "ops")))),
        ('"0-1s: 50%, 1-2s: 9/s"', (Stage(1.0, Rate(50.0, PERCENT)), Stage(1.0, Rate(9.0, "ops")))),
        ("[{for: 1, target-throughput: 50%}]", (Stage(1.0, Rate(50.0, PERCENT)),)),
        ("null", ()),
    ],
)
def test_stages_are_a_list_or_text(tmp_path: Path, text: str, stages: tuple[Stage, ...]) -> None:
    assert one_task(tmp_path, f"stages: {text}").schedule == Schedule(stages=stages)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", '"" is not a stage (say "0-60s: 100/s, 60-120s: 500/s")'),
        ("60s: 100/s", '"60s: 100/s" is not a stage'),
        ("0-60s 100/s", '"0-60s 100/s" is not a stage'),
        (
            "0-60s: 100/s, 90-120s: 5/s",
            'the stage "90-120s: 5/s" does not continue at 1 min, where the one',
        ),
        ("0-60s: 100/s, 30-90s: 5/s", 'the stage "30-90s: 5/s" does not continue at 1 min, where the one'),
        ("10-60s: 100/s", 'the stage "10-60s: 100/s" does not begin at 0'),
        ("0-0s: 100/s", 'the stage "0-0s: 100/s" ends before it begins'),
        ("0-60s: 0/s", 'a rate must be above zero, not "0/s"'),
        ("0-60s: fast", '"fast" is not a rate'),
        ("0-60 parsecs: 5/s", '"60 parsecs" has no known unit of time'),
    ],
)
def test_stages_in_text_that_cannot_be_are_one_line(tmp_path: Path, text: str, expected: str) -> None:
    message = failure(tmp_path, f'{{operation: refresh, stages: "{text}"}}')
    assert message.startswith(expected)


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ("time-period: 5", 'task "refresh" has both "stages" and "time-period"'),
        ("iterations: 5", 'task "refresh" has both "stages" and "iterations"'),
        ("requests: 5", 'task "refresh" has both "stages" and "requests"'),
        ("warmup-iterations: 5", 'task "refresh" mixes warmup-iterations and periods of time'),
        ("warmup-time-period: 10", 'the "warmup-time-period" of task "refresh" is as long as its stages'),
        (
            "warmup-time-period: 5, ramp-up-time-period: 5",
            'task "refresh" has both "stages" and "ramp-up-time-period" (begin with a stage of a low rate)',
        ),
        ("target-interval: 5", '"target-interval" and "stages" exclude one another'),
        ("think-time: 5", 'task "refresh" has a target rate and a "think-time"'),
    ],
)
def test_stages_are_the_length_and_the_rate_of_their_task(tmp_path: Path, keys: str, expected: str) -> None:
    message = failure(tmp_path, f'{{operation: refresh, stages: "0-10s: 5/s", {keys}}}')
    assert message.startswith(expected)


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ("requests: 5, warmup-time-period: 1", 'task "refresh" mixes requests and periods of time'),
        ("warmup-iterations: 5, time-period: 1", 'task "refresh" mixes warmup-iterations and periods of time'),
        ("requests: 5, iterations: 1", 'task "refresh" has both "requests" and "iterations"'),
    ],
)
def test_a_length_is_in_requests_or_in_time(tmp_path: Path, keys: str, expected: str) -> None:
    assert failure(tmp_path, f"{{operation: refresh, {keys}}}").startswith(expected)


# parallel


def test_what_tasks_lack_they_take_from_the_parallel_around_them(tmp_path: Path) -> None:
    step = parallel(
        tmp_path,
        "warmup-time-period: 10, time-period: 60, ramp-up-time-period: 5, tags: [load, x]",
        "name: a",
        "name: b, time-period: 20, warmup-time-period: 15, tags: own",
        "name: c, ramp-up-time-period: 0",
    )
    assert [(t.warmup_time_s, t.time_period_s, t.schedule.ramp_up_s, t.tags) for t in step.tasks] == [
        (10.0, 60.0, 5.0, ("load", "x")),
        (15.0, 20.0, 5.0, ("own",)),
        (10.0, 60.0, 0.0, ("load", "x")),
    ]
    assert [task.clients for task in step.tasks] == [1, 1, 1]


def test_iterations_are_handed_on_too(tmp_path: Path) -> None:
    step = parallel(tmp_path, "warmup-iterations: 10, iterations: 60", "name: a", "name: b, iterations: 5")
    assert [(task.warmup_iterations, task.iterations) for task in step.tasks] == [(10, 60), (10, 5)]


def test_a_task_with_requests_or_stages_has_its_length(tmp_path: Path) -> None:
    step = parallel(
        tmp_path,
        "warmup-time-period: 10, time-period: 60, ramp-up-time-period: 5",
        'name: a, stages: "0-20s: 5/s"',
        "name: b, requests: 7",
    )
    assert [(t.warmup_time_s, t.time_period_s, t.requests, t.schedule.ramp_up_s) for t in step.tasks] == [
        (10.0, None, None, 0.0),
        (None, None, 7, 0.0),
    ]


def test_the_warmup_that_fits_is_taken_all_the_same(tmp_path: Path) -> None:
    step = parallel(tmp_path, "warmup-iterations: 3, iterations: 5, tags: x", "name: a, requests: 7")
    (task,) = step.tasks
    assert (task.warmup_iterations, task.iterations, task.requests, task.tags) == (3, None, 7, ("x",))


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        (
            "time-period: 9, target-throughput: 5, ramp-down-time-period: 3",
            'the "ramp-down-time-period" of task "refresh" is for clients, and its requests come at a rate '
            '(end with "stages" of lower rates)',
        ),
        (
            "iterations: 9, ramp-down-time-period: 3",
            'the "ramp-down-time-period" of task "refresh" follows a "time-period", and it has none '
            '(give it a "time-period")',
        ),
    ],
)
def test_a_ramp_down_that_cannot_be_is_refused(tmp_path: Path, keys: str, expected: str) -> None:
    assert failure(tmp_path, f"{{operation: refresh, {keys}}}") == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("{from: 1s, to: 1s}", 'the "think-time" is from 1 s to 1 s: no range ("to" is above "from")'),
        ("{from: 1s}", 'a drawn "think-time" cannot have the keys from (say 500ms, {from: 200ms, to: 1s}, '),
        ("{mean: 1s, to: 2s}", 'a drawn "think-time" cannot have the keys mean, to (say 500ms, '),
        ("{}", 'a drawn "think-time" cannot have the keys none (say 500ms, '),
        ("{mean: 0}", 'the "mean" of a "think-time" must be above zero (leave it out '),
        ("{mean: 1s, deviation: 600ms}", 'the "deviation" of a "think-time" is above half of its mean, 1 s (with '),
        ("{mean: soon}", '"mean": "soon" is not a duration'),
        ("{from: [], to: 1s}", '"from": '),
        ("soon", '"think-time": "soon" is not a duration'),
    ],
)
def test_a_think_time_that_cannot_be_drawn_is_refused(tmp_path: Path, value: str, expected: str) -> None:
    assert failure(tmp_path, f"{{operation: refresh, think-time: {value}}}").startswith(expected)


@pytest.mark.parametrize("key", ["target-throughput: 5", "requests: 5", "think-time: 5", "schedule: poisson"])
def test_a_key_that_a_parallel_does_not_hand_on_is_refused(tmp_path: Path, key: str) -> None:
    message = failure(tmp_path, f"{{parallel: {{{key}, tasks: [{{operation: refresh}}]}}}}")
    name = key.partition(":")[0]
    assert message == f'a "parallel" does not hand "{name}" on to its tasks (say it in each of them)'


@pytest.mark.parametrize(
    ("value", "expected"),
    [("b", ("b",)), ("[a, c]", ("a", "c")), ("any", (ANY_TASK,)), ("null", ())],
)
def test_a_parallel_is_completed_by_one_task_several_or_any(
    tmp_path: Path, value: str, expected: tuple[str, ...]
) -> None:
    step = parallel(tmp_path, f"completed-by: {value}", "name: a", "name: b", "name: c")
    assert step.completed_by == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("[a, d]", '"completed-by" names no task of this "parallel": "d"'),
        ("[a, any]", '"completed-by" names no task of this "parallel": "any"'),
        ("[]", "schedule[0].parallel.completed-by must not be empty"),
        ("5", "schedule[0].parallel.completed-by must be text or a list, not 5"),
    ],
)
def test_a_parallel_that_nobody_completes_is_refused(tmp_path: Path, value: str, expected: str) -> None:
    tasks = "[{operation: refresh, name: a}, {operation: refresh, name: b}]"
    assert failure(tmp_path, f"{{parallel: {{completed-by: {value}, tasks: {tasks}}}}}").startswith(expected)


def test_tasks_may_share_fewer_clients(tmp_path: Path) -> None:
    assert parallel(tmp_path, "clients: 4", "name: a, clients: 4", "name: b, clients: 3").clients == 4


def test_beside_a_period_of_time_iterations_do_not_count(tmp_path: Path) -> None:
    task = one_task(tmp_path, "iterations: 20, time-period: 300, target-interval: 4")
    assert (task.iterations, task.time_period_s) == (None, 300.0)


def test_iterations_of_a_parallel_do_not_count_for_a_task_with_a_period_of_time(tmp_path: Path) -> None:
    tasks = "[{operation: refresh, time-period: 5}, {name: other, operation: refresh}]"
    first, second = step_of(tmp_path, f"{{parallel: {{iterations: 3, tasks: {tasks}}}}}").tasks
    assert (first.iterations, second.iterations) == (None, 3)


@pytest.mark.parametrize("key", ["target-throughput", "target-interval"])
@pytest.mark.parametrize("zero", ["0", "0.0", '"0"'])
def test_zero_is_no_target_as_in_rally(tmp_path: Path, key: str, zero: str) -> None:
    assert one_task(tmp_path, f"iterations: 5, {key}: {zero}").schedule.rate is None


@pytest.mark.parametrize("zero", ["0 ops/s", "0/s", "0.0 docs/s", " 0 MB/s", "0%"])
def test_zero_of_any_unit_is_no_target(tmp_path: Path, zero: str) -> None:
    assert one_task(tmp_path, f'iterations: 5, target-throughput: "{zero}"').schedule.rate is None


# recorded arrivals

THREE = "0.5\n1\n1.5\n"
SEARCHES = '{"method": "GET", "path": "/a/_search"}\n' * 3


def recorded(folder: Path, keys: str = "", times: str = THREE, **files: str) -> Task:
    operation = "{operation-type: recorded-requests, file: a.requests}"
    text = f"schedule: [{{operation: {operation}, arrivals: a.arrivals{keys}}}]"
    files = {"a__arrivals": times, "a__requests": SEARCHES, **files}
    (task,) = load(write_track(folder, text, **files)).challenges[0].tasks
    return task


def test_arrivals_make_a_recorded_schedule_which_says_how_long_the_task_is(tmp_path: Path) -> None:
    task = recorded(tmp_path)
    assert task.schedule.is_open
    assert (task.schedule.kind, task.requests) == ("recorded", 3)
    assert task.schedule.recorded is not None
    assert (task.schedule.recorded.count, task.schedule.recorded.last_s) == (3, 1.5)
    assert task.operation.params["file"].path.name == "a.requests"


def test_what_a_recorded_task_asks_is_the_content_of_its_files(tmp_path: Path) -> None:
    first = params_digest(recorded(tmp_path / "a"))
    assert params_digest(recorded(tmp_path / "b")) == first
    assert params_digest(recorded(tmp_path / "c", times="0.5\n1\n2.5\n")) != first
    assert params_digest(recorded(tmp_path / "d", a__requests=SEARCHES * 2)) != first


@pytest.mark.parametrize(
    ("keys", "times", "said"),
    [
        (", target-throughput: 5", THREE, '"arrivals" and "target-throughput" exclude one another'),
        (", iterations: 5", THREE, '"arrivals" and "iterations" exclude one another'),
        (", requests: 5", THREE, 'task "recorded-requests" has 5 requests, and 3 arrivals'),
        ("", "", "no arrival is in this file"),
        ("", "2\n1\n", "line 2 is not after the one before it"),
        ("", "soon\n", "line 1 is not a number of seconds"),
    ],
)
def test_faults_of_arrivals_name_their_place(tmp_path: Path, keys: str, times: str, said: str) -> None:
    with pytest.raises(EsbenchError, match=r"track\.yml:1: .*" + said):
        recorded(tmp_path, keys, times)


def test_a_file_of_requests_that_is_missing_is_named(tmp_path: Path) -> None:
    text = "{operation: {operation-type: recorded-requests, file: b.requests}}"
    assert "there is no file b.requests" in failure(tmp_path, text)
