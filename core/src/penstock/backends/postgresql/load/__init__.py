"""Partitions loaded through COPY, and the steps before and after."""
