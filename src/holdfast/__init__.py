"""Holdfast: a durable runtime for AI agents.

The public names of the package will be here, and nothing else. Today there is one door: `holdfast.store`.
"""
