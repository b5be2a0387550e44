"""Effects: everything that touches the world, each an activity.

Called by workflows through Temporal only. An activity checks again, at the moment of use, what can have
changed since policy judged the call. It decides nothing else.
"""
