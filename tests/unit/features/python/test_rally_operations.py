"""Rally's operation types: esbench runs all of them, as docs/rally.md says."""

from __future__ import annotations

import re
from pathlib import Path

from esbench.operations import builtin_operations

PAGE = Path(__file__).parents[4] / "docs" / "rally.md"
RALLYS = frozenset(
    """
    bulk search paginated-search scroll-search composite-agg composite esql esql-profile sql raw-request run-until
    open-point-in-time close-point-in-time submit-async-search get-async-search delete-async-search field-caps
    downsample index-stats node-stats force-merge refresh cluster-health create-index delete-index create-index-template
    delete-index-template create-composable-template delete-composable-template create-component-template
    delete-component-template create-data-stream delete-data-stream put-pipeline put-settings shrink-index
    create-ilm-policy delete-ilm-policy enrich-policy create-snapshot-repository delete-snapshot-repository
    create-snapshot restore-snapshot wait-for-snapshot-create wait-for-current-snapshots-create wait-for-recovery
    create-transform start-transform stop-transform wait-for-transform delete-transform transform-stats create-ml-job
    open-ml-job close-ml-job delete-ml-job create-ml-datafeed start-ml-datafeed stop-ml-datafeed delete-ml-datafeed
    sleep
    """.split()  # noqa: SIM905
)


def section() -> str:
    return PAGE.read_text().partition("## Operation types\n")[2].partition("\n## ")[0]


def test_every_type_of_rally_runs_and_the_table_names_none_but_those() -> None:
    rows = re.findall(r"^\| (`[a-z-]+`.*?) \|", section(), re.MULTILINE)
    named = set(re.findall(r"`([a-z-]+)`", " ".join(rows)))
    assert named
    assert named <= RALLYS <= set(builtin_operations())
