# SPDX-License-Identifier: Apache-2.0
try:
    import sqlite3
except ImportError:
    print("none")
else:
    c = sqlite3.connect("/tmp/d.db")
    c.execute("create table t(x)")
    c.executemany("insert into t values (?)", [(1,), (2,)])
    c.commit()
    print(c.execute("select sum(x) from t").fetchone())
