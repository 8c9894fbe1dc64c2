"""What a server of ours promises in its configuration, beyond the protocol."""

from __future__ import annotations

KEEPS_SNAPSHOTS = "pennon.keeps-snapshots"
"""Its snapshots are the versions themselves: letting old ones go would let the versions go."""
KEEPS_DROPPED = "pennon.keeps-dropped"
"""It keeps what DropTable with `purgeRequested` drops, until the time is over, and deletes it then itself."""
TTL, PURGE = "pennon.ttl-ms", "pennon.purge"
"""Parameters of DropTable: how long to keep the table, or not at all."""
ONLY_LANCE = "pennon.only-lance"
"""All its tables are Lance tables, so listings need not load each one."""
