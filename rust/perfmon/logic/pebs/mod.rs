// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! PEBS (processor event-based sampling), the samples that Intel's processors write without an interrupt: when a
//! counter overflows, the processor writes a record of the exact instruction into a buffer, and reloads the counter. It
//! raises an interrupt when the buffer is filled up to a threshold.
//!
//! Intel SDM, volume 3B, section 21.4.9 and, for the formats, table 21-84 and section 21.9.

mod adaptive_record;
mod address;
mod ds_area;
mod format;
mod full_record;
mod groups;
mod layout;
mod merged_record;
mod record;

pub use self::adaptive_record::{
    AccessBranchRecord, AccessRecord, AccessRegisterRecord, AdaptiveRecord, BasicRecord,
    BranchRecord, LongRecord, RegisterBranchRecord, RegisterRecord,
};
pub use self::address::{is_user_address, kernel_address_or_zero, user_address_or_zero};
pub use self::ds_area::{DsWord, PebsBuffer};
pub use self::format::{PebsFormat, PARTS_OF_RECORDS};
pub use self::full_record::FullRecord;
pub use self::groups::RecordGroups;
pub use self::layout::RecordLayout;
pub use self::merged_record::MergedRecord;
pub use self::record::{PebsRecord, RecordRegisters, SingleRecord};
