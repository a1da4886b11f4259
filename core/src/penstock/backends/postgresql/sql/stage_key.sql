-- Finds duplicate keys, and tells the planner that there are none.
CREATE UNIQUE INDEX ON {stage} ({definitions}) {nulls_equal}
