"""Metric families in Prometheus' protobuf format, the only one in which its servers accept native histograms.

Messages and field numbers are those of io.prometheus.client (github.com/prometheus/client_model, metrics.proto), as far
as they are used here. Each family is preceded by its length.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from io import BytesIO
from typing import Any

from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.proto import serialize_length_prefixed
from prometheus_client import Metric
from prometheus_client.samples import NativeHistogram, Sample

CONTENT_TYPE = "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"
_PACKAGE = "io.prometheus.client"
# Message -> field -> (number, type); a type with a capital is another message, one with a star is repeated.
_MESSAGES = {
    "LabelPair": {"name": (1, "string"), "value": (2, "string")},
    "Gauge": {"value": (1, "double")},
    "Counter": {"value": (1, "double")},
    "Bucket": {"cumulative_count": (1, "uint64"), "upper_bound": (2, "double")},
    "BucketSpan": {"offset": (1, "sint32"), "length": (2, "uint32")},
    "Histogram": {
        "sample_count": (1, "uint64"),
        "sample_sum": (2, "double"),
        "bucket": (3, "Bucket*"),
        "schema": (5, "sint32"),
        "zero_threshold": (6, "double"),
        "zero_count": (7, "uint64"),
        "positive_span": (12, "BucketSpan*"),
        "positive_delta": (13, "sint64*"),
    },
    "Metric": {
        "label": (1, "LabelPair*"),
        "gauge": (2, "Gauge"),
        "counter": (3, "Counter"),
        "histogram": (7, "Histogram"),
    },
    "MetricFamily": {
        "name": (1, "string"),
        "help": (2, "string"),
        "type": (3, "int32"),  # an enum of the format; both are varints
        "metric": (4, "Metric*"),
    },
}
_COUNTER, _GAUGE, _HISTOGRAM = 0, 1, 4  # of the enum MetricType


@cache
def family_class() -> Any:
    """Return the message class MetricFamily."""
    file = FileDescriptorProto(name="metrics.proto", package=_PACKAGE, syntax="proto2")
    for message_name, fields in _MESSAGES.items():
        message = file.message_type.add(name=message_name)
        for name, (number, kind) in fields.items():
            label = FieldDescriptorProto.LABEL_REPEATED if kind.endswith("*") else FieldDescriptorProto.LABEL_OPTIONAL
            kind = kind.removesuffix("*")
            if kind[0].isupper():
                described: dict[str, Any] = {"type_name": f".{_PACKAGE}.{kind}"}
            else:
                described = {"type": FieldDescriptorProto.Type.Value(f"TYPE_{kind.upper()}")}
            message.field.add(name=name, number=number, label=label, **described)
    pool = DescriptorPool()
    pool.Add(file)
    return GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.MetricFamily"))


def encode(families: Iterable[Metric]) -> bytes:
    """Encode families of counters, gauges, infos and histograms.

    A histogram's sample under its own name is the native one.
    """
    out = BytesIO()
    for family in families:
        serialize_length_prefixed(_family(family), out)
    return out.getvalue()


def _family(family: Metric) -> Any:
    """Return a message MetricFamily. Names are those of the text format: counters end in _total, infos are gauges."""
    if family.type == "histogram":
        message = family_class()(name=family.name, help=family.documentation, type=_HISTOGRAM)
        _add_histograms(message, family)
        return message
    is_counter = family.type == "counter"
    suffix = {"counter": "_total", "info": "_info", "gauge": ""}[family.type]
    kind = _COUNTER if is_counter else _GAUGE
    message = family_class()(name=family.name + suffix, help=family.documentation, type=kind)
    for sample in family.samples:
        metric = _add_metric(message, sample)
        (metric.counter if is_counter else metric.gauge).value = sample.value
    return message


def _add_metric(message: Any, sample: Sample) -> Any:
    metric = message.metric.add()
    for name, value in sample.labels.items():
        if name != "le":
            metric.label.add(name=name, value=value)
    return metric


def _add_histograms(message: Any, family: Metric) -> None:
    """Add one metric for each set of samples that have the same labels apart from `le`."""
    histograms: dict[tuple[str, ...], Any] = {}
    for sample in family.samples:
        labels = tuple(value for name, value in sample.labels.items() if name != "le")
        if labels not in histograms:
            histograms[labels] = _add_metric(message, sample).histogram
        histogram = histograms[labels]
        match sample.name.removeprefix(family.name):
            case "_bucket":
                histogram.bucket.add(cumulative_count=sample.value, upper_bound=float(sample.labels["le"]))
            case "_count":
                histogram.sample_count = sample.value
            case "_sum":
                histogram.sample_sum = sample.value
            case "" if sample.native_histogram is not None:
                _fill(histogram, sample.native_histogram)


def _fill(histogram: Any, given: NativeHistogram) -> None:
    histogram.schema = given.schema
    histogram.zero_threshold = given.zero_threshold
    histogram.zero_count = given.zero_count
    for offset, length in given.pos_spans or ():
        histogram.positive_span.add(offset=offset, length=length)
    histogram.positive_delta.extend(given.pos_deltas or ())
