// SocketCAN's raw sockets on a kernel without CAN, for programs that open nothing else: preloaded into one (LD_PRELOAD), it connects
// each of their sockets to the Unix socket $CAN_STAND_IN/NAME, which carries frames as the kernel does (16 bytes classic, 72 FD).
// An interface is there if that file is. Interface canN has the index 1000 + N.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <linux/can.h>
#include <net/if.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { FIRST = 1000, SOCKETS = 1024 };

// By file descriptor: a CAN socket of this program.
static char ours[SOCKETS];

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static int is_ours(int fd) { return fd >= 0 && fd < SOCKETS && ours[fd]; }

static int address_of(int index, struct sockaddr_un *address) {
  const char *folder = getenv("CAN_STAND_IN");
  address->sun_family = AF_UNIX;
  int len = snprintf(address->sun_path, sizeof address->sun_path, "%s/can%d", folder ? folder : ".", index - FIRST);
  return len < (int)sizeof address->sun_path && access(address->sun_path, F_OK) == 0;
}

static int index_of(const char *name) {
  struct sockaddr_un address;
  int number, end = 0;
  if (sscanf(name, "can%d%n", &number, &end) != 1 || name[end] || number < 0) return 0;
  return address_of(FIRST + number, &address) ? FIRST + number : 0;
}

int socket(int domain, int type, int protocol) {
  if (domain != PF_CAN) return REAL(socket)(domain, type, protocol);
  int fd = REAL(socket)(AF_UNIX, SOCK_SEQPACKET | (type & (SOCK_CLOEXEC | SOCK_NONBLOCK)), 0);
  if (fd >= 0 && fd < SOCKETS) ours[fd] = 1;
  return fd;
}

int close(int fd) {
  if (is_ours(fd)) ours[fd] = 0;
  return REAL(close)(fd);
}

int bind(int fd, const struct sockaddr *address, socklen_t len) {
  if (!is_ours(fd)) return REAL(bind)(fd, address, len);
  struct sockaddr_un there;
  if (!address_of(((const struct sockaddr_can *)address)->can_ifindex, &there)) {
    errno = ENODEV;
    return -1;
  }
  return connect(fd, (const struct sockaddr *)&there, sizeof there);
}

// Filters and options of CAN: every program here takes all frames, and sorts them itself.
int setsockopt(int fd, int level, int name, const void *value, socklen_t len) {
  if (is_ours(fd) && level >= SOL_CAN_BASE) return 0;
  return REAL(setsockopt)(fd, level, name, value, len);
}

unsigned if_nametoindex(const char *name) {
  int index = index_of(name);
  return index ? (unsigned)index : REAL(if_nametoindex)(name);
}

int ioctl(int fd, unsigned long request, ...) {
  va_list arguments;
  va_start(arguments, request);
  void *argument = va_arg(arguments, void *);
  va_end(arguments);
  if (request == SIOCGIFINDEX || request == SIOCGIFMTU || request == SIOCGIFFLAGS) {
    struct ifreq *asked = argument;
    int index = index_of(asked->ifr_name);
    if (index && request == SIOCGIFINDEX) asked->ifr_ifindex = index;
    if (index && request == SIOCGIFMTU) asked->ifr_mtu = CANFD_MTU;
    if (index && request == SIOCGIFFLAGS) asked->ifr_flags = IFF_UP | IFF_RUNNING;
    if (index) return 0;
  }
  return REAL(ioctl)(fd, request, argument);
}
