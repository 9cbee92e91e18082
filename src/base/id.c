/* SPDX-License-Identifier: Apache-2.0 */
#include "base/id.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

static const char alphabet[] = "abcdefghijklmnopqrstuvwxyz0123456789";

void id_new(char id[ID_LEN + 1])
{
	unsigned char raw[64];
	size_t n = 0;
	while (n < ID_LEN) {
		ssize_t got = getrandom(raw, sizeof(raw), 0);
		if (got < 0 && errno == EINTR)
			continue; /* only early after boot, see getrandom(2) */
		if (got < 0)
			abort(); /* only with bad arguments */
		for (ssize_t i = 0; i < got && n < ID_LEN; i++)
			if (raw[i] < 252) /* 7 × 36: no letter is likelier than another */
				id[n++] = alphabet[raw[i] % 36];
	}
	id[ID_LEN] = '\0';
}

bool id_valid(const char *id)
{
	return id && strspn(id, alphabet) == ID_LEN && id[ID_LEN] == '\0';
}
