// SPDX-License-Identifier: GPL-2.0-only OR MIT
// Made from include/uapi/linux/perfmon.h by `cargo xtask bindings`: not to be edited.

pub const _PATH_PERFMON: &::core::ffi::CStr = c"/dev/perfmon";
pub const NPMC: u32 = 32;
pub const PMC_ALL: i32 = -1;
pub const PMC_FIXED_BASE: u32 = 1073741824;
pub const PMCF_USR: u32 = 1;
pub const PMCF_OS: u32 = 2;
pub const PMCF_E: u32 = 4;
pub const PMCF_PC: u32 = 8;
pub const PMCF_INT: u32 = 16;
pub const PMCF_ANY: u32 = 32;
pub const PMCF_EN: u32 = 64;
pub const PMCF_INV: u32 = 128;
pub const PMCF_SYS_FLAGS: u32 = 80;
pub const PMC_CPU_MAX: u32 = 64;
pub const PERFMON_API_VERSION: u32 = 3;
pub const PERFMON_PROPERTY_FLAG_HAS_LAST_BRANCH: u32 = 1;
pub const PERFMON_FEATURE_FULL_WIDTH_WRITES: u32 = 1;
pub const PERFMON_FEATURE_PLACE_HOLDER: u32 = 2;
pub const PERFMON_FEATURE_MAPPINGS: u32 = 4;
pub const PERFMON_MAX_GROUP: u32 = 63;
pub const PERFMON_MAX_EVENT: u32 = 1023;
pub const PERFMON_EVENT_ID_NONE: u32 = 0;
pub const PERFMON_ARCH_EVENT_UNHALTED_CORE_CYCLES: u32 = 0;
pub const PERFMON_ARCH_EVENT_INSTRUCTIONS_RETIRED: u32 = 1;
pub const PERFMON_ARCH_EVENT_UNHALTED_REFERENCE_CYCLES: u32 = 2;
pub const PERFMON_ARCH_EVENT_LLC_REFERENCES: u32 = 3;
pub const PERFMON_ARCH_EVENT_LLC_MISSES: u32 = 4;
pub const PERFMON_ARCH_EVENT_BRANCHES_RETIRED: u32 = 5;
pub const PERFMON_ARCH_EVENT_BRANCH_MISSES_RETIRED: u32 = 6;
pub const PERFMON_ARCH_EVENT_TOPDOWN_SLOTS: u32 = 7;
pub const PERFMON_FIXED_EVENT_INSTRUCTIONS_RETIRED: u32 = 1;
pub const PERFMON_FIXED_EVENT_UNHALTED_CORE_CYCLES: u32 = 2;
pub const PERFMON_FIXED_EVENT_UNHALTED_REFERENCE_CYCLES: u32 = 3;
pub const PERFMON_FIXED_EVENT_TOPDOWN_SLOTS: u32 = 4;
pub const PERFMON_FIXED_EVENT_TOPDOWN_BAD_SPECULATION: u32 = 5;
pub const PERFMON_FIXED_EVENT_TOPDOWN_FE_BOUND: u32 = 6;
pub const PERFMON_FIXED_EVENT_TOPDOWN_RETIRING: u32 = 7;
pub const PERFMON_MISC_EVENT_ENERGY_PACKAGE: u32 = 32;
pub const PERFMON_MISC_EVENT_ENERGY_CORES: u32 = 33;
pub const PERFMON_MISC_EVENT_ENERGY_CORE: u32 = 34;
pub const PERFMON_MISC_EVENT_ENERGY_MEMORY: u32 = 35;
pub const PERFMON_MISC_EVENT_TEMPERATURE_PACKAGE: u32 = 36;
pub const PERFMON_MISC_EVENT_TEMPERATURE_CORE: u32 = 37;
pub const PERFMON_MISC_EVENT_MARGIN_PACKAGE: u32 = 38;
pub const PERFMON_MISC_EVENT_MARGIN_CORE: u32 = 39;
pub const PERFMON_MISC_EVENT_APERF: u32 = 40;
pub const PERFMON_MISC_EVENT_MPERF: u32 = 41;
pub const PERFMON_MAX_BUFFER_PAGES: u32 = 65536;
pub const PERFMON_MAX_EVENTS: u32 = 32;
pub const PERFMON_CONFIG_FLAG_OS: u32 = 1;
pub const PERFMON_CONFIG_FLAG_USER: u32 = 2;
pub const PERFMON_CONFIG_FLAG_PC: u32 = 4;
pub const PERFMON_CONFIG_FLAG_TIMEBASE0: u32 = 8;
pub const PERFMON_CONFIG_FLAG_LAST_BRANCH: u32 = 16;
pub const PERFMON_CONFIG_FLAG_MASK: u32 = 31;
pub const PERFMON_BUFFER_VERSION: u32 = 0;
pub const PERFMON_BUFFER_ARCH_UNKNOWN: u32 = 0;
pub const PERFMON_BUFFER_ARCH_X86_64: u32 = 1;
pub const PERFMON_BUFFER_ARCH_ARM64: u32 = 2;
pub const PERFMON_BUFFER_FLAG_FULL: u32 = 1;
pub const PERFMON_BUFFER_FLAG_THROTTLED: u32 = 2;
pub const PERFMON_BUFFER_FLAG_OFFLINE: u32 = 4;
pub const PERFMON_BUFFER_FLAG_NOT_TRACED: u32 = 8;
pub const PERFMON_BUFFER_FLAG_LOST: u32 = 16;
pub const PERFMON_LAST_BRANCH_INFO_CYCLES_SHIFT: u32 = 0;
pub const PERFMON_LAST_BRANCH_INFO_CYCLES_LEN: u32 = 16;
pub const PERFMON_LAST_BRANCH_INFO_CYCLES_MASK: u32 = 65535;
pub const PERFMON_LAST_BRANCH_INFO_MISPRED_SHIFT: u32 = 16;
pub const PERFMON_LAST_BRANCH_INFO_MISPRED_LEN: u32 = 1;
pub const PERFMON_LAST_BRANCH_INFO_MISPRED_MASK: u32 = 65536;
pub const PERFMON_MAX_NUM_LAST_BRANCH: u32 = 32;
pub const PERFMON_EVENT_ROTATE: u32 = 16;
pub type __u8 = ::core::ffi::c_uchar;
pub type __u16 = ::core::ffi::c_ushort;
pub type __s32 = ::core::ffi::c_int;
pub type __u32 = ::core::ffi::c_uint;
pub type __s64 = ::core::ffi::c_longlong;
pub type __u64 = ::core::ffi::c_ulonglong;
#[doc = " struct pmc - what a counter counts. Rust's unions are unsafe, so Rust has one member."]
#[repr(C)]
#[derive(
    Copy,
    Clone,
    zerocopy_derive :: FromBytes,
    zerocopy_derive :: IntoBytes,
    zerocopy_derive :: Immutable,
    zerocopy_derive :: KnownLayout,
)]
pub struct pmc {
    pub pmc_num: ::core::ffi::c_int,
    pub pmc_val: __u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of pmc"][::core::mem::size_of::<pmc>() - 8usize];
    ["Alignment of pmc"][::core::mem::align_of::<pmc>() - 4usize];
    ["Offset of field: pmc::pmc_num"][::core::mem::offset_of!(pmc, pmc_num) - 0usize];
    ["Offset of field: pmc::pmc_val"][::core::mem::offset_of!(pmc, pmc_val) - 4usize];
};
#[doc = " struct pmc_data - the value of a counter\n @pmcd_num: the counter's number\n @reserved: ignored on input, 0 on output\n @pmcd_value: events since the last PMIOSETUP or PMIORESET, summed over all\n\tCPUs, including those that went offline"]
#[repr(C)]
#[derive(
    Copy,
    Clone,
    zerocopy_derive :: FromBytes,
    zerocopy_derive :: IntoBytes,
    zerocopy_derive :: Immutable,
    zerocopy_derive :: KnownLayout,
)]
pub struct pmc_data {
    pub pmcd_num: ::core::ffi::c_int,
    pub reserved: __u32,
    pub pmcd_value: __s64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of pmc_data"][::core::mem::size_of::<pmc_data>() - 16usize];
    ["Alignment of pmc_data"][::core::mem::align_of::<pmc_data>() - 8usize];
    ["Offset of field: pmc_data::pmcd_num"][::core::mem::offset_of!(pmc_data, pmcd_num) - 0usize];
    ["Offset of field: pmc_data::reserved"][::core::mem::offset_of!(pmc_data, reserved) - 4usize];
    ["Offset of field: pmc_data::pmcd_value"]
        [::core::mem::offset_of!(pmc_data, pmcd_value) - 8usize];
};
#[doc = " struct pmc_tstamp - the time-stamp counter\n @pmct_rate: the frequency of the time-stamp counter in MHz, rounded down\n @reserved: 0\n @pmct_value: the value of the time-stamp counter on the CPU that executed the\n\tcall"]
#[repr(C)]
#[derive(
    Copy,
    Clone,
    zerocopy_derive :: FromBytes,
    zerocopy_derive :: IntoBytes,
    zerocopy_derive :: Immutable,
    zerocopy_derive :: KnownLayout,
)]
pub struct pmc_tstamp {
    pub pmct_rate: ::core::ffi::c_int,
    pub reserved: __u32,
    pub pmct_value: __s64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of pmc_tstamp"][::core::mem::size_of::<pmc_tstamp>() - 16usize];
    ["Alignment of pmc_tstamp"][::core::mem::align_of::<pmc_tstamp>() - 8usize];
    ["Offset of field: pmc_tstamp::pmct_rate"]
        [::core::mem::offset_of!(pmc_tstamp, pmct_rate) - 0usize];
    ["Offset of field: pmc_tstamp::reserved"]
        [::core::mem::offset_of!(pmc_tstamp, reserved) - 4usize];
    ["Offset of field: pmc_tstamp::pmct_value"]
        [::core::mem::offset_of!(pmc_tstamp, pmct_value) - 8usize];
};
#[doc = " struct pmc_cpu_data - the values of a counter on several CPUs\n @pmcc_num: the counter's number\n @pmcc_first_cpu: the number of the first CPU, below\n\t&perfmon_info.nr_cpu_ids\n @pmcc_count: in: the number of CPUs, 1 to PMC_CPU_MAX; out: the number of values,\n\twhich is less if @pmcc_first_cpu is close to the highest CPU number\n @reserved: must be 0\n @pmcc_value: events since the last PMIOSETUP or PMIORESET on CPU\n\t@pmcc_first_cpu and the following CPUs; the last total of an offline\n\tCPU, 0 for a CPU that was never online"]
#[repr(C)]
#[derive(
    Copy,
    Clone,
    zerocopy_derive :: FromBytes,
    zerocopy_derive :: IntoBytes,
    zerocopy_derive :: Immutable,
    zerocopy_derive :: KnownLayout,
)]
pub struct pmc_cpu_data {
    pub pmcc_num: ::core::ffi::c_int,
    pub pmcc_first_cpu: __u32,
    pub pmcc_count: __u32,
    pub reserved: __u32,
    pub pmcc_value: [__s64; 64usize],
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of pmc_cpu_data"][::core::mem::size_of::<pmc_cpu_data>() - 528usize];
    ["Alignment of pmc_cpu_data"][::core::mem::align_of::<pmc_cpu_data>() - 8usize];
    ["Offset of field: pmc_cpu_data::pmcc_num"]
        [::core::mem::offset_of!(pmc_cpu_data, pmcc_num) - 0usize];
    ["Offset of field: pmc_cpu_data::pmcc_first_cpu"]
        [::core::mem::offset_of!(pmc_cpu_data, pmcc_first_cpu) - 4usize];
    ["Offset of field: pmc_cpu_data::pmcc_count"]
        [::core::mem::offset_of!(pmc_cpu_data, pmcc_count) - 8usize];
    ["Offset of field: pmc_cpu_data::reserved"]
        [::core::mem::offset_of!(pmc_cpu_data, reserved) - 12usize];
    ["Offset of field: pmc_cpu_data::pmcc_value"]
        [::core::mem::offset_of!(pmc_cpu_data, pmcc_value) - 16usize];
};
#[doc = " struct pmc2 - what a counter counts, for event selects wider than 32 bits\n @pmc2_num: as &pmc.pmc_num\n @pmc2_flags: must be 0\n @pmc2_select: as &pmc.pmc_val, laid out as all 64 bits of IA32_PERFEVTSELx or\n\tof AMD's PERF_CTL, where bits 35:32 are bits 11:8 of the event\n @pmc2_extra: must be 0\n @pmc2_type: the CPUs on which the counter counts: 0 for all CPUs, or the type of a\n\tkind of core (of perf's PMU for these cores) for the CPUs of this kind\n @reserved: must be 0\n\n With the type of a kind of core, other kinds may lack the counter, and may have the\n event under another select or not at all.\n PMIOREAD sums over the CPUs of the kind. PMIOREADCPU fails with EOPNOTSUPP for CPUs of\n other kinds. A possible CPU that was never online is of no kind yet, and has a value of 0.\n\n With a type, also on a machine with one kind of core, the call fails with EINVAL if the\n counter can't count the event on these cores: only some of the general counters can count\n some events, and no general counter can count Intel's event 0. Without a type this is not\n checked: a counter that can't count the event stays 0. PMIOGET2 stores the type that\n PMIOSETUP2 got."]
#[repr(C)]
#[derive(
    Copy,
    Clone,
    zerocopy_derive :: FromBytes,
    zerocopy_derive :: IntoBytes,
    zerocopy_derive :: Immutable,
    zerocopy_derive :: KnownLayout,
)]
pub struct pmc2 {
    pub pmc2_num: ::core::ffi::c_int,
    pub pmc2_flags: __u32,
    pub pmc2_select: __u64,
    pub pmc2_extra: __u64,
    pub pmc2_type: __u32,
    pub reserved: __u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of pmc2"][::core::mem::size_of::<pmc2>() - 32usize];
    ["Alignment of pmc2"][::core::mem::align_of::<pmc2>() - 8usize];
    ["Offset of field: pmc2::pmc2_num"][::core::mem::offset_of!(pmc2, pmc2_num) - 0usize];
    ["Offset of field: pmc2::pmc2_flags"][::core::mem::offset_of!(pmc2, pmc2_flags) - 4usize];
    ["Offset of field: pmc2::pmc2_select"][::core::mem::offset_of!(pmc2, pmc2_select) - 8usize];
    ["Offset of field: pmc2::pmc2_extra"][::core::mem::offset_of!(pmc2, pmc2_extra) - 16usize];
    ["Offset of field: pmc2::pmc2_type"][::core::mem::offset_of!(pmc2, pmc2_type) - 24usize];
    ["Offset of field: pmc2::reserved"][::core::mem::offset_of!(pmc2, reserved) - 28usize];
};
#[doc = " @PMIOSETUP: (&struct pmc) Sets a counter up on every CPU, stopped and\n at 0; stops it first if it runs. The counter belongs to this\n descriptor until close(2)."]
pub const PMIOSETUP: pmc_command = 1074279681;
#[doc = " @PMIOSTART: (int, a counter's number) Starts the counter; it goes on\n from its value. No effect if it runs."]
pub const PMIOSTART: pmc_command = 1074017538;
#[doc = " @PMIOSTOP: (int) Stops the counter, which keeps its value. No effect if\n it is stopped."]
pub const PMIOSTOP: pmc_command = 1074017539;
#[doc = " @PMIOREAD: (&struct pmc_data) Gives the value: the current value if\n the counter runs, else its value at the last stop."]
pub const PMIOREAD: pmc_command = 3222287620;
#[doc = " @PMIORESET: (int) Sets the value to 0; a running counter goes on from\n there."]
pub const PMIORESET: pmc_command = 1074017541;
#[doc = " @PMIOTSTAMP: (&struct pmc_tstamp) Gives the time-stamp counter and its\n frequency."]
pub const PMIOTSTAMP: pmc_command = 2148545798;
#[doc = " @PMIOGET: (&struct pmc) Gives the values that PMIOSETUP took, without\n PMCF_INT, and with PMCF_EN set if the counter runs. After PMIOSETUP2,\n gives bits 31:0 of its select."]
pub const PMIOGET: pmc_command = 3221763335;
#[doc = " @PMIOREADCPU: (&struct pmc_cpu_data) An extension: PMIOREAD for each of\n up to PMC_CPU_MAX CPUs."]
pub const PMIOREADCPU: pmc_command = 3255842056;
#[doc = " @PMIOSETUP2: (&struct pmc2) An extension: PMIOSETUP with all bits of the\n event select."]
pub const PMIOSETUP2: pmc_command = 1075852553;
#[doc = " @PMIOGET2: (&struct pmc2) An extension: PMIOGET of all bits."]
pub const PMIOGET2: pmc_command = 3223336202;
#[doc = " enum pmc_command - the calls that count\n\n The argument of each call is a pointer to the type in parentheses."]
pub type pmc_command = ::core::ffi::c_uint;
#[doc = " struct perfmon_properties - what the CPUs of this machine have in common\n @api_version: PERFMON_API_VERSION\n @pm_version: version of architectural performance monitoring (CPUID.0AH:\n\tEAX[7:0]); on AMD 1, or 2 with PerfMonV2\n @max_num_events: counters and values in all\n @reserved: 0\n @max_num_fixed_events: fixed-function counters\n @max_fixed_counter_width: the width of fixed-function counters in bits\n @max_num_programmable_events: general counters\n @max_programmable_counter_width: the width of general counters in bits\n @max_num_misc_events: values, the events of PERFMON_GROUP_MISC\n @max_misc_counter_width: the width of values in bits: 64; 0 if there are no values\n @flags: PERFMON_PROPERTY_FLAG_*"]
#[repr(C)]
#[derive(
    Copy,
    Clone,
    zerocopy_derive :: FromBytes,
    zerocopy_derive :: IntoBytes,
    zerocopy_derive :: Immutable,
    zerocopy_derive :: KnownLayout,
)]
pub struct perfmon_properties {
    pub api_version: __u16,
    pub pm_version: __u16,
    pub max_num_events: __u16,
    pub reserved: __u16,
    pub max_num_fixed_events: __u16,
    pub max_fixed_counter_width: __u16,
    pub max_num_programmable_events: __u16,
    pub max_programmable_counter_width: __u16,
    pub max_num_misc_events: __u16,
    pub max_misc_counter_width: __u16,
    pub flags: __u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of perfmon_properties"][::core::mem::size_of::<perfmon_properties>() - 24usize];
    ["Alignment of perfmon_properties"][::core::mem::align_of::<perfmon_properties>() - 4usize];
    ["Offset of field: perfmon_properties::api_version"]
        [::core::mem::offset_of!(perfmon_properties, api_version) - 0usize];
    ["Offset of field: perfmon_properties::pm_version"]
        [::core::mem::offset_of!(perfmon_properties, pm_version) - 2usize];
    ["Offset of field: perfmon_properties::max_num_events"]
        [::core::mem::offset_of!(perfmon_properties, max_num_events) - 4usize];
    ["Offset of field: perfmon_properties::reserved"]
        [::core::mem::offset_of!(perfmon_properties, reserved) - 6usize];
    ["Offset of field: perfmon_properties::max_num_fixed_events"]
        [::core::mem::offset_of!(perfmon_properties, max_num_fixed_events) - 8usize];
    ["Offset of field: perfmon_properties::max_fixed_counter_width"]
        [::core::mem::offset_of!(perfmon_properties, max_fixed_counter_width) - 10usize];
    ["Offset of field: perfmon_properties::max_num_programmable_events"]
        [::core::mem::offset_of!(perfmon_properties, max_num_programmable_events) - 12usize];
    ["Offset of field: perfmon_properties::max_programmable_counter_width"]
        [::core::mem::offset_of!(perfmon_properties, max_programmable_counter_width) - 14usize];
    ["Offset of field: perfmon_properties::max_num_misc_events"]
        [::core::mem::offset_of!(perfmon_properties, max_num_misc_events) - 16usize];
    ["Offset of field: perfmon_properties::max_misc_counter_width"]
        [::core::mem::offset_of!(perfmon_properties, max_misc_counter_width) - 18usize];
    ["Offset of field: perfmon_properties::flags"]
        [::core::mem::offset_of!(perfmon_properties, flags) - 20usize];
};
#[doc = " struct perfmon_properties - what the CPUs of this machine have in common\n @api_version: PERFMON_API_VERSION\n @pm_version: version of architectural performance monitoring (CPUID.0AH:\n\tEAX[7:0]); on AMD 1, or 2 with PerfMonV2\n @max_num_events: counters and values in all\n @reserved: 0\n @max_num_fixed_events: fixed-function counters\n @max_fixed_counter_width: the width of fixed-function counters in bits\n @max_num_programmable_events: general counters\n @max_programmable_counter_width: the width of general counters in bits\n @max_num_misc_events: values, the events of PERFMON_GROUP_MISC\n @max_misc_counter_width: the width of values in bits: 64; 0 if there are no values\n @flags: PERFMON_PROPERTY_FLAG_*"]
pub type perfmon_ioctl_properties_t = perfmon_properties;
#[doc = " struct perfmon_info - more properties, an extension\n @nr_cpu_ids: the number of buffers of a trace: the highest possible CPU number + 1\n @flags: 0\n @features: PERFMON_FEATURE_*\n @misc_events: bit n is set if the CPUs have event n of PERFMON_GROUP_MISC\n @reserved: 0"]
#[repr(C)]
#[derive(
    Copy,
    Clone,
    zerocopy_derive :: FromBytes,
    zerocopy_derive :: IntoBytes,
    zerocopy_derive :: Immutable,
    zerocopy_derive :: KnownLayout,
)]
pub struct perfmon_info {
    pub nr_cpu_ids: __u32,
    pub flags: __u32,
    pub features: __u64,
    pub misc_events: __u64,
    pub reserved: [__u64; 5usize],
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of perfmon_info"][::core::mem::size_of::<perfmon_info>() - 64usize];
    ["Alignment of perfmon_info"][::core::mem::align_of::<perfmon_info>() - 8usize];
    ["Offset of field: perfmon_info::nr_cpu_ids"]
        [::core::mem::offset_of!(perfmon_info, nr_cpu_ids) - 0usize];
    ["Offset of field: perfmon_info::flags"][::core::mem::offset_of!(perfmon_info, flags) - 4usize];
    ["Offset of field: perfmon_info::features"]
        [::core::mem::offset_of!(perfmon_info, features) - 8usize];
    ["Offset of field: perfmon_info::misc_events"]
        [::core::mem::offset_of!(perfmon_info, misc_events) - 16usize];
    ["Offset of field: perfmon_info::reserved"]
        [::core::mem::offset_of!(perfmon_info, reserved) - 24usize];
};
#[doc = " Event ids: a group of 6 bits, and an event of 10 bits within the group."]
pub type perfmon_event_id_t = __u16;
pub const PERFMON_GROUP_RESERVED: perfmon_group_type = 0;
pub const PERFMON_GROUP_ARCH: perfmon_group_type = 1;
pub const PERFMON_GROUP_FIXED: perfmon_group_type = 2;
pub const PERFMON_GROUP_MODEL: perfmon_group_type = 3;
pub const PERFMON_GROUP_MISC: perfmon_group_type = 4;
#[doc = " enum perfmon_group_type - the groups of event ids\n @PERFMON_GROUP_RESERVED: has no events; PERFMON_EVENT_ID_NONE is in it\n @PERFMON_GROUP_ARCH: 0 to 7, PERFMON_ARCH_EVENT_*: Intel's architectural\n\tevents (Intel SDM, volume 3B, section 21.2.1.2), in any general counter.\n\tOn AMD they are AMD's events that count the same; LLC references and\n\tmisses are those of level 2, as in Linux perf; AMD has no event for\n\treference cycles and top-down slots\n @PERFMON_GROUP_FIXED: 1 to 7, PERFMON_FIXED_EVENT_*: event n is fixed-function\n\tcounter n - 1, which counts nothing else. Fuchsia has 1 to 4\n @PERFMON_GROUP_MODEL: 0 to 1023, each defined by PERFMON_DEFINE_EVENT\n @PERFMON_GROUP_MISC: 32 to 41, PERFMON_MISC_EVENT_*: values that no counter of the\n\tPMU counts. Fuchsia's own events are below 32, and do not exist here"]
pub type perfmon_group_type = ::core::ffi::c_uint;
#[doc = " enum perfmon_group_type - the groups of event ids\n @PERFMON_GROUP_RESERVED: has no events; PERFMON_EVENT_ID_NONE is in it\n @PERFMON_GROUP_ARCH: 0 to 7, PERFMON_ARCH_EVENT_*: Intel's architectural\n\tevents (Intel SDM, volume 3B, section 21.2.1.2), in any general counter.\n\tOn AMD they are AMD's events that count the same; LLC references and\n\tmisses are those of level 2, as in Linux perf; AMD has no event for\n\treference cycles and top-down slots\n @PERFMON_GROUP_FIXED: 1 to 7, PERFMON_FIXED_EVENT_*: event n is fixed-function\n\tcounter n - 1, which counts nothing else. Fuchsia has 1 to 4\n @PERFMON_GROUP_MODEL: 0 to 1023, each defined by PERFMON_DEFINE_EVENT\n @PERFMON_GROUP_MISC: 32 to 41, PERFMON_MISC_EVENT_*: values that no counter of the\n\tPMU counts. Fuchsia's own events are below 32, and do not exist here"]
pub use self::perfmon_group_type as perfmon_group_type_t;
#[doc = " struct perfmon_event_definition - what an event of PERFMON_GROUP_MODEL counts\n @id: the id of the event, in PERFMON_GROUP_MODEL\n @reserved: must be 0\n @type: the CPUs on which the event counts, as &pmc2.pmc2_type\n @select: as &pmc2.pmc2_select: event, unit mask, edge, invert, counter mask.\n\tPMCF_USR and PMCF_OS are ignored, because the config has the modes.\n\tPMCF_INT and PMCF_EN are ignored, too.\n @extra: must be 0\n @reserved2: must be 0\n\n With a type, also on a machine with one kind of core, the event takes one of the general\n counters that can count it on these cores. For some events these are not all general\n counters. An event that no counter can count is refused (EINVAL). The @select may also be\n that of a fixed-function counter: event 0 with a unit mask of n for fixed-function\n counter n - 1.\n Only the buffers of CPUs of the kind have records of the event."]
#[repr(C)]
#[derive(
    Copy,
    Clone,
    zerocopy_derive :: FromBytes,
    zerocopy_derive :: IntoBytes,
    zerocopy_derive :: Immutable,
    zerocopy_derive :: KnownLayout,
)]
pub struct perfmon_event_definition {
    pub id: __u16,
    pub reserved: __u16,
    pub type_: __u32,
    pub select: __u64,
    pub extra: __u64,
    pub reserved2: [__u64; 2usize],
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of perfmon_event_definition"]
        [::core::mem::size_of::<perfmon_event_definition>() - 40usize];
    ["Alignment of perfmon_event_definition"]
        [::core::mem::align_of::<perfmon_event_definition>() - 8usize];
    ["Offset of field: perfmon_event_definition::id"]
        [::core::mem::offset_of!(perfmon_event_definition, id) - 0usize];
    ["Offset of field: perfmon_event_definition::reserved"]
        [::core::mem::offset_of!(perfmon_event_definition, reserved) - 2usize];
    ["Offset of field: perfmon_event_definition::type_"]
        [::core::mem::offset_of!(perfmon_event_definition, type_) - 4usize];
    ["Offset of field: perfmon_event_definition::select"]
        [::core::mem::offset_of!(perfmon_event_definition, select) - 8usize];
    ["Offset of field: perfmon_event_definition::extra"]
        [::core::mem::offset_of!(perfmon_event_definition, extra) - 16usize];
    ["Offset of field: perfmon_event_definition::reserved2"]
        [::core::mem::offset_of!(perfmon_event_definition, reserved2) - 24usize];
};
#[doc = " struct perfmon_alloc - the buffers of a trace\n @num_buffers: must be &perfmon_info.nr_cpu_ids\n @buffer_size_in_pages: the size of each buffer, 1 to PERFMON_MAX_BUFFER_PAGES;\n\tone page holds any set of records"]
#[repr(C)]
#[derive(
    Copy,
    Clone,
    zerocopy_derive :: FromBytes,
    zerocopy_derive :: IntoBytes,
    zerocopy_derive :: Immutable,
    zerocopy_derive :: KnownLayout,
)]
pub struct perfmon_alloc {
    pub num_buffers: __u32,
    pub buffer_size_in_pages: __u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of perfmon_alloc"][::core::mem::size_of::<perfmon_alloc>() - 8usize];
    ["Alignment of perfmon_alloc"][::core::mem::align_of::<perfmon_alloc>() - 4usize];
    ["Offset of field: perfmon_alloc::num_buffers"]
        [::core::mem::offset_of!(perfmon_alloc, num_buffers) - 0usize];
    ["Offset of field: perfmon_alloc::buffer_size_in_pages"]
        [::core::mem::offset_of!(perfmon_alloc, buffer_size_in_pages) - 4usize];
};
#[doc = " struct perfmon_alloc - the buffers of a trace\n @num_buffers: must be &perfmon_info.nr_cpu_ids\n @buffer_size_in_pages: the size of each buffer, 1 to PERFMON_MAX_BUFFER_PAGES;\n\tone page holds any set of records"]
pub type ioctl_perfmon_alloc_t = perfmon_alloc;
pub type perfmon_rate_t = __u32;
#[doc = " struct perfmon_config - what a trace records\n @events: event ids, each at most once, from the front;\n\tPERFMON_EVENT_ID_NONE ends the list\n @rate: the number of events from one record to the next\n @flags: PERFMON_CONFIG_FLAG_*\n\n =======  =========  =========================================================\n rate     TIMEBASE0  records\n =======  =========  =========================================================\n not 0    no         TICK or PC each time that rate events have been counted;\n                     COUNT of the rest at IOCTL_PERFMON_STOP\n 0        no         COUNT at IOCTL_PERFMON_STOP\n ignored  yes        COUNT whenever events[0] ticks, and at IOCTL_PERFMON_STOP\n =======  =========  =========================================================\n\n An event of PERFMON_GROUP_MISC has VALUE instead of COUNT. It has no modes:\n PERFMON_CONFIG_FLAG_OS and PERFMON_CONFIG_FLAG_USER have no effect on it.\n\n A config is refused with EINVAL, and the previous config stays, if\n\n - there is no event, or anything but 0 follows the first\n   PERFMON_EVENT_ID_NONE;\n - a flag is not in PERFMON_CONFIG_FLAG_MASK;\n - an event is in the config twice, is not defined, or is missing on these CPUs;\n - the config needs more general counters than the CPUs that count the events have, or two\n   events need the same counter;\n - an event of PERFMON_GROUP_MISC has a rate and no PERFMON_CONFIG_FLAG_TIMEBASE0, or\n   is events[0] and has a rate;\n - a rate is above 2^width - 1 (the counter's width), or above 2^31 without\n   PERFMON_FEATURE_FULL_WIDTH_WRITES;\n - an event has PERFMON_CONFIG_FLAG_TIMEBASE0 and the rate of events[0] is 0;\n - an event has PERFMON_CONFIG_FLAG_TIMEBASE0, and events[0] counts on one kind of core\n   only and the event does not;\n - an event has PERFMON_CONFIG_FLAG_LAST_BRANCH and does not tick, or the CPUs\n   lack PERFMON_PROPERTY_FLAG_HAS_LAST_BRANCH, or it has PERFMON_CONFIG_FLAG_OS\n   and the CPUs (some of AMD's) can't freeze the records;\n - events with PERFMON_CONFIG_FLAG_LAST_BRANCH differ in modes: a CPU has one\n   filter for branches."]
#[repr(C)]
#[derive(
    Copy,
    Clone,
    zerocopy_derive :: FromBytes,
    zerocopy_derive :: IntoBytes,
    zerocopy_derive :: Immutable,
    zerocopy_derive :: KnownLayout,
)]
pub struct perfmon_config {
    pub events: [__u16; 32usize],
    pub rate: [__u32; 32usize],
    pub flags: [__u32; 32usize],
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of perfmon_config"][::core::mem::size_of::<perfmon_config>() - 320usize];
    ["Alignment of perfmon_config"][::core::mem::align_of::<perfmon_config>() - 4usize];
    ["Offset of field: perfmon_config::events"]
        [::core::mem::offset_of!(perfmon_config, events) - 0usize];
    ["Offset of field: perfmon_config::rate"]
        [::core::mem::offset_of!(perfmon_config, rate) - 64usize];
    ["Offset of field: perfmon_config::flags"]
        [::core::mem::offset_of!(perfmon_config, flags) - 192usize];
};
#[doc = " struct perfmon_config - what a trace records\n @events: event ids, each at most once, from the front;\n\tPERFMON_EVENT_ID_NONE ends the list\n @rate: the number of events from one record to the next\n @flags: PERFMON_CONFIG_FLAG_*\n\n =======  =========  =========================================================\n rate     TIMEBASE0  records\n =======  =========  =========================================================\n not 0    no         TICK or PC each time that rate events have been counted;\n                     COUNT of the rest at IOCTL_PERFMON_STOP\n 0        no         COUNT at IOCTL_PERFMON_STOP\n ignored  yes        COUNT whenever events[0] ticks, and at IOCTL_PERFMON_STOP\n =======  =========  =========================================================\n\n An event of PERFMON_GROUP_MISC has VALUE instead of COUNT. It has no modes:\n PERFMON_CONFIG_FLAG_OS and PERFMON_CONFIG_FLAG_USER have no effect on it.\n\n A config is refused with EINVAL, and the previous config stays, if\n\n - there is no event, or anything but 0 follows the first\n   PERFMON_EVENT_ID_NONE;\n - a flag is not in PERFMON_CONFIG_FLAG_MASK;\n - an event is in the config twice, is not defined, or is missing on these CPUs;\n - the config needs more general counters than the CPUs that count the events have, or two\n   events need the same counter;\n - an event of PERFMON_GROUP_MISC has a rate and no PERFMON_CONFIG_FLAG_TIMEBASE0, or\n   is events[0] and has a rate;\n - a rate is above 2^width - 1 (the counter's width), or above 2^31 without\n   PERFMON_FEATURE_FULL_WIDTH_WRITES;\n - an event has PERFMON_CONFIG_FLAG_TIMEBASE0 and the rate of events[0] is 0;\n - an event has PERFMON_CONFIG_FLAG_TIMEBASE0, and events[0] counts on one kind of core\n   only and the event does not;\n - an event has PERFMON_CONFIG_FLAG_LAST_BRANCH and does not tick, or the CPUs\n   lack PERFMON_PROPERTY_FLAG_HAS_LAST_BRANCH, or it has PERFMON_CONFIG_FLAG_OS\n   and the CPUs (some of AMD's) can't freeze the records;\n - events with PERFMON_CONFIG_FLAG_LAST_BRANCH differ in modes: a CPU has one\n   filter for branches."]
pub type perfmon_ioctl_config_t = perfmon_config;
#[doc = " struct perfmon_buffer_handle_req - the buffer of a new handle\n @descriptor: the number of the CPU, below &perfmon_alloc.num_buffers"]
#[repr(C)]
#[derive(
    Copy,
    Clone,
    zerocopy_derive :: FromBytes,
    zerocopy_derive :: IntoBytes,
    zerocopy_derive :: Immutable,
    zerocopy_derive :: KnownLayout,
)]
pub struct perfmon_buffer_handle_req {
    pub descriptor: __u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of perfmon_buffer_handle_req"]
        [::core::mem::size_of::<perfmon_buffer_handle_req>() - 4usize];
    ["Alignment of perfmon_buffer_handle_req"]
        [::core::mem::align_of::<perfmon_buffer_handle_req>() - 4usize];
    ["Offset of field: perfmon_buffer_handle_req::descriptor"]
        [::core::mem::offset_of!(perfmon_buffer_handle_req, descriptor) - 0usize];
};
#[doc = " struct perfmon_buffer_handle_req - the buffer of a new handle\n @descriptor: the number of the CPU, below &perfmon_alloc.num_buffers"]
pub type ioctl_perfmon_buffer_handle_req_t = perfmon_buffer_handle_req;
#[doc = " struct perfmon_buffer_header - the beginning of a buffer\n @version: PERFMON_BUFFER_VERSION\n @arch: PERFMON_BUFFER_ARCH_X86_64\n @flags: PERFMON_BUFFER_FLAG_*\n @ticks_per_second: the frequency of the time-stamp counter, 0 if the kernel\n\tdoes not know it\n @capture_end: the offset of the end of the records. It is stored with release\n\torder after a whole set of records: a reader that loads it with acquire\n\torder sees whole sets, also while the trace runs."]
#[repr(C)]
#[derive(
    Copy,
    Clone,
    zerocopy_derive :: FromBytes,
    zerocopy_derive :: IntoBytes,
    zerocopy_derive :: Immutable,
    zerocopy_derive :: KnownLayout,
)]
pub struct perfmon_buffer_header {
    pub version: __u16,
    pub arch: __u16,
    pub flags: __u32,
    pub ticks_per_second: __s64,
    pub capture_end: __u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of perfmon_buffer_header"][::core::mem::size_of::<perfmon_buffer_header>() - 24usize];
    ["Alignment of perfmon_buffer_header"]
        [::core::mem::align_of::<perfmon_buffer_header>() - 8usize];
    ["Offset of field: perfmon_buffer_header::version"]
        [::core::mem::offset_of!(perfmon_buffer_header, version) - 0usize];
    ["Offset of field: perfmon_buffer_header::arch"]
        [::core::mem::offset_of!(perfmon_buffer_header, arch) - 2usize];
    ["Offset of field: perfmon_buffer_header::flags"]
        [::core::mem::offset_of!(perfmon_buffer_header, flags) - 4usize];
    ["Offset of field: perfmon_buffer_header::ticks_per_second"]
        [::core::mem::offset_of!(perfmon_buffer_header, ticks_per_second) - 8usize];
    ["Offset of field: perfmon_buffer_header::capture_end"]
        [::core::mem::offset_of!(perfmon_buffer_header, capture_end) - 16usize];
};
#[doc = " struct perfmon_buffer_header - the beginning of a buffer\n @version: PERFMON_BUFFER_VERSION\n @arch: PERFMON_BUFFER_ARCH_X86_64\n @flags: PERFMON_BUFFER_FLAG_*\n @ticks_per_second: the frequency of the time-stamp counter, 0 if the kernel\n\tdoes not know it\n @capture_end: the offset of the end of the records. It is stored with release\n\torder after a whole set of records: a reader that loads it with acquire\n\torder sees whole sets, also while the trace runs."]
pub type perfmon_buffer_header_t = perfmon_buffer_header;
pub const PERFMON_RECORD_RESERVED: perfmon_record_type = 0;
pub const PERFMON_RECORD_TIME: perfmon_record_type = 1;
pub const PERFMON_RECORD_TICK: perfmon_record_type = 2;
pub const PERFMON_RECORD_COUNT: perfmon_record_type = 3;
pub const PERFMON_RECORD_VALUE: perfmon_record_type = 4;
pub const PERFMON_RECORD_PC: perfmon_record_type = 5;
pub const PERFMON_RECORD_LAST_BRANCH: perfmon_record_type = 6;
#[doc = " enum perfmon_record_type - &struct perfmon_record_header.type\n @PERFMON_RECORD_RESERVED: no record has this type\n @PERFMON_RECORD_TIME: &struct perfmon_time_record\n @PERFMON_RECORD_TICK: &struct perfmon_tick_record\n @PERFMON_RECORD_COUNT: &struct perfmon_count_record\n @PERFMON_RECORD_VALUE: &struct perfmon_value_record\n @PERFMON_RECORD_PC: &struct perfmon_pc_record\n @PERFMON_RECORD_LAST_BRANCH: &struct perfmon_last_branch_record"]
pub type perfmon_record_type = ::core::ffi::c_uint;
#[doc = " enum perfmon_record_type - &struct perfmon_record_header.type\n @PERFMON_RECORD_RESERVED: no record has this type\n @PERFMON_RECORD_TIME: &struct perfmon_time_record\n @PERFMON_RECORD_TICK: &struct perfmon_tick_record\n @PERFMON_RECORD_COUNT: &struct perfmon_count_record\n @PERFMON_RECORD_VALUE: &struct perfmon_value_record\n @PERFMON_RECORD_PC: &struct perfmon_pc_record\n @PERFMON_RECORD_LAST_BRANCH: &struct perfmon_last_branch_record"]
pub use self::perfmon_record_type as perfmon_record_type_t;
#[doc = " struct perfmon_record_header - the beginning of every record\n @type: PERFMON_RECORD_*\n @reserved_flags: 0\n @event: the event that the record is for, or PERFMON_EVENT_ID_NONE"]
#[repr(C)]
#[derive(
    Copy,
    Clone,
    zerocopy_derive :: FromBytes,
    zerocopy_derive :: IntoBytes,
    zerocopy_derive :: Immutable,
    zerocopy_derive :: KnownLayout,
)]
pub struct perfmon_record_header {
    pub type_: __u8,
    pub reserved_flags: __u8,
    pub event: __u16,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of perfmon_record_header"][::core::mem::size_of::<perfmon_record_header>() - 4usize];
    ["Alignment of perfmon_record_header"]
        [::core::mem::align_of::<perfmon_record_header>() - 2usize];
    ["Offset of field: perfmon_record_header::type_"]
        [::core::mem::offset_of!(perfmon_record_header, type_) - 0usize];
    ["Offset of field: perfmon_record_header::reserved_flags"]
        [::core::mem::offset_of!(perfmon_record_header, reserved_flags) - 1usize];
    ["Offset of field: perfmon_record_header::event"]
        [::core::mem::offset_of!(perfmon_record_header, event) - 2usize];
};
#[doc = " struct perfmon_record_header - the beginning of every record\n @type: PERFMON_RECORD_*\n @reserved_flags: 0\n @event: the event that the record is for, or PERFMON_EVENT_ID_NONE"]
pub type perfmon_record_header_t = perfmon_record_header;
#[doc = " struct perfmon_time_record - the time of the records up to the next TIME\n @header: its event is PERFMON_EVENT_ID_NONE\n @time: the CPU's time-stamp counter"]
#[repr(C, packed(4))]
#[derive(
    Copy,
    Clone,
    zerocopy_derive :: FromBytes,
    zerocopy_derive :: IntoBytes,
    zerocopy_derive :: Immutable,
    zerocopy_derive :: KnownLayout,
)]
pub struct perfmon_time_record {
    pub header: perfmon_record_header,
    pub time: __s64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of perfmon_time_record"][::core::mem::size_of::<perfmon_time_record>() - 12usize];
    ["Alignment of perfmon_time_record"][::core::mem::align_of::<perfmon_time_record>() - 4usize];
    ["Offset of field: perfmon_time_record::header"]
        [::core::mem::offset_of!(perfmon_time_record, header) - 0usize];
    ["Offset of field: perfmon_time_record::time"]
        [::core::mem::offset_of!(perfmon_time_record, time) - 4usize];
};
#[doc = " struct perfmon_time_record - the time of the records up to the next TIME\n @header: its event is PERFMON_EVENT_ID_NONE\n @time: the CPU's time-stamp counter"]
pub type perfmon_time_record_t = perfmon_time_record;
#[doc = " struct perfmon_tick_record - the event was counted as many times as its rate says\n @header: names the event\n\n The rate is in &perfmon_config.rate, not in the record."]
#[repr(C)]
#[repr(align(4))]
#[derive(
    Copy,
    Clone,
    zerocopy_derive :: FromBytes,
    zerocopy_derive :: IntoBytes,
    zerocopy_derive :: Immutable,
    zerocopy_derive :: KnownLayout,
)]
pub struct perfmon_tick_record {
    pub header: perfmon_record_header,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of perfmon_tick_record"][::core::mem::size_of::<perfmon_tick_record>() - 4usize];
    ["Alignment of perfmon_tick_record"][::core::mem::align_of::<perfmon_tick_record>() - 4usize];
    ["Offset of field: perfmon_tick_record::header"]
        [::core::mem::offset_of!(perfmon_tick_record, header) - 0usize];
};
#[doc = " struct perfmon_tick_record - the event was counted as many times as its rate says\n @header: names the event\n\n The rate is in &perfmon_config.rate, not in the record."]
pub type perfmon_tick_record_t = perfmon_tick_record;
#[doc = " struct perfmon_count_record - what was counted since the event's last record\n @header: names the event\n @count: the number of events"]
#[repr(C, packed(4))]
#[derive(
    Copy,
    Clone,
    zerocopy_derive :: FromBytes,
    zerocopy_derive :: IntoBytes,
    zerocopy_derive :: Immutable,
    zerocopy_derive :: KnownLayout,
)]
pub struct perfmon_count_record {
    pub header: perfmon_record_header,
    pub count: __u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of perfmon_count_record"][::core::mem::size_of::<perfmon_count_record>() - 12usize];
    ["Alignment of perfmon_count_record"][::core::mem::align_of::<perfmon_count_record>() - 4usize];
    ["Offset of field: perfmon_count_record::header"]
        [::core::mem::offset_of!(perfmon_count_record, header) - 0usize];
    ["Offset of field: perfmon_count_record::count"]
        [::core::mem::offset_of!(perfmon_count_record, count) - 4usize];
};
#[doc = " struct perfmon_count_record - what was counted since the event's last record\n @header: names the event\n @count: the number of events"]
pub type perfmon_count_record_t = perfmon_count_record;
#[doc = " struct perfmon_value_record - the value of an event of PERFMON_GROUP_MISC\n @header: names the event\n @value: the value; its unit depends on the event"]
#[repr(C, packed(4))]
#[derive(
    Copy,
    Clone,
    zerocopy_derive :: FromBytes,
    zerocopy_derive :: IntoBytes,
    zerocopy_derive :: Immutable,
    zerocopy_derive :: KnownLayout,
)]
pub struct perfmon_value_record {
    pub header: perfmon_record_header,
    pub value: __u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of perfmon_value_record"][::core::mem::size_of::<perfmon_value_record>() - 12usize];
    ["Alignment of perfmon_value_record"][::core::mem::align_of::<perfmon_value_record>() - 4usize];
    ["Offset of field: perfmon_value_record::header"]
        [::core::mem::offset_of!(perfmon_value_record, header) - 0usize];
    ["Offset of field: perfmon_value_record::value"]
        [::core::mem::offset_of!(perfmon_value_record, value) - 4usize];
};
#[doc = " struct perfmon_value_record - the value of an event of PERFMON_GROUP_MISC\n @header: names the event\n @value: the value; its unit depends on the event"]
pub type perfmon_value_record_t = perfmon_value_record;
#[doc = " struct perfmon_pc_record - a tick, with the place where the CPU was\n @header: names the event\n @aspace: the address space: the address bits of CR3; 0 if the caller of\n\tIOCTL_PERFMON_STAGE_CONFIG had no permission to count the kernel. A\n\tkernel thread has the address space of the program before it.\n @pc: the address of the next instruction. The hardware takes some\n\tinstructions to raise the interrupt, and the kernel sometimes delays it.\n\tFor a caller without permission to count the kernel, an address in the\n\tkernel is 0. Even an event of user mode may have an address in the kernel,\n\tif its interrupt is late.\n\n Written instead of a TICK if the event has PERFMON_CONFIG_FLAG_PC."]
#[repr(C, packed(4))]
#[derive(
    Copy,
    Clone,
    zerocopy_derive :: FromBytes,
    zerocopy_derive :: IntoBytes,
    zerocopy_derive :: Immutable,
    zerocopy_derive :: KnownLayout,
)]
pub struct perfmon_pc_record {
    pub header: perfmon_record_header,
    pub aspace: __u64,
    pub pc: __u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of perfmon_pc_record"][::core::mem::size_of::<perfmon_pc_record>() - 20usize];
    ["Alignment of perfmon_pc_record"][::core::mem::align_of::<perfmon_pc_record>() - 4usize];
    ["Offset of field: perfmon_pc_record::header"]
        [::core::mem::offset_of!(perfmon_pc_record, header) - 0usize];
    ["Offset of field: perfmon_pc_record::aspace"]
        [::core::mem::offset_of!(perfmon_pc_record, aspace) - 4usize];
    ["Offset of field: perfmon_pc_record::pc"]
        [::core::mem::offset_of!(perfmon_pc_record, pc) - 12usize];
};
#[doc = " struct perfmon_pc_record - a tick, with the place where the CPU was\n @header: names the event\n @aspace: the address space: the address bits of CR3; 0 if the caller of\n\tIOCTL_PERFMON_STAGE_CONFIG had no permission to count the kernel. A\n\tkernel thread has the address space of the program before it.\n @pc: the address of the next instruction. The hardware takes some\n\tinstructions to raise the interrupt, and the kernel sometimes delays it.\n\tFor a caller without permission to count the kernel, an address in the\n\tkernel is 0. Even an event of user mode may have an address in the kernel,\n\tif its interrupt is late.\n\n Written instead of a TICK if the event has PERFMON_CONFIG_FLAG_PC."]
pub type perfmon_pc_record_t = perfmon_pc_record;
#[doc = " struct perfmon_last_branch - a branch that was taken\n @from: the address of the branch; on AMD that of the instruction before it if\n\tthe two were fused (a comparison and a jump)\n @to: the address of its target\n @info: PERFMON_LAST_BRANCH_INFO_*"]
#[repr(C, packed(4))]
#[derive(
    Copy,
    Clone,
    zerocopy_derive :: FromBytes,
    zerocopy_derive :: IntoBytes,
    zerocopy_derive :: Immutable,
    zerocopy_derive :: KnownLayout,
)]
pub struct perfmon_last_branch {
    pub from: __u64,
    pub to: __u64,
    pub info: __u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of perfmon_last_branch"][::core::mem::size_of::<perfmon_last_branch>() - 24usize];
    ["Alignment of perfmon_last_branch"][::core::mem::align_of::<perfmon_last_branch>() - 4usize];
    ["Offset of field: perfmon_last_branch::from"]
        [::core::mem::offset_of!(perfmon_last_branch, from) - 0usize];
    ["Offset of field: perfmon_last_branch::to"]
        [::core::mem::offset_of!(perfmon_last_branch, to) - 8usize];
    ["Offset of field: perfmon_last_branch::info"]
        [::core::mem::offset_of!(perfmon_last_branch, info) - 16usize];
};
#[doc = " struct perfmon_last_branch - a branch that was taken\n @from: the address of the branch; on AMD that of the instruction before it if\n\tthe two were fused (a comparison and a jump)\n @to: the address of its target\n @info: PERFMON_LAST_BRANCH_INFO_*"]
pub type perfmon_last_branch_t = perfmon_last_branch;
#[doc = " struct perfmon_last_branch_record - the branches before an overflow\n @header: names the event\n @num_branches: the number of branches in the record\n @aspace: as &perfmon_pc_record.aspace; earlier branches may be of another\n\taddress space\n @branches: the newest first; the record ends after @num_branches. Branches\n\tfrom or to the kernel are left out for a caller without permission to\n\tcount the kernel. On AMD, branches of a path that turned out to be the\n\twrong one are left out, too."]
#[repr(C, packed(4))]
#[derive(
    Copy,
    Clone,
    zerocopy_derive :: FromBytes,
    zerocopy_derive :: IntoBytes,
    zerocopy_derive :: Immutable,
    zerocopy_derive :: KnownLayout,
)]
pub struct perfmon_last_branch_record {
    pub header: perfmon_record_header,
    pub num_branches: __u32,
    pub aspace: __u64,
    pub branches: [perfmon_last_branch; 32usize],
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of perfmon_last_branch_record"]
        [::core::mem::size_of::<perfmon_last_branch_record>() - 784usize];
    ["Alignment of perfmon_last_branch_record"]
        [::core::mem::align_of::<perfmon_last_branch_record>() - 4usize];
    ["Offset of field: perfmon_last_branch_record::header"]
        [::core::mem::offset_of!(perfmon_last_branch_record, header) - 0usize];
    ["Offset of field: perfmon_last_branch_record::num_branches"]
        [::core::mem::offset_of!(perfmon_last_branch_record, num_branches) - 4usize];
    ["Offset of field: perfmon_last_branch_record::aspace"]
        [::core::mem::offset_of!(perfmon_last_branch_record, aspace) - 8usize];
    ["Offset of field: perfmon_last_branch_record::branches"]
        [::core::mem::offset_of!(perfmon_last_branch_record, branches) - 16usize];
};
#[doc = " struct perfmon_last_branch_record - the branches before an overflow\n @header: names the event\n @num_branches: the number of branches in the record\n @aspace: as &perfmon_pc_record.aspace; earlier branches may be of another\n\taddress space\n @branches: the newest first; the record ends after @num_branches. Branches\n\tfrom or to the kernel are left out for a caller without permission to\n\tcount the kernel. On AMD, branches of a path that turned out to be the\n\twrong one are left out, too."]
pub type perfmon_last_branch_record_t = perfmon_last_branch_record;
#[doc = " @IOCTL_PERFMON_GET_PROPERTIES: (&struct perfmon_properties) Gives what\n all CPUs of the machine have in common. In any state."]
pub const IOCTL_PERFMON_GET_PROPERTIES: perfmon_command = 2149070336;
#[doc = " @IOCTL_PERFMON_ALLOC_TRACE: (&struct perfmon_alloc) Allocates a buffer\n for each CPU number. In state Idle."]
pub const IOCTL_PERFMON_ALLOC_TRACE: perfmon_command = 1074279937;
#[doc = " @IOCTL_PERFMON_FREE_TRACE: Releases the buffers and the config. Handles\n and mappings of the buffers stay valid; so do events that were defined.\n In state Allocated or Staged."]
pub const IOCTL_PERFMON_FREE_TRACE: perfmon_command = 13826;
#[doc = " @IOCTL_PERFMON_GET_ALLOC: (&struct perfmon_alloc) Gives what\n IOCTL_PERFMON_ALLOC_TRACE took. In any state but Idle."]
pub const IOCTL_PERFMON_GET_ALLOC: perfmon_command = 2148021763;
#[doc = " @IOCTL_PERFMON_STAGE_CONFIG: (&struct perfmon_config) Checks and stores\n what to record. A config that is refused leaves the previous one. In\n state Allocated or Staged."]
pub const IOCTL_PERFMON_STAGE_CONFIG: perfmon_command = 1094727172;
#[doc = " @IOCTL_PERFMON_GET_CONFIG: (&struct perfmon_config) Gives what\n IOCTL_PERFMON_STAGE_CONFIG took. In state Staged."]
pub const IOCTL_PERFMON_GET_CONFIG: perfmon_command = 2168468997;
#[doc = " @IOCTL_PERFMON_GET_BUFFER_HANDLE: (&struct perfmon_buffer_handle_req)\n Returns a new file descriptor of a buffer, closed on exec, for mmap(2)\n with PROT_READ and MAP_SHARED. In state Allocated or Staged."]
pub const IOCTL_PERFMON_GET_BUFFER_HANDLE: perfmon_command = 1074017798;
#[doc = " @IOCTL_PERFMON_START: Takes the lowest free counters, empties the\n buffers and begins to record, on every CPU that is online and has a\n buffer. In state Staged."]
pub const IOCTL_PERFMON_START: perfmon_command = 13831;
#[doc = " @IOCTL_PERFMON_STOP: Ends the recording: each CPU writes its last\n counts, the counters are free again, the config stays. No effect if\n the trace does not run. In any state but Idle."]
pub const IOCTL_PERFMON_STOP: perfmon_command = 13832;
#[doc = " @PERFMON_DEFINE_EVENT: (&struct perfmon_event_definition) An extension:\n defines an event of PERFMON_GROUP_MODEL, in place of an earlier\n definition, until close(2). In state Idle or Allocated."]
pub const PERFMON_DEFINE_EVENT: perfmon_command = 1076377120;
#[doc = " @PERFMON_GET_INFO: (&struct perfmon_info) An extension: gives more\n properties. In any state."]
pub const PERFMON_GET_INFO: perfmon_command = 2151691809;
#[doc = " enum perfmon_command - the calls that sample\n\n The argument of each call is a pointer to the type in parentheses. A call is\n allowed in the states that are named."]
pub type perfmon_command = ::core::ffi::c_uint;
#[doc = " struct perfmon_event_open - the arguments of perf_event_open(2)\n @attr: the address of a struct perf_event_attr (<linux/perf_event.h>). Its\n\tmember size is 64 to 4096, or 0, which means 64, the size of the first\n\tversion. The call fails with E2BIG if size is anything else, or if the\n\tstructure is larger than the module's and the rest is not 0. It then sets\n\tsize to the size of the module's structure\n @pid: 0 the calling thread; > 0 the thread with this ID; -1 all tasks, on CPU\n\t@cpu. With PERF_FLAG_PID_CGROUP a descriptor of the directory of a cgroup of\n\tversion 2, or of version 1 in perf's hierarchy: its tasks, and the tasks of\n\tthe cgroups in it\n @cpu: the only CPU on which the event counts; -1 for any CPU\n @group_fd: the descriptor of the group's leader; -1 makes a new group\n @flags: PERF_FLAG_FD_CLOEXEC, PERF_FLAG_FD_NO_GROUP, PERF_FLAG_FD_OUTPUT,\n\tPERF_FLAG_PID_CGROUP, PERFMON_EVENT_ROTATE\n @reserved: must be 0"]
#[repr(C)]
#[derive(
    Copy,
    Clone,
    zerocopy_derive :: FromBytes,
    zerocopy_derive :: IntoBytes,
    zerocopy_derive :: Immutable,
    zerocopy_derive :: KnownLayout,
)]
pub struct perfmon_event_open {
    pub attr: __u64,
    pub pid: __s32,
    pub cpu: __s32,
    pub group_fd: __s32,
    pub flags: __u32,
    pub reserved: [__u64; 2usize],
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of perfmon_event_open"][::core::mem::size_of::<perfmon_event_open>() - 40usize];
    ["Alignment of perfmon_event_open"][::core::mem::align_of::<perfmon_event_open>() - 8usize];
    ["Offset of field: perfmon_event_open::attr"]
        [::core::mem::offset_of!(perfmon_event_open, attr) - 0usize];
    ["Offset of field: perfmon_event_open::pid"]
        [::core::mem::offset_of!(perfmon_event_open, pid) - 8usize];
    ["Offset of field: perfmon_event_open::cpu"]
        [::core::mem::offset_of!(perfmon_event_open, cpu) - 12usize];
    ["Offset of field: perfmon_event_open::group_fd"]
        [::core::mem::offset_of!(perfmon_event_open, group_fd) - 16usize];
    ["Offset of field: perfmon_event_open::flags"]
        [::core::mem::offset_of!(perfmon_event_open, flags) - 20usize];
    ["Offset of field: perfmon_event_open::reserved"]
        [::core::mem::offset_of!(perfmon_event_open, reserved) - 24usize];
};
pub const PERFMON_OWNER_NONE: perfmon_owner = 0;
pub const PERFMON_OWNER_PERF: perfmon_owner = 1;
pub const PERFMON_OWNER_SESSION: perfmon_owner = 2;
pub const PERFMON_OWNER_TRACE: perfmon_owner = 3;
pub const PERFMON_OWNER_TASKS: perfmon_owner = 4;
pub const PERFMON_OWNER_CPUS: perfmon_owner = 5;
pub const PERFMON_OWNER_EVENTS: perfmon_owner = 6;
#[doc = " enum perfmon_owner - the owner of a counter\n @PERFMON_OWNER_NONE: no owner\n @PERFMON_OWNER_PERF: Linux perf or the NMI watchdog\n @PERFMON_OWNER_SESSION: the program that called PMIOSETUP\n @PERFMON_OWNER_TRACE: the program whose trace runs\n @PERFMON_OWNER_TASKS: events of tasks; the counter counts for each task while it runs\n @PERFMON_OWNER_CPUS: events of CPUs; each CPU may count a different event\n @PERFMON_OWNER_EVENTS: events of tasks, CPUs or cgroups, which all count the same"]
pub type perfmon_owner = ::core::ffi::c_uint;
#[doc = " struct perfmon_counter_owner - the owner of a counter\n @num: in: the counter's number, as &pmc.pmc_num; also of a counter that only some\n\tkinds of cores have\n @kind: out: PERFMON_OWNER_*\n @pid: out: the process that was the first to ask for the counter; 0 if there is no\n\tsuch process, it has exited, or it is outside of the caller's PID namespace\n @users: out: the number of events that share the counter; 1 for perf, a session or a trace,\n\t0 for no owner\n @comm: out: the name of that process when it asked\n @reserved: must be 0"]
#[repr(C)]
#[derive(
    Copy,
    Clone,
    zerocopy_derive :: FromBytes,
    zerocopy_derive :: IntoBytes,
    zerocopy_derive :: Immutable,
    zerocopy_derive :: KnownLayout,
)]
pub struct perfmon_counter_owner {
    pub num: __s32,
    pub kind: __u32,
    pub pid: __s32,
    pub users: __u32,
    pub comm: [::core::ffi::c_char; 16usize],
    pub reserved: [__u64; 2usize],
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of perfmon_counter_owner"][::core::mem::size_of::<perfmon_counter_owner>() - 48usize];
    ["Alignment of perfmon_counter_owner"]
        [::core::mem::align_of::<perfmon_counter_owner>() - 8usize];
    ["Offset of field: perfmon_counter_owner::num"]
        [::core::mem::offset_of!(perfmon_counter_owner, num) - 0usize];
    ["Offset of field: perfmon_counter_owner::kind"]
        [::core::mem::offset_of!(perfmon_counter_owner, kind) - 4usize];
    ["Offset of field: perfmon_counter_owner::pid"]
        [::core::mem::offset_of!(perfmon_counter_owner, pid) - 8usize];
    ["Offset of field: perfmon_counter_owner::users"]
        [::core::mem::offset_of!(perfmon_counter_owner, users) - 12usize];
    ["Offset of field: perfmon_counter_owner::comm"]
        [::core::mem::offset_of!(perfmon_counter_owner, comm) - 16usize];
    ["Offset of field: perfmon_counter_owner::reserved"]
        [::core::mem::offset_of!(perfmon_counter_owner, reserved) - 32usize];
};
#[doc = " @PERFMON_EVENT_OPEN: (&struct perfmon_event_open) Returns a new file\n descriptor, which counts an event."]
pub const PERFMON_EVENT_OPEN: perfmon_event_command = 1076377122;
#[doc = " @PERFMON_GET_OWNER: (&struct perfmon_counter_owner) Gives the owner of\n a counter."]
pub const PERFMON_GET_OWNER: perfmon_event_command = 3224385059;
#[doc = " enum perfmon_event_command - the calls for events\n\n The argument of each call is a pointer to the type in parentheses. Any descriptor\n of the device may be used, even one that is open for reading only."]
pub type perfmon_event_command = ::core::ffi::c_uint;
