COPY ({rows}) TO STDOUT (FORMAT {format})
