# SPDX-License-Identifier: Apache-2.0
import datetime

print(datetime.datetime(2024, 2, 29, tzinfo=datetime.timezone.utc).isoformat(), datetime.timedelta(days=1.5))
