"""Uses a namespace by lance-ray, from processes of Ray. Arguments: the implementation, its properties, a namespace."""

import json
import sys

import lance_ray
import pyarrow as pa
import ray


def double(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a column with twice the values of another one."""
    return pa.RecordBatch.from_pydict({"twice": [2 * one for one in batch["value"].to_pylist()]})


def main(impl: str, properties: str, space: str) -> None:
    """Write, read and change a table, and check what is read."""
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    table = {
        "namespace_impl": impl,
        "namespace_properties": json.loads(properties),
        "table_id": [space, "rays"],
    }
    rows = ray.data.from_items([{"id": number, "value": float(number)} for number in range(1000)])
    lance_ray.write_lance(rows, **table, mode="create")
    lance_ray.write_lance(rows, **table, mode="append")
    assert lance_ray.read_lance(**table).count() == 2000
    lance_ray.write_lance(rows, **table, mode="overwrite")
    lance_ray.add_columns(**table, transform=double, read_columns=["value"])
    lance_ray.create_scalar_index(**table, column="id", index_type="BTREE")
    lance_ray.compact_files(**table)
    found = lance_ray.read_lance(**table, filter="id = 7").take_all()
    assert found == [{"id": 7, "value": 7.0, "twice": 14.0}], found
    assert lance_ray.read_lance(**table, columns=["twice"]).sum("twice") == 2 * sum(range(1000))
    ray.shutdown()
    print("done")


if __name__ == "__main__":
    main(*sys.argv[1:])
