# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

p = Path("/tmp/p")
p.mkdir()
(p / "a.txt").write_text("text")
print(sorted(x.name for x in p.iterdir()), Path.cwd(), Path.home(), Path(__file__).name)
