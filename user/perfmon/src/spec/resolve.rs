// SPDX-License-Identifier: MIT OR Apache-2.0
//! Resolves a parsed event to the encoding for a counter, on a given PMU.

use std::ops::Range;

use perfmon_events::{Event, ExtraRegister};

use super::cache_event::CacheEvent;
use super::error::Fault;
use super::event_spec::{EventSpec, SampleRate};
use super::listed::{self, NOT_EMULATED_REASON};
use super::meaning::Meaning;
use super::modifiers::{Modifiers, decode_modifiers};
use super::names::{self, NamedEvent};
use super::on_counters::OnCounters;
use super::parse::{SpannedText, Spec, SpecBody, Term};
use super::precise_text::precise_text;
use super::unknown::{memory_name_fault, tracepoint_fault, unit_mask_fault, unknown_name_fault};
use crate::event::Encoding;
use crate::pmu::{CoreKind, Pmu, Vendor};
use crate::{CounterId, EventSelect};

/// A resolved event without its modifiers.
#[derive(Default)]
struct ResolvedBody {
    label: Option<String>,
    meaning: Option<Meaning>,
    encoding: Option<Encoding>,
    general: Option<EventSelect>,
    general_counters: u64,
    fixed: Option<u8>,
    rate: Option<SampleRate>,
    needs_own_counter_choice: bool,
    /// The user has given the encoding, so the user may choose any general counter.
    is_raw: bool,
}

impl ResolvedBody {
    /// Resolves a raw encoding.
    fn from_select(select: EventSelect, pmu: &Pmu) -> Self {
        // `OnCounters` takes the select type of perfmon-core.
        let bits = perfmon_core::logic::evtsel::EventSelect::from_bits(select.bits());
        let (general_counters, fixed) = match OnCounters::of(bits, pmu) {
            // Linux's pseudo-encoding of an event that only a fixed counter counts.
            Some(OnCounters {
                general: 0, fixed, ..
            }) => (0, fixed),
            // For an event of a task, the driver chooses one of these counters.
            Some(OnCounters { general, .. }) => (general, None),
            None => (u64::MAX, None),
        };
        Self {
            encoding: Some(Encoding::Raw(select)),
            general: (general_counters != 0).then_some(select),
            general_counters,
            fixed,
            is_raw: true,
            ..Self::default()
        }
    }

    /// Returns the general counters that can count the event, by the tables. For a raw event the
    /// result also has the counter that the user has chosen, because the tables do not have every
    /// event.
    fn general_counters(&self, pinned: Option<CounterId>) -> u64 {
        match pinned {
            Some(CounterId::General(number)) if self.is_raw && self.general.is_some() => {
                self.general_counters | 1 << number
            }
            _ => self.general_counters,
        }
    }

    /// Resolves an event that `counters` count.
    fn from_counters(counters: OnCounters, encoding: Option<Encoding>) -> Self {
        Self {
            encoding,
            general: counters.select,
            general_counters: counters.general,
            fixed: counters.fixed,
            ..Self::default()
        }
    }
}

/// Resolves the event of `spec`, which is a part of `text`.
pub(super) fn resolve(spec: &Spec, text: &str, pmu: &Pmu) -> Result<EventSpec, Fault> {
    let kinds = pmu.core_kinds();
    if let Some(word) = &spec.core_kind {
        let kind = kinds.iter().find(|kind| kind.name() == word.text);
        return resolve_on_kind(spec, text, kind.ok_or_else(|| no_kind_fault(word, kinds))?);
    }
    resolve_on(spec, text, pmu).or_else(|fault| {
        // If the big cores lack the event and another kind has it, the event counts while a task
        // runs on that kind.
        let mut kinds = kinds
            .iter()
            .filter(|kind| is_name(first_word(spec), kind.pmu()));
        let event = kinds.find_map(|kind| resolve_on_kind(spec, text, kind).ok());
        event.ok_or(fault)
    })
}

/// Returns the word that may be the name of the event.
fn first_word(spec: &Spec) -> &SpannedText {
    match &spec.body {
        SpecBody::Word(word) => word,
        SpecBody::Terms(terms) => &terms[0].key,
    }
}

/// Resolves the event of `spec` on the only kind of core that counts it.
fn resolve_on_kind(spec: &Spec, text: &str, kind: &CoreKind) -> Result<EventSpec, Fault> {
    Ok(EventSpec {
        core_type: Some(kind.perf_type()),
        ..resolve_on(spec, text, kind.pmu())?
    })
}

/// Creates the fault of a kind of core that the processor does not have.
fn no_kind_fault(word: &SpannedText, kinds: &[CoreKind]) -> Fault {
    let message = format!("this processor has no cores `{}`", word.text);
    let names: Vec<String> = kinds
        .iter()
        .map(|kind| format!("`{}`", kind.name()))
        .collect();
    Fault::new(word.span.clone(), message).help(match names.len() {
        0 => "Its cores are not of several kinds, or Linux does not tell them apart: write `cpu/.../`.".to_owned(),
        _ => format!("It has {}.", names.join(" and ")),
    })
}

/// Resolves the event of `spec` by the names and the encodings of `pmu`.
fn resolve_on(spec: &Spec, text: &str, pmu: &Pmu) -> Result<EventSpec, Fault> {
    let body = match &spec.body {
        SpecBody::Word(word) => resolve_word(word, pmu).map_err(|fault| {
            unit_mask_fault(spec, pmu)
                .or_else(|| tracepoint_fault(spec, text))
                .unwrap_or(fault)
        })?,
        SpecBody::Terms(terms) => resolve_fields(terms, pmu)?,
    };
    let Modifiers {
        modes,
        precision,
        pinned,
    } = decode_modifiers(&spec.modifiers)?;
    let needs_precise_samples = body
        .encoding
        .is_some_and(|encoding| listed::needs_precise_samples(encoding, pmu));
    if needs_precise_samples && precision.is_none() {
        return Err(imprecise_fault(spec, text));
    }
    if let Some((counter, span)) = &pinned {
        check_pinned(*counter, span.clone(), &body, pmu)?;
    }
    Ok(EventSpec {
        general_counters: body.general_counters(pinned.as_ref().map(|(counter, _)| *counter)),
        label: body.label.unwrap_or_else(|| spec.label(text)),
        meaning: body.meaning,
        modes: modes.unwrap_or_default(),
        encoding: body.encoding,
        core_type: None,
        general: body.general,
        fixed: body.fixed,
        pinned: pinned.map(|(counter, _)| counter),
        group: spec.group,
        precision,
        rate: body.rate,
        needs_own_counter_choice: body.needs_own_counter_choice,
        missing: None,
    })
}

/// Creates the fault of an event that is counted with precise samples only, and whose text does not ask for them.
fn imprecise_fault(spec: &Spec, text: &str) -> Fault {
    Fault::new(
        first_word(spec).span.clone(),
        "this event is counted with precise samples only",
    )
    .help(format!(
        "Ask for these: `pmctl record -d -W -e {} ...`.",
        precise_text(spec, text)
    ))
}

/// Resolves a name, `rUUEE` or `fixedN`.
fn resolve_word(word: &SpannedText, pmu: &Pmu) -> Result<ResolvedBody, Fault> {
    let text = word.text.to_ascii_lowercase();
    if let Some(digits) = text.strip_prefix('r').filter(|rest| is_hexadecimal(rest)) {
        return Ok(ResolvedBody::from_select(
            parse_raw(digits, &word.span, pmu)?,
            pmu,
        ));
    }
    if let Some(number) = text
        .strip_prefix("fixed")
        .and_then(|rest| rest.parse().ok())
    {
        require_fixed(number, &word.span, pmu)?;
        return Ok(ResolvedBody {
            encoding: Some(Encoding::Fixed(number)),
            fixed: Some(number),
            ..ResolvedBody::default()
        });
    }
    resolve_name(word, pmu)
}

fn is_hexadecimal(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_hexdigit())
}

/// Resolves an event by its name. Fails if this PMU does not count it.
fn resolve_name(word: &SpannedText, pmu: &Pmu) -> Result<ResolvedBody, Fault> {
    if let Some(event) = names::find(pmu.vendor(), &word.text) {
        let counters = event
            .counters_on(pmu)
            .ok_or_else(|| absence_fault(word, &absence_reason(event, pmu)))?;
        return Ok(ResolvedBody {
            meaning: Some(event.meaning()),
            ..ResolvedBody::from_counters(counters, event.encoding(&counters))
        });
    }
    if let Some(event) = CacheEvent::find(&word.text) {
        let counters = event
            .counters_on(pmu)
            .ok_or_else(|| absence_fault(word, &event.absence_reason(pmu)))?;
        return Ok(ResolvedBody::from_counters(
            counters,
            Some(Encoding::Cache(event.config())),
        ));
    }
    match listed::find(&word.text, pmu) {
        Some(event) => resolve_listed(&event, word, pmu),
        None => Err(memory_name_fault(word, pmu).unwrap_or_else(|| unknown_name_fault(word, pmu))),
    }
}

/// Resolves an event of the model's list. Fails if this PMU does not count it.
fn resolve_listed(event: &Event, word: &SpannedText, pmu: &Pmu) -> Result<ResolvedBody, Fault> {
    let counters = listed::counters_of_listed(event, pmu).map_err(|reason| {
        let message = format!("`{}` can't be counted here", event.name);
        Fault::new(word.span.clone(), message)
            .help(&reason)
            .with_missing_reason(reason)
    })?;
    Ok(ResolvedBody {
        needs_own_counter_choice: listed::needs_own_counter_choice(event, pmu),
        ..ResolvedBody::from_counters(counters, listed::encoding(event, &counters))
    })
}

/// Creates the fault of an event that this CPU lacks.
fn absence_fault(word: &SpannedText, reason: &str) -> Fault {
    Fault::new(
        word.span.clone(),
        format!("this CPU does not have the event `{}`", word.text),
    )
    .help(format!("{reason}\n`pmctl list` shows what it has."))
    .with_missing_reason(reason)
}

/// Returns the reason why this CPU can't count a named event, in sentences.
fn absence_reason(event: &NamedEvent, pmu: &Pmu) -> String {
    let capabilities = match pmu.capabilities() {
        Ok(capabilities) => capabilities,
        Err(no_pmu) => return format!("It has no PMU: {}.", no_pmu.reason()),
    };
    if let Some(number) = event.only_fixed() {
        return format!("Only fixed counter {number} counts it, and this CPU lacks that counter.");
    }
    let architectural = event.meaning().architectural();
    match architectural.filter(|bit| capabilities.arch_events >> bit & 1 == 0) {
        Some(bit) if pmu.vendor() == Vendor::Intel => {
            format!("CPUID says that the CPU lacks the event (CPUID.0AH:EBX[{bit}]).")
        }
        _ if pmu.is_emulated() => NOT_EMULATED_REASON.to_owned(),
        _ => "None of its counters can count it.".to_owned(),
    }
}

/// Fails if the CPU has no such fixed counter.
fn require_fixed(number: u8, span: &Range<usize>, pmu: &Pmu) -> Result<(), Fault> {
    if pmu.has_fixed(number) {
        return Ok(());
    }
    let present: Vec<String> = pmu
        .fixed_counters()
        .map(|n| format!("`fixed{n}`"))
        .collect();
    let help = match present.len() {
        0 => "It has no fixed counters.".to_owned(),
        _ => format!("It has {}.", present.join(", ")),
    };
    Err(Fault::new(
        span.clone(),
        format!("this CPU has no fixed counter {number}"),
    )
    .help(help))
}

/// Parses the digits of `rUUEE`. Fails if they set bits that the driver sets or refuses.
fn parse_raw(digits: &str, span: &Range<usize>, pmu: &Pmu) -> Result<EventSelect, Fault> {
    let width = pmu.select_bits();
    match u64::from_str_radix(digits, 16) {
        Ok(bits) if bits >> width == 0 => check_select(bits, span),
        _ => Err(Fault::new(
            span.clone(),
            format!("this is more than the {width} bits of an event select"),
        )),
    }
}

/// Bits of an event select that the user can't set, with the message and the help for each.
const RESERVED_BITS: &[(u64, &str, &str)] = &[
    (
        3 << 16,
        "bits 16 and 17 select the modes",
        "Write `:u` or `:k` after the event.",
    ),
    (
        1 << 19,
        "bit 19 drives pins of the CPU",
        "The driver does not allow it.",
    ),
    (
        1 << 20,
        "bit 20 enables the interrupt",
        "The driver sets it.",
    ),
    (
        1 << 21,
        "bit 21 (AnyThread) also counts events of the sibling hyperthread",
        "The driver does not allow it.",
    ),
    (1 << 22, "bit 22 starts the counter", "The driver sets it."),
];

/// Converts `bits` to an event select. Fails if they contain reserved bits.
fn check_select(bits: u64, span: &Range<usize>) -> Result<EventSelect, Fault> {
    if let Some((_, message, help)) = RESERVED_BITS.iter().find(|(mask, _, _)| bits & mask != 0) {
        return Err(Fault::new(span.clone(), *message).help(*help));
    }
    EventSelect::from_bits(bits)
        .ok_or_else(|| Fault::new(span.clone(), "the driver does not allow this event select"))
}

/// A field of the event select.
struct Field {
    key: &'static str,
    /// Number of bits.
    width: u32,
    /// Shifts a value to the field's place in the register.
    shift: fn(u64) -> u64,
}

impl Field {
    /// Returns the largest value of the field.
    fn max_value(&self) -> u64 {
        u64::MAX >> (u64::BITS - self.width)
    }
}

/// The fields of a PMU's event selects.
fn fields_of(pmu: &Pmu) -> [Field; 6] {
    let field = |key, width, shift| Field { key, width, shift };
    [
        // Bits 11:8 of an event number, which only AMD has, are bits 35:32 of the select.
        field("event", pmu.event_bits(), |number| {
            number & 0xff | number >> 8 << 32
        }),
        // Bits 15:8 of a unit mask, which Intel has from version 6 on, are bits 47:40 of the select.
        field("umask", pmu.unit_mask_bits(), |number| {
            (number & 0xff) << 8 | number >> 8 << 40
        }),
        field("edge", 1, |number| number << 18),
        field("inv", 1, |number| number << 23),
        field("cmask", 8, |number| number << 24),
        field("config", pmu.select_bits(), |number| number),
    ]
}

/// Fields that perf accepts and this library refuses, with the reason.
const REFUSED_FIELDS: &[(&str, &str)] = &[
    (
        "any",
        "it also counts events of the sibling hyperthread (AnyThread), which the driver does not allow",
    ),
    (
        "pc",
        "it drives pins of the CPU, which the driver does not allow",
    ),
];

/// The fields that give the value of an event's extra register, with the number of bits.
const REGISTER_FIELDS: [Field; 5] = [
    register_field("offcore_rsp", 64),
    register_field("frontend", 24),
    register_field("snoop_rsp", 64),
    LATENCY_FIELD,
    register_field("config1", 64),
];

/// The field that sets the smallest latency of slow loads, in cycles.
const LATENCY_FIELD: Field = register_field("ldlat", 16);

/// Returns a field of the extra register.
const fn register_field(key: &'static str, width: u32) -> Field {
    Field {
        key,
        width,
        shift: |number| number,
    }
}

/// Resolves `cpu/.../`.
fn resolve_fields(terms: &[Term], pmu: &Pmu) -> Result<ResolvedBody, Fault> {
    let fields = fields_of(pmu);
    let mut bits = 0;
    let mut assigned_bits = 0;
    let mut label = None;
    let mut rate = None;
    let mut encoding_terms = Vec::new();
    for term in terms {
        let value = term.value.as_ref();
        match &term.key.text[..] {
            "name" => label = Some(parse_text(&term.key, value)?),
            "period" => rate = Some(SampleRate::Period(parse_rate(&term.key, value)?)),
            "freq" => rate = Some(SampleRate::Frequency(parse_rate(&term.key, value)?)),
            _ => encoding_terms.push(term),
        }
    }
    if let Some(body) = resolve_name_in_slashes(&encoding_terms, pmu)? {
        return Ok(ResolvedBody {
            label,
            rate,
            ..body
        });
    }
    if let Some(body) = resolve_listed_with_fields(&encoding_terms, pmu)? {
        return Ok(ResolvedBody {
            label,
            rate,
            ..body
        });
    }
    if let [Term { key, value: None }, other, ..] = &encoding_terms[..] {
        if is_name(key, pmu) {
            return Err(name_with_fields_fault(key, &other.key));
        }
    }
    let mut register = None;
    for Term { key, value } in encoding_terms {
        if let Some(field) = REGISTER_FIELDS.iter().find(|field| field.key == key.text) {
            let number = parse_number(field, key, value.as_ref())?;
            if register.replace((number, key)).is_some() {
                return Err(Fault::new(
                    key.span.clone(),
                    "an earlier field has set the extra register already",
                ));
            }
            continue;
        }
        let Some(field) = fields.iter().find(|field| field.key == key.text) else {
            return Err(
                memory_name_fault(key, pmu).unwrap_or_else(|| unknown_field_fault(key, &fields))
            );
        };
        let mask = (field.shift)(field.max_value());
        if assigned_bits & mask != 0 {
            return Err(Fault::new(
                key.span.clone(),
                "an earlier field has set these bits already",
            ));
        }
        assigned_bits |= mask;
        bits |= (field.shift)(parse_number(field, key, value.as_ref())?);
    }
    let last = &terms[terms.len() - 1];
    let whole_span = terms[0].key.span.start..last.value.as_ref().unwrap_or(&last.key).span.end;
    let select = check_select(bits, &whole_span)?;
    let body = ResolvedBody::from_select(select, pmu);
    Ok(ResolvedBody {
        label,
        rate,
        encoding: match register {
            Some((value, key)) => Some(register_encoding(select, value, key, pmu)?),
            None => body.encoding,
        },
        ..body
    })
}

/// Returns the encoding of an event with this value of its extra register. Fails if the driver refuses it. `key` is the
/// field with the value.
fn register_encoding(
    select: EventSelect,
    value: u64,
    key: &SpannedText,
    pmu: &Pmu,
) -> Result<Encoding, Fault> {
    let message = match listed::register_of(select, value, pmu) {
        Ok(Some(_)) => return Ok(Encoding::RawWithRegister(select, value)),
        // A register that the event does not need is not written.
        Ok(None) => return Ok(Encoding::Raw(select)),
        Err(_) => match listed::register_of(select, 0, pmu) {
            Ok(Some(register)) => {
                let name = listed::register_name(register);
                format!("{name} does not have all bits of {value:#x}")
            }
            Ok(None) => format!("{} has no extra register", Encoding::Raw(select)),
            Err(_) => format!("the driver can't count {}", Encoding::Raw(select)),
        },
    };
    Err(Fault::new(key.span.clone(), message))
}

/// Resolves `cpu/NAME/` and `cpu/rUUEE/`; returns `None` for any other fields.
fn resolve_name_in_slashes(terms: &[&Term], pmu: &Pmu) -> Result<Option<ResolvedBody>, Fault> {
    let [Term { key, value: None }] = terms else {
        return Ok(None);
    };
    let is_raw = || {
        let digits = key.text.strip_prefix(['r', 'R']);
        digits.is_some_and(is_hexadecimal)
    };
    if is_raw() || is_name(key, pmu) {
        resolve_word(key, pmu).map(Some)
    } else {
        Ok(None)
    }
}

fn is_name(key: &SpannedText, pmu: &Pmu) -> bool {
    names::find(pmu.vendor(), &key.text).is_some()
        || CacheEvent::find(&key.text).is_some()
        || listed::find(&key.text, pmu).is_some()
}

/// Creates the fault of a name that is followed by fields of an encoding.
fn name_with_fields_fault(name: &SpannedText, field: &SpannedText) -> Fault {
    let name = &name.text;
    let fault = Fault::new(
        field.span.clone(),
        format!("`{name}` is a whole event: a field of the encoding can't follow it"),
    );
    fault.help(format!(
        "Write a modifier after the last slash: `cpu/{name}/u`."
    ))
}

/// Resolves `cpu/NAME,cmask=4/`, a listed event with other values in some fields; returns `None` for any other fields.
fn resolve_listed_with_fields(terms: &[&Term], pmu: &Pmu) -> Result<Option<ResolvedBody>, Fault> {
    let [name @ Term { value: None, .. }, others @ ..] = terms else {
        return Ok(None);
    };
    let Some(mut event) = listed::find(&name.key.text, pmu).filter(|_| !others.is_empty()) else {
        return Ok(None);
    };
    let fields = fields_of(pmu);
    for Term { key, value } in others {
        if let (Some(extra), true) = (latency_threshold(&mut event), key.text == LATENCY_FIELD.key)
        {
            extra.value = parse_number(&LATENCY_FIELD, key, value.as_ref())?;
            continue;
        }
        let is_changeable = ["umask", "cmask", "inv", "edge"].contains(&&*key.text);
        let Some(field) = fields
            .iter()
            .find(|field| is_changeable && field.key == key.text)
        else {
            let fault = Fault::new(
                key.span.clone(),
                format!("`{}` can't be changed in {}", key.text, event.name),
            );
            return Err(fault.help("Fields that can be changed: umask, cmask, inv, edge; for events of slow loads also ldlat."));
        };
        let number = parse_number(field, key, value.as_ref())?;
        // The fields that use `byte` have at most 8 bits, so `byte` equals `number` for them.
        let byte = u8::try_from(number).unwrap_or(u8::MAX);
        match field.key {
            "umask" => event.unit_mask = u16::try_from(number).unwrap_or(u16::MAX),
            "cmask" => event.counter_mask = byte,
            "inv" => event.invert = byte != 0,
            _ => event.edge = byte != 0,
        }
    }
    resolve_listed(&event, &name.key, pmu).map(Some)
}

/// Returns the extra register of an event of slow loads; `None` for other events. The register's
/// value is the smallest latency of a counted load.
fn latency_threshold(event: &mut Event) -> Option<&mut ExtraRegister> {
    let is_of_slow_loads = listed::is_sampled_only(event);
    event.extra.as_mut().filter(|_| is_of_slow_loads)
}

fn unknown_field_fault(key: &SpannedText, fields: &[Field]) -> Fault {
    if let Some((_, reason)) = REFUSED_FIELDS.iter().find(|(name, _)| *name == key.text) {
        return Fault::new(
            key.span.clone(),
            format!("`{}` can't be used: {reason}", key.text),
        );
    }
    let keys: Vec<&str> = fields
        .iter()
        .chain(&REGISTER_FIELDS)
        .map(|field| field.key)
        .chain(["name", "period", "freq"])
        .collect();
    Fault::new(
        key.span.clone(),
        format!("an event has no field `{}`", key.text),
    )
    .help(format!("It has {}.", keys.join(", ")))
}

/// Returns the value of a text field.
fn parse_text(key: &SpannedText, value: Option<&SpannedText>) -> Result<String, Fault> {
    match value {
        Some(value) if !value.text.is_empty() => Ok(value.text.clone()),
        _ => Err(Fault::new(
            key.span.clone(),
            format!("`{}` needs a value", key.text),
        )),
    }
}

/// Parses the value of `period` or `freq`.
fn parse_rate(key: &SpannedText, value: Option<&SpannedText>) -> Result<u64, Fault> {
    let faulty_text = value.unwrap_or(key);
    let number = value.and_then(|value| value.text.parse().ok());
    let number = number.filter(|number| (1..1 << 63).contains(number));
    number.ok_or_else(|| {
        Fault::new(
            faulty_text.span.clone(),
            format!("`{}` takes a number above 0", key.text),
        )
        .help(format!("For example: {}=1009", key.text))
    })
}

/// Parses the value of a field that is a number; a flag without a value is 1.
fn parse_number(
    field: &Field,
    key: &SpannedText,
    value: Option<&SpannedText>,
) -> Result<u64, Fault> {
    let Some(value) = value else {
        return if field.width == 1 {
            Ok(1)
        } else {
            Err(
                Fault::new(key.span.clone(), format!("`{}` needs a value", key.text))
                    .help(format!("For example: {}=0x1", key.text)),
            )
        };
    };
    let digits = value.text.strip_prefix("0x");
    let number = match digits.or_else(|| value.text.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => value.text.parse(),
    };
    let max = field.max_value();
    match number {
        Ok(number) if number <= max => Ok(number),
        _ => Err(Fault::new(
            value.span.clone(),
            format!("`{}` takes a number from 0 to {max:#x}", field.key),
        )),
    }
}

/// Fails unless the requested counter exists and can count the event.
fn check_pinned(
    counter: CounterId,
    span: Range<usize>,
    body: &ResolvedBody,
    pmu: &Pmu,
) -> Result<(), Fault> {
    match counter {
        CounterId::General(number) if number >= pmu.general_counters() => {
            Err(
                Fault::new(span, format!("this CPU has no general counter {number}")).help(
                    format!("It has {}, the first is PMC0.", pmu.general_counters()),
                ),
            )
        }
        CounterId::General(_) if body.general.is_none() => {
            Err(Fault::new(span, "general counters can't count this event"))
        }
        CounterId::General(number) if body.general_counters(Some(counter)) >> number & 1 == 0 => {
            let counters =
                (0..pmu.general_counters()).filter(|n| body.general_counters >> n & 1 != 0);
            let counters: Vec<String> = counters.map(|n| format!("PMC{n}")).collect();
            let message = format!("general counter {number} can't count this event");
            Err(Fault::new(span, message)
                .help(format!("Counters that can: {}.", counters.join(", "))))
        }
        CounterId::Fixed(number) if body.fixed != Some(number) => {
            require_fixed(number, &span, pmu)?;
            let fault = Fault::new(span, format!("fixed counter {number} counts another event"));
            Err(match body.fixed {
                Some(number) => fault.help(format!("FIXED{number} counts this event.")),
                None => fault.help("No fixed counter counts this event."),
            })
        }
        _ => Ok(()),
    }
}
