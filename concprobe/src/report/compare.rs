//! A comparison: the answer, the figures of both sides, how both are distributed, and how it was measured.

use super::{
    plot,
    text::{Page, Style, wrapped},
};
use crate::{
    environment::format_cpu_list,
    observation::compare::{Arm, Comparison, Order, PartsOfOp, Question, Ratio, Summary},
    units::{duration_ns, per_op_ps, share},
};

/// The whole screen.
pub fn compare(comparison: &Comparison, style: Style) -> String {
    let mut page = Page { text: String::new(), style };
    title(&mut page, comparison);
    page.heading("Verdict");
    for sentence in &comparison.verdict {
        bullet(&mut page, "•", sentence);
    }
    sides(&mut page, comparison);
    ratios(&mut page, comparison);
    picture(&mut page, comparison);
    if let Some(parts) = &comparison.parts {
        parts_table(&mut page, comparison, parts);
    }
    measured(&mut page, comparison);
    for warning in &comparison.warnings {
        bullet(&mut page, "!", warning);
    }
    page.text
}

fn bullet(page: &mut Page, mark: &str, text: &str) {
    for (index, line) in wrapped(text, 100).into_iter().enumerate() {
        page.line(&format!("  {} {line}", if index == 0 { mark } else { " " }));
    }
}

fn title(page: &mut Page, comparison: &Comparison) {
    let [a, b] = &comparison.sides;
    let partial = comparison
        .interrupted_by
        .map_or_else(String::new, |signal| format!(" — PARTIAL, interrupted by signal {signal}"));
    page.line(&format!("A: {}{partial}", a.label));
    page.line(&format!("B: {}", b.label));
    page.line(&format!("  the figure: {}", comparison.figure));
}

fn sides(page: &mut Page, comparison: &Comparison) {
    page.heading("Both sides");
    let mut rows = Vec::new();
    let mut row = |name: &str, summary: Option<Summary>| {
        if let Some(summary) = summary {
            let mut cells = vec![name.to_owned(), summary.trials.to_string()];
            let figures = [summary.min_ps, summary.p25_ps, summary.median_ps, summary.p75_ps, summary.max_ps];
            cells.extend(figures.map(per_op_ps));
            let spread =
                (summary.max_ps.saturating_sub(summary.min_ps)) as f64 / summary.min_ps.max(1) as f64;
            cells.push(share(spread));
            rows.push(cells);
        }
    };
    for (name, side) in ["A", "B"].into_iter().zip(&comparison.sides) {
        row(name, side.summary);
    }
    for (name, side) in ["A, p99 of its ops", "B, p99 of its ops"].into_iter().zip(&comparison.sides) {
        row(name, side.tail);
    }
    page.table(&["side", "trials", "min", "p25", "median", "p75", "max", "max over min"], rows);
}

fn ratios(page: &mut Page, comparison: &Comparison) {
    page.heading("B by A");
    let mut rows = Vec::new();
    let mut question = |name: &str, question: &Question| {
        let interval = |ratio: &Ratio| {
            ratio.interval.map_or_else(
                || "n/a".to_owned(),
                |(low, high)| format!("{low:.3} to {high:.3} ({})", share(ratio.confidence)),
            )
        };
        let mut row = |what: &str, ratio: Option<f64>, interval: String| {
            if let Some(ratio) = ratio {
                rows.push(vec![format!("{name}{what}"), format!("{ratio:.3}"), interval]);
            }
        };
        row("ratio of minima", question.ratio_of_minima, String::new());
        if let Some(medians) = &question.ratio_of_medians {
            row("ratio of medians, bootstrap", Some(medians.ratio), interval(medians));
        }
        if let Some(pairs) = &question.ratio_in_pairs {
            row("ratio in pairs, signed-rank", Some(pairs.ratio), interval(pairs));
        }
    };
    question("", &comparison.answer.question);
    if let Some(tail) = &comparison.tail {
        question("p99: ", tail);
    }
    if let Some(same) = &comparison.answer.same {
        let interval = same.interval.map_or_else(
            || "n/a".to_owned(),
            |(low, high)| format!("{low:.3} to {high:.3} ({})", share(same.confidence)),
        );
        rows.push(vec!["A by itself, in pairs".to_owned(), format!("{:.3}", same.ratio), interval]);
    }
    page.table(&["", "ratio", "interval"], rows);
}

fn picture(page: &mut Page, comparison: &Comparison) {
    let figures = |arm: Arm| -> Vec<u64> {
        let trials = comparison.trials.iter().filter(|trial| trial.arm == arm);
        trials.filter_map(|trial| trial.figure(comparison.method.by)).collect()
    };
    let rows = plot::side_by_side([&figures(Arm::A), &figures(Arm::B)], per_op_ps);
    if rows.is_empty() {
        return;
    }
    page.heading("Trials of A (left) and of B (right)");
    for (label, [(a, bar_a), (b, bar_b)]) in rows {
        let number = |count: u64| if count == 0 { String::new() } else { count.to_string() };
        let width = plot::HALF;
        page.line(
            format!("  {label:>10} {:>4} {bar_a:<width$} {:>4} {bar_b}", number(a), number(b)).trim_end(),
        );
    }
}

fn parts_table(page: &mut Page, comparison: &Comparison, parts: &[PartsOfOp; 2]) {
    let [a, b] = parts;
    let unit = if comparison.kind.is_paired() && comparison.tail.is_some() { "an op" } else { "a trial" };
    page.heading(&format!("Where {unit}'s time goes (median, summed over threads)"));
    let rows: Vec<Vec<String>> = [
        ("on-CPU", a.on_cpu_ps, b.on_cpu_ps),
        ("  of it user", a.user_ps, b.user_ps),
        ("  of it kernel", a.kernel_ps, b.kernel_ps),
        ("blocked", a.blocked_ps, b.blocked_ps),
        ("run-queue", a.run_queue_ps, b.run_queue_ps),
        ("creation (apart)", a.creation_ps, b.creation_ps),
    ]
    .into_iter()
    .filter(|(_, a, b)| a.is_some() || b.is_some())
    .map(|(name, a, b)| {
        let text = |value: Option<u64>| value.map_or_else(|| "n/a".to_owned(), per_op_ps);
        let difference = a.zip(b).map_or_else(
            || "n/a".to_owned(),
            |(a, b)| format!("{}{}", if b < a { "−" } else { "+" }, per_op_ps(a.abs_diff(b))),
        );
        vec![name.to_owned(), text(a), text(b), difference]
    })
    .collect();
    page.table(&["part", "A", "B", "B − A"], rows);
}

fn measured(page: &mut Page, comparison: &Comparison) {
    page.heading("How it was measured");
    let method = &comparison.method;
    if comparison.kind.is_paired() {
        let order = match method.order {
            Order::Random => format!("random order in each round (--seed {})", method.seed),
            Order::Alternating => "alternating order".to_owned(),
        };
        let looks = method.looks.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        page.line(&format!(
            "  {} pairs of at most {}, {}, each trial a fresh process, {order}",
            comparison.answer.question.pairs,
            method.runs,
            if method.same_arm { "A twice in each round" } else { "no A/A arm" },
        ));
        page.line(&format!(
            "  looked at after {looks} pairs, each time at {} so that equals are called different in at most {}",
            share(comparison.answer.question.level),
            share(method.level)
        ));
        let effect = |effect: Option<crate::observation::compare::Effect>| {
            effect.map_or_else(
                || "n/a".to_owned(),
                |effect| format!("{:.3} (p = {:.3})", effect.ratio, effect.p_value),
            )
        };
        page.line(&format!(
            "  being second in a pair: {} times; last trials by first: {} times",
            effect(comparison.order_effect),
            effect(comparison.drift)
        ));
    }
    if let Some(last) =
        comparison.trials.iter().map(|trial| trial.began_ns).max().filter(|_| comparison.kind.is_paired())
    {
        page.line(&format!("  the last trial began {} after the start", duration_ns(last)));
    }
    let environment = &comparison.environment;
    let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "n/a".to_owned());
    page.line(&format!(
        "  on {}, {} CPUs usable ({}), Linux {}",
        text(&environment.cpu_model),
        environment.cpus_usable.len(),
        format_cpu_list(&environment.cpus_usable),
        text(&environment.kernel_release)
    ));
}
