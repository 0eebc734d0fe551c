// SPDX-License-Identifier: GPL-2.0-only
//! Writes many precise samples at a time, column by column: the first word of all samples, then the second word, and so
//! on. So the meaning of a word is looked up once for many samples.

use crate::logic::{
    anchor::Anchor,
    memory_access::{AccessReader, AccessWords},
    pebs::{is_user_address, kernel_address_or_zero, user_address_or_zero, PebsRecord},
    sample_format::Header,
};

/// The largest number of words of a precise sample: the header, and all parts that it can have.
pub(super) const MAX_WORDS: usize = 12;

/// The number of samples that are written together: few enough that the samples and their records are still in the cache
/// for the next column.
const BLOCK: usize = 256;

/// The number of records that a loop over records takes in each step.
const STEP: usize = 8;

/// A column of samples: the meaning of one word, or of several words.
#[derive(Clone, Copy)]
pub(super) enum Column {
    /// A word that is the same in all samples.
    Common(u64),
    /// The header, which differs between samples of the program and of the kernel.
    Header,
    /// The address of the instruction.
    Ip,
    /// The time.
    Time,
    /// Three words that most samples have: the address of the instruction, the process and the thread, the time.
    IpIdsTime { ids: u64 },
    /// The header, for an event that excludes the kernel, and the three words of [`Self::IpIdsTime`].
    UserIpIdsTime { ids: u64 },
    /// The number of events that the sample stands for.
    Events,
    /// The address of the data.
    Address,
    /// The address of the data if it is in the kernel, otherwise 0.
    KernelAddress,
    /// The weight.
    Weight,
    /// The weight, if it is the latency of the access, or the cycles of a transaction.
    Latency,
    /// The source of the data.
    Source,
}

impl Column {
    /// Returns the number of words.
    fn width(self) -> usize {
        match self {
            Self::IpIdsTime { .. } => 3,
            Self::UserIpIdsTime { .. } => 4,
            _ => 1,
        }
    }
}

/// The columns of a ring's precise samples, in the order of their words.
///
/// # Invariants
///
/// `word_count` is the sum of the widths of the first `column_count` columns, and at most `MAX_WORDS`.
pub(super) struct SampleTemplate {
    /// The columns; the first is the header.
    columns: [Column; MAX_WORDS],
    column_count: usize,
    word_count: usize,
    /// The number of events from one overflow to the next.
    period: u64,
    anchor: Anchor,
    /// Reads the access to memory in a record.
    access: AccessReader,
    /// A column is [`Column::Address`].
    has_address: bool,
    /// The event excludes the kernel.
    is_user_only: bool,
    user_header: u64,
    kernel_header: u64,
}

impl SampleTemplate {
    /// Returns the template of samples with a header, which [`Self::set_headers`] sets, and nothing else.
    pub(super) fn new(
        period: u64,
        anchor: Anchor,
        access: AccessReader,
        is_user_only: bool,
    ) -> Self {
        // INVARIANT: The header is a column of one word.
        Self {
            columns: [Column::Header; MAX_WORDS],
            column_count: 1,
            word_count: 1,
            period,
            anchor,
            access,
            has_address: false,
            is_user_only,
            user_header: 0,
            kernel_header: 0,
        }
    }

    /// Returns the number of words of a sample.
    pub(super) fn word_count(&self) -> usize {
        self.word_count
    }

    /// Adds a column, for samples that are made from records of type `R`. A column that does not
    /// apply to these records becomes a simpler one.
    pub(super) fn push<R: PebsRecord>(&mut self, column: Column) {
        let column = match column {
            Column::Events if !R::IS_MERGED => Column::Common(self.period),
            Column::Address | Column::KernelAddress | Column::Weight if !R::HAS_ACCESS => {
                Column::Common(0)
            }
            Column::KernelAddress if self.is_user_only => Column::Common(0),
            Column::Source if !R::HAS_ACCESS => Column::Common(AccessWords::NONE.source),
            Column::Weight if self.access.is_latency_only() => Column::Latency,
            column => column,
        };
        if matches!(column, Column::Time) && self.merge_time() {
            return;
        }
        let word_count = self.word_count.saturating_add(column.width());
        let place = self.columns.get_mut(self.column_count);
        if let Some(to) = place.filter(|_| word_count <= MAX_WORDS) {
            *to = column;
            self.has_address |= matches!(column, Column::Address);
            // INVARIANT: The column is counted, and its width is in the sum, which was compared with `MAX_WORDS`.
            self.column_count += 1;
            self.word_count = word_count;
        }
    }

    /// Merges the time and the columns before it into one column, if these are the columns that most samples have. One
    /// column costs fewer instructions. Returns whether the columns were merged.
    fn merge_time(&mut self) -> bool {
        let Some(columns) = self.columns.get_mut(..self.column_count) else {
            return false;
        };
        // INVARIANT: Each arm replaces columns of one word each by one column with one word more, which is added to the
        // sum. No template with these columns has more than the header, an identifier and three other words.
        match columns {
            [header @ Column::Header, Column::Ip, Column::Common(ids)] if self.is_user_only => {
                *header = Column::UserIpIdsTime { ids: *ids };
                self.column_count -= 2;
            }
            [Column::Header, .., ip @ Column::Ip, Column::Common(ids)] => {
                *ip = Column::IpIdsTime { ids: *ids };
                self.column_count -= 1;
            }
            _ => return false,
        }
        self.word_count += 1;
        true
    }

    /// Sets the headers of samples of the program and of the kernel.
    pub(super) fn set_headers(&mut self, user: Header, kernel: Header) {
        self.user_header = user.word();
        self.kernel_header = kernel.word();
    }

    /// Returns the columns, each with the index of its first word.
    fn columns(&self) -> impl Iterator<Item = (usize, Column)> + '_ {
        let columns = self.columns.iter().take(self.column_count).copied();
        columns.scan(0, |next: &mut usize, column| {
            let index = *next;
            *next = index.wrapping_add(column.width());
            Some((index, column))
        })
    }
}

/// Writes one sample for each record. If the event excludes the kernel, the kernel's addresses, and the accesses to
/// memory of instructions in the kernel, are removed before the samples are written: programs may read the ring at any
/// time.
///
/// # Safety
///
/// `to` must have room for one sample for each record.
pub(super) unsafe fn write_columns<R: PebsRecord>(
    records: &[R],
    to: *mut u64,
    template: &SampleTemplate,
) {
    let mut block_start = to;
    for block in records.chunks(BLOCK) {
        if template.is_user_only && has_address_of_kernel(block, template.has_address) {
            // SAFETY: The function requires room for one sample for each record of `block`: the
            // caller promises room for all records, and `block_start` is behind the samples of the
            // previous blocks.
            unsafe { write_without_kernel_addresses(block, block_start, template) };
        } else {
            // SAFETY: The function requires room for one sample for each record of `block`: the
            // caller promises room for all records, and `block_start` is behind the samples of the
            // previous blocks.
            unsafe { write_block(block, block_start, template) };
        }
        let words = block.len().wrapping_mul(template.word_count);
        // SAFETY: `add` requires a result within, or directly behind, the same memory: the caller promises room for the
        // samples of all records, and these are the samples of `block`.
        block_start = unsafe { block_start.add(words) };
    }
}

/// Returns whether one of the records has the address of an instruction in the kernel or, if `has_address` is true, of
/// data in the kernel.
#[inline(always)]
fn has_address_of_kernel<R: PebsRecord>(records: &[R], has_address: bool) -> bool {
    // Bit 63 of an address is set if the address is in the kernel, so bit 63 of `union` is set if any address is.
    let mut union = 0;
    if R::HAS_ACCESS && has_address {
        for_each_record(records, |record| {
            union |= record.ip() | record.access().address
        });
    } else {
        for_each_record(records, |record| union |= record.ip());
    }
    !is_user_address(union)
}

/// Writes samples of an event that excludes the kernel. Leaves out the kernel's addresses, and the
/// accesses to memory of instructions in the kernel.
///
/// # Safety
///
/// `to` must have room for one sample for each record.
#[cold]
#[inline(never)]
unsafe fn write_without_kernel_addresses<R: PebsRecord>(
    records: &[R],
    to: *mut u64,
    template: &SampleTemplate,
) {
    let mut words = [0; MAX_WORDS];
    for (n, record) in records.iter().enumerate() {
        // SAFETY: `write_block` requires room for one sample: `words` has `MAX_WORDS` words, and a template has no more.
        unsafe { write_block(core::slice::from_ref(record), words.as_mut_ptr(), template) };
        let is_hidden = !is_user_address(record.ip());
        for (index, column) in template.columns() {
            let index = match column {
                Column::UserIpIdsTime { .. } => index.wrapping_add(1),
                _ => index,
            };
            let Some(word) = words.get_mut(index) else {
                continue;
            };
            *word = match column {
                Column::Ip | Column::IpIdsTime { .. } | Column::UserIpIdsTime { .. } => {
                    user_address_or_zero(*word)
                }
                Column::Address | Column::Weight | Column::Latency if is_hidden => 0,
                Column::Address => user_address_or_zero(*word),
                Column::Source if is_hidden => AccessWords::NONE.source,
                _ => continue,
            };
        }
        for (index, &word) in words.iter().take(template.word_count).enumerate() {
            let index = n.wrapping_mul(template.word_count).wrapping_add(index);
            // SAFETY: `add` and the write require a valid word: the caller promises that `to` has
            // room for one sample, `word_count` words, for each record, and `index` is the index of
            // a word in the sample of this record. The write is volatile, since programs may access
            // the ring.
            unsafe { to.add(index).write_volatile(word) };
        }
    }
}

/// Writes samples that may show all of their records.
///
/// # Safety
///
/// `to` must have room for one sample for each record.
#[inline(never)]
unsafe fn write_block<R: PebsRecord>(records: &[R], to: *mut u64, template: &SampleTemplate) {
    let (anchor, access, period) = (template.anchor, template.access, template.period);
    let (user_header, kernel_header) = (template.user_header, template.kernel_header);
    for (index, column) in template.columns() {
        // SAFETY: `ColumnWords::new` requires that the words which `write` writes are valid: these
        // are the words of the column for each record, every `word_count` words. The caller
        // promises room for whole samples, and by the invariant of `SampleTemplate` the column is
        // within the `word_count` words of a sample.
        let to = unsafe { ColumnWords::new(to.wrapping_add(index), template.word_count) };
        match column {
            Column::Common(word) => to.write(records, |_| [word]),
            Column::Header if template.is_user_only => to.write(records, |_| [user_header]),
            Column::Header => to.write(records, |record| {
                [if is_user_address(record.ip()) {
                    user_header
                } else {
                    kernel_header
                }]
            }),
            Column::Ip => to.write(records, |record| [record.ip()]),
            Column::Time => to.write(records, |record| [anchor.ns_at(record.tsc())]),
            Column::IpIdsTime { ids } => to.write(records, |record| {
                [record.ip(), ids, anchor.ns_at(record.tsc())]
            }),
            Column::UserIpIdsTime { ids } => to.write(records, |record| {
                [user_header, record.ip(), ids, anchor.ns_at(record.tsc())]
            }),
            Column::Events => to.write(records, |record| [period.wrapping_mul(record.overflows())]),
            Column::Address => to.write(records, |record| [record.access().address]),
            Column::KernelAddress => to.write(records, |record| {
                [kernel_address_or_zero(record.access().address)]
            }),
            Column::Weight => to.write(records, |record| [access.weight(&record.access())]),
            Column::Latency => to.write(records, |record| [access.latency(&record.access())]),
            Column::Source => to.write(records, |record| [access.source(&record.access())]),
        }
    }
}

/// The places of the words of one column, in consecutive samples.
///
/// # Invariants
///
/// All words that [`Self::write`] writes are valid for writes: the words of the column, from
/// `first` on, every `stride` words.
struct ColumnWords {
    first: *mut u64,
    stride: usize,
}

impl ColumnWords {
    /// Returns the places of a column whose first word is at `first`. The column's words of two
    /// consecutive samples are `stride` words apart.
    ///
    /// # Safety
    ///
    /// The words that [`Self::write`] writes must be valid for writes.
    unsafe fn new(first: *mut u64, stride: usize) -> Self {
        // INVARIANT: The caller promises that the words that are written are valid for writes.
        Self { first, stride }
    }

    /// Writes `WIDTH` words of the sample of each record.
    #[inline(always)]
    fn write<R, const WIDTH: usize>(self, records: &[R], words_of: impl Fn(&R) -> [u64; WIDTH]) {
        let mut to = self.first;
        for_each_record(records, |record| {
            for (index, word) in words_of(record).into_iter().enumerate() {
                // SAFETY: The write requires a valid word: by the type invariant the words from `first` on, every `stride`
                // words, are valid, and the closure returns no more of them. The write is volatile, since programs may access
                // the ring.
                unsafe { to.wrapping_add(index).write_volatile(word) };
            }
            to = to.wrapping_add(self.stride);
        });
    }
}

/// Calls `f` for each record. The loop takes `STEP` records in each step, so that the loop itself costs little.
#[inline(always)]
fn for_each_record<R>(records: &[R], mut f: impl FnMut(&R)) {
    let mut remaining = records;
    while let Some((step, rest)) = remaining.split_first_chunk::<STEP>() {
        for record in step {
            f(record);
        }
        remaining = rest;
    }
    for record in remaining {
        f(record);
    }
}
