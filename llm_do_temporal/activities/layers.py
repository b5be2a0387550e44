"""The activity that joins the layer of a child with that of its caller.

Scheduled by workflow code when a child returns. What is a conflict is decided by `policy.layers.merge`.
"""

from __future__ import annotations

from temporalio import activity

from llm_do_temporal.activities.runtime.failures import user_errors
from llm_do_temporal.messages.activities import JOIN_LAYERS
from llm_do_temporal.messages.reviews import JoinedLayers, JoinLayersInput
from llm_do_temporal.policy.files.sandbox import path_in_tree
from llm_do_temporal.policy.layers.merge import merged
from llm_do_temporal.sandbox.layers.contents import LayerContents
from llm_do_temporal.storage.blobs import BlobStore

MAX_TOLD = 50
"""Most conflicts that are told one by one: they are read by a model, in one result."""


class LayerActivities:
    """Layers of one workshop."""

    def __init__(self, blobs: BlobStore) -> None:
        self._contents = LayerContents(blobs)

    @activity.defn(name=JOIN_LAYERS.name)
    def join_layers(self, asked: JoinLayersInput) -> JoinedLayers:
        """Join what the child has changed since it began with the layer of its caller; of a conflict the caller's side
        stays. A second attempt comes to the same.
        """
        with user_errors():
            mine = self._contents.whole(asked.mine)
            merge = merged(mine, self._contents.whole(asked.child), self._contents.whole(asked.fork))
            return JoinedLayers(
                update=self._contents.update_of(asked.mine, mine, merge.layer),
                conflicts=tuple(
                    f"{path_in_tree(asked.tree, conflict.path)}: {conflict.kind}"
                    for conflict in merge.conflicts[:MAX_TOLD]
                ),
                more=max(0, len(merge.conflicts) - MAX_TOLD),
            )
