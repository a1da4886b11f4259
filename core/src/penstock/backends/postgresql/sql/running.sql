SELECT a.application_name, coalesce(a.state, ''), a.xact_start::text, {progress}
FROM pg_catalog.pg_stat_activity AS a
WHERE pg_catalog.starts_with(a.application_name, %(prefix)s)
    AND a.datname = current_database() AND a.xact_start IS NOT NULL
ORDER BY a.application_name
