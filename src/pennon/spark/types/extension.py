"""Arrow's extension types, brought to one form: the storage type, and the extension's name in the field's metadata.

PyArrow has an extension type only where its class is registered, which importing Lance does. The plain form is the same
in every process and can be pickled without Lance, and Lance reads it as the extension type.
"""

from __future__ import annotations

import copyreg
import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterable

NAME = b"ARROW:extension:name"
PARAMETERS = b"ARROW:extension:metadata"

UUID = "arrow.uuid"
JSON = "arrow.json"
BFLOAT16 = "lance.bfloat16"
BLOB = "lance.blob.v2"

_BLOB_V1 = b"lance-encoding:blob"

# The extension types whose type in Spark is not that of their storage, and their storage types.
STORAGE: dict[str, pa.DataType] = {
    UUID: pa.binary(16),
    JSON: pa.string(),
    BFLOAT16: pa.binary(2),
    BLOB: pa.struct(
        [
            pa.field("data", pa.large_binary()),
            pa.field("uri", pa.string()),
            pa.field("position", pa.uint64()),
            pa.field("size", pa.uint64()),
        ]
    ),
}


def extension_name(field: pa.Field) -> str | None:
    """Return the name of a field's extension type, in plain form or not; None for an ordinary type."""
    if isinstance(field.type, pa.BaseExtensionType):
        return str(field.type.extension_name)
    name = (field.metadata or {}).get(NAME)
    return None if name is None else name.decode()


def known_extension(field: pa.Field) -> str | None:
    """Return the name of a field's extension type if it is in STORAGE, or None."""
    name = extension_name(field)
    return name if name in STORAGE else None


def extension_metadata(name: str, parameters: bytes = b"") -> dict[bytes, bytes]:
    """Return the metadata of a field of an extension type. Lance requires the parameters, even if empty."""
    return {NAME: name.encode(), PARAMETERS: parameters}


def without_extension(field: pa.Field) -> dict[str, str]:
    """Return the metadata of a field in plain form as text, without that of a known extension type."""
    hidden = {NAME, PARAMETERS} if known_extension(field) else set()
    return {key.decode(): value.decode() for key, value in (field.metadata or {}).items() if key not in hidden}


def is_blob(field: pa.Field) -> bool:
    """Return True if a column is or contains blobs of Lance: a scan must ask for their bytes explicitly."""
    if extension_name(field) == BLOB or (field.metadata or {}).get(_BLOB_V1) == b"true":
        return True
    kind = field.type
    return pa.types.is_nested(kind) and any(is_blob(kind.field(number)) for number in range(kind.num_fields))


def has_blobs(fields: Iterable[pa.Field]) -> bool:
    """Return True if one of the columns is or contains blobs."""
    return any(is_blob(field) for field in fields)


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """Return a schema with all fields in plain form, including nested ones."""
    return pa.schema([plain_field(field) for field in schema], metadata=schema.metadata)


def plain_field(field: pa.Field) -> pa.Field:
    """Return a field in plain form: the storage type, with the extension's name in the metadata."""
    metadata = dict(field.metadata or {})
    kind = field.type
    if isinstance(kind, pa.BaseExtensionType):
        metadata |= extension_metadata(kind.extension_name, _parameters(kind))
        kind = kind.storage_type
    elif NAME in metadata:
        metadata.setdefault(PARAMETERS, b"")
    return pa.field(field.name, _plain_type(kind), nullable=field.nullable, metadata=metadata or None)


def _parameters(kind: pa.BaseExtensionType) -> bytes:
    """Return the parameters of an extension type as Arrow writes them; PyArrow has them only for Python types."""
    if isinstance(kind, pa.ExtensionType):
        return bytes(kind.__arrow_ext_serialize__())
    if isinstance(kind, pa.FixedShapeTensorType):
        named = {"shape": kind.shape, "permutation": kind.permutation, "dim_names": kind.dim_names}
    elif isinstance(kind, pa.OpaqueType):
        named = {"type_name": kind.type_name, "vendor_name": kind.vendor_name}
    else:
        return b""
    given = {name: value for name, value in named.items() if value is not None}
    return json.dumps(given, separators=(",", ":")).encode()


def _plain_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([plain_field(child) for child in kind])
    if pa.types.is_map(kind):
        return pa.map_(plain_field(kind.key_field), plain_field(kind.item_field))
    return list_of(kind, plain_field(kind.value_field)) if is_list(kind) else kind


def is_list(kind: pa.DataType) -> bool:
    """Return True if an Arrow type is an array in Spark."""
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def list_of(kind: pa.DataType, element: pa.Field) -> pa.DataType:
    """Return a list type with another element."""
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(element, kind.list_size)
    return pa.list_(element) if pa.types.is_list(kind) else pa.large_list(element)


def _reduce_vector(kind: pa.FixedSizeListType) -> tuple[Any, tuple[pa.Field, int]]:
    return pa.list_, (kind.value_field, kind.list_size)


# PyArrow pickles vectors without the name and the metadata of their elements, which Spark's workers need.
copyreg.pickle(pa.FixedSizeListType, _reduce_vector)
