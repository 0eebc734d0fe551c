// SPDX-License-Identifier: GPL-2.0-only
//
// A program for Fuchsia's perfmon, in C++, that uses every name of the interface. It includes
// Fuchsia's headers, which -I replaces by ours. Only open(2), mmap(2) and the number of CPUs
// are those of Linux.
//
// Prints the number of instructions that it has executed in user mode in 1,000,000 iterations
// of a loop, which is the sum of the records.
#include <lib/zircon-internal/device/cpu-trace/perf-mon.h>
#include <zircon/errors.h>
#include <zircon/types.h>

#include <err.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

namespace {

constexpr uint32_t kPages = 64;
constexpr uint32_t kMaxCpus = 64;
constexpr perfmon_rate_t kRate = 10007;

constexpr perfmon_event_id_t kInstructions =
    PERFMON_MAKE_EVENT_ID(PERFMON_GROUP_ARCH, 1);
constexpr perfmon_event_id_t kBranches =
    PERFMON_MAKE_EVENT_ID(PERFMON_GROUP_ARCH, 5);

// Returns the smaller of two values of the same type.
template <typename T>
constexpr T Min(T a, T b) {
  return b < a ? b : a;
}

// Checks the numbers and their types in Fuchsia's header.
static_assert(PERFMON_API_VERSION == 3, "");
static_assert(Min(PERFMON_MAX_EVENTS, 99u) == 32, "");
static_assert(sizeof(perfmon_ioctl_config_t::rate) ==
              PERFMON_MAX_EVENTS * sizeof(perfmon_rate_t), "");
static_assert(Min(PERFMON_MAX_NUM_LAST_BRANCH, 99u) == 32, "");
static_assert(Min(PERFMON_BUFFER_ARCH_UNKNOWN, 9u) == 0, "");
static_assert(Min(PERFMON_BUFFER_ARCH_X86_64, 9u) == 1, "");
static_assert(Min(PERFMON_BUFFER_ARCH_ARM64, 9u) == 2, "");
static_assert(Min(PERFMON_BUFFER_FLAG_FULL, 9u) == 1, "");
static_assert(Min(PERFMON_PROPERTY_FLAG_HAS_LAST_BRANCH, 9u) == 1, "");
static_assert(PERFMON_GROUP_RESERVED == 0 && PERFMON_GROUP_ARCH == 1 &&
              PERFMON_GROUP_FIXED == 2 && PERFMON_GROUP_MODEL == 3 &&
              PERFMON_GROUP_MISC == 4, "");
static_assert(PERFMON_EVENT_ID_NONE == 0, "");
static_assert(PERFMON_EVENT_ID_GROUP(0xffff) == PERFMON_MAX_GROUP, "");
static_assert(PERFMON_EVENT_ID_EVENT(0xffff) == PERFMON_MAX_EVENT, "");
static_assert(PERFMON_CONFIG_FLAG_MASK ==
              (PERFMON_CONFIG_FLAG_OS | PERFMON_CONFIG_FLAG_USER |
               PERFMON_CONFIG_FLAG_PC | PERFMON_CONFIG_FLAG_TIMEBASE0 |
               PERFMON_CONFIG_FLAG_LAST_BRANCH), "");
static_assert(PERFMON_GEN_MASK64(PERFMON_LAST_BRANCH_INFO_CYCLES_LEN,
                                 PERFMON_LAST_BRANCH_INFO_CYCLES_SHIFT) ==
              PERFMON_LAST_BRANCH_INFO_CYCLES_MASK, "");
static_assert(PERFMON_GEN_MASK64(PERFMON_LAST_BRANCH_INFO_MISPRED_LEN,
                                 PERFMON_LAST_BRANCH_INFO_MISPRED_SHIFT) ==
              PERFMON_LAST_BRANCH_INFO_MISPRED_MASK, "");
static_assert(PERFMON_GEN_MASK64(1, 63) == 1ull << 63, "");

__BEGIN_CDECLS
struct Packed {
  uint8_t a;
  uint64_t b;
} __PACKED __ALIGNED(4);
struct Record {
  uint8_t a;
  uint64_t b;
} PERFMON_ALIGN_RECORD;
__END_CDECLS
static_assert(sizeof(Packed) == 12 && alignof(Packed) == 4, "");
static_assert(sizeof(Record) == 12 && alignof(Record) == 4, "");

// A record of any type.
union RecordPointer {
  const uint8_t* bytes;
  const perfmon_record_header_t* header;
  const perfmon_time_record_t* time;
  const perfmon_tick_record_t* tick;
  const perfmon_count_record_t* count;
  const perfmon_value_record_t* value;
  const perfmon_pc_record_t* pc;
  const perfmon_last_branch_record_t* branches;
};

// The sums of the records.
struct Sums {
  uint64_t instructions;
  uint64_t branches;
  zx_time_t time;
  size_t num[PERFMON_RECORD_LAST_BRANCH + 1];
};

perfmon_record_type_t RecordType(const perfmon_record_header_t* header) {
  if (header->type > PERFMON_RECORD_LAST_BRANCH)
    return PERFMON_RECORD_RESERVED;
  return static_cast<perfmon_record_type_t>(header->type);
}

perfmon_group_type_t Group(perfmon_event_id_t id) {
  return static_cast<perfmon_group_type_t>(PERFMON_EVENT_ID_GROUP(id));
}

void CheckBranches(const perfmon_last_branch_record_t* record) {
  constexpr uint64_t known = PERFMON_LAST_BRANCH_INFO_CYCLES_MASK |
                             PERFMON_LAST_BRANCH_INFO_MISPRED_MASK;

  if (record->num_branches > PERFMON_MAX_NUM_LAST_BRANCH)
    errx(1, "%u branches in a record", record->num_branches);
  for (uint32_t i = 0; i < record->num_branches; ++i) {
    const perfmon_last_branch_t& branch = record->branches[i];
    if (branch.from == 0 || branch.to == 0 || (branch.info & ~known) != 0)
      errx(1, "branch %u makes no sense", i);
  }
}

// Adds a record to the sums. Returns its size.
size_t AddRecord(RecordPointer record, Sums* sums) {
  const perfmon_record_type_t type = RecordType(record.header);

  if (record.header->reserved_flags != 0)
    errx(1, "reserved_flags is not 0");
  ++sums->num[type];
  switch (type) {
    case PERFMON_RECORD_RESERVED:
      errx(1, "a record of type %u", record.header->type);
    case PERFMON_RECORD_TIME:
      if (record.time->time < sums->time)
        errx(1, "the time goes back");
      sums->time = record.time->time;
      return sizeof(perfmon_time_record_t);
    case PERFMON_RECORD_TICK:
      sums->instructions += kRate;
      return sizeof(*record.tick);
    case PERFMON_RECORD_COUNT:
      if (record.header->event == kBranches)
        sums->branches += record.count->count;
      else
        sums->instructions += record.count->count;
      return sizeof(*record.count);
    case PERFMON_RECORD_VALUE:
      errx(1, "a value of %llu, and there are no such events",
           static_cast<unsigned long long>(record.value->value));
    case PERFMON_RECORD_PC:
      if (record.pc->pc == 0)
        errx(1, "a sample is nowhere");
      if (record.pc->aspace & 0xfff)
        errx(1, "an address space is no page");
      sums->instructions += kRate;
      return sizeof(perfmon_pc_record_t);
    case PERFMON_RECORD_LAST_BRANCH:
      CheckBranches(record.branches);
      return PERFMON_LAST_BRANCH_RECORD_SIZE(record.branches);
  }
  __UNREACHABLE;
}

void AddBuffer(const perfmon_buffer_header_t* header, size_t size, Sums* sums) {
  const uint64_t* capture_end = &header->capture_end;
  const zx_ticks_t* ticks_per_second = &header->ticks_per_second;
  const uint8_t* buffer = reinterpret_cast<const uint8_t*>(header);
  RecordPointer next;

  if (header->version != PERFMON_BUFFER_VERSION ||
      header->arch != PERFMON_BUFFER_ARCH_X86_64)
    errx(1, "version %u, architecture %u", header->version, header->arch);
  if (header->flags & PERFMON_BUFFER_FLAG_FULL)
    errx(1, "the buffer is full");
  // The frequency is 0 if Linux does not know it, as in a virtual machine on a busy host.
  if (*ticks_per_second < 0 || *capture_end > size)
    errx(1, "the header makes no sense");
  sums->time = 0;
  next.bytes = buffer + sizeof(*header);
  while (next.bytes < buffer + *capture_end)
    next.bytes += AddRecord(next, sums);
  if (next.bytes != buffer + *capture_end)
    errx(1, "the last record is cut off");
}

void Check(const char* what, ssize_t result, size_t expected) {
  if (result < 0)
    errx(1, "%s: %s", what, strerror(-result));
  if (result != static_cast<ssize_t>(expected))
    errx(1, "%s returns %zd, not %zu", what, result, expected);
}

void Loop() {
  unsigned long n = 1000000;

  __asm__ volatile("1:	dec	%0\n"
                   "	jnz	1b"
                   : "+r"(n) : : "cc");
}

// The flags of the instructions, with branches if the CPU has branch records.
uint32_t SampleFlags(int fd) {
  uint32_t flags = PERFMON_CONFIG_FLAG_USER | PERFMON_CONFIG_FLAG_PC;
  perfmon_properties_t p;

  Check("ioctl_perfmon_get_properties", ioctl_perfmon_get_properties(fd, &p),
        sizeof(p));
  if (p.api_version != PERFMON_API_VERSION || p.pm_version == 0)
    errx(1, "API version %u, PMU version %u", p.api_version, p.pm_version);
  if (p.max_num_events != p.max_num_fixed_events + p.max_num_programmable_events +
                              p.max_num_misc_events || p.reserved != 0)
    errx(1, "the numbers of events don't add up");
  if (p.max_programmable_counter_width < 16 || p.max_programmable_counter_width > 64 ||
      p.max_fixed_counter_width > 64 || p.max_misc_counter_width > 64)
    errx(1, "counters have no such width");
  if (p.flags & PERFMON_PROPERTY_FLAG_HAS_LAST_BRANCH)
    flags |= PERFMON_CONFIG_FLAG_LAST_BRANCH;
  return flags;
}

// Makes calls in states that do not allow them, such as the state before ALLOC_TRACE.
void RefuseCalls(int fd) {
  const ioctl_perfmon_alloc_t none = {};
  const zx_status_t statuses[] = {
      static_cast<zx_status_t>(ioctl_perfmon_stop(fd)),
      static_cast<zx_status_t>(ioctl_perfmon_start(fd)),
      static_cast<zx_status_t>(ioctl_perfmon_free_trace(fd)),
  };

  for (zx_status_t status : statuses) {
    if (status != ZX_ERR_BAD_STATE)
      errx(1, "status %d, not ZX_ERR_BAD_STATE", status);
  }
  if (ioctl_perfmon_alloc_trace(fd, &none) != ZX_ERR_INVALID_ARGS)
    errx(1, "ALLOC_TRACE takes a trace of no buffer");
  static_assert(ZX_ERR_NO_MEMORY != ZX_OK, "");
}

const perfmon_buffer_header_t* MapBuffer(int fd, uint32_t cpu, size_t size) {
  const ioctl_perfmon_buffer_handle_req_t request = {.descriptor = cpu};
  zx_handle_t handle = ZX_HANDLE_INVALID;

  Check("ioctl_perfmon_get_buffer_handle",
        ioctl_perfmon_get_buffer_handle(fd, &request, &handle), sizeof(handle));
  void* p = mmap(nullptr, size, PROT_READ, MAP_SHARED, handle, 0);
  if (p == MAP_FAILED)
    err(1, "mmap");
  close(handle);
  return static_cast<const perfmon_buffer_header_t*>(p);
}

}  // namespace

int main() {
  const perfmon_buffer_header_t* buffers[kMaxCpus];
  const size_t size = kPages * sysconf(_SC_PAGESIZE);
  ioctl_perfmon_alloc_t alloc = {}, allocated;
  perfmon_ioctl_config_t config = {};
  perfmon_config_t staged;
  bool __UNUSED unused;
  Sums sums = {};
  cpu_set_t first;

  // Runs on one CPU, because each CPU has a rest of instructions without a sample.
  CPU_ZERO(&first);
  CPU_SET(0, &first);
  if (sched_setaffinity(0, sizeof(first), &first))
    err(1, "sched_setaffinity");

  int fd = open(_PATH_PERFMON, O_RDWR);
  if (fd < 0)
    err(1, "%s", _PATH_PERFMON);
  RefuseCalls(fd);

  alloc.num_buffers = sysconf(_SC_NPROCESSORS_CONF);
  alloc.buffer_size_in_pages = kPages;
  if (alloc.num_buffers > kMaxCpus)
    errx(1, "%u CPUs", alloc.num_buffers);
  Check("ioctl_perfmon_alloc_trace", ioctl_perfmon_alloc_trace(fd, &alloc), 0);
  Check("ioctl_perfmon_get_alloc", ioctl_perfmon_get_alloc(fd, &allocated),
        sizeof(allocated));
  if (memcmp(&alloc, &allocated, sizeof(alloc)) != 0)
    errx(1, "ioctl_perfmon_get_alloc gives another allocation");

  config.events[0] = kInstructions;
  config.rate[0] = kRate;
  config.flags[0] = SampleFlags(fd);
  config.events[1] = kBranches;
  config.flags[1] = PERFMON_CONFIG_FLAG_USER | PERFMON_CONFIG_FLAG_TIMEBASE0;
  config.events[2] = PERFMON_EVENT_ID_NONE;
  if (Group(config.events[1]) != PERFMON_GROUP_ARCH)
    errx(1, "an event is in another group");
  Check("ioctl_perfmon_stage_config", ioctl_perfmon_stage_config(fd, &config), 0);
  Check("ioctl_perfmon_get_config", ioctl_perfmon_get_config(fd, &staged),
        sizeof(staged));
  if (memcmp(&config, &staged, sizeof(config)) != 0)
    errx(1, "ioctl_perfmon_get_config gives another config");
  for (uint32_t cpu = 0; cpu < alloc.num_buffers; ++cpu)
    buffers[cpu] = MapBuffer(fd, cpu, size);

  Check("ioctl_perfmon_start", ioctl_perfmon_start(fd), 0);
  Loop();
  Check("ioctl_perfmon_stop", ioctl_perfmon_stop(fd), 0);
  for (uint32_t cpu = 0; cpu < alloc.num_buffers; ++cpu)
    AddBuffer(buffers[cpu], size, &sums);
  Check("ioctl_perfmon_free_trace", ioctl_perfmon_free_trace(fd), 0);

  if (sums.branches < 1000000)
    errx(1, "%llu branches", static_cast<unsigned long long>(sums.branches));
  if (sums.num[PERFMON_RECORD_PC] != sums.instructions / kRate ||
      sums.num[PERFMON_RECORD_TICK] != 0)
    errx(1, "%zu samples", sums.num[PERFMON_RECORD_PC]);
  if (config.flags[0] & PERFMON_CONFIG_FLAG_LAST_BRANCH &&
      sums.num[PERFMON_RECORD_LAST_BRANCH] != sums.num[PERFMON_RECORD_PC])
    errx(1, "%zu records of branches", sums.num[PERFMON_RECORD_LAST_BRANCH]);
  printf("%llu\n", static_cast<unsigned long long>(sums.instructions));
  return 0;
}
