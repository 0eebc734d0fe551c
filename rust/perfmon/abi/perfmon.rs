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
pub type __u16 = ::core::ffi::c_ushort;
pub type __u32 = ::core::ffi::c_uint;
pub type __s64 = ::core::ffi::c_longlong;
pub type __u64 = ::core::ffi::c_ulonglong;
#[doc = " struct pmc - what a counter counts\n @pmc_num: 0 to &struct perfmon_properties.max_num_programmable_events - 1,\n\tor PMC_FIXED(n)\n @pmc_event: event select\n @pmc_unit: unit mask\n @pmc_flags: PMCF_*\n @pmc_mask: counter mask\n @pmc_val: the four above in one, with the layout of bits 31:0 of\n\tIA32_PERFEVTSELx (Intel SDM, volume 3B, section 21.2.1.1)"]
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
#[doc = " struct pmc_data - the value of a counter\n @pmcd_num: the counter's number\n @reserved: ignored on input, 0 on output\n @pmcd_value: events since the last PMIOSETUP or PMIORESET, the sum over all\n\tCPUs, those that went offline included"]
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
#[doc = " struct pmc_tstamp - the time-stamp counter\n @pmct_rate: its frequency in MHz, rounded down\n @reserved: 0\n @pmct_value: its value on the CPU that executed the call"]
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
#[doc = " struct pmc_cpu_data - the value of a counter on each of some CPUs\n @pmcc_num: the counter's number\n @pmcc_first_cpu: the first CPU's number, below that of\n\t`sysconf(_SC_NPROCESSORS_CONF)` on common machines\n @pmcc_count: in: how many CPUs, 1 to PMC_CPU_MAX; out: how many values there\n\tare, fewer if there are no more CPU numbers\n @reserved: must be 0\n @pmcc_value: events since the last PMIOSETUP or PMIORESET on CPU\n\t@pmcc_first_cpu and the following; the last total of one that is\n\toffline, 0 for one that never was online"]
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
#[doc = " struct pmc2 - what a counter counts, for selects wider than 32 bits\n @pmc2_num: as &struct pmc.pmc_num\n @pmc2_flags: must be 0\n @pmc2_select: as &struct pmc.pmc_val, with the layout of all 64 bits of\n\tIA32_PERFEVTSELx, or of AMD's PERF_CTL: bits 11:8 of an event are its\n\tbits 35:32. A bit that this CPU does not have is refused with EINVAL.\n @pmc2_extra: must be 0\n @reserved: must be 0"]
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
    pub reserved: __u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of pmc2"][::core::mem::size_of::<pmc2>() - 32usize];
    ["Alignment of pmc2"][::core::mem::align_of::<pmc2>() - 8usize];
    ["Offset of field: pmc2::pmc2_num"][::core::mem::offset_of!(pmc2, pmc2_num) - 0usize];
    ["Offset of field: pmc2::pmc2_flags"][::core::mem::offset_of!(pmc2, pmc2_flags) - 4usize];
    ["Offset of field: pmc2::pmc2_select"][::core::mem::offset_of!(pmc2, pmc2_select) - 8usize];
    ["Offset of field: pmc2::pmc2_extra"][::core::mem::offset_of!(pmc2, pmc2_extra) - 16usize];
    ["Offset of field: pmc2::reserved"][::core::mem::offset_of!(pmc2, reserved) - 24usize];
};
#[doc = " @PMIOSETUP: set counter &struct pmc.pmc_num up on every CPU: stopped\n and zero. It belongs to this descriptor until close(2)."]
pub const PMIOSETUP: _bindgen_ty_1 = 1074279681;
#[doc = " @PMIOSTART: go on counting from the value at the stop."]
pub const PMIOSTART: _bindgen_ty_1 = 1074017538;
#[doc = " @PMIOSTOP: stop; the value stays."]
pub const PMIOSTOP: _bindgen_ty_1 = 1074017539;
#[doc = " @PMIOREAD: the live value, or that at the stop."]
pub const PMIOREAD: _bindgen_ty_1 = 3222287620;
#[doc = " @PMIORESET: zero; a running counter goes on from there."]
pub const PMIORESET: _bindgen_ty_1 = 1074017541;
#[doc = " @PMIOTSTAMP: the time-stamp counter and its frequency."]
pub const PMIOTSTAMP: _bindgen_ty_1 = 2148545798;
#[doc = " @PMIOGET: what PMIOSETUP took; PMCF_EN tells whether it runs."]
pub const PMIOGET: _bindgen_ty_1 = 3221763335;
#[doc = " @PMIOREADCPU: as PMIOREAD, for each CPU; EOPNOTSUPP if one of them is\n online and not counted on, for it has fewer counters than the others."]
pub const PMIOREADCPU: _bindgen_ty_1 = 3255842056;
#[doc = " @PMIOSETUP2: as PMIOSETUP."]
pub const PMIOSETUP2: _bindgen_ty_1 = 1075852553;
#[doc = " @PMIOGET2: as PMIOGET, which gives bits 31:0 of the same."]
pub const PMIOGET2: _bindgen_ty_1 = 3223336202;
#[doc = " The commands are enumerators because bindgen can't evaluate _IOW(); each is\n a macro too, so that programs can test for it with #ifdef."]
pub type _bindgen_ty_1 = ::core::ffi::c_uint;
#[doc = " struct perfmon_properties - what the CPUs of this machine have in common\n @api_version: PERFMON_API_VERSION\n @pm_version: version of architectural performance monitoring (CPUID.0AH:\n\tEAX[7:0]); on AMD 1, or 2 with PerfMonV2\n @max_num_events: counters in all\n @reserved: 0\n @max_num_fixed_events: fixed-function counters\n @max_fixed_counter_width: their width in bits\n @max_num_programmable_events: general counters\n @max_programmable_counter_width: their width in bits\n @max_num_misc_events: events that are no counters of the PMU\n @max_misc_counter_width: their width in bits\n @flags: PERFMON_PROPERTY_FLAG_*"]
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
#[doc = " The reference's name."]
pub type perfmon_ioctl_properties_t = perfmon_properties;
#[doc = " @IOCTL_PERFMON_GET_PROPERTIES: needs no write access."]
pub const IOCTL_PERFMON_GET_PROPERTIES: _bindgen_ty_2 = 2149070336;
pub type _bindgen_ty_2 = ::core::ffi::c_uint;
