"""The tutorial works: this test follows it literally, from an empty home directory to the end.

It differs from a new user in three points. The environment that the tutorial makes also sees the packages of the tests'
environment, so that `pip install` downloads nothing. The server has a free port instead of the one in the text. Spark
has the settings of the tests.
"""

from __future__ import annotations

import dataclasses
import shutil
import site
import socket
from typing import TYPE_CHECKING

import pytest

from tests.documentation.code_blocks import TOP, CodeBlock, read_blocks
from tests.documentation.reader import SHELL, Reader

if TYPE_CHECKING:
    from pathlib import Path

PAGE = "docs/tutorial.md"
PORT = "8181"
FILES = {"csv", "toml", "yaml"}  # blocks that are saved under their titles
INSTALLATION = {
    "PIP_NO_INDEX": "1",
    "PIP_NO_BUILD_ISOLATION": "0",  # which switches the isolation off
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
}


def free_port() -> str:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return str(one.getsockname()[1])


def replace_port(block: CodeBlock, port: str) -> CodeBlock:
    output = block.output and block.output.replace(PORT, port)
    return dataclasses.replace(block, code=block.code.replace(PORT, port), output=output)


def offer_packages(environment: Path) -> None:
    """Let an environment see the packages of this one."""
    (packages,) = environment.glob("lib/python*/site-packages")
    (packages / "packages_of_the_tests.pth").write_text("\n".join(site.getsitepackages()))


@pytest.mark.spark
@pytest.mark.timeout(600)
@pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java 17 or newer")
def test_tutorial_works_as_it_is_written(tmp_path):
    (tmp_path / "pennon").symlink_to(TOP)
    environment = tmp_path / "tutorial" / ".venv"
    port = free_port()
    blocks = [replace_port(block, port) for block in read_blocks(PAGE)]
    with Reader(tmp_path, **INSTALLATION) as reader:
        for block in blocks:
            if block.language in SHELL:
                created = not environment.exists()
                reader.run_commands(block)
                if created and environment.exists():
                    offer_packages(environment)
            elif block.language == "python":
                reader.run_python(block)
            else:
                assert block.language in FILES, f"{block} cannot be followed"
                reader.write_file(block)
        reader.stop_servers()
