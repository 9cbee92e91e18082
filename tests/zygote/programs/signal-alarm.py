# SPDX-License-Identifier: Apache-2.0
import signal, time

def late(signo, frame):
    raise TimeoutError("late")

signal.signal(signal.SIGALRM, late)
signal.setitimer(signal.ITIMER_REAL, 0.05)
time.sleep(10)
