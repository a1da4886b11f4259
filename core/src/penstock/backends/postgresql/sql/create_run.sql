INSERT INTO {schema}.run (run_id, spec, plan, fingerprint, source_state, snapshots)
VALUES (
    %(run_id)s, %(spec)s, %(plan)s, %(fingerprint)s, %(source_state)s, %(snapshots)s
)
ON CONFLICT DO NOTHING
