// SPDX-License-Identifier: GPL-2.0-only
//! Samples that the processor has taken (PEBS), written to the ring many at a time.

use super::{
    columns::{write_columns, Column, SampleTemplate, MAX_WORDS},
    program::hides_program,
    Record, Ring, Sampler,
};
use crate::logic::{
    anchor::Anchor,
    event_attr::{
        PERF_SAMPLE_ADDR, PERF_SAMPLE_CPU, PERF_SAMPLE_DATA_SRC, PERF_SAMPLE_ID,
        PERF_SAMPLE_IDENTIFIER, PERF_SAMPLE_IP, PERF_SAMPLE_PERIOD, PERF_SAMPLE_STREAM_ID,
        PERF_SAMPLE_TID, PERF_SAMPLE_TIME, PERF_SAMPLE_WEIGHT, PERF_SAMPLE_WEIGHT_STRUCT,
    },
    pebs::PebsRecord,
    perf_event::{
        PERF_RECORD_MISC_EXACT_IP, PERF_RECORD_MISC_KERNEL, PERF_RECORD_MISC_USER,
        PERF_RECORD_SAMPLE,
    },
    recorded_branches::RecordedBranches,
    sample_format::Header,
};
use core::slice;
use kernel::bindings;

/// Records of the processor, and the values that samples have but the records lack.
#[derive(Clone, Copy)]
pub(crate) struct PreciseSamples<'a, R> {
    /// The records, of one or more counters.
    pub(crate) records: &'a [R],
    /// The bit of the counter whose records become samples; 0 if all records become samples.
    pub(crate) counter: u64,
    /// The number of records that become samples.
    pub(crate) count: u64,
    /// The number of overflows that these records stand for.
    pub(crate) overflows: u64,
    /// The task that is sampled; null for an event of a CPU.
    pub(crate) task: *mut bindings::task_struct,
    /// The number of the CPU.
    pub(crate) cpu: u32,
    /// The number of events from one record to the next.
    pub(crate) period: u64,
    /// The branches in the records are the branches that precede the samples. If this is false,
    /// samples show no branches.
    pub(crate) has_branches: bool,
    /// The anchor that converts the records' time stamps.
    pub(crate) anchor: Anchor,
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
        // The template is large, so it is filled here, and not moved.
        let mut template = SampleTemplate::new(
            samples.period,
            samples.anchor,
            self.sampling.access.reader(self.sampling.format),
            self.is_user_only,
        );
        let words_before_branches = self.push_columns(samples, &mut template);
        if let Some(branches) = &self.sampling.recorded_branches {
            if !R::HAS_BRANCHES {
                // Not reached while this CPU selects the groups of its records, since it then
                // selects the group of branches, too.
                return self.lose_samples(samples.overflows);
            }
            return self.write_with_branches(
                ring,
                samples,
                (&template, words_before_branches),
                branches,
            );
        }
        if !self.write_pending_lost(ring, samples) {
            return self.lose_samples(samples.overflows);
        }
        let has_counter =
            |record: &&R| samples.counter == 0 || record.counters() & samples.counter != 0;
        let mut written = 0;
        while written < samples.count {
            let remaining = samples.count.wrapping_sub(written);
            let Some((mut to, room)) = ring.begin_records(template.word_count(), remaining) else {
                break;
            };
            if samples.counter == 0 {
                let records = samples.records.get(written as usize..).unwrap_or(&[]);
                let records = records.get(..room as usize).unwrap_or(&[]);
                write_samples(&mut to, records, &template);
            } else {
                let records = samples.records.iter().filter(has_counter);
                let records = records.skip(written as usize).take(room as usize);
                write_in_groups(&mut to, records, &template);
            }
            to.finish(room);
            written = written.wrapping_add(room);
            // A ring that overwrites its oldest samples has room for the next ones.
            if !ring.shape.overwrite {
                break;
            }
        }
        if written < samples.count {
            let without_room = samples.records.iter().filter(has_counter);
            let lost = if R::IS_MERGED {
                without_room
                    .skip(written as usize)
                    .map(R::overflows)
                    .fold(0, u64::wrapping_add)
            } else {
                samples.count.wrapping_sub(written)
            };
            self.lose_samples(lost);
            ring.wake_if_full();
        }
    }

    /// Writes a LOST record if records were lost. Returns false if there is no room for the LOST
    /// record: then no sample may be written either.
    fn write_pending_lost<R>(&self, ring: &Ring, samples: &PreciseSamples<'_, R>) -> bool {
        ring.lost_records.get() == 0
            || self.write_lost(ring, &self.origin_of(samples.task, samples.cpu))
    }

    /// Does what [`Self::write_precise`] does, for samples with the branches of the records. Writes one sample at a time,
    /// since the number of branches varies. `words_before_branches` of the template's words precede the branches.
    #[inline(never)]
    fn write_with_branches<R: PebsRecord>(
        &self,
        ring: &Ring,
        samples: &PreciseSamples<'_, R>,
        (template, words_before_branches): (&SampleTemplate, usize),
        branches: &RecordedBranches,
    ) {
        let mut words = [0; MAX_WORDS];
        for record in samples.records {
            if samples.counter != 0 && record.counters() & samples.counter == 0 {
                continue;
            }
            let recorded = if samples.has_branches {
                record.branches()
            } else {
                &[]
            };
            let count = branches.count_shown(recorded);
            let branch_words = branches.word_count(count);
            let size = template.word_count().wrapping_add(branch_words);
            let to = if self.write_pending_lost(ring, samples) {
                ring.begin_record(size)
            } else {
                None
            };
            let Some(mut to) = to else {
                self.lose_samples(1);
                continue;
            };
            // SAFETY: `write_columns` requires room for one sample: `words` has `MAX_WORDS` words, and a template has no more.
            unsafe { write_columns(slice::from_ref(record), words.as_mut_ptr(), template) };
            let words = words.get_mut(..template.word_count()).unwrap_or(&mut []);
            let (before, after) = words
                .split_at_mut_checked(words_before_branches)
                .unwrap_or((&mut [], &mut []));
            if let Some(header) = before.first_mut() {
                *header = Header::word_with_more(*header, branch_words);
            }
            to.write_words(before);
            put_branches(&mut to, branches, recorded, count);
            to.write_words(after);
            to.finish(1);
        }
    }

    /// Adds the columns of the samples to a template that has only a header. Returns the number of words that precede the
    /// branches.
    #[inline(never)]
    fn push_columns<R: PebsRecord>(
        &self,
        samples: &PreciseSamples<'_, R>,
        template: &mut SampleTemplate,
    ) -> usize {
        /// The parts that contain the weight. A sample has at most one of these parts, which takes
        /// one word.
        const WEIGHTS: u64 = PERF_SAMPLE_WEIGHT | PERF_SAMPLE_WEIGHT_STRUCT;

        let format = self.sampling.format;
        let ids = self.ids(samples.task);
        let address = if hides_program(samples.task) {
            Column::KernelAddress
        } else {
            Column::Address
        };
        let header = |misc, words| Header {
            kind: PERF_RECORD_SAMPLE,
            misc: misc | PERF_RECORD_MISC_EXACT_IP,
            words,
        };
        let parts = [
            (PERF_SAMPLE_IDENTIFIER, Column::Common(self.id)),
            (PERF_SAMPLE_IP, Column::Ip),
            (PERF_SAMPLE_TID, Column::Common(ids)),
            (PERF_SAMPLE_TIME, Column::Time),
            (PERF_SAMPLE_ADDR, address),
            (PERF_SAMPLE_ID, Column::Common(self.id)),
            (PERF_SAMPLE_STREAM_ID, Column::Common(self.id)),
            (PERF_SAMPLE_CPU, Column::Common(samples.cpu.into())),
            (PERF_SAMPLE_PERIOD, Column::Events),
        ];
        let parts_after_branches = [
            (WEIGHTS, Column::Weight),
            (PERF_SAMPLE_DATA_SRC, Column::Source),
        ];
        for &(_, column) in parts.iter().filter(|(part, _)| format.has(*part)) {
            template.push::<R>(column);
        }
        let words_before_branches = template.word_count();
        for &(_, column) in parts_after_branches
            .iter()
            .filter(|(part, _)| format.has(*part))
        {
            template.push::<R>(column);
        }
        template.set_headers(
            header(PERF_RECORD_MISC_USER, template.word_count()),
            header(PERF_RECORD_MISC_KERNEL, template.word_count()),
        );
        words_before_branches
    }
}

/// Writes the branches of a sample: their number, and the words of each branch. `recorded` are the branches of the
/// record, of which `branches` chooses the `count` branches that samples show.
#[inline(never)]
pub(super) fn put_branches(
    to: &mut Record<'_>,
    branches: &RecordedBranches,
    recorded: &[u64],
    count: usize,
) {
    to.write_word(count as u64);
    if branches.has_index {
        to.write_word(RecordedBranches::INDEX);
    }
    let words = branches.word_count(count);
    if to.words_to_wrap() < words {
        return branches.for_each(recorded, count, |branch| to.write_words(&branch));
    }
    to.write_words_with(count.wrapping_mul(3), |to| {
        let mut next = to;
        branches.for_each(recorded, count, |branch| {
            for (index, word) in branch.into_iter().enumerate() {
                // SAFETY: The write requires a valid word: the words up to the end of the ring's
                // memory are valid. There are at least three of them for each of `count` branches,
                // and `for_each` calls this closure `count` times. The write is volatile, since
                // programs may access the ring.
                unsafe { next.wrapping_add(index).write_volatile(word) };
            }
            next = next.wrapping_add(branch.len());
        });
    });
}

/// Writes a sample for each record.
fn write_samples<R: PebsRecord>(to: &mut Record<'_>, records: &[R], template: &SampleTemplate) {
    let words = template.word_count();
    let mut remaining = records;
    while !remaining.is_empty() {
        // The number of samples that fit before the end of the ring's memory.
        let room = to.words_to_wrap().checked_div(words).unwrap_or(0);
        let (run, rest) = remaining.split_at_checked(room).unwrap_or((remaining, &[]));
        to.write_words_with(run.len().wrapping_mul(words), |to| {
            // SAFETY: `write_columns` requires room for one sample for each record: `room` samples fit at `to`, and `run`
            // has no more records.
            unsafe { write_columns(run, to, template) };
        });
        remaining = rest;
        if let Some((first, rest)) = remaining
            .split_first()
            .filter(|_| to.words_to_wrap() < words)
        {
            // The sample continues at the beginning of the ring's memory.
            let mut sample = [0; MAX_WORDS];
            // SAFETY: `write_columns` requires room for one sample: `sample` has `MAX_WORDS` words, and a template has no
            // more.
            unsafe { write_columns(slice::from_ref(first), sample.as_mut_ptr(), template) };
            to.write_words(sample.get(..words).unwrap_or(&[]));
            remaining = rest;
        }
    }
}

/// Does what [`write_samples`] does, for records that do not follow each other in the buffer: copies groups of them.
#[inline(never)]
fn write_in_groups<'a, R: PebsRecord + 'a>(
    to: &mut Record<'_>,
    mut records: impl Iterator<Item = &'a R>,
    template: &SampleTemplate,
) {
    /// The number of records in a group.
    const GROUP: usize = 32;

    while let Some(first) = records.next() {
        let (mut group, mut count) = ([first; GROUP], 1);
        for (place, record) in group.iter_mut().skip(1).zip(&mut records) {
            *place = record;
            count += 1;
        }
        write_samples(to, group.get(..count).unwrap_or(&[]), template);
    }
}
