// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of the table.

use super::*;
use crate::commands::stat::scope::Scope;
use crate::commands::stat::sources::source::Uncounted;
use crate::commands::stat::testing::{run, subject, subject_with, text_written_by};

#[test]
fn the_table_of_one_run_matches_perf() {
    let subject = subject("instructions:u,cycles:u,r1c0:k,cache-misses");
    let text = text_written_by(|out| {
        let run = run(&[Some(3_000_000), Some(1_500_000), None, None]);
        Human::new(&subject, out, PLAIN)
            .write_totals(&[run])
            .expect("a vector takes all");
    });
    let expected = "
 Performance counter stats for 'ls -l', every task on all 2 CPUs:

           3,000,000      instructions:u    #     2.00  insn per cycle
           1,500,000      cycles:u
       <not trusted>      r1c0:k
     <not supported>      cache-misses

         1.500000000 seconds time elapsed
         1.200000000 seconds user
         0.300000000 seconds sys

 <not supported> cache-misses: CPUID says that the CPU lacks the event
 (CPUID.0AH:EBX[4]).
 `pmctl info` lists the events that this CPU has.

";
    assert_eq!(text, expected);
}

#[test]
fn each_missing_count_has_its_own_words() {
    let subject = subject("instructions:u,cycles:u,r1c0:k");
    let text = text_written_by(|out| {
        let run = Run {
            uncounted: vec![None, Some(Uncounted::LeftProgram), None],
            ..run(&[Some(1), None, None])
        };
        Human::new(&subject, out, PLAIN)
            .write_totals(&[run])
            .expect("a vector takes all");
    });
    assert!(text.contains("<not counted>      cycles:u"), "{text}");
    assert!(text.contains("<not trusted>      r1c0:k"), "{text}");
}

#[test]
fn control_characters_of_the_command_are_not_written() {
    let subject = Subject {
        command: "a\x1b[31mb".to_owned(),
        ..subject("cycles")
    };
    let text = text_written_by(|out| {
        let mut human = Human::new(&subject, out, PLAIN);
        human.write_totals(&[run(&[Some(1)])]).expect("room");
    });
    assert!(text.contains("stats for 'a?[31mb'"), "{text}");
}

const PLAIN: Look = Look {
    colors: Colors::NONE,
    has_commas: true,
    clears_screen: false,
};

const METRICS: [&str; 3] = [
    "insn_per_cycle",
    "branch_miss_rate",
    "branch_misses_per_1k_instructions",
];

#[test]
fn metrics_stand_behind_the_counts() {
    let subject = subject_with("instructions,cycles,branches,branch-misses", &METRICS);
    let counts = [
        Some(3_000_000),
        Some(1_500_000),
        Some(400_000),
        Some(60_000),
    ];
    let write_text = |look| {
        text_written_by(|out| {
            Human::new(&subject, out, look)
                .write_totals(&[run(&counts)])
                .expect("a vector takes all");
        })
    };
    let text = write_text(PLAIN);
    let expected = "
              60,000      branch-misses     #    15.00  % of all branches

                2.00      insn_per_cycle
             15.00 %      branch_miss_rate
               20.00      branch_misses_per_1k_instructions  (per_1k_instr)

         1.500000000 seconds time elapsed
";
    assert!(text.contains(expected), "{text}");
    let colored = write_text(Look {
        colors: Colors::new(true),
        ..PLAIN
    });
    let rate = colored
        .lines()
        .find(|line| line.contains("branch_miss_rate"))
        .expect("it is there");
    // 15 % is red, since the limit is 5 %, and fills three of the bar's twenty characters.
    assert!(
        rate.starts_with("\x1b[31m") && rate.ends_with("\x1b[31m\u{2588}\u{2588}\u{2588}\x1b[0m"),
        "{rate:?}"
    );
}

#[test]
fn a_name_may_have_any_length() {
    let name = "a".repeat(70_000);
    let subject = subject(&format!("cycles,instructions,cpu/event=1,name={name}/"));
    let text = text_written_by(|out| {
        let run = || run(&[Some(1_500_000), Some(3_000_000), Some(1)]);
        Human::new(&subject, out, PLAIN)
            .write_totals(&[run(), run()])
            .expect("a vector takes all");
    });
    let blanks = " ".repeat(name.len() - "instructions".len());
    let ratio = format!("      instructions{blanks}  #     2.00  insn per cycle");
    assert!(text.contains(&ratio) && text.contains(&name));
}

#[test]
fn metric_only_output_has_no_counts() {
    let mut subject = subject_with("instructions,cycles", &METRICS[..1]);
    subject.shows_counts = false;
    let text = text_written_by(|out| {
        let mut human = Human::new(&subject, out, PLAIN);
        let run = run(&[Some(5), Some(0)]);
        human
            .write_interval(Duration::from_secs(1), &run)
            .expect("room");
        human.write_totals(&[run]).expect("room");
    });
    assert!(text.contains("<no value>      insn_per_cycle"), "{text}");
    assert!(!text.contains("cycles\n"), "{text}");
}

#[test]
fn a_note_says_that_the_command_ran_several_times() {
    let mut subject = subject_with("instructions,cycles", &METRICS[..1]);
    subject.runs_per_count = 2;
    let text = text_written_by(|out| {
        let runs = [run(&[Some(5), Some(4)]), run(&[Some(5), Some(4)])];
        Human::new(&subject, out, PLAIN)
            .write_totals(&runs)
            .expect("room");
    });
    assert!(text.contains("ran 4 times, once for each part"), "{text}");
}

#[test]
fn several_runs_show_their_variation() {
    let subject = subject("instructions,cycles");
    let text = text_written_by(|out| {
        let runs = [run(&[Some(90), Some(9)]), run(&[Some(110), Some(11)])];
        Human::new(&subject, out, PLAIN)
            .write_totals(&runs)
            .expect("a vector takes all");
    });
    assert!(text.contains("mean of 2 runs"), "{text}");
    let errors: Vec<&str> = text.lines().filter(|l| l.contains("+-")).collect();
    assert_eq!(errors.len(), 5, "{text}");
    assert!(errors[0].ends_with("( +- 10.00% )"), "{text}");
    let columns = errors.iter().map(|line| line.find("( +-"));
    assert!(
        columns
            .clone()
            .all(|column| column == columns.clone().next().flatten()),
        "{text}"
    );
}

#[test]
fn colors_do_not_move_columns() {
    let subject = subject("branches,branch-misses");
    let look = Look {
        colors: Colors::new(true),
        ..PLAIN
    };
    let text = text_written_by(|out| {
        let runs = [run(&[Some(90), Some(80)]), run(&[Some(110), Some(90)])];
        Human::new(&subject, out, look)
            .write_totals(&runs)
            .expect("room");
    });
    let plain_text = strip_str(&text).to_string();
    assert_ne!(plain_text, text);
    let mut columns = plain_text.lines().filter_map(|line| line.find("( +-"));
    let first = columns.next();
    assert!(
        first.is_some() && columns.all(|column| Some(column) == first),
        "{plain_text}"
    );
}

#[test]
fn the_title_says_what_is_counted() {
    let title = |command: &str, scope: Scope| {
        let mut subject = subject("instructions");
        command.clone_into(&mut subject.command);
        subject.scope = scope;
        let text = text_written_by(|out| {
            Human::new(&subject, out, PLAIN)
                .write_totals(&[run(&[Some(1)])])
                .expect("a vector takes all");
        });
        let (_, rest) = text.split_once("stats for ").expect("it has a title");
        let (title, rest) = rest.split_once(":\n").expect("it is a line");
        assert_eq!(rest.contains("seconds user"), !command.is_empty());
        title.to_owned()
    };
    let all_cpus = Scope::Cpus {
        number: 2,
        chosen_cpus: None,
    };
    assert_eq!(
        title("", all_cpus.clone()),
        "the machine, every task on all 2 CPUs"
    );
    assert_eq!(title("ls", all_cpus), "'ls', every task on all 2 CPUs");
    assert_eq!(title("ls -l", Scope::Command), "'ls -l'");
    let tasks = Scope::Tasks {
        task_list: crate::events::threads::TaskList::default(),
        threads: Vec::new(),
        description: "process id '1'".to_owned(),
    };
    assert_eq!(title("", tasks), "process id '1'");
}

#[test]
fn cores_stand_before_their_numbers() {
    let mut subject = subject("instructions,cycles");
    for (column, cpus) in subject.columns.iter_mut().zip([1, 12]) {
        column.place = Some(crate::commands::stat::scope::CountedPlace {
            name: "S0-D0-C1".to_owned(),
            kind: PlaceKind::Core(cpus),
        });
    }
    let human = Human::new(&subject, Vec::new(), PLAIN);
    let runs = [run(&[Some(5), Some(4)])];
    let figures = Figures::from_runs(&runs);
    let expected = "S0-D0-C1    1                    5      instructions";
    assert_eq!(human.event_line(&figures, 0), expected);
    assert_eq!(
        human.event_line(&figures, 1).find("4      cycles"),
        expected.find('5')
    );
}

#[test]
fn blank_separates_the_time_and_the_core() {
    let mut subject = subject("cycles");
    subject.columns[0].place = Some(crate::commands::stat::scope::CountedPlace {
        name: "S0-D0-C1".to_owned(),
        kind: PlaceKind::Core(1),
    });
    let text = text_written_by(|out| {
        Human::new(&subject, out, PLAIN)
            .write_interval(Duration::from_secs(1), &run(&[Some(5)]))
            .expect("a vector takes all");
    });
    let expected = "\
#           time                              count      event
     1.000000000 S0-D0-C1    1                    5      cycles
";
    assert_eq!(text, expected);
}

#[test]
fn intervals_have_one_heading_and_no_ratio() {
    let subject = subject("instructions,cycles");
    let text = text_written_by(|out| {
        let mut human = Human::new(&subject, out, PLAIN);
        for second in [1, 2] {
            let interval_end = Duration::from_secs(second);
            human
                .write_interval(interval_end, &run(&[Some(second * 1000), Some(500)]))
                .expect("a vector takes all");
        }
    });
    let expected = "\
#           time               count      event
     1.000000000               1,000      instructions
     1.000000000                 500      cycles
     2.000000000               2,000      instructions
     2.000000000                 500      cycles
";
    assert_eq!(text, expected);
}
