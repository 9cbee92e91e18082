# SPDX-License-Identifier: Apache-2.0
import code

i = code.InteractiveInterpreter()
i.runsource("print('inside')")
i.runsource("1/0")
