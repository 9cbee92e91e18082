# SPDX-License-Identifier: Apache-2.0
import json, re

print(json.dumps({"a": [1, None, True], "ü": "漢"}), re.findall(r"\d+", "a1b22c333"), json.loads("[1.5]"))
