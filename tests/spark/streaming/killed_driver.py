"""A driver that streams files into a table, one in each epoch, and is killed at a chosen point of an epoch's commit.

Started as `killed_driver.py FILES ROOT CHECKPOINT POINT EPOCH`; the point is `within` (the attempt is logged, but not
committed), `after` or `never`.
"""

from __future__ import annotations

import os
import signal
import sys

from pennon.spark.session import new_session
from pennon.spark.source import PennonDataSource


def main(files: str, root: str, checkpoint: str, point: str, epoch: int) -> None:
    spark = new_session("killed", master="local[1]")
    driver = spark._jvm.java.lang.ProcessHandle.current().pid()

    class Deadly(PennonDataSource):
        """A source whose commits kill the driver (the Java process) and their own process."""

        @classmethod
        def name(cls) -> str:
            return "deadly"

        def streamWriter(self, schema, overwrite):
            from pennon.spark.tables import publishing as publish_module

            writer = super().streamWriter(schema, overwrite)
            commit, publish = writer.commit, publish_module.publish

            def die() -> None:
                os.kill(driver, signal.SIGKILL)
                os.kill(os.getpid(), signal.SIGKILL)

            def within(*given, **named):
                if point == "within":
                    die()
                return publish(*given, **named)

            def deadly(messages, number) -> None:
                publish_module.publish = within if number == epoch else publish
                commit(messages, number)
                if number == epoch and point == "after":
                    die()

            writer.commit = deadly
            return writer

    spark.dataSource.register(Deadly)
    source = spark.readStream.schema("id bigint").option("maxFilesPerTrigger", 1).json(files)
    writer = source.writeStream.format("deadly").option("root", root).option("checkpointLocation", checkpoint)
    writer.trigger(availableNow=True).start("t").awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:5], int(sys.argv[5]))
