"""The code that server databases share: network sessions and named locks."""
