# SPDX-License-Identifier: Apache-2.0
import signal

for s in sorted(signal.valid_signals()):
    h = signal.getsignal(s)
    print(int(s), getattr(h, "__name__", h))
print(signal.pthread_sigmask(signal.SIG_BLOCK, []))
