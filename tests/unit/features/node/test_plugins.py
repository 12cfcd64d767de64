"""Archives of server plugins: what is read of them before anything starts, and the server that they are put into."""

from __future__ import annotations

import shutil
import tracemalloc
import zipfile
from pathlib import Path

import pytest
from plugins import DESCRIPTOR, descriptor, plugin_archive, stating_sizes, write_zip

from esbench.errors import EngineError, UsageError
from esbench.events.progress import Progress
from esbench.features.node.plugins import read_plugins, with_plugins
from esbench.features.node.server import Server, inspect_server


def make_server(home: Path) -> Server:
    for name in ("bin", "lib", "config", "modules/percolator", "plugins"):
        (home / name).mkdir(parents=True)
    (home / "bin" / "elasticsearch").write_text("#!/bin/sh\n")
    (home / "lib" / "elasticsearch-7.10.2.jar").write_bytes(b"jar")
    return inspect_server(home)


def test_a_plugin_is_known_by_its_descriptor(tmp_path: Path) -> None:
    (plugin,) = read_plugins([plugin_archive(tmp_path / "a.zip", f"# of a build\n{descriptor('icu')}")])
    assert (plugin.name, plugin.version, plugin.servers) == ("icu", "1.0", (("elasticsearch", "7.10.2"),))
    assert str(plugin) == f"icu 1.0 ({plugin.digest[:12]})"
    plugin.check("elasticsearch", "7.10.2")


@pytest.mark.parametrize(
    ("product", "version", "message"),
    [
        ("elasticsearch", "7.17.29", 'a.zip: plugin "icu" is for 7.10.2, the node is 7.17.29'),
        ("opensearch", "7.10.2", 'plugin "icu" is for elasticsearch-7.10.2, the node is opensearch-7.10.2'),
    ],
)
def test_a_plugin_of_another_server_is_refused(tmp_path: Path, product: str, version: str, message: str) -> None:
    (plugin,) = read_plugins([plugin_archive(tmp_path / "a.zip", descriptor("icu"))])
    with pytest.raises(UsageError, match=message):
        plugin.check(product, version)


def test_a_plugin_that_names_a_range_of_versions_is_left_to_the_server(tmp_path: Path) -> None:
    text = 'name=icu\nversion=1.0\ndependencies={opensearch:"~2.3.0"}\n'
    (plugin,) = read_plugins([plugin_archive(tmp_path / "a.zip", text)])
    plugin.check("opensearch", "2.3.4")


def test_what_is_no_archive_of_a_plugin_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "text.zip").write_text("no zip")
    plugin_archive(tmp_path / "nameless.zip", "version=1.0\n")
    plugin_archive(tmp_path / "path.zip", descriptor("../up"))
    plugin_archive(tmp_path / "up.zip", files={"../../up": ""})
    plugin_archive(tmp_path / "root.zip", files={"/etc/up": ""})
    (tmp_path / "folder.zip").mkdir()
    for name, message in (
        ("none.zip", "none.zip: cannot be read: no such file or directory"),
        ("folder.zip", "folder.zip: cannot be read: is a directory"),
        ("text.zip", "text.zip: is not a zip archive of a plugin"),
        ("nameless.zip", "has no name"),
        ("path.zip", "has no name"),
        ("up.zip", "a file that would leave the plugin's folder: ../../up"),
        ("root.zip", "a file that would leave the plugin's folder: /etc/up"),
    ):
        with pytest.raises(UsageError, match=message) as caught:
            read_plugins([tmp_path / name])
        assert "\n" not in str(caught.value)


def test_a_zip_without_a_descriptor_is_no_plugin(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=f"it has no {DESCRIPTOR}"):
        read_plugins([write_zip(tmp_path / "a.zip", {"a.jar": ""})])


def test_a_plugin_is_given_once(tmp_path: Path) -> None:
    archives = [plugin_archive(tmp_path / name) for name in ("a.zip", "b.zip")]
    with pytest.raises(UsageError, match='"nothing" is given twice'):
        read_plugins(archives)


def test_a_server_with_plugins_is_another_one_and_the_first_stays_as_it_is(tmp_path: Path) -> None:
    servers = tmp_path / "servers"
    server = make_server(servers / "es")
    archive = plugin_archive(
        tmp_path / "a.zip", files={"nothing.jar": b"jar", "bin/tool": "", "config/a.yml": "a: 1", "lib/b.jar": b"b"}
    )
    plugins = read_plugins([archive])
    installed = with_plugins(server, plugins, servers, Progress())
    assert (installed.plugins, installed.modules) == ({"nothing"}, {"percolator"})
    assert inspect_server(server.home).plugins == frozenset()
    home = installed.home
    assert (home / "plugins" / "nothing" / "nothing.jar").read_bytes() == b"jar"
    assert (home / "plugins" / "nothing" / "lib" / "b.jar").is_file()
    assert (home / "config" / "nothing" / "a.yml").read_text() == "a: 1"
    assert (home / "bin" / "nothing" / "tool").stat().st_mode & 0o111
    assert not (home / "plugins" / "nothing" / "bin").exists()
    jar = "lib/elasticsearch-7.10.2.jar"
    assert (home / jar).samefile(server.home / jar)  # no second copy on the disk
    assert with_plugins(server, plugins, servers, Progress()).home == home
    with pytest.raises(UsageError, match='has a plugin "nothing" already'):
        with_plugins(installed, plugins, servers, Progress())


def test_other_archives_are_another_server(tmp_path: Path) -> None:
    servers = tmp_path / "servers"
    server = make_server(servers / "es")
    first, second = (
        with_plugins(server, read_plugins([plugin_archive(tmp_path / name, files={name: ""})]), servers, Progress())
        for name in ("a.zip", "b.zip")
    )
    assert first.home != second.home
    assert with_plugins(server, (), servers, Progress()) is server


def test_a_users_own_folder_is_copied(tmp_path: Path) -> None:
    server = make_server(tmp_path / "own")
    mode = (server.home / "bin" / "elasticsearch").stat().st_mode
    plugins = read_plugins([plugin_archive(tmp_path / "a.zip")])
    installed = with_plugins(server, plugins, tmp_path / "s", Progress())
    assert not (installed.home / "bin" / "elasticsearch").samefile(server.home / "bin" / "elasticsearch")
    assert (server.home / "bin" / "elasticsearch").stat().st_mode == mode
    (server.home / "config" / "elasticsearch.yml").write_text("a: 1")
    again = with_plugins(server, plugins, tmp_path / "s", Progress())
    assert (again.home / "config" / "elasticsearch.yml").read_text() == "a: 1"


def test_up_to_version_6_2_an_archive_has_a_folder(tmp_path: Path) -> None:
    files = {f"elasticsearch/{DESCRIPTOR}": descriptor(version="5.6.16"), "elasticsearch/a.jar": b"jar"}
    archive = write_zip(tmp_path / "a.zip", files)
    server = make_server(tmp_path / "s" / "es")
    (plugin,) = read_plugins([archive])
    installed = with_plugins(server, (plugin,), tmp_path / "s", Progress())
    assert sorted(path.name for path in (installed.home / "plugins" / "nothing").iterdir()) == ["a.jar", DESCRIPTOR]


def test_a_plugin_that_would_fill_the_disk_is_not_installed(tmp_path: Path) -> None:
    server = make_server(tmp_path / "servers" / "es")
    count = shutil.disk_usage(tmp_path).free // (1 << 32) + 2
    archive = plugin_archive(tmp_path / "a.zip", files={f"{number}.jar": b"" for number in range(count)})
    archive.write_bytes(stating_sizes(archive.read_bytes()))
    plugins = read_plugins([archive])
    with pytest.raises(EngineError, match="unpacked it has more than the"):
        with_plugins(server, plugins, tmp_path / "servers", Progress())
    assert [folder.name for folder in (tmp_path / "servers").iterdir() if folder.is_dir()] == ["es"]


def test_a_descriptor_without_end_costs_bounded_memory(tmp_path: Path) -> None:
    archive = tmp_path / "a.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as out:
        out.writestr("plugin-descriptor.properties", descriptor() + "\n" * (64 << 20))
    tracemalloc.start()
    try:
        (plugin,) = read_plugins([archive])
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()
    assert plugin.name == "nothing"
