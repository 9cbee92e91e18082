# SPDX-License-Identifier: Apache-2.0
import asyncio

async def main():
    p = await asyncio.create_subprocess_exec("echo", "hi", stdout=asyncio.subprocess.PIPE)
    print(await p.stdout.read(), await p.wait())

asyncio.run(main())
