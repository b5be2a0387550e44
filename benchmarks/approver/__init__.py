"""A morning of somebody who approves: forty questions of three runs, whose right answers are known."""
