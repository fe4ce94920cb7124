//! What a comparison says, in sentences that carry the figures: the answer, what it is worth, and where the
//! difference sits.

use std::collections::BTreeMap;

use crate::{
    observation::compare::{Comparison, Doubt, Effect, Kind, Outcome, PartsOfOp, Question, Ratio, Side},
    statistics::MOST_PAIRS,
    units::{per_op_ps, share},
};

/// A disturbance is mentioned when it would come by chance less often.
const NOTICEABLE: f64 = 0.05;
/// A part is called all of the difference when it is at least that much of it.
const NEARLY_ALL: f64 = 0.9;

/// The sentences, the answer first.
pub fn verdict(comparison: &Comparison) -> Vec<String> {
    let answer = &comparison.answer;
    let mut sentences = vec![outcome(comparison)];
    sentences.extend(answer.question.reversal.map(|part| reversal(comparison, part)));
    sentences.extend(same(comparison));
    sentences.extend(comparison.tail.as_ref().map(|tail| tail_sentence(comparison, tail)));
    if answer.question.outcome != Outcome::CannotTell || answer.question.doubt == Some(Doubt::OneRun) {
        sentences.extend(comparison.parts.and_then(|parts| where_it_sits(comparison, &parts)));
    }
    sentences
}

/// What makes the figures less trustworthy.
pub fn warnings(comparison: &Comparison) -> Vec<String> {
    let mut warnings = Vec::new();
    if comparison.differ.len() > 1 {
        warnings.push(format!(
            "{} variables differ between A and B, so a difference cannot be put down to one of them: {}",
            comparison.differ.len(),
            comparison.differ.join("; ")
        ));
    }
    let seen = |effect: &Option<Effect>| effect.filter(|effect| effect.p_value < NOTICEABLE);
    if let Some(effect) = seen(&comparison.order_effect) {
        warnings.push(format!(
            "the order matters: the second of a pair is {} (p = {}); the order of the pairs evens that out",
            change(effect.ratio, "slower", "faster"),
            p_value(effect.p_value)
        ));
    }
    if let Some(effect) = seen(&comparison.drift) {
        warnings.push(format!(
            "the figures drift: the last trials are {} than the first (p = {}); pairs even that out, but the \
             minimum and the spread of a side contain it",
            change(effect.ratio, "slower", "faster"),
            p_value(effect.p_value)
        ));
    }
    if let (Some(p), Some(ratio)) = (comparison.answer.same_p_value, comparison.answer.same)
        && p <= comparison.answer.question.level
    {
        warnings.push(format!(
            "A against itself looks different as well: {} (p = {}), which comes by chance once in {:.0} \
             comparisons",
            change(ratio.ratio, "slower", "faster"),
            p_value(p),
            1.0 / comparison.answer.question.level
        ));
    }
    warnings
}

/// Key → why it is `null`.
pub fn unavailable(comparison: &Comparison) -> BTreeMap<String, String> {
    let mut reasons = BTreeMap::new();
    let mut missing = |is_missing: bool, key: &str, reason: &str| {
        if is_missing {
            reasons.insert(key.to_owned(), reason.to_owned());
        }
    };
    let commands = matches!(comparison.kind, Kind::Commands | Kind::TracedCommands);
    missing(
        comparison.tail.is_none(),
        "tail",
        if commands { "a run of a command is one figure, without ops inside" } else { "no latencies of ops" },
    );
    let saved = !comparison.kind.is_paired();
    missing(
        comparison.order_effect.is_none(),
        "order_effect",
        if saved { "saved results are not pairs" } else { "needs three pairs in each order" },
    );
    missing(
        comparison.drift.is_none(),
        "drift",
        if saved { "saved results are not in turn" } else { "needs eight trials" },
    );
    missing(comparison.parts.is_none(), "parts", "no kernel programs were used");
    missing(
        comparison.answer.same.is_none(),
        "same",
        if saved {
            "saved results are not measured again"
        } else {
            "left out (--no-same), or no round is complete"
        },
    );
    reasons
}

fn outcome(comparison: &Comparison) -> String {
    let question = &comparison.answer.question;
    match (question.outcome, question.doubt) {
        (Outcome::CannotTell, Some(doubt)) => cannot_tell(comparison, doubt),
        _ => different(comparison),
    }
}

fn different(comparison: &Comparison) -> String {
    let question = &comparison.answer.question;
    let ratio = question.ratio_in_pairs.or(question.ratio_of_medians);
    let change =
        ratio.map_or_else(|| "different".to_owned(), |ratio| change(ratio.ratio, "slower", "faster"));
    let unit = if comparison.kind == Kind::Workloads { " an op" } else { "" };
    format!(
        "B ({}) is {change} than A ({}){}: in the middle {}{unit} against {}, at best {} against {} ({}p = {} \
         after {} {}).",
        comparison.sides[1].label,
        comparison.sides[0].label,
        ratio.map_or_else(String::new, |ratio| interval(&ratio)),
        middle(&comparison.sides[1]),
        middle(&comparison.sides[0]),
        best(&comparison.sides[1]),
        best(&comparison.sides[0]),
        if comparison.kind.is_paired() { "signed-rank test, " } else { "rank-sum test, " },
        question.p_value.map_or_else(|| "n/a".to_owned(), p_value),
        question.pairs,
        if comparison.kind.is_paired() { "pairs" } else { "results of each" },
    )
}

/// `, between 1.2 and 1.4 times with 99 % confidence`.
fn interval(ratio: &Ratio) -> String {
    let sure = share(ratio.confidence);
    ratio.interval.map_or_else(String::new, |(low, high)| {
        format!(", the ratio between {} and {} with {sure} confidence", times(low), times(high))
    })
}

fn cannot_tell(comparison: &Comparison, doubt: Doubt) -> String {
    let answer = &comparison.answer;
    let question = &answer.question;
    let ratio = question.ratio_in_pairs.or(question.ratio_of_medians).map_or(1.0, |ratio| ratio.ratio);
    let effect = times(ratio.max(1.0 / ratio));
    let noise = answer.noise.map_or_else(|| "unknown".to_owned(), |noise| format!("{} times", times(noise)));
    let pairs = question.pairs;
    let seen = if comparison.kind.is_paired() { "pair" } else { "result" };
    let plural = if pairs == 1 { "" } else { "s" };
    let reason = match doubt {
        Doubt::TooFew => format!(
            "{pairs} {seen}{plural} cannot, whatever {} (B takes {} times A, and the noise of a single run is \
             {noise})",
            if pairs == 1 { "it shows" } else { "they show" },
            times(ratio)
        ),
        Doubt::Noise => format!(
            "the noise of a single run is {noise}, the effect {effect} times (p = {} after {pairs} {seen}{plural})",
            question.p_value.map_or_else(|| "n/a".to_owned(), p_value)
        ),
        Doubt::Small => format!(
            "the effect of {} is below the {} that is called one (--smallest): a difference so small may come \
             from the layout in memory, which does not vary here",
            share(ratio.max(1.0 / ratio) - 1.0),
            share(comparison.method.smallest)
        ),
        Doubt::Floor => format!(
            "A differs from itself as much as from B ({} and {} times)",
            answer.same.map_or_else(|| "n/a".to_owned(), |same| times(same.ratio)),
            times(ratio)
        ),
        Doubt::OneRun => format!(
            "one saved result of each side is one run, whose repetitions share a process and a moment; as far \
             as they go, B takes {} times A{}",
            times(ratio),
            question.ratio_of_medians.as_ref().map_or_else(String::new, interval)
        ),
    };
    format!("Cannot tell: {reason}{}.", remedy(comparison, doubt))
}

fn remedy(comparison: &Comparison, doubt: Doubt) -> String {
    if comparison.kind == Kind::SavedRepetitions {
        return "; several results of each side, measured in turn, would tell, and so does `compare` itself"
            .to_owned();
    }
    match (comparison.answer.more_pairs, doubt) {
        (Some(more), _) => more_pairs(comparison.answer.question.pairs, more),
        (None, Doubt::Noise) => {
            format!(
                "; an effect below {} would not be called one (--smallest)",
                share(comparison.method.smallest)
            )
        }
        (None, _) => String::new(),
    }
}

/// `; about 12 more pairs would do (--runs 52)`.
fn more_pairs(pairs: u64, more: u64) -> String {
    let all = pairs.saturating_add(more);
    let plural = if more == 1 { "" } else { "s" };
    if all > u64::from(MOST_PAIRS) {
        format!("; not even {MOST_PAIRS} pairs would do: longer runs, or a quieter machine")
    } else {
        format!("; about {more} more pair{plural} would do (--runs {all})")
    }
}

fn reversal(comparison: &Comparison, part: f64) -> String {
    let what = match comparison.answer.question.outcome {
        Outcome::CannotTell => "the opposite of what the middle of all shows",
        _ => "the opposite",
    };
    let (a, b) =
        comparison.sides.each_ref().map(|side| side.summary.map_or(0, |summary| summary.trials)).into();
    if a * b <= 1 {
        return "How often one single run each says the opposite cannot be seen from one run each."
            .to_owned();
    }
    format!(
        "One single run each would have said {what} with a probability of {} (over all {} pairs of a run of A \
         and one of B).",
        share(part),
        a * b
    )
}

fn same(comparison: &Comparison) -> Option<String> {
    let same = comparison.answer.same?;
    Some(format!(
        "The noise floor: A against itself, in the same rounds, is {}{}{}.",
        change(same.ratio, "slower", "faster"),
        interval(&same),
        comparison
            .answer
            .noise
            .map_or_else(String::new, |noise| format!("; two single runs lie within {} times", times(noise)))
    ))
}

fn tail_sentence(comparison: &Comparison, tail: &Question) -> String {
    let at = |side: &Side| side.tail.map_or_else(|| "n/a".to_owned(), |tail| per_op_ps(tail.median_ps));
    let figures = format!("{} against {}", at(&comparison.sides[1]), at(&comparison.sides[0]));
    let p = tail.p_value.map_or_else(|| "n/a".to_owned(), p_value);
    let ratio = tail.ratio_in_pairs.or(tail.ratio_of_medians).map_or(1.0, |ratio| ratio.ratio);
    match tail.outcome {
        Outcome::CannotTell => {
            format!(
                "The tail is a question of its own: at the 99th percentile of the ops ({figures}, B by A) it cannot be told (p = {p})."
            )
        }
        _ => format!(
            "The tail is a question of its own: at the 99th percentile of the ops B is {} ({figures}, p = {p}).",
            change(ratio, "slower", "faster")
        ),
    }
}

/// Name and value of the parts that add up, of both sides.
pub fn rows(parts: &[PartsOfOp; 2]) -> Vec<(&'static str, Option<u64>, Option<u64>)> {
    let [a, b] = parts;
    vec![
        ("on-CPU", a.on_cpu_ps, b.on_cpu_ps),
        ("blocked", a.blocked_ps, b.blocked_ps),
        ("run-queue", a.run_queue_ps, b.run_queue_ps),
        ("creation", a.creation_ps, b.creation_ps),
    ]
}

/// Which part of the time makes the difference.
fn where_it_sits(comparison: &Comparison, parts: &[PartsOfOp; 2]) -> Option<String> {
    let differences: Vec<(&str, i128)> = rows(parts)
        .into_iter()
        // Creation is apart from the threads' time.
        .filter(|(name, _, _)| *name != "creation")
        .filter_map(|(name, a, b)| Some((name, i128::from(b?) - i128::from(a?))))
        .collect();
    let total: i128 = differences.iter().map(|(_, difference)| difference).sum();
    let (name, greatest) = differences.iter().copied().max_by_key(|(_, difference)| difference.abs())?;
    if greatest == 0 || differences.len() < 3 {
        return None;
    }
    let unit = match comparison.kind {
        Kind::Workloads | Kind::SavedRepetitions => "an op",
        _ => "a run",
    };
    let verb = if total < 0 { "saves" } else { "takes" };
    let more = if total < 0 { "" } else { " more" };
    let size = |difference: i128| per_op_ps(u64::try_from(difference.unsigned_abs()).unwrap_or(u64::MAX));
    let nearly_all = total != 0 && greatest.signum() == total.signum() && {
        let others: i128 =
            differences.iter().map(|(_, difference)| difference.abs()).sum::<i128>() - greatest.abs();
        others as f64 <= (1.0 - NEARLY_ALL) * greatest.abs() as f64
    };
    let split = if nearly_all {
        format!("all of it {name} time")
    } else {
        differences
            .iter()
            .map(|(name, difference)| {
                format!("{name} {}{}", if *difference < 0 { "−" } else { "+" }, size(*difference))
            })
            .collect::<Vec<_>>()
            .join(", ")
    };
    Some(format!("Where it sits: B {verb} {}{more} {unit} of its threads' time, {split}.", size(total)))
}

fn middle(side: &Side) -> String {
    side.summary.map_or_else(|| "n/a".to_owned(), |summary| per_op_ps(summary.median_ps))
}

fn best(side: &Side) -> String {
    side.summary.map_or_else(|| "n/a".to_owned(), |summary| per_op_ps(summary.min_ps))
}

/// A ratio as people say it: `4.9 % slower`, `2.31 times slower`, `not different`.
pub fn change(ratio: f64, more: &str, less: &str) -> String {
    let (size, word) = if ratio >= 1.0 { (ratio, more) } else { (1.0 / ratio, less) };
    if size >= 1.5 {
        format!("{} times {word}", times(size))
    } else if ratio == 1.0 {
        format!("0 % {more}")
    } else {
        // "20 % faster" is 20 % less time.
        let part = if ratio >= 1.0 { ratio - 1.0 } else { 1.0 - ratio };
        format!("{} {word}", share(part))
    }
}

/// A factor with three or four digits.
pub fn times(ratio: f64) -> String {
    let digits = if ratio >= 100.0 {
        0
    } else if ratio >= 10.0 {
        1
    } else if ratio >= 2.0 {
        2
    } else {
        3
    };
    format!("{ratio:.digits$}")
}

/// A probability; never 0.
pub fn p_value(p: f64) -> String {
    if p < 0.0001 { "below 0.0001".to_owned() } else { format!("{p:.4}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_said_as_people_say_them() {
        for (ratio, text) in [
            (1.049, "4.9 % slower"),
            (0.8, "20.0 % faster"),
            (2.31, "2.31 times slower"),
            (0.25, "4.00 times faster"),
            (1.0, "0 % slower"),
        ] {
            assert_eq!(change(ratio, "slower", "faster"), text);
        }
        assert_eq!([times(1.0), times(1.834), times(17.3), times(299.4)], ["1.000", "1.834", "17.3", "299"]);
        assert_eq!([p_value(0.0), p_value(0.007_812_5), p_value(1.0)], ["below 0.0001", "0.0078", "1.0000"]);
    }

    #[test]
    fn more_pairs_come_with_the_option_that_asks_for_them() {
        assert_eq!(more_pairs(40, 12), "; about 12 more pairs would do (--runs 52)");
        assert_eq!(more_pairs(499, 1), "; about 1 more pair would do (--runs 500)");
        assert!(more_pairs(40, u64::MAX).starts_with("; not even 500 pairs would do"));
    }
}
