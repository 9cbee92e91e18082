/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/nearby.h"

#include <ifaddrs.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"
#include "egress/address.h"

#define LINK_BITS 64 /* of an IPv6 network that devices are in, whatever its router says (RFC 4291 2.5.4) */

/* IPv4 that is written as IPv6 is IPv4. */
struct bytes {
	unsigned len; /* 4, 16 */
	unsigned char at[16];
};

struct interface {
	struct bytes address;
	unsigned bits; /* of its network's prefix */
};

struct nearby {
	size_t count;
	struct interface items[];
};

static bool bytes_of(const struct sockaddr *a, struct bytes *out)
{
	struct sockaddr_in four;
	struct sockaddr_in6 six;
	*out = (struct bytes){0};
	if (a && a->sa_family == AF_INET) {
		memcpy(&four, a, sizeof(four));
		out->len = 4;
		memcpy(out->at, &four.sin_addr, 4);
	} else if (a && a->sa_family == AF_INET6) {
		memcpy(&six, a, sizeof(six));
		const bool mapped = IN6_IS_ADDR_V4MAPPED(&six.sin6_addr);
		out->len = mapped ? 4 : 16;
		memcpy(out->at, six.sin6_addr.s6_addr + (mapped ? 12 : 0), out->len);
	}
	return out->len > 0;
}

static bool same_prefix(const struct bytes *a, const struct bytes *b, unsigned bits)
{
	const unsigned whole = bits / 8, rest = bits % 8;
	if (a->len != b->len || memcmp(a->at, b->at, whole) != 0)
		return false;
	return rest == 0 || ((a->at[whole] ^ b->at[whole]) & (0xff00u >> rest) & 0xff) == 0;
}

static struct nearby_place place(bool is_host, unsigned bits)
{
	return (struct nearby_place){is_host, is_host ? "an address of this host" : "an address of a network of this host", bits};
}

static unsigned mask_bits(const struct bytes *mask)
{
	unsigned bits = 0;
	while (bits < mask->len * 8 && mask->at[bits / 8] & (0x80 >> bits % 8))
		bits++;
	return bits;
}

/* ---- as it was ----------------------------------------------------------------------------------------------------------------- */

/* Those that the table of special addresses knows are refused by it. */
static bool interface_of(const struct ifaddrs *i, struct interface *out)
{
	struct bytes mask;
	if (!bytes_of(i->ifa_addr, &out->address) || address_special(i->ifa_addr))
		return false;
	out->bits = bytes_of(i->ifa_netmask, &mask) ? mask_bits(&mask) : 0;
	if (out->bits == 0)
		out->bits = out->address.len * 8;
	return true;
}

static struct nearby *collect(const struct ifaddrs *list)
{
	size_t count = 0;
	for (const struct ifaddrs *i = list; i; i = i->ifa_next)
		count++;
	struct nearby *n = calloc(1, sizeof(*n) + count * sizeof(n->items[0]));
	for (const struct ifaddrs *i = list; n && i; i = i->ifa_next)
		if (interface_of(i, &n->items[n->count]))
			n->count++;
	return n;
}

struct nearby *nearby_new(struct cordon_error *err)
{
	struct ifaddrs *list;
	if (getifaddrs(&list) < 0) {
		err_sys(err, "the broker cannot read the host's addresses");
		return NULL;
	}
	struct nearby *n = collect(list);
	freeifaddrs(list);
	if (!n)
		err_set(err, CORDON_ERR_SYSTEM, "out of memory");
	return n;
}

void nearby_free(struct nearby *n)
{
	free(n);
}

static bool known(const struct nearby *n, const struct bytes *a, struct nearby_place *out)
{
	out->what = NULL;
	for (size_t i = 0; i < n->count; i++) {
		const struct interface *f = &n->items[i];
		const bool itself = same_prefix(a, &f->address, f->address.len * 8);
		if (!itself && (a->len != 16 || !same_prefix(a, &f->address, f->bits)))
			continue;
		*out = place(itself, f->bits);
		if (itself)
			return true;
	}
	return out->what != NULL;
}

/* ---- as it is ------------------------------------------------------------------------------------------------------------------- */

static socklen_t length_of(const struct sockaddr *a)
{
	return a->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
}

static bool can_bind(struct sockaddr_storage a)
{
	struct sockaddr_in *four = (struct sockaddr_in *)&a;
	struct sockaddr_in6 *six = (struct sockaddr_in6 *)&a;
	_cleanup_fd_ int fd = socket(a.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	*(a.ss_family == AF_INET ? &four->sin_port : &six->sin6_port) = 0; /* any */
	return fd >= 0 && bind(fd, (const struct sockaddr *)&a, length_of((const struct sockaddr *)&a)) == 0;
}

/* An address that nobody has (RFC 1112 4, RFC 6666): who can bind to it can bind to any (ip_nonlocal_bind), and that means nothing. */
static struct sockaddr_storage nobodys(int family)
{
	struct sockaddr_storage a = {.ss_family = (sa_family_t)family};
	const struct sockaddr_in four = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0xf0000001)};
	const struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_addr.s6_addr = {0x01, 0x00, [15] = 1}};
	if (family == AF_INET)
		memcpy(&a, &four, sizeof(four));
	else
		memcpy(&a, &six, sizeof(six));
	return a;
}

/* Also a secondary one, to which the kernel speaks from the first one of its network. */
static bool is_own(const struct sockaddr *sa)
{
	struct sockaddr_storage a = {0};
	memcpy(&a, sa, length_of(sa));
	return can_bind(a) && !can_bind(nobodys(sa->sa_family));
}

/* From which address the host would speak to this one. */
static bool source_for(const struct sockaddr *a, struct bytes *out)
{
	struct sockaddr_storage source;
	socklen_t len = sizeof(source);
	_cleanup_fd_ int fd = socket(a->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	return fd >= 0 && connect(fd, a, length_of(a)) == 0 && getsockname(fd, (struct sockaddr *)&source, &len) == 0 &&
	       bytes_of((const struct sockaddr *)&source, out);
}

/* The kernel speaks to itself from the address that it speaks to, and to a neighbour from the one that shares most with it (RFC 6724 5, rule 8). */
static bool close_by(const struct sockaddr *sa, const struct bytes *a, struct nearby_place *out)
{
	struct bytes source;
	const bool own = is_own(sa);
	if (!own && !source_for(sa, &source))
		return false;
	if (own || same_prefix(a, &source, a->len * 8))
		*out = place(true, a->len * 8);
	else if (a->len == 16 && same_prefix(a, &source, LINK_BITS))
		*out = place(false, LINK_BITS);
	else
		return false;
	return true;
}

static bool find(const struct nearby *n, const struct sockaddr *a, struct nearby_place *out)
{
	struct bytes b;
	return bytes_of(a, &b) && (known(n, &b, out) || close_by(a, &b, out));
}

/* Itself, or where it leads to, by a translator that may be anywhere: then a rule has to name it as it is. */
const struct nearby_place *nearby_find(const struct nearby *n, const struct sockaddr *a, struct nearby_place *out)
{
	struct sockaddr_in carried[ADDRESS_CARRIED_MAX];
	if (find(n, a, out))
		return out;
	const size_t count = address_carried(a, carried);
	for (size_t i = 0; i < count; i++) {
		if (find(n, (const struct sockaddr *)&carried[i], out)) {
			*out = place(out->is_host, 128);
			return out;
		}
	}
	return NULL;
}
