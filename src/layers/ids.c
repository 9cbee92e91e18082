/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/ids.h"

#define ID_RANGE 65536u
#define OVERFLOW_ID 65534u

/* other: for what has no place in the range. */
static uint32_t shown(uint32_t disk, uint32_t owner, uint32_t user, uint32_t inside, uint32_t base, uint32_t other)
{
	if (disk == owner)
		return user;
	if (disk == inside)
		return owner < ID_RANGE ? base + owner : other;
	return disk < ID_RANGE ? base + disk : other;
}

/* What is no id of the range was never shown, and stays. */
static uint32_t stored(uint32_t id, uint32_t owner, uint32_t user, uint32_t inside, uint32_t base)
{
	if (id == user)
		return owner;
	if (id < base || id - base >= ID_RANGE)
		return id;
	return id - base == owner ? inside : id - base;
}

void ids_show(const struct layer_ids *ids, struct file_meta *m)
{
	if (!ids->mapped)
		return;
	m->uid = shown(m->uid, ids->disk_uid, ids->shown_uid, ids->inside_uid, ids->base_uid,
	               ids->nobodys ? ids->base_uid + OVERFLOW_ID : ids->shown_uid);
	m->gid = shown(m->gid, ids->disk_gid, ids->shown_gid, ids->inside_gid, ids->base_gid,
	               ids->nobodys ? ids->base_gid + OVERFLOW_ID : ids->shown_gid);
}

void ids_store(const struct layer_ids *ids, struct file_meta *m)
{
	if (!ids->mapped)
		return;
	m->uid = stored(m->uid, ids->disk_uid, ids->shown_uid, ids->inside_uid, ids->base_uid);
	m->gid = stored(m->gid, ids->disk_gid, ids->shown_gid, ids->inside_gid, ids->base_gid);
}
