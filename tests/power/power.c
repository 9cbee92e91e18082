/* SPDX-License-Identifier: Apache-2.0 */
/*
 * power record DEVICE TYPE MOUNT-OPTIONS SEED ROUNDS [CALL,…]          CALL: a system call that is to do nothing, such as fsync
 * power check BASE LOG SCRATCH TYPE MOUNT-OPTIONS SEED POINTS [POINT]  POINT: this one alone
 *
 * Both run in a guest, as root; see power.h, and tests/power/run.
 */
#include "power.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "base/util.h"

struct rng rng_new(uint64_t seed, uint64_t stream)
{
	return (struct rng){.state = seed * 0x9e3779b97f4a7c15u + stream};
}

/* splitmix64 */
uint64_t rng_below(struct rng *r, uint64_t below)
{
	uint64_t z = r->state += 0x9e3779b97f4a7c15u;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return (z ^ z >> 31) % below;
}

void disk_mount(const char *device, const struct fs_options *fs)
{
	if (mount(device, MOUNT_POINT, fs->type, MS_NOATIME, fs->options) < 0) {
		perror("the disk cannot be mounted");
		exit(1);
	}
}

static uint64_t number(const char *text)
{
	char *end;
	uint64_t n = strtoull(text, &end, 10);
	MUST(end != text && !*end);
	return n;
}

int main(int argc, char **argv)
{
	umask(022);
	if (argc >= 7 && strcmp(argv[1], "record") == 0)
		return record_main(&(struct record_options){.device = argv[2],
		                                            .fs = {argv[3], argv[4]},
		                                            .seed = number(argv[5]),
		                                            .rounds = (unsigned)number(argv[6]),
		                                            .without = argc > 7 ? argv[7] : ""});
	if (argc >= 9 && strcmp(argv[1], "check") == 0)
		return replay_main(&(struct replay_options){.base = argv[2],
		                                            .log = argv[3],
		                                            .scratch = argv[4],
		                                            .fs = {argv[5], argv[6]},
		                                            .seed = number(argv[7]),
		                                            .points = number(argv[8]),
		                                            .only = argc > 9 ? (long)number(argv[9]) : -1});
	fputs("usage: see the top of power.c\n", stderr);
	return 2;
}
