"""HTTP door: `/api/v1` for programs, beside the page."""
