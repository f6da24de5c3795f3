"""Disks that behave badly on purpose: one that loses power, one that reports errors."""
