"""Tables in `<name>.lance` at the root: the marker beside the directory decides."""
