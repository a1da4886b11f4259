-- Whether the mark of a volatile load exists, or its table was set logged after the load.
SELECT EXISTS (SELECT FROM {schema}.volatile_run WHERE run_id = %(run_id)s)
    OR EXISTS (
        SELECT FROM {schema}.step_record
        WHERE run_id = %(run_id)s AND step_id = ANY (%(set_logged)s)
    )
