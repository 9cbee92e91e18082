# SPDX-License-Identifier: Apache-2.0
import asyncio

async def main():
    await asyncio.sleep(0)
    raise ValueError("in a task")

asyncio.run(main())
