"""Scheduling policies of infer."""
