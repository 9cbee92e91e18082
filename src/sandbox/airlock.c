/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/airlock.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/util.h"
#include "egress/addresses.h"

#define BACKLOG 4096 /* the kernel takes less if net.core.somaxconn is less */
#define MTU 65535    /* as much as there is: nothing of it ever leaves the machine */
#define INSIDE "eth0"
#define OUTSIDE "airlock"

enum side { IN, OUT };

static const uint8_t macs[2][6] = {[IN] = {2, 0xc0, 0, 0, 0, 1}, [OUT] = {2, 0xc0, 0, 0, 0, 2}};
static const struct airlock_block links[2][2] = {
	[IN] = {{AF_INET, AIRLOCK_LINK4_BITS, {AIRLOCK_LINK4_INSIDE}}, {AF_INET6, AIRLOCK_LINK6_BITS, {AIRLOCK_LINK6_INSIDE}}},
	[OUT] = {{AF_INET, AIRLOCK_LINK4_BITS, {AIRLOCK_LINK4_OUTSIDE}}, {AF_INET6, AIRLOCK_LINK6_BITS, {AIRLOCK_LINK6_OUTSIDE}}},
};
static const struct airlock_block own_blocks[2] = {{AF_INET, AIRLOCK_BLOCK4_BITS, {AIRLOCK_BLOCK4}},
                                                   {AF_INET6, AIRLOCK_BLOCK6_BITS, {AIRLOCK_BLOCK6}}};

static size_t address_size(uint8_t family)
{
	return family == AF_INET ? 4 : 16;
}

/* ---- rtnetlink ------------------------------------------------------------------------------------------------------------------ */

/* One request, which is answered with an error or its absence. */
struct request {
	struct nlmsghdr head;
	char body[512];
};

static void *add_bytes(struct request *r, const void *data, size_t len)
{
	void *at = (char *)r + NLMSG_ALIGN(r->head.nlmsg_len);
	memcpy(at, data, len);
	r->head.nlmsg_len = NLMSG_ALIGN(r->head.nlmsg_len) + (uint32_t)len;
	return at;
}

static struct rtattr *add(struct request *r, unsigned short type, const void *data, size_t len)
{
	const struct rtattr a = {.rta_type = type, .rta_len = (unsigned short)RTA_LENGTH(len)};
	struct rtattr *at = add_bytes(r, &a, sizeof(a));
	if (len)
		add_bytes(r, data, len);
	return at;
}

/* What was added since belongs to it. */
static void end_nest(const struct request *r, struct rtattr *a)
{
	a->rta_len = (unsigned short)((const char *)r + NLMSG_ALIGN(r->head.nlmsg_len) - (const char *)a);
}

static struct request begin(uint16_t type, uint16_t flags, const void *data, size_t len)
{
	struct request r = {.head = {.nlmsg_len = NLMSG_HDRLEN, .nlmsg_type = type, .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | flags}};
	add_bytes(&r, data, len);
	return r;
}

static int ask(int sock, struct request *r)
{
	struct {
		struct nlmsghdr head;
		struct nlmsgerr error;
		char rest[512];
	} answer;
	r->head.nlmsg_len = NLMSG_ALIGN(r->head.nlmsg_len);
	if (send(sock, r, r->head.nlmsg_len, 0) < 0)
		return -1;
	ssize_t n = recv(sock, &answer, sizeof(answer), 0);
	if (n < (ssize_t)NLMSG_LENGTH(sizeof(answer.error)) || answer.head.nlmsg_type != NLMSG_ERROR) {
		errno = n < 0 ? errno : EPROTO;
		return -1;
	}
	errno = -answer.error.error;
	return errno ? -1 : 0;
}

/* ---- links, addresses, routes --------------------------------------------------------------------------------------------------- */

static void describe_link(struct request *r, const char *name, enum side side)
{
	const uint32_t mtu = MTU;
	add(r, IFLA_IFNAME, name, strlen(name) + 1);
	add(r, IFLA_ADDRESS, macs[side], sizeof(macs[side]));
	add(r, IFLA_MTU, &mtu, sizeof(mtu));
}

/* A pair, one end here and one in the airlock. */
static int add_pair(int sock, int airlock)
{
	const struct ifinfomsg link = {.ifi_family = AF_UNSPEC};
	struct request r = begin(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, &link, sizeof(link));
	describe_link(&r, INSIDE, IN);
	struct rtattr *info = add(&r, IFLA_LINKINFO, NULL, 0);
	add(&r, IFLA_INFO_KIND, "veth", 4);
	struct rtattr *data = add(&r, IFLA_INFO_DATA, NULL, 0), *peer = add(&r, VETH_INFO_PEER, NULL, 0);
	add_bytes(&r, &link, sizeof(link));
	describe_link(&r, OUTSIDE, OUT);
	add(&r, IFLA_NET_NS_FD, &airlock, sizeof(airlock));
	end_nest(&r, peer);
	end_nest(&r, data);
	end_nest(&r, info);
	return ask(sock, &r);
}

static int set_up(int sock, int index)
{
	const struct ifinfomsg link = {.ifi_family = AF_UNSPEC, .ifi_index = index, .ifi_flags = IFF_UP, .ifi_change = IFF_UP};
	struct request r = begin(RTM_NEWLINK, 0, &link, sizeof(link));
	return ask(sock, &r);
}

/* No address that nobody asked for, and nothing said about one; to be done while the link is down. */
static int keep_silent(int sock, int index)
{
	const struct ifinfomsg link = {.ifi_family = AF_UNSPEC, .ifi_index = index};
	const uint8_t mode = IN6_ADDR_GEN_MODE_NONE;
	struct request r = begin(RTM_NEWLINK, 0, &link, sizeof(link));
	struct rtattr *families = add(&r, IFLA_AF_SPEC, NULL, 0), *family = add(&r, AF_INET6, NULL, 0);
	add(&r, IFLA_INET6_ADDR_GEN_MODE, &mode, sizeof(mode));
	end_nest(&r, family);
	end_nest(&r, families);
	return ask(sock, &r);
}

static int add_address(int sock, int index, const struct airlock_block *a)
{
	const struct ifaddrmsg address = {.ifa_family = a->family,
	                                  .ifa_prefixlen = a->bits,
	                                  .ifa_flags = IFA_F_PERMANENT | IFA_F_NODAD,
	                                  .ifa_index = (unsigned)index};
	struct request r = begin(RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL, &address, sizeof(address));
	add(&r, IFA_LOCAL, a->address, address_size(a->family));
	add(&r, IFA_ADDRESS, a->address, address_size(a->family));
	return ask(sock, &r);
}

/* Known from the start: nobody asks, nobody else can answer. */
static int add_neighbour(int sock, int index, const struct airlock_block *a, const uint8_t mac[6])
{
	const struct ndmsg neighbour = {.ndm_family = a->family, .ndm_ifindex = index, .ndm_state = NUD_PERMANENT};
	struct request r = begin(RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_REPLACE, &neighbour, sizeof(neighbour));
	add(&r, NDA_DST, a->address, address_size(a->family));
	add(&r, NDA_LLADDR, mac, 6);
	return ask(sock, &r);
}

/* Via a gateway; without one, it is local. */
static int add_route(int sock, int index, const struct airlock_block *to, const struct airlock_block *via)
{
	const struct rtmsg route = {.rtm_family = to->family,
	                            .rtm_dst_len = to->bits,
	                            /* IPv6 asks the table of local ones first: ::/0 there would be the link, too */
	                            .rtm_table = via || to->family == AF_INET6 ? RT_TABLE_MAIN : RT_TABLE_LOCAL,
	                            .rtm_protocol = RTPROT_STATIC,
	                            .rtm_scope = via ? RT_SCOPE_UNIVERSE : RT_SCOPE_HOST,
	                            .rtm_type = via ? RTN_UNICAST : RTN_LOCAL};
	struct request r = begin(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL, &route, sizeof(route));
	if (to->bits)
		add(&r, RTA_DST, to->address, address_size(to->family));
	if (via)
		add(&r, RTA_GATEWAY, via->address, address_size(via->family));
	add(&r, RTA_OIF, &index, sizeof(index));
	return ask(sock, &r);
}

/* ---- one side and the other ----------------------------------------------------------------------------------------------------- */

struct end {
	enum side side;
	int sock; /* rtnetlink there */
	int lo;   /* the index of its loopback interface */
	int link; /* … and of that which leads to the other side */
};

/* Where the blocks lead: in the airlock they are local, in the sandbox they are on the other side. */
static int add_blocks(const struct end *e, uint8_t family, const struct airlock_block *blocks, size_t count)
{
	const struct airlock_block *via = e->side == OUT ? NULL : &links[OUT][family == AF_INET6];
	for (size_t i = 0; i < count; i++)
		if (blocks[i].family == family && add_route(e->sock, via ? e->link : e->lo, &blocks[i], via) < 0 && errno != EEXIST)
			return -1; /* what is there already leads there, or is the loopback's and stays it */
	return 0;
}

static int add_all_blocks(const struct end *e, uint8_t family, const struct airlock_spec *spec)
{
	if (add_blocks(e, family, &own_blocks[family == AF_INET6], 1) < 0)
		return -1;
	return add_blocks(e, family, spec->blocks, spec->block_count);
}

static int add_link(const struct end *e, uint8_t family)
{
	const bool six = family == AF_INET6;
	const enum side other = e->side == IN ? OUT : IN;
	if (add_address(e->sock, e->link, &links[e->side][six]) < 0)
		return -1;
	return add_neighbour(e->sock, e->link, &links[other][six], macs[other]);
}

/* ---- sockets -------------------------------------------------------------------------------------------------------------------- */

static int open_socket(struct airlock *a, uint16_t kind, const struct airlock_block *at, uint16_t port)
{
	const int type = kind == AIRLOCK_DNS_UDP ? SOCK_DGRAM : SOCK_STREAM, on = 1;
	union {
		struct sockaddr any;
		struct sockaddr_in in;
		struct sockaddr_in6 in6;
	} to = {0};
	if (at->family == AF_INET) {
		to.in = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(port)};
		memcpy(&to.in.sin_addr, at->address, 4);
	} else {
		to.in6 = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = htons(port)};
		memcpy(&to.in6.sin6_addr, at->address, 16);
	}
	int fd = socket(at->family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -1;
	a->sockets[a->count++] = (struct airlock_socket){.kind = kind, .family = at->family, .port = port, .fd = fd};
	/* a rule may have port 53: the resolver's own address goes before any */
	if (type == SOCK_STREAM && setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)) < 0)
		return -1;
	if (at->family == AF_INET6 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on)) < 0)
		return -1;
	if (bind(fd, &to.any, at->family == AF_INET ? sizeof(to.in) : sizeof(to.in6)) < 0)
		return -1;
	return type == SOCK_STREAM ? listen(fd, BACKLOG) : 0;
}

/* To be bound to, an IPv6 address must be somebody's own; one that is merely local is not enough. */
static int open_sockets(const struct end *e, struct airlock *a, uint8_t family, const struct airlock_spec *spec)
{
	const struct airlock_block any = {.family = family};
	struct airlock_block resolver = own_blocks[family == AF_INET6];
	resolver.bits = (uint8_t)(8 * address_size(family));
	resolver.address[address_size(family) - 1] = AIRLOCK_DNS_NUMBER;
	if (add_address(e->sock, e->lo, &resolver) < 0)
		return -1;
	if (open_socket(a, AIRLOCK_DNS_UDP, &resolver, 53) < 0 || open_socket(a, AIRLOCK_DNS_TCP, &resolver, 53) < 0)
		return -1;
	for (uint32_t i = 0; i < spec->port_count; i++)
		if (open_socket(a, AIRLOCK_PORT, &any, spec->ports[i]) < 0)
			return -1;
	return 0;
}

/* ---- all of it ------------------------------------------------------------------------------------------------------------------ */

/* What does not fit in is cut off by the kernel. */
static int index_of(int sock, const char *name)
{
	const struct ifinfomsg link = {.ifi_family = AF_UNSPEC};
	struct request r = begin(RTM_GETLINK, 0, &link, sizeof(link));
	struct {
		struct nlmsghdr head;
		struct ifinfomsg link;
	} answer;
	r.head.nlmsg_flags = NLM_F_REQUEST;
	add(&r, IFLA_IFNAME, name, strlen(name) + 1);
	r.head.nlmsg_len = NLMSG_ALIGN(r.head.nlmsg_len);
	if (send(sock, &r, r.head.nlmsg_len, 0) < 0 || recv(sock, &answer, sizeof(answer), 0) < (ssize_t)sizeof(answer))
		return -1;
	if (answer.head.nlmsg_type == RTM_NEWLINK)
		return answer.link.ifi_index;
	errno = ENODEV;
	return -1;
}

/* In the namespace that the caller is in. */
static int open_end(struct end *e)
{
	e->sock = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	e->lo = e->sock < 0 ? -1 : index_of(e->sock, "lo");
	return e->lo < 0 ? -1 : 0;
}

/* A host without IPv6 has sandboxes without it. */
static bool fill_six(const struct end *e, const struct airlock_spec *spec, struct airlock *out)
{
	const size_t before = out->count;
	if (add_all_blocks(e, AF_INET6, spec) == 0 && open_sockets(e, out, AF_INET6, spec) == 0)
		return true;
	while (out->count > before)
		close(out->sockets[--out->count].fd);
	return false;
}

static int join(const struct end ends[2], bool six, const struct airlock_spec *spec)
{
	for (enum side s = IN; s <= OUT; s++) {
		const struct end *e = &ends[s];
		if ((six && keep_silent(e->sock, e->link) < 0) || set_up(e->sock, e->link) < 0 || add_link(e, AF_INET) < 0 ||
		    (six && add_link(e, AF_INET6) < 0))
			return -1;
	}
	return add_all_blocks(&ends[IN], AF_INET, spec) < 0 || (six && add_all_blocks(&ends[IN], AF_INET6, spec) < 0) ? -1 : 0;
}

static int make(const struct airlock_spec *spec, struct end ends[2], int *here, struct airlock *out, const char **what)
{
	*what = "configure the airlock";
	*here = openat(AT_FDCWD, "/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	if (*here < 0 || open_end(&ends[OUT]) < 0 || set_up(ends[OUT].sock, ends[OUT].lo) < 0)
		return -1;
	*what = "open the airlock's sockets";
	if (add_all_blocks(&ends[OUT], AF_INET, spec) < 0 || open_sockets(&ends[OUT], out, AF_INET, spec) < 0)
		return -1;
	const bool six = fill_six(&ends[OUT], spec, out);
	*what = "create a network namespace beside the airlock";
	if (unshare(CLONE_NEWNET) < 0)
		return -1;
	*what = "join the sandbox to its airlock";
	if (open_end(&ends[IN]) < 0 || add_pair(ends[IN].sock, *here) < 0)
		return -1;
	ends[IN].link = index_of(ends[IN].sock, INSIDE);
	ends[OUT].link = index_of(ends[OUT].sock, OUTSIDE);
	return ends[IN].link < 0 || ends[OUT].link < 0 ? -1 : join(ends, six, spec);
}

int airlock_make(const struct airlock_spec *spec, struct airlock *out, const char **what)
{
	struct end ends[2] = {[IN] = {.side = IN, .sock = -1}, [OUT] = {.side = OUT, .sock = -1}};
	int here = -1;
	out->count = 0;
	const int r = make(spec, ends, &here, out, what), error = errno;
	const int fds[] = {ends[IN].sock, ends[OUT].sock, here};
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		if (fds[i] >= 0)
			close(fds[i]);
	if (r < 0)
		airlock_close(out);
	errno = error;
	return r;
}
