"""The client of Lance REST namespace servers, above all of `pennon serve`."""

from pennon.rest.namespace import RestNamespace

__all__ = ["RestNamespace"]
