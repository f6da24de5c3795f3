"""The composition root: where the parts are put together."""

from holdfast.runtime.stores import open_store as open_store
