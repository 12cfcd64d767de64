"""Comparability of two sides: the facts that differ between them, and which of these forbid a comparison
(docs/verdicts.md)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from esbench.comparison.model import Difference, Side
from esbench.comparison.nodes import OF_OTHERS
from esbench.comparison.parts import facts_of_parts, without_parts
from esbench.errors import UsageError, did_you_mean
from esbench.record.figures import task_label
from esbench.record.index_prefix import index_prefix, other_params, without_prefix
from esbench.record.model import ClusterFacts, CorpusFacts, NodeFacts, RaceRecord, TaskResult

# Settings of an embedded node that its cluster reports too, or that identify its processes.
_TOLD_ELSEWHERE = ("distribution", "version", "nodes", "heap_bytes", "java", "pids", "node_options")
TASKS = "tasks"
_RACE_KEYS = ("track", "track digest", "challenge", "seed", "test mode", "host", "esbench", TASKS)
_RATE_KEYS = ("schedule", "target rate", "target unit", "stages", "ramp up", "ramp down", "think time", "think times")
SEARCHED_TASK, OBJECTIVES, WHILE = "searched task", "objectives", "while"
_TASK_KEYS = ("operation", "loop", "clients", "workers", *_RATE_KEYS, "slices")
CORPUS, NODE_HOST, ANSWERS = "corpus", "node host", "answers"
KEYS = (*_RACE_KEYS, NODE_HOST, CORPUS, ANSWERS, SEARCHED_TASK, OBJECTIVES, WHILE, *_TASK_KEYS)


def checked_keys(keys: Collection[str]) -> tuple[str, ...]:
    """Return the keys given to `--allow` in their standard form. Words may be joined by spaces, - or _, keys by commas.

    Raises UsageError for an unknown key.
    """
    found = []
    for given in (part for each in keys for part in each.split(",")):
        key = " ".join(given.replace("-", " ").replace("_", " ").lower().split())
        if key not in KEYS:
            raise UsageError(f'"{given}" is not a key of a workload', where="--allow", hint=did_you_mean(key, KEYS))
        found.append(key)
    return tuple(found)


def differences(baseline: Side, contender: Side, allow: Collection[str] = ()) -> tuple[Difference, ...]:
    """Return a Difference for each fact that is not the same in all races of both sides. Facts that one side cannot
    have (`known_of_one`) are left out.

    Of tasks, only those common to all races are looked into; other tasks are one difference, "tasks". Of a part of a
    feature, what it was asked for is looked into, not the tasks with which that was done. Facts of the
    workload carry their key; those whose key is in `allow` (in its standard form: `checked_keys`) are marked as
    allowed.
    """
    common = _common_tasks((*baseline.records, *contender.records))
    ours, theirs = _facts_of(baseline, common), _facts_of(contender, common)
    unknown = known_of_one(baseline, contender)
    found = []
    for name, fact in {**ours, **theirs}.items():
        if name in unknown:
            continue
        one, other = (side[name].values if name in side else [None] for side in (ours, theirs))
        if len(one) == len(other) == 1 and one == other:
            continue
        if fact.key == TASKS:
            reordered = all(set(tasks or ()) == set(common) for tasks in (*one, *other))
            shown = tuple if reordered else partial(_others, common=common)
            one, other = ([", ".join(shown(tasks or ())) for tasks in values] for values in (one, other))
        found.append(
            Difference(name, _shown(one), _shown(other), fact.is_label, fact.key, fact.task, allowed=fact.key in allow)
        )
    return tuple(found)


def known_of_one(baseline: Side, contender: Side) -> tuple[str, ...]:
    """Return the names of the facts that one side has and the other cannot have: settings of nodes, which are
    known only if esbench started the nodes."""
    sides = (baseline, contender)
    return tuple(
        name
        for side, other in (sides, sides[::-1])
        if all(cluster.pipeline in OF_OTHERS for record in other.records for cluster in record.clusters.values())
        for name, fact in _facts_of(side, ()).items()
        if fact.is_setting
    )


def same_setup(record: RaceRecord, other: RaceRecord, allow: Collection[str] = ()) -> bool:
    """True if two races have the same workload, engine facts and host: only tags and the keys in `allow` may differ."""
    one, two = Side("", (record,)), Side("", (other,))
    return all(difference.is_label or difference.allowed for difference in differences(one, two, allow))


def _common_tasks(records: Collection[RaceRecord]) -> set[str]:
    return set.intersection(*({task.name for task in without_parts(record).tasks} for record in records))


@dataclass(frozen=True)
class Fact:
    """The values that a side's races have for one fact, each different value once.

    `key`, `task` and `is_label` as in Difference. `is_setting`: it is a setting of nodes that esbench started.
    """

    values: list[Any]
    key: str = ""
    task: str = ""
    is_label: bool = False
    is_setting: bool = False


def named_facts(prefix: str, facts: Mapping[str, Any], keys: Collection[str] = (), task: str = "") -> dict[str, Fact]:
    """Flatten `facts` to names and facts: {"a": {"b": 1}} with the prefix "x " becomes {"x a.b": 1}.

    Names in `keys` are facts of the workload and become their own key; `task` is the task that they belong to.
    """
    flat: dict[str, Fact] = {}
    for name, value in facts.items():
        if isinstance(value, Mapping):
            flat |= named_facts(f"{prefix}{name}.", value)
        else:
            flat[f"{prefix}{name}"] = Fact([value], name if name in keys else "", task)
    return flat


def slices_text(task: TaskResult) -> str | None:
    """Return the slices that a task was raced in; None of one that had all the time."""
    return f"{task.slices.length_s:g} s, {task.slices.sides} sides" if task.slices is not None else None


def _facts_of(side: Side, tasks: Collection[str]) -> dict[str, Fact]:
    """Return the facts of a side's races by name; the value is None for a race that lacks the fact."""
    races = [_facts(record, tasks) for record in side.records]
    facts = {name: fact for race in races for name, fact in race.items()}
    for name, fact in facts.items():
        values: list[Any] = []
        for race in races:
            value = race[name].values[0] if name in race else None
            if value not in values:
                values.append(value)
        facts[name] = replace(fact, values=values)
    return facts


def _shown(values: list[Any]) -> Any:
    return values[0] if len(values) == 1 else ["none" if value is None else str(value) for value in values]


def _others(tasks: Collection[str], common: Collection[str]) -> tuple[str, ...]:
    """Return those of a race's tasks that are not common to all races."""
    return tuple(name for name in tasks if name not in common) or ("none of its own",)


def _corpus(corpus: CorpusFacts) -> str:
    kind = "synthetic documents" if corpus.synthetic else "documents"
    how = ", unpacked while they were sent" if corpus.streamed else ""
    return f"{corpus.documents} {kind}, {corpus.digest[:12]}{how}"


def _facts(record: RaceRecord, tasks: Collection[str]) -> dict[str, Fact]:
    """Return the facts of a race by the names that users see: those that must be equal for two races to have measured
    the same thing, and those under test. `tasks`: the names of the tasks to include. Names of
    indices are without the race's prefix."""
    track = {"track": record.track.name, "challenge": record.challenge, "track digest": record.track.digest[:12]}
    facts = named_facts("", track, _RACE_KEYS) | named_facts("param ", other_params(record.track_params))
    facts |= {f"corpus {corpus.name}": Fact([_corpus(corpus)], CORPUS) for corpus in record.corpora}
    for name, cluster in record.clusters.items():
        indices = without_prefix(cluster.indices, index_prefix(record.track_params))
        facts |= _cluster_facts(replace(cluster, indices=indices), "" if len(record.clusters) == 1 else f"{name}: ")
    race = {
        "seed": record.seed,
        "test mode": record.test_mode,
        "host": record.host_class,
        "esbench": " ".join(record.esbench.values()),
        TASKS: [task.name for task in without_parts(record).tasks],
    }
    facts |= named_facts("", race, _RACE_KEYS)
    facts |= {name: replace(tag, is_label=True) for name, tag in named_facts("tag ", record.user_tags).items()}
    facts |= facts_of_parts(record)
    for task in without_parts(record).tasks:
        if task.name in tasks:
            label = task_label(record, task)
            # clients of a closed loop are worth the same on any worker; `driver-busy` says where one had too many
            keys = [key for key in _TASK_KEYS if key != "workers" or task.loop == "open"]
            facts |= named_facts(f"{label}: ", _task_facts(task), keys, label)
    return facts


def _cluster_facts(cluster: ClusterFacts, prefix: str) -> dict[str, Fact]:
    facts: dict[str, Any] = {
        "pipeline": cluster.pipeline,
        "version": " ".join([cluster.distribution, cluster.version, cluster.build_hash[:8]]).strip(),
        "nodes": len(cluster.nodes),
    }
    if cluster.pipeline in OF_OTHERS:  # an embedded node gets a free port: that is no difference
        facts["hosts"] = sorted(cluster.hosts)
    for name in ("heap_max_bytes", "jvm"):
        facts[f"node {name}"] = sorted({str(getattr(node, name)) for node in cluster.nodes})
    facts[NODE_HOST] = sorted({_node_host(node) for node in cluster.nodes})
    facts["node plugins"] = sorted({plugin for node in cluster.nodes for plugin in node.plugins})
    facts["node jvm flags"] = sorted({flag for node in cluster.nodes for flag in node.jvm_flags})
    found = named_facts(prefix, facts, (NODE_HOST,))
    found |= named_facts(f"{prefix}cluster setting ", cluster.cluster_settings)
    told = {name: value for name, value in cluster.settings.items() if name not in _TOLD_ELSEWHERE}
    settings = named_facts(f"{prefix}node ", told)
    settings |= named_facts(f"{prefix}node option ", cluster.settings.get("node_options", {}))
    found |= {name: replace(fact, is_setting=True) for name, fact in settings.items()}
    for name, index in cluster.indices.items():
        of_index = {key.removeprefix("index."): value for key, value in index.get("settings", {}).items()}
        found |= named_facts(f"{prefix}index {name}: ", of_index | _mapping(index))
    return found


def _mapping(index: Mapping[str, Any]) -> dict[str, Any]:
    """Return what an index's mappings say of each field; only their digest where the record does not hold them."""
    mappings = index.get("mappings")
    if mappings is None:
        return {"mappings": index.get("mappings_digest")}
    others = {name: value for name, value in mappings.items() if name != "properties"}
    return {**dict(_fields(mappings.get("properties", {}))), **({"mapping": others} if others else {})}


def _fields(properties: Mapping[str, Any], parent: str = "") -> Iterator[tuple[str, Any]]:
    """Yield "field NAME" and its parameters for each field, and for those within it."""
    for name, field in properties.items():
        of_field = {key: value for key, value in field.items() if key not in ("properties", "fields")}
        yield f"field {parent}{name}", of_field or {"type": "object"}
        for key in ("properties", "fields"):
            yield from _fields(field.get(key, {}), f"{parent}{name}.")


def _node_host(node: NodeFacts) -> str:
    """Describe the parts of a node's machine that are not under test: cores, memory, file systems of its data."""
    cores = f"{node.processors or 'unknown number of'} cores"
    memory = f"{node.memory_bytes / (1 << 30):.0f} GiB" if node.memory_bytes else "memory unknown"
    kinds = sorted({f"{disk.type or 'disk'}{', spins' if disk.spins else ''}" for disk in node.disks})
    return ", ".join([cores, memory, *kinds])


def _task_facts(task: TaskResult) -> dict[str, Any]:
    return {
        "operation": task.operation_type,
        "parameters digest": task.params_digest[:12],
        "loop": task.loop,
        "clients": task.clients,
        "workers": task.workers,
        "schedule": task.schedule,
        "target rate": task.target_rate_per_s,
        "target unit": task.target_unit,
        "stages": [f"{each.duration_s:g} s at {each.rate_per_s:g} {each.unit}/s" for each in task.stages],
        "ramp up": task.ramp_up_s,
        "ramp down": task.ramp_down_s,
        "think time": task.think_time_s,
        "think times": task.think_spread,
        "slices": slices_text(task),
    }
