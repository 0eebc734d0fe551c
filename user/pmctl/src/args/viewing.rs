// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command lines of `pmctl report`, `script` and `flamegraph`, and options of all commands that show recordings.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::sort_keys::{Key, SortWord};
use super::words::ParserWithWords;
use super::{Choice, DEFAULT_FILE};

/// Options of the commands that read a recording.
#[derive(Debug, Args)]
pub(crate) struct Input {
    /// Read the recording in FILE; - is standard input
    #[arg(short, long, value_name = "FILE", default_value = DEFAULT_FILE)]
    pub(crate) input: PathBuf,
}

/// Options of the commands with long output.
#[derive(Debug, Args)]
pub(crate) struct PagerOption {
    /// Don't use a pager ($PAGER or less) on a terminal
    #[arg(long)]
    pub(crate) no_pager: bool,
}

const SCRIPT_HELP: &str = "\
Fields:
  comm     name of the task          period    events since the last sample
  pid      process                   ip        address
  tid      thread                    sym       function + offset
  cpu      CPU                       dso       program or library
  time     in seconds                brstack   last branches, newest first:
  event    event                               from/to/M, P or - (mispredicted,
  srcline  source line                         predicted, not known)/cycles
  addr     address of the data       data_src  where the data came from
  weight   latency in cycles         (these of `pmctl record -d -W`)

FIELDS replace the usual ones; with + or - before each they are added or left out. The period is one of the usual ones \
if samples have different periods, as with -F, --count, or several events.

Examples:
  pmctl script                              all samples of ./perf.data
  pmctl script -F +srcline,-cpu             with source lines
  pmctl script -F comm,sym | sort | uniq -c
  pmctl script --comms make,cc1 -S malloc   of two programs, in one function";

#[derive(Debug, Args)]
#[command(after_help = SCRIPT_HELP)]
pub(crate) struct Script {
    #[command(flatten)]
    pub(crate) input: Input,

    /// Print these fields of each sample, separated by commas
    #[arg(
        short = 'F',
        long,
        value_name = "FIELDS",
        default_value = "comm,pid,cpu,time,event,addr,data_src,weight,ip,sym,brstack",
        value_parser = Fields::parse,
        allow_hyphen_values = true
    )]
    pub(crate) fields: Fields,

    #[command(flatten)]
    pub(crate) inlined: Inlined,

    #[command(flatten)]
    pub(crate) view: PagerOption,

    #[command(flatten)]
    pub(crate) choice: Choice,
}

/// A field of a sample, in the order in which fields are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Field {
    Comm,
    Pid,
    Tid,
    Cpu,
    Time,
    Period,
    Event,
    Addr,
    #[value(name = "data_src")]
    DataSrc,
    Weight,
    Ip,
    Sym,
    Dso,
    Brstack,
    Srcline,
}

/// The fields of `pmctl script -F`.
#[derive(Clone, Debug)]
pub(crate) struct Fields {
    /// The fields to print, in order.
    printed: Vec<Field>,
    /// The fields that the user has named, which the recording must have.
    named: Vec<Field>,
}

impl Fields {
    /// The default fields, in their order.
    const DEFAULT_FIELDS: [Field; 11] = [
        Field::Comm,
        Field::Pid,
        Field::Cpu,
        Field::Time,
        Field::Event,
        Field::Addr,
        Field::DataSrc,
        Field::Weight,
        Field::Ip,
        Field::Sym,
        Field::Brstack,
    ];

    /// Parses the value of -F: the fields that replace the default ones, or changes to the default ones, such as
    /// `+srcline,-cpu`.
    fn parse(text: &str) -> Result<Self, String> {
        let (mut fields, mut named) = (Vec::new(), Vec::new());
        let changes_defaults = text.starts_with(['+', '-']);
        if changes_defaults {
            fields = Self::DEFAULT_FIELDS.to_vec();
        }
        for word in text.split(',') {
            let name = word.trim_start_matches(['+', '-']);
            let field = Field::from_str(name, true).map_err(|_| {
                let known_fields = Field::value_variants().iter();
                let known_fields = known_fields
                    .filter_map(|field| Some(field.to_possible_value()?.get_name().to_owned()));
                format!(
                    "there is no field `{name}`; there are {}",
                    known_fields.collect::<Vec<_>>().join(", ")
                )
            })?;
            fields.retain(|other| *other != field);
            named.retain(|other| *other != field);
            if !word.starts_with('-') {
                fields.push(field);
                named.push(field);
            }
        }
        if changes_defaults {
            fields.sort();
        }
        if !changes_defaults && fields == Self::DEFAULT_FIELDS {
            named.clear();
        }
        Ok(Self {
            printed: fields,
            named,
        })
    }

    /// Returns the fields that the user has named; none if they are the default ones.
    pub(crate) fn named_fields(&self) -> &[Field] {
        &self.named
    }

    /// Returns the fields to print, in order. The default fields include the period, unless all samples have the same
    /// period.
    pub(crate) fn printed_fields(&self, have_one_period: bool) -> Vec<Field> {
        let mut fields = self.printed.clone();
        let event = fields.iter().position(|field| *field == Field::Event);
        if let (true, false, Some(event)) = (fields == Self::DEFAULT_FIELDS, have_one_period, event)
        {
            fields.insert(event, Field::Period);
        }
        fields
    }
}

const REPORT_HELP: &str = "\
Keys:
  comm     name of the task          symbol    function
  pid      process                   cpu       CPU
  tid      thread                    srcline   source line
  dso      program or library        cgroup    of `pmctl record --all-cgroups`
Keys of `pmctl record -d`:
  mem           cache or memory      symbol_daddr  variable or address
  tlb           address translation  dso_daddr     program or memory of it
  snoop         in other caches      locked        locked instruction
  blocked       by an earlier store
Keys of `pmctl record -W`:
  local_weight  latency in cycles    weight        their sum in the row

Each event has a table. The overhead of a row is its part of the event count above the table, which is the sum of the \
periods of its samples. After it, `counted` is what the counter had at the end: more by what came after the last \
sample, and by lost samples.

On a terminal the report has the whole screen: Enter shows who called a function, `a` its instructions, `/` searches, \
`h` shows all keys. With --stdio or --no-pager, --branches, --limit or --width it is text, with colors (not with \
NO_COLOR=1) and a pager.

Examples:
  pmctl report                     by program, library and function
  pmctl report --sort symbol       by function
  pmctl report --sort cpu,comm     what each CPU did
  pmctl report -g callee           who called each function
  pmctl report -g caller,5         from outside inward, what has 5% or more
  pmctl report --sort srcline      by source line
  pmctl report --sort cgroup,comm  by container or service
  pmctl report --children -g       what each function calls, the largest first
  pmctl report --sort mem,symbol,symbol_daddr
                                   from which cache which data came
  pmctl report --branches          branches, of `pmctl record -b`";

/// Options for the rows of a table.
#[derive(Debug, Args)]
pub(crate) struct Rows {
    /// Group samples by these keys, separated by commas; `overhead` and `samples` are always shown, and may be named
    #[arg(
        short,
        long,
        value_name = "KEYS",
        value_delimiter = ',',
        default_value = "comm,dso,symbol",
        hide_possible_values = true
    )]
    sort: Vec<SortWord>,
}

impl Rows {
    /// Returns the keys by which samples are grouped.
    pub(crate) fn keys(&self) -> Vec<Key> {
        SortWord::keys(&self.sort, &[Key::Comm, Key::Dso, Key::Symbol])
    }
}

/// Options for inlined functions.
#[derive(Debug, Args)]
pub(crate) struct Inlined {
    /// Show functions that were inlined, from debug information, in call chains
    #[arg(long, overrides_with = "no_inline")]
    pub(crate) inline: bool,

    /// Accepted from users of perf, without effect: inlined functions are looked up only with --inline
    #[arg(long, hide = true)]
    pub(crate) no_inline: bool,
}

#[derive(Debug, Args)]
#[command(after_help = REPORT_HELP)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option")]
pub(crate) struct Report {
    #[command(flatten)]
    pub(crate) input: Input,

    #[command(flatten)]
    pub(crate) rows: Rows,

    /// Show the branches of `pmctl record -b`: from where to where, how often, how often mispredicted
    #[arg(long)]
    pub(crate) branches: bool,

    /// Show under each row the call chains of `pmctl record -g`: from the function to its callers (callee), or from the
    /// outermost caller inward (caller, as -g alone); a number after a comma hides smaller percentages
    #[arg(short = 'g', long = "call-graph", value_name = "ORDER", num_args = 0..=1, default_missing_value = "caller", hide_possible_values = true, value_parser = ParserWithWords { parse: Graph::parse, known: &["caller", "callee"] }, conflicts_with = "branches")]
    pub(crate) graph: Option<Graph>,

    /// The same as -g caller, as perf has it
    #[arg(short = 'G', long, hide = true, conflicts_with_all = ["branches", "graph"])]
    pub(crate) inverted: bool,

    /// Show at most N functions of a call chain
    #[arg(
        long,
        value_name = "N",
        default_value_t = 127,
        hide_default_value = true
    )]
    pub(crate) max_stack: usize,

    #[command(flatten)]
    pub(crate) inlined: Inlined,

    /// Count a sample for each function of its call chain, and sort by that; with -g caller, show what a function calls
    #[arg(long, conflicts_with = "branches")]
    pub(crate) children: bool,

    /// Accepted from users of perf, without effect: children are counted only with --children
    #[arg(long, hide = true, conflicts_with = "children")]
    pub(crate) no_children: bool,

    /// Show the first N rows of each table
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<usize>,

    /// Show rows with an overhead of at least PERCENT
    #[arg(
        long,
        value_name = "PERCENT",
        default_value_t = 0.0,
        hide_default_value = true,
        value_parser = parse_percent
    )]
    pub(crate) percent_limit: f64,

    /// Cut lines after COLUMNS characters
    #[arg(long, value_name = "COLUMNS")]
    pub(crate) width: Option<usize>,

    #[command(flatten)]
    pub(crate) view: PagerOption,

    /// Accepted from users of perf, without effect: the number of samples is always shown
    #[arg(short = 'n', long, hide = true)]
    pub(crate) show_nr_samples: bool,

    /// Print text also on a terminal, where the report has the whole screen and keys
    #[arg(long)]
    pub(crate) stdio: bool,

    #[command(flatten)]
    pub(crate) choice: Choice,
}

/// The order of the functions of a call chain in `pmctl report -g`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Callers first: from the outermost function to the sampled one.
    Caller,
    /// Callees first: from the sampled function to the outermost one.
    Callee,
}

impl Report {
    /// Returns the form in which call chains are shown; `None` if they are not shown.
    pub(crate) fn graph(&self) -> Option<Graph> {
        self.graph
            .or_else(|| self.inverted.then_some(Graph::CALLER))
    }
}

/// The call chains of `pmctl report -g`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Graph {
    pub(crate) order: Order,
    /// The smallest share of all events, in percent, with which a function is shown.
    pub(crate) min_percent: f64,
}

impl Graph {
    /// The meaning of `-g` and `-G` without a value.
    pub(crate) const CALLER: Self = Self {
        order: Order::Caller,
        min_percent: 0.5,
    };

    /// Parses an order and a percentage, in any sequence. Words of perf that have no effect here are accepted. The error is a
    /// message for the user.
    fn parse(text: &str) -> Result<Self, String> {
        let mut graph = Self::CALLER;
        for word in text.split(',') {
            match word {
                "caller" => graph.order = Order::Caller,
                "callee" => graph.order = Order::Callee,
                "graph" | "function" | "percent" => {}
                _ => {
                    let least_percent = word
                        .parse()
                        .ok()
                        .filter(|least_percent| (0.0..=100.0).contains(least_percent));
                    graph.min_percent = least_percent.ok_or_else(|| {
                        format!("it takes `caller` or `callee`, and a percentage as in `caller,5`, not `{word}`")
                    })?;
                }
            }
        }
        Ok(graph)
    }
}

const FLAMEGRAPH_HELP: &str = "\
Open the picture in a web browser; a click enlarges a part of it. The levels are the functions of call chains \
(`pmctl record -g`); without call chains they are program, library and function.

Examples:
  pmctl record -g -- make; pmctl flamegraph -o make.svg
  pmctl flamegraph --folded | sort -k 2       the stacks as text";

#[derive(Debug, Args)]
#[command(after_help = FLAMEGRAPH_HELP)]
pub(crate) struct Flamegraph {
    #[command(flatten)]
    pub(crate) input: Input,

    /// Write the picture to FILE; - is standard output
    #[arg(short, long, value_name = "FILE", default_value = "flamegraph.svg")]
    pub(crate) output: PathBuf,

    /// Print the stacks as text instead, each with its event count, for other tools
    #[arg(long)]
    pub(crate) folded: bool,

    /// Show functions that were inlined, from debug information
    #[arg(long)]
    pub(crate) inline: bool,

    /// Draw this event [default: the first]
    #[arg(short, long, value_name = "EVENT")]
    pub(crate) event: Option<String>,
}

/// Parses a percentage. `nan` is refused: no share would be at least that large, so that no row would be shown.
fn parse_percent(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(percent) if !percent.is_nan() => Ok(percent),
        _ => Err("give a percentage, such as 0.5".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_fields_that_a_user_names_are_required() {
        let named = |text| Fields::parse(text).expect("they exist").named;
        assert_eq!(named("+srcline,-cpu"), [Field::Srcline]);
        assert_eq!(named("comm,data_src"), [Field::Comm, Field::DataSrc]);
        assert_eq!(named("+addr"), [Field::Addr]);
        assert_eq!(named("+addr,-addr"), []);
        assert_eq!(
            named("comm,pid,cpu,time,event,addr,data_src,weight,ip,sym,brstack"),
            []
        );
    }
}
