"""The texts of `penstock --help` and of its commands' help."""

DESCRIPTION = """\
Copy large tables between databases and files, in parallel partitions. Each
partition is committed exactly once; an interrupted run continues where it
stopped.
"""

COMMANDS = {
    "plan": "show how a table would be copied, and why; change nothing",
    "copy": "copy a table or the result of a query",
    "resume": "continue a run: copy the partitions that are not committed",
    "work": "copy a run's partitions together with other processes, on any machines",
    "status": "show the progress of a run or batch",
    "report": "show where a run's time went, and how to speed it up",
    "verify": "compare source and target, and both with the commit records",
    "runs": "list runs, newest first",
    "tune": "measure which degree and options copy a table fastest",
    "init": "write a file of tables for copy-all, with a suggested mode for each",
    "plan-all": "show how copy-all would copy its tables; change nothing",
    "copy-all": "copy many tables, with one snapshot and one pool of streams",
    "schema": "print the statements that create the target's tables; change nothing",
    "watermark": "list, show or move the watermarks of incremental loads",
    "create": "plan a run and store it; copy nothing",
    "hold": "hold a run's snapshot while many processes copy its partitions",
    "release": "release a run's snapshot, which ends penstock hold",
    "give-up": "give up a run, so that others may empty or replace the table it has begun to load",
    "control-ddl": "print the statements that create the control tables",
    "completion": "print a completion script for a shell",
}
"""The purpose of each command, in the order of `penstock --help`: one table, many tables, special
needs. Each is in the imperative, without a full stop."""

URLS = "{urls}"
"""A placeholder for the URL examples of the installed backends."""
CONNECTIONS = f"""\
URLs:
  --source and --target take a URL, for example:
{URLS}  env:NAME reads the URL from the environment variable NAME, file:/PATH from a
  file. Both keep a password out of the process list, where every user of the
  machine can see it.
"""

FILE = """\
file:
  A TOML file sets options by their names, with - or _:
    source = "env:SHOP"
    target = "env:DW"
    table = "public.orders"
    where = "placed_at >= '${SINCE}'"
    columns = ["id", "placed_at", "total"]
    degree = 8
  ${NAME} inserts an environment variable; $${ is a literal ${.
  Options on the command line override the file.
"""

EXIT_CODES = """\
exit codes:
    0  done
   64  usage error: an option is wrong
   65  a permanent error: a retry would fail again; committed partitions stay
   70  a bug in Penstock
   75  a transient error: penstock resume may succeed
   76  source and target columns differ in a way that --on-drift does not allow
  130  interrupted: penstock resume continues the run
"""

EXAMPLES = """\
examples:
  penstock plan --source env:SHOP --target env:DW --table public.orders
  penstock copy --source env:SHOP --target env:DW --table public.orders
  penstock resume RUN_ID --source env:SHOP --target env:DW

penstock COMMAND --help explains a command and its options.
"""

STREAMS = """\
streams:
  --degree auto starts with two streams and has one per CPU of this machine
  within a second. While the copy runs, it tries more streams as long as more
  bytes move, and fewer if as many bytes move with fewer or if the target's
  sessions mostly wait for locks or the log. Each change is shown with its
  reason. A number is never adjusted.
  To spare a source that serves users, --max-rate 50MB keeps all streams
  together below 50 MB/s, and --max-lag 30s uses fewer streams, and finally
  none, while its standbys (or the source itself, if it is one) lag further.
"""

COPY_EXAMPLES = """\
examples:
  penstock copy --source env:SHOP --target env:DW --table public.orders \\
      --mode truncate
  penstock copy --source env:SHOP --target env:DW --table public.events \\
      --mode replace --strategy time --key created_at --interval '1 day' \\
      --where "created_at >= '2026-01-01'"
  penstock copy --source env:SHOP --target env:DW --table public.orders \\
      --mode upsert --incremental xmin --deletes hard
  penstock copy --source s3://lake/orders/ --target env:DW \\
      --target-table public.orders --mode truncate
  penstock copy orders.toml --degree -2
"""

TUNE_EXAMPLES = """\
examples:
  penstock tune --source env:SHOP --target env:DW --table public.orders \\
      --mode truncate --with unlogged,deferred --out orders-tuned.toml
  penstock copy --source env:SHOP --target env:DW --table public.orders \\
      --mode truncate --tuned orders-tuned.toml
"""

TUNE = """\
how it measures:
  Each setting copies the same sample of partitions, taken evenly from the
  table. A first copy warms the caches and is not counted. The rows go to a
  scratch table like the target's, with its indexes, in a schema named
  penstock_tune_ and eight digits (beside files: a folder), so the target's user
  needs the right to create schemas. It is dropped at the end; after kill -9,
  the next tune drops it. The target's table is not touched.
  The recommended setting is the one with the fewest options, then the fewest
  streams, among those within 5% of the fastest, or within the variation of
  repeated measurements.
"""

WATERMARK_EXAMPLES = """\
examples:
  penstock watermark list --target env:DW
  penstock watermark show public.orders --target env:DW
  penstock watermark set 'public.orders to public.orders' --epoch 12 \\
      --target env:DW
  penstock watermark reset 'public.orders to public.orders' --target env:DW
"""

RUNS_EXAMPLES = """\
examples:
  penstock runs --target env:DW --status running failed --since 2d
  penstock runs --target env:DW --table 'public.ord*' --limit 5
"""

STATUS_EXAMPLES = """\
examples:
  penstock status orders-7 --target env:DW
  penstock status orders-7 --target env:DW --json
  penstock status orders-7 --target env:DW --watch
"""

REPORT_EXAMPLES = """\
examples:
  penstock report orders-7 --target env:DW
  penstock report orders-7 --target env:DW --html orders-7.html
"""

RESUME_EXAMPLES = """\
examples:
  penstock resume orders-7 --source env:SHOP --target env:DW --degree 4
  penstock resume orders-7 --source env:SHOP --target env:DW \\
      --only p0003 --recopy --as-of-now
"""

WORK_EXAMPLES = """\
examples:
  penstock work orders-7 --source env:SHOP --target env:DW --table public.orders
  penstock work orders-7 --source env:SHOP --target env:DW --wait 10m

  Start any number of them, in any order, on any machines. Each copies
  partitions that no other is copying; one compares both sides and does the
  final steps. All end with 0 once the run is done. One that is killed can be
  started again.
"""

VERIFY_EXAMPLES = """\
examples:
  penstock verify orders-7 --source env:SHOP --target env:DW --checksum
  penstock verify lake-7 --source env:SHOP --target s3://lake/orders/ \\
      --checksum --show-rows
  penstock verify orders-7 --source env:SHOP --target env:DW --repair --dry-run
"""

BATCH_EXAMPLES = """\
examples:
  penstock copy-all --source env:SHOP --target env:DW --tables 'public.*' \\
      --mode recreate
  penstock copy-all --source env:SHOP --target env:DW --tables 'public.*' \\
      --exclude 'public.tmp_*' --target-schema shop --mode truncate
  penstock copy-all shop.toml --tables public.orders
"""

BATCH_FILE = """\
file:
  A TOML file lists the tables, each with its options. Without FILE and
  --source, penstock.toml in the current folder is read (see penstock init).
    source = "env:SHOP"
    target = "env:DW"
    [defaults]
    mode = "upsert"
    incremental = "xmin"
    [tables."public.*"]
    [tables."public.log_*"]
    mode = "append"
    [tables."public.secrets"]
    skip = true
  The most specific section that sets an option wins: the one that names the
  table, then the longest pattern, then [defaults].
"""

MANY_PROCESSES = """\
a run in many processes, on one or more machines:
  penstock create --source env:SHOP --target env:DW --table public.orders \\
      --run-id n7
  penstock hold n7 --source env:SHOP --target env:DW  # until the others end
  penstock resume n7 --source env:SHOP --target env:DW --await-snapshot 60s \\
      --only p0001 p0002
  penstock resume n7 --source env:SHOP --target env:DW --await-snapshot 60s
  penstock release n7 --target env:DW
"""
