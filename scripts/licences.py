"""Check the licences in a bill of materials (CycloneDX, JSON) against those that a dependency may have."""

from __future__ import annotations

import re
from typing import Any

# Licences that let others use, change and distribute the software, also together with software of other licences.
ALLOWED = frozenset(
    {
        "0BSD",
        "Apache-2.0",
        "BSD-2-Clause",
        "BSD-3-Clause",
        "CC0-1.0",
        "ISC",
        "MIT",
        "MIT-0",
        "MPL-2.0",
        "PSF-2.0",
        "Zlib",
        "License :: OSI Approved :: Apache Software License",
        "License :: OSI Approved :: BSD License",
        "License :: OSI Approved :: ISC License (ISCL)",
        "License :: OSI Approved :: MIT License",
        "License :: OSI Approved :: Mozilla Public License 2.0 (MPL 2.0)",
    }
)
# Packages whose metadata states a licence in words only, by their licence file.
STATED_IN_WORDS = {"protobuf": "BSD-3-Clause"}


def list_licences(component: dict[str, Any]) -> list[str]:
    """Return the licences of a component: identifiers of SPDX, or classifiers. Each part of an expression is one."""
    found = []
    for choice in component.get("licenses", []):
        if "expression" in choice:
            found += re.split(r" (?:AND|OR|WITH) |[()]", choice["expression"])
        else:
            found.append(choice["license"].get("id") or choice["license"].get("name", ""))
    stated = STATED_IN_WORDS.get(component["name"])
    return [name.strip() for name in found if name.strip()] or ([stated] if stated else [])


def find_rejected(bom: dict[str, Any]) -> list[str]:
    """Return one line for each component that has no licence, or one that is not allowed."""
    rejected = []
    for component in bom["components"]:
        licences = list_licences(component)
        unknown = sorted(set(licences) - ALLOWED)
        if unknown or not licences:
            rejected.append(f"{component['name']} {component.get('version', '')}: {', '.join(unknown) or 'no licence'}")
    return rejected


def render_report(bom: dict[str, Any]) -> str:
    """Return a table of all components with their licences, sorted by name."""
    rows = sorted(
        (component["name"], component.get("version", ""), ", ".join(list_licences(component)))
        for component in bom["components"]
    )
    return "".join(f"{name} {version}\t{licences}\n" for name, version, licences in rows)
