"""Form in which a layer travels to an activity: most of it as a blob, and what has changed since beside it.

A layer that went along with each call would make a history grow with the square of the work. The workflow holds the
layer itself, and never sends more than the entries since the last manifest; an activity that is sent too many of them
keeps a new manifest, and says its name.
"""

from __future__ import annotations

from llm_do_temporal.policy.layers.layer import NO_LAYER, Layer
from llm_do_temporal.policy.layers.nodes import Digest
from llm_do_temporal.policy.values import Value

MAX_RECENT = 16
"""Most entries beside a manifest before a new one is kept: some 3 KB."""


class LayerUpdate(Value):
    """Changes of a layer by an activity."""

    entries: Layer = NO_LAYER
    """Entries that have changed, as they are now."""
    manifest: Digest | None = None
    """Blob with the layer as it was before `entries`, where a new one was kept; None: that of before holds."""


class CarriedLayer(Value):
    """Layer on its way."""

    manifest: Digest | None = None
    """Blob with an earlier state of the layer; None: there is none yet."""
    recent: Layer = NO_LAYER
    """Entries that have changed since."""

    @property
    def is_long(self) -> bool:
        """Whether whoever gets it should keep a new manifest."""
        return len(self.recent.entries) > MAX_RECENT

    def updated(self, update: LayerUpdate) -> CarriedLayer:
        """Return the layer after an activity has changed it."""
        if update.manifest is not None:
            return CarriedLayer(manifest=update.manifest, recent=update.entries)
        return self.model_copy(update={"recent": self.recent.with_updates(update.entries)})


def carried(layer: Layer, manifest: str | None = None, manifest_layer: Layer = NO_LAYER) -> CarriedLayer:
    """Return the layer as it travels, where the blob `manifest` has `manifest_layer`, an earlier state of it."""
    return CarriedLayer(manifest=manifest, recent=layer.updates_since(manifest_layer))
