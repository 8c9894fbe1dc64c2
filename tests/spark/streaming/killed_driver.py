"""A driver that streams one table into another and is killed at a chosen point of an epoch's commit.

Started as `killed_driver.py ROOT CHECKPOINT POINT EPOCH`; the point is `before`, `within`, `after` or `never`.
"""

from __future__ import annotations

import os
import signal
import sys

from pennon.spark import attach
from pennon.spark.session import new_session
from pennon.spark.source import PennonDataSource


def main(root: str, checkpoint: str, point: str, epoch: int) -> None:
    spark = new_session("killed", master="local[1]", **{"spark.sql.shuffle.partitions": "1"})
    attach(spark, root=root)
    driver = spark._jvm.java.lang.ProcessHandle.current().pid()

    class Deadly(PennonDataSource):
        """Its commits kill the driver, which is Java's process, and themselves."""

        @classmethod
        def name(cls) -> str:
            return "deadly"

        def streamWriter(self, schema, overwrite):  # noqa: N802 - Spark's name
            from pennon.spark import publishing  # noqa: PLC0415 - in Spark's own process

            writer = super().streamWriter(schema, overwrite)
            commit, publish = writer.commit, publishing.publish

            def die() -> None:
                os.kill(driver, signal.SIGKILL)
                os.kill(os.getpid(), signal.SIGKILL)

            def within(*given, **named):
                if point == "within":
                    die()
                return publish(*given, **named)

            def deadly(messages, number) -> None:
                if number == epoch and point == "before":
                    die()
                publishing.publish = within if number == epoch else publish
                commit(messages, number)
                if number == epoch and point == "after":
                    die()

            writer.commit = deadly
            return writer

    spark.dataSource.register(Deadly)
    source = spark.readStream.format("pennon").options(root=root, maxRowsPerTrigger="2").load("t")
    writer = source.writeStream.format("deadly").option("root", root).option("checkpointLocation", checkpoint)
    writer.trigger(availableNow=True).start("copy").awaitTermination()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
