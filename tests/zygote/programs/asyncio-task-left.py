# SPDX-License-Identifier: Apache-2.0
import asyncio

async def lost():
    try:
        await asyncio.sleep(100)
    finally:
        print("cancelled at the end")

async def main():
    asyncio.create_task(lost())
    await asyncio.sleep(0)

asyncio.run(main())
