"""Checks the files in benchmarks/kubernetes by the schemas of Kubernetes and of Dask's operator.

    python benchmarks/kubernetes_files.py

Both schemas come from packages that pip downloads and does not install: kubernetes-validate, and dask-kubernetes, whose
definition of DaskCluster the operator itself registers. It exits with 1 and names each fault.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from jsonschema import Draft202012Validator
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012 as KEYWORDS

FILES = Path(__file__).parent / "kubernetes"
_DEFINED = "_definitions.json"


def unpacked(package: str, folder: Path) -> Path:
    """Download a package, unpack it and return its folder."""
    subprocess.run(
        [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder / package), package],
        check=True,
    )
    (wheel,) = (folder / package).glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / package)
    return folder / package


def faults(document: Mapping[str, Any], dask: Path, kubernetes: Path) -> Iterator[str]:
    """Yield what a schema has against a document."""

    def contents(uri: str) -> Resource[Any]:
        """Return the file that a schema refers to: of the operator, or the definitions of Kubernetes."""
        file = dask / uri.removeprefix("python://") if uri.startswith("python://dask_kubernetes") else newest / _DEFINED
        read = yaml.safe_load(file.read_text()) if file.suffix == ".yaml" else json.loads(file.read_text())
        return Resource.from_contents({**read, "definitions": read.get("definitions") or read.get("$defs")}, KEYWORDS)

    newest = max(kubernetes.rglob("v*-local/"), key=lambda path: [int(part) for part in re.findall(r"\d+", path.name)])
    if document["kind"].startswith("Dask"):
        definition = next(dask.rglob(f"customresources/{document['kind'].lower()}.yaml"))
        (version,) = yaml.safe_load(definition.read_text())["spec"]["versions"]
        schema = version["schema"]["openAPIV3Schema"]
    else:
        group, _, version = document["apiVersion"].rpartition("/")
        name = "-".join(part for part in (document["kind"], group.partition(".")[0], version) if part).lower()
        schema = json.loads((newest / f"{name}.json").read_text())
    registry: Registry[Any] = Registry(retrieve=contents)  # type: ignore[call-arg]
    for fault in Draft202012Validator(schema, registry=registry).iter_errors(document):
        yield f"{'.'.join(map(str, fault.absolute_path))}: {fault.message}"


def main() -> None:
    found = []
    with tempfile.TemporaryDirectory() as name:
        dask, kubernetes = (unpacked(package, Path(name)) for package in ("dask-kubernetes", "kubernetes-validate"))
        for path in sorted(FILES.glob("*.yaml")):
            for document in yaml.safe_load_all(path.read_text()):
                of_file = [f"{path.name}: {fault}" for fault in faults(document, dask, kubernetes)]
                found += of_file
                print(f"{path.name}: {document['apiVersion']} {document['kind']}, {len(of_file)} faults")
    print("\n".join(found))
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
