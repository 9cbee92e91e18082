# SPDX-License-Identifier: Apache-2.0
import socket

a, b = socket.socketpair()
a.sendall(b"x")
print(b.recv(1), socket.gethostname())
s = socket.socket()
s.bind(("127.0.0.1", 0))
s.listen()
c = socket.create_connection(s.getsockname())
print(s.accept()[1][0])
