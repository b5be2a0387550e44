"""Makes this folder's own module importable."""

from __future__ import annotations
