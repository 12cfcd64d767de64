"""Archives of server plugins, made on the spot."""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Mapping
from pathlib import Path

DESCRIPTOR = "plugin-descriptor.properties"


def descriptor(name: str = "nothing", version: str = "7.10.2", product: str = "elasticsearch") -> str:
    """The properties of a plugin for one version of a server."""
    facts = {
        "description": name,
        "version": "1.0",
        "name": name,
        "classname": "esbench.Nothing",
        "java.version": "1.8",
        f"{product}.version": version,
    }
    return "".join(f"{key}={value}\n" for key, value in facts.items())


def plugin_archive(path: Path, text: str | None = None, files: Mapping[str, str | bytes] | None = None) -> Path:
    """A zip with a descriptor and further files; by default a plugin that does nothing."""
    return write_zip(path, {DESCRIPTOR: descriptor() if text is None else text, **(files or {})})


def write_zip(path: Path, files: Mapping[str, str | bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name), content)  # of 1980: the same bytes each time
    return path


def stating_sizes(archive: bytes) -> bytes:
    """A zip in which each file states that it has 4 GiB unpacked."""
    data, at = bytearray(archive), -1
    while (at := data.find(b"PK\1\2", at + 1)) >= 0:
        data[at + 24 : at + 28] = b"\xfe\xff\xff\xff"  # in its central header
    return bytes(data)


def plugin_jar(path: Path) -> bytes:
    """A jar with the class esbench.Nothing, a plugin of Elasticsearch without anything in it."""
    return write_zip(path, {"esbench/Nothing.class": _nothing()}).read_bytes()


def _nothing() -> bytes:
    """`package esbench; public class Nothing extends Plugin { public Nothing() {} }`, compiled for Java 8."""

    def text(value: str) -> bytes:
        return struct.pack(">BH", 1, len(value)) + value.encode()

    constants = (
        struct.pack(">BHH", 10, 2, 3),  # 1: the constructor of Plugin
        struct.pack(">BH", 7, 4),  # 2: Plugin
        struct.pack(">BHH", 12, 5, 6),  # 3: its constructor's name and type
        text("org/elasticsearch/plugins/Plugin"),
        text("<init>"),
        text("()V"),
        struct.pack(">BH", 7, 8),  # 7: this class
        text("esbench/Nothing"),
        text("Code"),
    )
    code = bytes([0x2A, 0xB7, 0, 1, 0xB1])  # aload_0, invokespecial 1, return
    body = struct.pack(">HHI", 1, 1, len(code)) + code + struct.pack(">HH", 0, 0)
    constructor = struct.pack(">HHHH", 1, 5, 6, 1) + struct.pack(">HI", 9, len(body)) + body
    return b"".join(
        [
            struct.pack(">IHHH", 0xCAFEBABE, 0, 52, len(constants) + 1),
            *constants,
            struct.pack(">HHHHH", 0x21, 7, 2, 0, 0),
            struct.pack(">H", 1),
            constructor,
            struct.pack(">H", 0),
        ]
    )
