SELECT count(*), coalesce(sum({digest}), 0)::text FROM {rows} WHERE {condition}
