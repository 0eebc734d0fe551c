// SPDX-License-Identifier: GPL-2.0-only
//! Samples that the processor has taken, many at a time.

use super::{
    sample::{misc, SAMPLE},
    Record, Sampler,
};
use crate::logic::{
    anchor::Anchor,
    event_attr::{
        PERF_SAMPLE_CPU, PERF_SAMPLE_ID, PERF_SAMPLE_IDENTIFIER, PERF_SAMPLE_IP,
        PERF_SAMPLE_PERIOD, PERF_SAMPLE_STREAM_ID, PERF_SAMPLE_TID, PERF_SAMPLE_TIME,
    },
    pebs::PebsRecord,
    sample_format::Header,
};
use kernel::bindings;

/// Records of the processor, and what they do not tell.
#[derive(Clone, Copy)]
pub(crate) struct PreciseSamples<'a, R> {
    pub(crate) records: &'a [R],
    /// The counter whose records are meant, by its bit; 0 for all records.
    pub(crate) counter: u64,
    /// The number of these records.
    pub(crate) count: u64,
    /// The task; null for an event of a CPU.
    pub(crate) task: *mut bindings::task_struct,
    pub(crate) cpu: u32,
    /// The events from one to the next.
    pub(crate) period: u64,
    pub(crate) anchor: Anchor,
}

/// The parts of the usual sample, which [`copy_usual`] writes.
const USUAL: u64 = PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME;
/// The words of a usual sample.
const USUAL_WORDS: usize = 4;
/// The most words of a sample: its header, and all parts that it can have.
const MAX_WORDS: usize = 9;

/// What samples have in common, and where they differ.
///
/// # Invariants
///
/// `count` is at least 1 and at most `MAX_WORDS`; `ip` and `time` are below it.
struct Template {
    words: [u64; MAX_WORDS],
    count: usize,
    /// The index of the address; 0 if there is none.
    ip: usize,
    /// The index of the time; 0 if there is none.
    time: usize,
    user: u64,
    kernel: u64,
    ids: u64,
    anchor: Anchor,
    is_user_only: bool,
}

impl Sampler {
    /// Returns the anchor of the records' clock: its time now, when the time-stamp counter, of `khz` kHz, is `tsc`.
    pub(crate) fn anchor(&self, tsc: u64, khz: u32) -> Anchor {
        Anchor::new(tsc, self.time(), khz)
    }

    /// Writes samples. Those without room are lost.
    pub(crate) fn write_precise<R: PebsRecord>(&self, samples: &PreciseSamples<'_, R>) {
        let Some(ring) = self.ring() else {
            return;
        };
        let moment = self.moment_of(samples.task, samples.cpu);
        if ring.lost.get() != 0 && !self.write_lost(ring, &moment) {
            return self.lose(samples.count);
        }
        let template = self.template(samples);
        let Some((mut to, room)) = ring.begin_many(template.count, samples.count) else {
            return self.lose(samples.count);
        };
        if samples.counter == 0 {
            let records = samples.records.get(..room as usize).unwrap_or(&[]);
            if self.sampling.format.is_exactly(USUAL) {
                put_runs(&mut to, records, USUAL_WORDS, |records, to| {
                    // SAFETY: There is room for them.
                    unsafe { copy_usual(records, to, &template) };
                });
            } else {
                put_runs(&mut to, records, template.count, |records, to| {
                    // SAFETY: There is room for them.
                    unsafe { copy_any(records, to, &template) };
                });
            }
        } else {
            let is_its = |record: &&R| record.counters() & samples.counter != 0;
            for record in samples.records.iter().filter(is_its).take(room as usize) {
                put_one(&mut to, record, &template);
            }
        }
        to.finish(false);
        if room < samples.count {
            self.lose(samples.count.wrapping_sub(room));
        }
    }

    /// Returns what the samples have in common.
    fn template<R>(&self, samples: &PreciseSamples<'_, R>) -> Template {
        let format = self.sampling.format;
        let ids = self.ids(samples.task);
        let parts = [
            (PERF_SAMPLE_IDENTIFIER, self.id),
            (PERF_SAMPLE_IP, 0),
            (PERF_SAMPLE_TID, ids),
            (PERF_SAMPLE_TIME, 0),
            (PERF_SAMPLE_ID, self.id),
            (PERF_SAMPLE_STREAM_ID, self.id),
            (PERF_SAMPLE_CPU, samples.cpu.into()),
            (PERF_SAMPLE_PERIOD, samples.period),
        ];
        let (mut words, mut count) = ([0; MAX_WORDS], 1);
        let (mut ip, mut time) = (0, 0);
        for (part, word) in parts.into_iter().filter(|&(part, _)| format.has(part)) {
            match part {
                PERF_SAMPLE_IP => ip = count,
                PERF_SAMPLE_TIME => time = count,
                _ => {}
            }
            if let Some(to) = words.get_mut(count) {
                *to = word;
                count += 1;
            }
        }
        let header = |misc| {
            Header {
                kind: SAMPLE,
                misc,
                words: count,
            }
            .word()
        };
        // INVARIANT: `count` begins with 1 and grows while `words` has an element of that index; an index is the count
        // before such a step.
        Template {
            words,
            count,
            ip,
            time,
            user: header(misc::USER),
            kernel: header(misc::KERNEL),
            ids,
            anchor: samples.anchor,
            is_user_only: self.is_user_only,
        }
    }
}

/// Writes a sample of so many words for each record, with `copy`: as many at a time as there is room for before the end of
/// the ring.
#[inline(always)]
fn put_runs<R: PebsRecord>(
    to: &mut Record<'_>,
    records: &[R],
    words: usize,
    copy: impl Fn(&[R], *mut u64),
) {
    let mut left = records;
    while !left.is_empty() {
        let room = to.room().checked_div(words).unwrap_or(0);
        let (run, rest) = left.split_at_checked(room).unwrap_or((left, &[]));
        to.fill_words(run.len().wrapping_mul(words), |to| copy(run, to));
        left = rest;
        if let Some((first, rest)) = left.split_first().filter(|_| to.room() < words) {
            // It goes on at the beginning of the ring.
            let mut sample = [0; MAX_WORDS];
            copy(core::slice::from_ref(first), sample.as_mut_ptr());
            to.put_all(sample.get(..words).unwrap_or(&[]));
            left = rest;
        }
    }
}

/// Writes one sample.
fn put_one<R: PebsRecord>(to: &mut Record<'_>, record: &R, template: &Template) {
    let mut sample = [0; MAX_WORDS];
    // SAFETY: `sample` has `MAX_WORDS` words, the most that a template has, and gets one record.
    unsafe { copy_any(core::slice::from_ref(record), sample.as_mut_ptr(), template) };
    to.put_all(sample.get(..template.count).unwrap_or(&[]));
}

/// Returns whether an address is of a program: of the lower half.
#[inline(always)]
fn is_user(ip: u64) -> bool {
    ip as i64 >= 0
}

/// Returns the address if it is a program's, else 0. The processor may be late, and a sample of an event that
/// excludes the kernel must not show the kernel's addresses.
#[inline(always)]
fn user_ip_or_zero(ip: u64) -> u64 {
    ip & !((ip as i64 >> 63) as u64)
}

/// Returns the header of a sample, and the address that it shows.
#[inline(always)]
fn visible_ip(ip: u64, is_user_only: bool, template: &Template) -> (u64, u64) {
    if is_user_only {
        (template.user, user_ip_or_zero(ip))
    } else if is_user(ip) {
        (template.user, ip)
    } else {
        (template.kernel, ip)
    }
}

/// Writes usual samples.
///
/// # Safety
///
/// `to` must have room for as many as there are records.
#[inline(always)]
unsafe fn copy_usual<R: PebsRecord>(records: &[R], to: *mut u64, template: &Template) {
    if template.is_user_only {
        // SAFETY: The requirement is that of this function.
        unsafe { copy::<R, true>(records, to, template) };
    } else {
        // SAFETY: The requirement is that of this function.
        unsafe { copy::<R, false>(records, to, template) };
    }
}

/// Writes usual samples. Not inlined, so that all that it needs stays in registers.
///
/// # Safety
///
/// `to` must have room for as many as there are records.
#[inline(never)]
unsafe fn copy<R: PebsRecord, const USER_ONLY: bool>(
    records: &[R],
    mut to: *mut u64,
    template: &Template,
) {
    let (ids, anchor) = (template.ids, template.anchor);
    for record in records {
        let (header, ip) = visible_ip(record.ip(), USER_ONLY, template);
        // SAFETY: The caller guarantees that `to` has room for all records. Programs may change the ring at any time.
        unsafe {
            to.write_volatile(header);
            to.add(1).write_volatile(ip);
            to.add(2).write_volatile(ids);
            to.add(3).write_volatile(anchor.ns_at(record.tsc()));
            to = to.add(USUAL_WORDS);
        }
    }
}

/// Writes samples of any format.
///
/// # Safety
///
/// `to` must have room for as many as there are records.
unsafe fn copy_any<R: PebsRecord>(records: &[R], to: *mut u64, template: &Template) {
    let copy = match template.count {
        2 => copy_words::<R, 2>,
        3 => copy_words::<R, 3>,
        4 => copy_words::<R, 4>,
        5 => copy_words::<R, 5>,
        6 => copy_words::<R, 6>,
        7 => copy_words::<R, 7>,
        8 => copy_words::<R, 8>,
        MAX_WORDS => copy_words::<R, MAX_WORDS>,
        // A sample without any part.
        _ => copy_words::<R, 1>,
    };
    // SAFETY: The requirement is that of this function.
    unsafe { copy(records, to, template) };
}

/// Writes samples of so many words. There is one for each number of words, so that the compiler can unroll the inner loop:
/// a word that all samples have in common costs two instructions.
///
/// # Safety
///
/// `to` must have room for as many as there are records.
#[inline(never)]
unsafe fn copy_words<R: PebsRecord, const WORDS: usize>(
    records: &[R],
    mut to: *mut u64,
    template: &Template,
) {
    let words = template.words.first_chunk::<WORDS>().unwrap_or(&[0; WORDS]);
    let (ip_index, time_index) = (template.ip, template.time);
    for record in records {
        let (header, ip) = visible_ip(record.ip(), template.is_user_only, template);
        let time = template.anchor.ns_at(record.tsc());
        // SAFETY: The caller guarantees that `to` has room for all records, and both indices are below `WORDS`.
        // Programs may change the ring at any time.
        unsafe {
            for (index, &word) in words.iter().enumerate() {
                to.add(index).write_volatile(word);
            }
            // An index of 0 is overwritten by the header.
            to.add(ip_index).write_volatile(ip);
            to.add(time_index).write_volatile(time);
            to.write_volatile(header);
            to = to.add(WORDS);
        }
    }
}
