"""Policy tried out before it holds: past calls judged again, and the calls at the edge of what a rule lets pass."""
