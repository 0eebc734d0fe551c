// SPDX-License-Identifier: GPL-2.0-only
//! Samples that the processor has taken (PEBS), written to the ring many at a time.

use super::{Record, Sampler};
use crate::logic::{
    anchor::Anchor,
    event_attr::{
        PERF_SAMPLE_ADDR, PERF_SAMPLE_CPU, PERF_SAMPLE_DATA_SRC, PERF_SAMPLE_ID,
        PERF_SAMPLE_IDENTIFIER, PERF_SAMPLE_IP, PERF_SAMPLE_PERIOD, PERF_SAMPLE_STREAM_ID,
        PERF_SAMPLE_TID, PERF_SAMPLE_TIME, PERF_SAMPLE_WEIGHT, PERF_SAMPLE_WEIGHT_STRUCT,
    },
    memory_access::{AccessReader, AccessWords},
    pebs::PebsRecord,
    perf_event::{
        PERF_RECORD_MISC_EXACT_IP, PERF_RECORD_MISC_KERNEL, PERF_RECORD_MISC_USER,
        PERF_RECORD_SAMPLE,
    },
    sample_format::Header,
};
use kernel::bindings;

/// Records of the processor, and the values of samples that the records lack.
#[derive(Clone, Copy)]
pub(crate) struct PreciseSamples<'a, R> {
    pub(crate) records: &'a [R],
    /// The bit of the counter whose records are to be written; 0 to write all records.
    pub(crate) counter: u64,
    /// The number of records to be written.
    pub(crate) count: u64,
    /// The number of overflows that these records stand for.
    pub(crate) overflows: u64,
    /// The task that is sampled; null for an event of a CPU.
    pub(crate) task: *mut bindings::task_struct,
    pub(crate) cpu: u32,
    /// The number of events from one record to the next.
    pub(crate) period: u64,
    pub(crate) anchor: Anchor,
}

/// The parts of a sample in the most common format, which [`copy_common`] writes.
const COMMON_PARTS: u64 = PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME;
/// The number of words of a sample in the most common format.
const COMMON_WORDS: usize = 4;
/// The largest number of words of a precise sample: the header, and all parts that it can have.
const MAX_WORDS: usize = 12;

/// The words that samples have in common, and the indices of the words that differ.
///
/// # Invariants
///
/// `word_count` is 1 to `MAX_WORDS`; all indices are less than `word_count`.
struct SampleTemplate {
    words: [u64; MAX_WORDS],
    word_count: usize,
    /// The index of the instruction's address; 0 if samples have none.
    ip_index: usize,
    /// The index of the time; 0 if samples have none.
    time_index: usize,
    /// The index of the period; 0 if samples have none.
    period_index: usize,
    /// The index of the address of the data; 0 if samples have none.
    address_index: usize,
    /// The index of the weight; 0 if samples have none.
    weight_index: usize,
    /// The index of the source of the data; 0 if samples have none.
    source_index: usize,
    /// The number of events from one overflow to the next.
    period: u64,
    user_header: u64,
    kernel_header: u64,
    ids: u64,
    anchor: Anchor,
    is_user_only: bool,
    /// Samples have parts that tell of the access to memory.
    has_access: bool,
    /// Reads the access to memory in a record.
    access: AccessReader,
}

impl SampleTemplate {
    /// Returns the access to memory as samples may show it. An event that excludes the kernel must not show an address of
    /// the kernel, nor the access of a late instruction in the kernel.
    #[inline(always)]
    fn visible_access(&self, record: &impl PebsRecord) -> AccessWords {
        if self.is_user_only && !is_user_address(record.ip()) {
            return AccessWords::NONE;
        }
        visible_access(self.access.words(&record.access()), self.is_user_only)
    }
}

/// Returns the access to memory that a sample may show: no address of the kernel if the event excludes the kernel.
#[inline(always)]
pub(super) fn visible_access(words: AccessWords, is_user_only: bool) -> AccessWords {
    AccessWords {
        address: if is_user_only {
            user_address_or_zero(words.address)
        } else {
            words.address
        },
        ..words
    }
}

impl Sampler {
    /// Returns the anchor that converts time stamps to the event's clock. `tsc` is the present value of the time-stamp
    /// counter, and `khz` its frequency in kHz.
    pub(crate) fn anchor(&self, tsc: u64, khz: u32) -> Anchor {
        Anchor::new(tsc, self.time(), khz)
    }

    /// Writes samples for records of the processor. Samples that find no room are counted as lost.
    pub(crate) fn write_precise<R: PebsRecord>(&self, samples: &PreciseSamples<'_, R>) {
        let Some(ring) = self.ring() else {
            return;
        };
        let origin = self.origin_of(samples.task, samples.cpu);
        if ring.lost_records.get() != 0 && !self.write_lost(ring, &origin) {
            return self.lose_samples(samples.overflows);
        }
        let template = self.template(samples);
        let Some((mut to, room)) = ring.begin_many(template.word_count, samples.count) else {
            return self.lose_samples(samples.overflows);
        };
        let has_counter =
            |record: &&R| samples.counter == 0 || record.counters() & samples.counter != 0;
        if samples.counter == 0 {
            let records = samples.records.get(..room as usize).unwrap_or(&[]);
            if self.sampling.format.is_exactly(COMMON_PARTS) {
                write_runs(&mut to, records, COMMON_WORDS, |records, to| {
                    // SAFETY: `copy_common` requires room for one sample for each record, which `write_runs` gives it.
                    unsafe { copy_common(records, to, &template) };
                });
            } else {
                write_runs(&mut to, records, template.word_count, |records, to| {
                    // SAFETY: `copy_all_parts` requires room for one sample for each record, which `write_runs` gives it.
                    unsafe { copy_all_parts(records, to, &template) };
                });
            }
        } else {
            for record in samples
                .records
                .iter()
                .filter(has_counter)
                .take(room as usize)
            {
                write_one_sample(&mut to, record, &template);
            }
        }
        to.finish(room);
        if room < samples.count {
            let without_room = samples.records.iter().filter(has_counter);
            let lost = if R::IS_MERGED {
                without_room
                    .skip(room as usize)
                    .map(R::overflows)
                    .fold(0, u64::wrapping_add)
            } else {
                samples.count.wrapping_sub(room)
            };
            self.lose_samples(lost);
            ring.wake_if_full();
        }
    }

    /// Returns the words that the samples have in common.
    fn template<R>(&self, samples: &PreciseSamples<'_, R>) -> SampleTemplate {
        /// One word, which has one of these parts.
        const WEIGHTS: u64 = PERF_SAMPLE_WEIGHT | PERF_SAMPLE_WEIGHT_STRUCT;

        let format = self.sampling.format;
        let ids = self.ids(samples.task);
        let parts = [
            (PERF_SAMPLE_IDENTIFIER, self.id),
            (PERF_SAMPLE_IP, 0),
            (PERF_SAMPLE_TID, ids),
            (PERF_SAMPLE_TIME, 0),
            (PERF_SAMPLE_ADDR, 0),
            (PERF_SAMPLE_ID, self.id),
            (PERF_SAMPLE_STREAM_ID, self.id),
            (PERF_SAMPLE_CPU, samples.cpu.into()),
            (PERF_SAMPLE_PERIOD, samples.period),
            (WEIGHTS, 0),
            (PERF_SAMPLE_DATA_SRC, AccessWords::NONE.source),
        ];
        let (mut words, mut word_count) = ([0; MAX_WORDS], 1);
        let (mut ip_index, mut time_index, mut period_index) = (0, 0, 0);
        let (mut address_index, mut weight_index, mut source_index) = (0, 0, 0);
        for (part, word) in parts.into_iter().filter(|&(part, _)| format.has(part)) {
            match part {
                PERF_SAMPLE_IP => ip_index = word_count,
                PERF_SAMPLE_TIME => time_index = word_count,
                PERF_SAMPLE_PERIOD => period_index = word_count,
                PERF_SAMPLE_ADDR => address_index = word_count,
                PERF_SAMPLE_DATA_SRC => source_index = word_count,
                WEIGHTS => weight_index = word_count,
                _ => {}
            }
            if let Some(to) = words.get_mut(word_count) {
                *to = word;
                word_count += 1;
            }
        }
        let header = |misc| {
            Header {
                kind: PERF_RECORD_SAMPLE,
                misc: misc | PERF_RECORD_MISC_EXACT_IP,
                words: word_count,
            }
            .word()
        };
        // INVARIANT: `word_count` begins with 1, and grows only while `words` has an element of that index. Each index is
        // the value of `word_count` before such a step.
        SampleTemplate {
            words,
            word_count,
            ip_index,
            time_index,
            period_index,
            address_index,
            weight_index,
            source_index,
            period: samples.period,
            user_header: header(PERF_RECORD_MISC_USER),
            kernel_header: header(PERF_RECORD_MISC_KERNEL),
            ids,
            anchor: samples.anchor,
            is_user_only: self.is_user_only,
            has_access: self.has_access(),
            access: self.sampling.access.reader(format),
        }
    }
}

/// Writes a sample of `words` words for each record, by `copy`. Each call of `copy` gets the records whose samples fit
/// before the end of the ring's memory.
#[inline(always)]
fn write_runs<R: PebsRecord>(
    to: &mut Record<'_>,
    records: &[R],
    words: usize,
    copy: impl Fn(&[R], *mut u64),
) {
    let mut remaining = records;
    while !remaining.is_empty() {
        let room = to.words_to_wrap().checked_div(words).unwrap_or(0);
        let (run, rest) = remaining.split_at_checked(room).unwrap_or((remaining, &[]));
        to.write_words_with(run.len().wrapping_mul(words), |to| copy(run, to));
        remaining = rest;
        if let Some((first, rest)) = remaining
            .split_first()
            .filter(|_| to.words_to_wrap() < words)
        {
            // The sample continues at the beginning of the ring's memory.
            let mut sample = [0; MAX_WORDS];
            copy(core::slice::from_ref(first), sample.as_mut_ptr());
            to.write_words(sample.get(..words).unwrap_or(&[]));
            remaining = rest;
        }
    }
}

/// Writes one sample.
fn write_one_sample<R: PebsRecord>(to: &mut Record<'_>, record: &R, template: &SampleTemplate) {
    let mut sample = [0; MAX_WORDS];
    // SAFETY: `copy_all_parts` requires room for one sample: `sample` has `MAX_WORDS` words, and a template has no more.
    unsafe { copy_all_parts(core::slice::from_ref(record), sample.as_mut_ptr(), template) };
    to.write_words(sample.get(..template.word_count).unwrap_or(&[]));
}

/// Returns whether an address is a program's, in the lower half.
#[inline(always)]
pub(super) fn is_user_address(ip: u64) -> bool {
    ip as i64 >= 0
}

/// Returns the address if it is a program's, else 0. The processor may record a late address in the kernel, which an
/// event that excludes the kernel must not show.
#[inline(always)]
pub(super) fn user_address_or_zero(address: u64) -> u64 {
    address & !((address as i64 >> 63) as u64)
}

/// Returns the header of a sample and the address that the sample may show.
#[inline(always)]
fn visible_header_and_ip(ip: u64, is_user_only: bool, template: &SampleTemplate) -> (u64, u64) {
    if is_user_only {
        (template.user_header, user_address_or_zero(ip))
    } else if is_user_address(ip) {
        (template.user_header, ip)
    } else {
        (template.kernel_header, ip)
    }
}

/// Writes samples in the most common format, one for each record.
///
/// # Safety
///
/// `to` must have room for one sample for each record.
#[inline(always)]
unsafe fn copy_common<R: PebsRecord>(records: &[R], to: *mut u64, template: &SampleTemplate) {
    if template.is_user_only {
        // SAFETY: The function requires room for one sample for each record, which the caller promises.
        unsafe { copy_common_samples::<R, true>(records, to, template) };
    } else {
        // SAFETY: The function requires room for one sample for each record, which the caller promises.
        unsafe { copy_common_samples::<R, false>(records, to, template) };
    }
}

/// Writes samples in the most common format. Not inlined, so that the loop keeps its values in registers.
///
/// # Safety
///
/// `to` must have room for one sample for each record.
#[inline(never)]
unsafe fn copy_common_samples<R: PebsRecord, const USER_ONLY: bool>(
    records: &[R],
    mut to: *mut u64,
    template: &SampleTemplate,
) {
    let (ids, anchor) = (template.ids, template.anchor);
    for record in records {
        let (header, ip) = visible_header_and_ip(record.ip(), USER_ONLY, template);
        // SAFETY: The writes require room for `COMMON_WORDS` words: the caller promises room for one sample for each
        // record, and a sample has that number of words. They are volatile, since programs may access the ring.
        unsafe {
            to.write_volatile(header);
            to.add(1).write_volatile(ip);
            to.add(2).write_volatile(ids);
            to.add(3).write_volatile(anchor.ns_at(record.tsc()));
            to = to.add(COMMON_WORDS);
        }
    }
}

/// Writes samples of any format, one for each record.
///
/// # Safety
///
/// `to` must have room for one sample for each record.
unsafe fn copy_all_parts<R: PebsRecord>(records: &[R], to: *mut u64, template: &SampleTemplate) {
    let copy = if R::HAS_ACCESS && template.has_access {
        copier::<R, true>(template.word_count)
    } else {
        copier::<R, false>(template.word_count)
    };
    // SAFETY: `copy_words` requires room for one sample for each record, which the caller promises, and the template's
    // `word_count` as `WORDS`: by the type invariant it is 1 to `MAX_WORDS`, and `copier` has an arm for each.
    unsafe { copy(records, to, template) };
}

/// A function that writes samples, one for each record.
type Copier<R> = unsafe fn(&[R], *mut u64, &SampleTemplate);

/// Returns [`copy_words`] for samples of `words` words.
fn copier<R: PebsRecord, const ACCESS: bool>(words: usize) -> Copier<R> {
    match words {
        2 => copy_words::<R, 2, ACCESS>,
        3 => copy_words::<R, 3, ACCESS>,
        4 => copy_words::<R, 4, ACCESS>,
        5 => copy_words::<R, 5, ACCESS>,
        6 => copy_words::<R, 6, ACCESS>,
        7 => copy_words::<R, 7, ACCESS>,
        8 => copy_words::<R, 8, ACCESS>,
        9 => copy_words::<R, 9, ACCESS>,
        10 => copy_words::<R, 10, ACCESS>,
        11 => copy_words::<R, 11, ACCESS>,
        MAX_WORDS => copy_words::<R, MAX_WORDS, ACCESS>,
        // The sample has a header only.
        _ => copy_words::<R, 1, ACCESS>,
    }
}

/// Writes samples of `WORDS` words, with `ACCESS` those that tell of the access to memory. The number is a constant, so
/// that the compiler can unroll the inner loop: a word that all samples have in common costs two instructions.
///
/// # Safety
///
/// `to` must have room for one sample for each record, and `WORDS` must be the template's
/// `word_count`.
#[inline(never)]
unsafe fn copy_words<R: PebsRecord, const WORDS: usize, const ACCESS: bool>(
    records: &[R],
    mut to: *mut u64,
    template: &SampleTemplate,
) {
    let words = template.words.first_chunk::<WORDS>().unwrap_or(&[0; WORDS]);
    let (ip_index, time_index) = (template.ip_index, template.time_index);
    for record in records {
        let (header, ip) = visible_header_and_ip(record.ip(), template.is_user_only, template);
        let time = template.anchor.ns_at(record.tsc());
        // SAFETY: The writes require room for `WORDS` words: the caller promises room for one sample for each record,
        // and that `WORDS` is the template's `word_count`, which is larger than all indices by the type invariant. They
        // are volatile, since programs may access the ring.
        unsafe {
            for (index, &word) in words.iter().enumerate() {
                to.add(index).write_volatile(word);
            }
            // The index of a part that the template lacks is 0, where the header replaces it afterwards.
            to.add(ip_index).write_volatile(ip);
            to.add(time_index).write_volatile(time);
            if R::IS_MERGED {
                let events = template.period.wrapping_mul(record.overflows());
                to.add(template.period_index).write_volatile(events);
            }
            if ACCESS {
                let access = template.visible_access(record);
                to.add(template.address_index)
                    .write_volatile(access.address);
                to.add(template.weight_index).write_volatile(access.weight);
                to.add(template.source_index).write_volatile(access.source);
            }
            to.write_volatile(header);
            to = to.add(WORDS);
        }
    }
}
