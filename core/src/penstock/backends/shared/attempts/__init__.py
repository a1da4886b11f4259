"""Attempts: their stages, their files, and which others are active."""
