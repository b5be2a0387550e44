"""Tests of the pottery."""
