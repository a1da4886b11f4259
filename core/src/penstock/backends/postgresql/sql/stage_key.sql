-- Finds duplicate keys, or proves to the planner that keys are unique.
CREATE UNIQUE INDEX ON {stage} ({definitions}) {nulls_equal}
