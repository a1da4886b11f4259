COPY {table} {columns} FROM STDIN (FORMAT {format}{freeze})
