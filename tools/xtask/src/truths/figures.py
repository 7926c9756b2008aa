"""Runs the SQL of figures over an export with DuckDB, and prints its rows as JSON.

    python3 figures.py requests.parquet events.parquet SLOT_US FOLDER_OF_SQL

Prints {"5": [{"slot": 0.0, "curve": "hit", "value": 1.5, "count": 30}, ...], ...}.
"""

import json, pathlib, sys

import duckdb

requests, events, slot_us, folder = sys.argv[1:]
db = duckdb.connect()
db.execute("SET TimeZone = 'UTC'")
for name, file in [("requests", requests), ("events", events)]:
    db.execute(f"CREATE VIEW {name} AS FROM read_parquet('{file}')")
folder = pathlib.Path(folder)
db.execute((folder / "prelude.sql").read_text())
db.execute(f"SET VARIABLE slot_us = {int(slot_us)}")
figures = {}
for file in sorted(folder.glob("figure-*.sql")):
    found = db.execute(file.read_text())
    names = [column[0] for column in found.description]
    figures[file.stem.removeprefix("figure-")] = [dict(zip(names, row)) for row in found.fetchall()]
json.dump(figures, sys.stdout, default=float)
