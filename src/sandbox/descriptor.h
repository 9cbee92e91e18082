/* SPDX-License-Identifier: Apache-2.0 */
/* One descriptor over a socket, beside other messages. */
#ifndef CORDON_SANDBOX_DESCRIPTOR_H
#define CORDON_SANDBOX_DESCRIPTOR_H

#include <stddef.h>
#include <sys/types.h>

/* 0 or -errno. */
int descriptor_send(int sock, int fd);

/* As recv(2) of one message; a descriptor that comes with it is put into *fd, and what was there is closed. */
ssize_t descriptor_receive(int sock, void *data, size_t len, int *fd);

#endif
