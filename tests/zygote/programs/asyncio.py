# SPDX-License-Identifier: Apache-2.0
import asyncio

async def main():
    async def f(n):
        await asyncio.sleep(0.001 * n)
        return n

    print(await asyncio.gather(*map(f, range(4))))

asyncio.run(main())
